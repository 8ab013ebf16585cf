/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/exposition.h"
#include "base/text.h"
#include "base/util.h"

#include <math.h>

static const struct metric_row rows[] = {
	{"x_total", METRIC_COUNTER, NULL, "Help \"quoted\" \\ \n.", {"a", "b"}},
	{"a_total_of", METRIC_GAUGE, NULL, "Gauge.", {"a", "b"}},
	{"x", METRIC_GAUGE, NULL, "Help.", {"a", "b"}},
	{"x_seconds", METRIC_HISTOGRAM, NULL, "Help.", {"a", "b"}},
	{0},
};

struct written {
	struct metric_sink sink;
	char *text;
	size_t len;
};

static void begin(struct written *written)
{
	*written = (struct written){.sink.rows = rows, .sink.row = &rows[2], .sink.has_head = true};
	written->sink.out = open_memstream(&written->text, &written->len);
	assert_non_null(written->sink.out);
}

static void expect(struct written *written, const char *text)
{
	fclose(written->sink.out);
	assert_string_equal(written->text, text);
	free(written->text);
}

#define WRITTEN_TEST(name) TEST_OF(written, written, begin, (void), name)

WRITTEN_TEST(the_text_format_is_written)
{
	metric_family(&written->sink, "x_total");
	metric_sample(&written->sink, 3, NULL);
	metric_sample(
		&written->sink, 0.1, "1", "a\"b\\c\nd\xff\xc3\xa9\33\a\x7f\xc2\x9b\u202e", NULL);
	metric_family(&written->sink, "not in the table");
	metric_sample(&written->sink, 3, NULL);
	metric_family(&written->sink, "x_seconds"); /* without a sample it writes nothing */
	expect(written,
		"# HELP x_total Help \"quoted\" \\\\ \\n.\n# TYPE x_total counter\n"
		"x_total 3\nx_total{a=\"1\",b=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\xc3\xa9?????\"} 0.1\n");
}

WRITTEN_TEST(numbers_are_written_exactly)
{
	static const double numbers[] = {
		0, -1.5, -3, 9007199254740991.0, 1e22, 1714564800.123456, INFINITY, -INFINITY, NAN};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		metric_sample(&written->sink, numbers[i], NULL);
	expect(written, "x 0\nx -1.5\nx -3\nx 9007199254740991\n"
			"x 1e+22\nx 1714564800.123456\nx +Inf\nx -Inf\nx NaN\n");
}

WRITTEN_TEST(histograms_are_cumulative)
{
	static const double bounds[] = {0.005, 0.1, 1, 10};
	static const uint64_t counts[] = {1, 0, 2, 4, 8};

	metric_family(&written->sink, "x_seconds");
	metric_histogram(&written->sink, bounds, counts, 4, 12.5, "1\"", "2", NULL);
	metric_histogram(&written->sink, NULL, counts + 4, 0, 1, NULL);
	expect(written, "# HELP x_seconds Help.\n# TYPE x_seconds histogram\n"
			"x_seconds_bucket{a=\"1\\\"\",b=\"2\",le=\"0.005\"} 1\n"
			"x_seconds_bucket{a=\"1\\\"\",b=\"2\",le=\"0.1\"} 1\n"
			"x_seconds_bucket{a=\"1\\\"\",b=\"2\",le=\"1\"} 3\n"
			"x_seconds_bucket{a=\"1\\\"\",b=\"2\",le=\"10\"} 7\n"
			"x_seconds_bucket{a=\"1\\\"\",b=\"2\",le=\"+Inf\"} 15\n"
			"x_seconds_sum{a=\"1\\\"\",b=\"2\"} 12.5\n"
			"x_seconds_count{a=\"1\\\"\",b=\"2\"} 15\n"
			"x_seconds_bucket{le=\"+Inf\"} 8\nx_seconds_sum 1\nx_seconds_count 8\n");
}

TEST(bounds_are_written_canonically)
{
	static const struct {
		double bound;
		const char *text, *openmetrics;
	} cases[] = {
		{0, "0", "0.0"},
		{0.00001, "1e-05", "1e-05"},
		{0.00025, "0.00025", "0.00025"},
		{1.0 / 3, "0.3333333333333333", "0.3333333333333333"},
		{100000, "100000", "100000.0"},
		{1000000, "1e+06", "1e+06"},
		{-0.5, "-0.5", "-0.5"},
	};
	static const uint64_t counts[] = {0, 0};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		struct written written;
		char want[256];

		begin(&written);
		written.sink.openmetrics = i % 2;
		metric_histogram(&written.sink, &cases[i / 2].bound, counts, 1, 0, NULL);
		snprintf(want, sizeof(want),
			"x_bucket{le=\"%s\"} 0\nx_bucket{le=\"+Inf\"} 0\nx_sum 0\nx_count 0\n",
			i % 2 ? cases[i / 2].openmetrics : cases[i / 2].text);
		expect(&written, want);
	}
}
