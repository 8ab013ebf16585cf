/* SPDX-License-Identifier: Apache-2.0 */
#include "base/exposition.h"

#include "base/text.h"

#include <math.h>

#define TOTAL      "_total"
#define NUMBER_MAX 40 /* bytes of a number as text */

static bool is_plain(char c)
{
	return c >= 0x20 && c < 0x7f && c != '\\' && c != '"';
}

/* OpenMetrics also escapes a quote in HELP; text 0.0.4 does not. */
static void put_escaped(FILE *out, const char *text, bool quote)
{
	while (*text) {
		const char *from = text;
		size_t len = 0;

		while (is_plain(from[len]))
			len++;
		if (len > 0)
			text += len;
		else
			from = utf8_next(&text, &len);
		if (*from == '\n')
			fputs("\\n", out);
		else if (*from == '\\' || (*from == '"' && quote))
			fprintf(out, "\\%c", *from);
		else if (*from == '\t')
			fputc(' ', out);
		else
			fwrite(from, 1, len, out);
	}
}

/* Writes the shortest text of at least this many digits that parses as the same number. */
static void format_number(char text[static NUMBER_MAX], double number, int digits)
{
	do
		snprintf(text, NUMBER_MAX, "%.*g", digits, number);
	while (strtod(text, NULL) != number && digits++ < 17);
}

/* Writes HELP and TYPE of the current family. */
static void put_head(struct metric_sink *sink)
{
	static const char *const types[] = {
		[METRIC_GAUGE] = "gauge",
		[METRIC_COUNTER] = "counter",
		[METRIC_HISTOGRAM] = "histogram",
	};
	const char *name = sink->row->name;
	int len = (int)strlen(name);

	/* In OpenMetrics, the name of a counter's family lacks the suffix of its samples. */
	if (sink->openmetrics && sink->row->type == METRIC_COUNTER && len > (int)strlen(TOTAL) &&
		streq(name + len - strlen(TOTAL), TOTAL))
		len -= (int)strlen(TOTAL);
	fprintf(sink->out, "# HELP %.*s ", len, name);
	put_escaped(sink->out, sink->row->help, sink->openmetrics);
	fprintf(sink->out, "\n# TYPE %.*s %s\n", len, name, types[sink->row->type]);
	sink->has_head = true;
}

void metric_family(struct metric_sink *sink, const char *name)
{
	sink->has_head = false;
	sink->row = sink->rows;
	while (sink->row && sink->row->name && !streq(sink->row->name, name))
		sink->row++;
	if (sink->row && !sink->row->name)
		sink->row = NULL;
}

static void put_number(FILE *out, double number)
{
	char text[NUMBER_MAX];

	/* Most values are counts: printing a double takes several times as long. */
	if (fabs(number) < 1e15 && number == (double)(int64_t)number) {
		fprintf(out, "%" PRId64, (int64_t)number);
	} else if (isfinite(number)) {
		format_number(text, number, 15);
		fputs(text, out);
	} else {
		fputs(isnan(number) ? "NaN" : number > 0 ? "+Inf" : "-Inf", out);
	}
}

/* Writes one line; le, if not NULL, is its last label. */
static void put_part(
	struct metric_sink *sink, const char *suffix, const char *le, double value, va_list labels)
{
	char before = '{';
	va_list copy;

	if (!sink->has_head)
		put_head(sink);
	fputs(sink->row->name, sink->out);
	fputs(suffix, sink->out);
	va_copy(copy, labels);
	for (size_t i = 0; i < METRIC_LABELS_MAX && sink->row->labels[i]; i++) {
		const char *label = va_arg(copy, const char *);

		if (!label)
			break;
		fputc(before, sink->out);
		fputs(sink->row->labels[i], sink->out);
		fputs("=\"", sink->out);
		put_escaped(sink->out, label, true);
		fputc('"', sink->out);
		before = ',';
	}
	va_end(copy);
	if (le)
		fprintf(sink->out, "%cle=\"%s\"", before, le);
	fputs(le || before == ',' ? "} " : " ", sink->out);
	put_number(sink->out, value);
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

void metric_histogram(struct metric_sink *sink, const double *bounds, const uint64_t *counts,
	size_t n, double sum, ...)
{
	uint64_t total = 0;
	va_list labels;

	if (!sink->row)
		return;
	va_start(labels, sum);
	for (size_t i = 0; i <= n; i++) {
		char le[NUMBER_MAX] = "+Inf";

		/*
		 * A bound is a label and thus part of the series' identity: write the canonical
		 * form of OpenMetrics. The older format omits the ".0" of whole numbers.
		 */
		if (i < n)
			format_number(le, bounds[i], 6);
		if (i < n && sink->openmetrics && !strpbrk(le, ".e"))
			strcat(le, ".0");
		total += counts[i];
		put_part(sink, "_bucket", le, (double)total, labels);
	}
	put_part(sink, "_sum", NULL, sum, labels);
	put_part(sink, "_count", NULL, (double)total, labels);
	va_end(labels);
}

double histogram_quantile(
	const unsigned long long *bounds, const unsigned long long *counts, size_t n, double share)
{
	double sum = 0, below = 0;

	for (size_t i = 0; i <= n; i++)
		sum += (double)counts[i];
	for (size_t i = 0; i <= n; i++) {
		double lower = i == 0 ? 0 : (double)bounds[i - 1] / 1e9;
		double upper = (double)bounds[MIN(i, n - 1)] / 1e9;
		double count = (double)counts[i];

		if (count > 0 && below + count >= share * sum)
			return lower + (upper - lower) * (share * sum - below) / count;
		below += count;
	}
	return 0;
}
