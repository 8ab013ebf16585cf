/* SPDX-License-Identifier: Apache-2.0 */
#include "base/exposition.h"

#include "base/text.h"
#include "base/util.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define TOTAL     "_total"
#define BOUND_MAX 40 /* bytes of a bound as text */

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

void metric_family(struct metric_sink *sink, const char *name)
{
	static const char *const types[] = {
		[METRIC_GAUGE] = "gauge",
		[METRIC_COUNTER] = "counter",
		[METRIC_HISTOGRAM] = "histogram",
	};
	int len = (int)strlen(name);

	sink->row = sink->rows;
	while (sink->row && sink->row->name && !streq(sink->row->name, name))
		sink->row++;
	if (!sink->row || !sink->row->name) {
		sink->row = NULL;
		return;
	}
	/* OpenMetrics names a counter's family without the suffix that its samples have. */
	if (sink->openmetrics && sink->row->type == METRIC_COUNTER && len > (int)strlen(TOTAL) &&
		streq(name + len - strlen(TOTAL), TOTAL))
		len -= (int)strlen(TOTAL);
	fprintf(sink->out, "# HELP %.*s ", len, name);
	put_escaped(sink->out, sink->row->help, sink->openmetrics);
	fprintf(sink->out, "\n# TYPE %.*s %s\n", len, name, types[sink->row->type]);
}

/* Labels with their brackets; le, when not NULL, after all others. */
static void put_labels(FILE *out, const struct metric_row *row, const char *le, va_list values)
{
	const char *value;
	char before = '{';

	for (size_t i = 0; i < METRIC_LABELS_MAX && row->labels[i]; i++) {
		value = va_arg(values, const char *);
		if (!value)
			break;
		fprintf(out, "%c%s=\"", before, row->labels[i]);
		put_escaped(out, value, true);
		fputc('"', out);
		before = ',';
	}
	if (le) {
		fprintf(out, "%cle=\"%s\"", before, le);
		before = ',';
	}
	fputs(before == ',' ? "} " : " ", out);
}

static void put_part(
	struct metric_sink *sink, const char *suffix, const char *le, double value, va_list labels)
{
	va_list copy;

	fprintf(sink->out, "%s%s", sink->row->name, suffix);
	va_copy(copy, labels);
	put_labels(sink->out, sink->row, le, copy);
	va_end(copy);
	put_value(sink->out, value);
	fputc('\n', sink->out);
}

void metric_sample(struct metric_sink *sink, double value, ...)
{
	va_list labels;

	if (!sink->row)
		return;
	va_start(labels, value);
	put_part(sink, "", NULL, value, labels);
	va_end(labels);
}

/*
 * A bound is a label, so its text is part of the series' name: the one form that the OpenMetrics
 * specification calls canonical. The older format differs in that whole numbers have no ".0".
 */
static void format_bound(char text[static BOUND_MAX], double bound, bool openmetrics)
{
	int digits = 1, exponent;

	do
		snprintf(text, BOUND_MAX, "%.*e", digits - 1, bound);
	while (strtod(text, NULL) != bound && digits++ < 17);
	exponent = atoi(strchr(text, 'e') + 1);
	if (exponent < -4 || exponent >= 6)
		return;
	snprintf(text, BOUND_MAX, "%.*f", MAX(digits - 1 - exponent, openmetrics ? 1 : 0), bound);
}

void metric_histogram(struct metric_sink *sink, const double *bounds, const uint64_t *counts,
	size_t n, double sum, ...)
{
	uint64_t total = 0;
	va_list labels;

	if (!sink->row)
		return;
	va_start(labels, sum);
	for (size_t i = 0; i <= n; i++) {
		char le[BOUND_MAX] = "+Inf";

		if (i < n)
			format_bound(le, bounds[i], sink->openmetrics);
		total += counts[i];
		put_part(sink, "_bucket", le, (double)total, labels);
	}
	put_part(sink, "_sum", NULL, sum, labels);
	put_part(sink, "_count", NULL, (double)total, labels);
	va_end(labels);
}
