/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes metrics as text: Prometheus 0.0.4, or OpenMetrics 1.0 where the scraper asked for it. The
 * caller writes a family's line first, then all of its samples, and "# EOF" at OpenMetrics' end.
 */

#include <stdint.h>
#include <stdio.h>

#include <headroom/tables.h>

struct metric_sink {
	FILE *out;
	bool openmetrics;
	const struct metric_row *rows; /* the table in which metric_family() finds names */
	const struct metric_row *row;  /* what samples now belong to; NULL: they are not written */
};

/* HELP and TYPE of the family of that name. One without a row is not exported. */
void metric_family(struct metric_sink *sink, const char *name);

/*
 * One sample of the current family. What follows are the values of the row's labels, in its order,
 * and NULL; they are escaped here.
 */
void metric_sample(struct metric_sink *sink, double value, ...) __attribute__((sentinel));

/*
 * One histogram of the current family: its _bucket, _sum and _count samples. bounds are n upper
 * bounds in rising order, without +Inf; counts are n + 1, each of its bucket alone, the last of
 * what is above all bounds. label values as for metric_sample().
 */
void metric_histogram(struct metric_sink *sink, const double *bounds, const uint64_t *counts,
	size_t n, double sum, ...) __attribute__((sentinel));
