/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/cleanup.h"
#include "base/exposition.h"

struct written {
	struct metric_sink sink;
	char *text;
	size_t len;
};

static void begin(struct written *written, bool openmetrics)
{
	*written = (struct written){.sink.openmetrics = openmetrics};
	written->sink.out = open_memstream(&written->text, &written->len);
	assert_non_null(written->sink.out);
}

static void expect(struct written *written, const char *text)
{
	metric_end(&written->sink);
	fclose(written->sink.out);
	assert_string_equal(written->text, text);
	free(written->text);
}

static void writes_text(void **state)
{
	struct written written;

	(void)state;
	begin(&written, false);
	metric_family(&written.sink, "x_total", METRIC_COUNTER, "Help \"quoted\" \\ \n.");
	metric_sample(&written.sink, 3, NULL);
	metric_sample(&written.sink, 0.1, "a", "1", "b", "2", NULL);
	expect(&written,
		"# HELP x_total Help \"quoted\" \\\\ \\n.\n# TYPE x_total counter\nx_total 3\n"
		"x_total{a=\"1\",b=\"2\"} 0.1\n");
}

static void writes_openmetrics(void **state)
{
	struct written written;

	(void)state;
	begin(&written, true);
	metric_family(&written.sink, "x_total", METRIC_COUNTER, "Help \"quoted\".");
	metric_sample(&written.sink, 3, NULL);
	metric_family(&written.sink, "a_total_of", METRIC_GAUGE, "Gauge.");
	metric_sample(&written.sink, 1, NULL);
	expect(&written,
		"# HELP x Help \\\"quoted\\\".\n# TYPE x counter\nx_total 3\n"
		"# HELP a_total_of Gauge.\n# TYPE a_total_of gauge\na_total_of 1\n# EOF\n");
}

static void escapes_labels(void **state)
{
	struct written written;

	(void)state;
	begin(&written, false);
	metric_family(&written.sink, "x", METRIC_GAUGE, "Help.");
	metric_sample(&written.sink, 1, "l", "a\"b\\c\nd\xff\xc3\xa9", NULL);
	expect(&written, "# HELP x Help.\n# TYPE x gauge\n"
			 "x{l=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\xc3\xa9\"} 1\n");
}

static void writes_numbers(void **state)
{
	static const struct {
		double value;
		const char *text;
	} numbers[] = {
		{0, "x 0\n"},
		{-1.5, "x -1.5\n"},
		{9007199254740991.0, "x 9007199254740991\n"},
		{1714564800.123456, "x 1714564800.123456\n"},
		{INFINITY, "x +Inf\n"},
		{-INFINITY, "x -Inf\n"},
		{NAN, "x NaN\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct written written;

		begin(&written, false);
		written.sink.family = "x";
		metric_sample(&written.sink, numbers[i].value, NULL);
		expect(&written, numbers[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_text),
		cmocka_unit_test(writes_openmetrics),
		cmocka_unit_test(escapes_labels),
		cmocka_unit_test(writes_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
