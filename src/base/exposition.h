/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_EXPOSITION_H
#define BASE_EXPOSITION_H

/*
 * Writes metrics as text: Prometheus 0.0.4, or OpenMetrics 1.0 where the scraper asked for it. The
 * caller writes a family's line first, then all of its samples.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum metric_type {
	METRIC_GAUGE,
	METRIC_COUNTER,   /* its name ends in _total */
	METRIC_HISTOGRAM, /* its samples are written by metric_histogram */
};

struct metric_sink {
	FILE *out;
	bool openmetrics;
	const char *family; /* the family that samples now belong to */
};

/* HELP and TYPE of a family. name must outlive the family's samples. */
void metric_family(
	struct metric_sink *sink, const char *name, enum metric_type type, const char *help);

/*
 * One sample of the current family. labels are name, value, name, value, ..., NULL; values are
 * escaped here.
 */
void metric_sample(struct metric_sink *sink, double value, ...) __attribute__((sentinel));

/*
 * One histogram of the current family: its _bucket, _sum and _count samples. bounds are n upper
 * bounds in rising order, without +Inf; counts are n + 1, each of its bucket alone, the last of
 * what is above all bounds. labels as for metric_sample, without le.
 */
void metric_histogram(struct metric_sink *sink, const double *bounds, const uint64_t *counts,
	size_t n, double sum, ...) __attribute__((sentinel));

/* What ends the text: "# EOF" in OpenMetrics. */
void metric_end(struct metric_sink *sink);

#endif
