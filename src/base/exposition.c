/* SPDX-License-Identifier: Apache-2.0 */
#include "base/exposition.h"

#include "base/utf8.h"
#include "base/util.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define TOTAL "_total"

/* OpenMetrics names a counter's family without the suffix that its samples have. */
static int family_length(const struct metric_sink *sink, const char *name, enum metric_type type)
{
	size_t len = strlen(name);

	if (sink->openmetrics && type == METRIC_COUNTER && len > strlen(TOTAL) &&
		streq(name + len - strlen(TOTAL), TOTAL))
		len -= strlen(TOTAL);
	return (int)len;
}

/* Text 0.0.4 leaves a quote in HELP as it is; OpenMetrics escapes it there too. */
static void put_escaped(FILE *out, const char *text, bool quote)
{
	while (*text) {
		size_t n = utf8_length(text);

		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '\\' || (*text == '"' && quote))
			fprintf(out, "\\%c", *text);
		else if (n > 0)
			fwrite(text, 1, n, out);
		else
			fputs(UTF8_REPLACEMENT, out);
		text += n ? n : 1;
	}
}

/* The shortest text that reads back as the same number. */
static void put_value(FILE *out, double value)
{
	char text[40];

	if (isnan(value)) {
		fputs("NaN", out);
		return;
	}
	if (isinf(value)) {
		fputs(value > 0 ? "+Inf" : "-Inf", out);
		return;
	}
	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof(text), "%.17g", value);
	fputs(text, out);
}

void metric_family(
	struct metric_sink *sink, const char *name, enum metric_type type, const char *help)
{
	int len = family_length(sink, name, type);

	fprintf(sink->out, "# HELP %.*s ", len, name);
	put_escaped(sink->out, help, sink->openmetrics);
	fprintf(sink->out, "\n# TYPE %.*s %s\n", len, name,
		type == METRIC_COUNTER ? "counter" : "gauge");
	sink->family = name;
}

void metric_sample(struct metric_sink *sink, double value, ...)
{
	const char *label;
	char before = '{';
	va_list labels;

	fputs(sink->family, sink->out);
	va_start(labels, value);
	while ((label = va_arg(labels, const char *))) {
		fprintf(sink->out, "%c%s=\"", before, label);
		put_escaped(sink->out, va_arg(labels, const char *), true);
		fputc('"', sink->out);
		before = ',';
	}
	va_end(labels);
	fputs(before == ',' ? "} " : " ", sink->out);
	put_value(sink->out, value);
	fputc('\n', sink->out);
}

void metric_end(struct metric_sink *sink)
{
	if (sink->openmetrics)
		fputs("# EOF\n", sink->out);
}
