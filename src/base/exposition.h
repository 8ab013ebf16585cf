/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes metrics as text: Prometheus 0.0.4, or OpenMetrics 1.0 on request. The caller writes each
 * family and then its samples, and "# EOF" at the end of OpenMetrics.
 */

#include <stdio.h>

#include <headroom/tables.h>

struct metric_sink {
	FILE *out;
	bool openmetrics;
	const struct metric_row *rows; /* where metric_family() finds names */
	const struct metric_row *row;  /* the current family's; NULL: it is not written */
	bool has_head;                 /* HELP and TYPE of the current family are written */
};

/*
 * Begins a family: its HELP and TYPE come with its first sample. A family without a row is not
 * exported.
 */
void metric_family(struct metric_sink *sink, const char *name);

/*
 * Writes a sample of the current family. The values of the row's labels follow in the order of the
 * row, then NULL. They are escaped here.
 */
void metric_sample(struct metric_sink *sink, double value, ...) __attribute__((sentinel));

/*
 * Writes a histogram of the current family: its _bucket, _sum and _count samples. bounds has n
 * ascending upper bounds without +Inf. counts has n + 1 elements, each the count of one bucket
 * alone; the last counts values above all bounds. Label values are as for metric_sample().
 */
void metric_histogram(struct metric_sink *sink, const double *bounds, const uint64_t *counts,
	size_t n, double sum, ...) __attribute__((sentinel));

/*
 * Returns the value, in seconds, below which this share of a histogram of nanoseconds lies; 0 for
 * an empty one. bounds and counts are as for metric_histogram(). Assumes that the values within a
 * bucket are spread evenly.
 */
double histogram_quantile(
	const unsigned long long *bounds, const unsigned long long *counts, size_t n, double share);
