/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A condition is a statement about the node's health. True means that there is a problem. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONDITION_MESSAGE_MAX 320

enum condition_status {
	CONDITION_FALSE,
	CONDITION_TRUE,
	CONDITION_UNKNOWN,
};

/* What a True condition does to the verdict of /health. */
enum severity {
	SEVERITY_WARNING,
	SEVERITY_CRITICAL,
	SEVERITY_ADVICE, /* nothing: worth doing, and no fault of the node */
};

/* Reasons are data: one slug serves the log, the JSON, `explain` and the manual. */
struct reason {
	const char *slug; /* "near-full"; NULL ends a table */
	const char *help;
};

/* A row of a tuner's table of conditions. */
struct condition_type {
	const char *name; /* "NeighborTableOverflow"; NULL ends a table */
	enum severity severity;
	const char *help;             /* what it means, and the cure */
	const struct reason *reasons; /* its own; conditions of one tuner may share a table */
};

/* What is said of a condition just now. */
struct condition_reading {
	const struct condition_type *type;
	enum condition_status status;
	const char *reason; /* a slug */
	bool advice;        /* True, and this time no fault of the node */
	char message[CONDITION_MESSAGE_MAX];
};

struct condition {
	struct condition_reading now;
	uint64_t since_us; /* CLOCK_REALTIME of the last change of status */
};

/* Its type's, or advice. */
enum severity condition_severity(const struct condition_reading *reading);

/* Status True with this reason; its text follows that of an earlier one after "; ". */
void __attribute__((format(printf, 3, 4)))
condition_raise(struct condition_reading *reading, const char *reason, const char *format, ...);

/* Appends to the message; what has no room is cut. */
void __attribute__((format(printf, 2, 3)))
condition_append(struct condition_reading *reading, const char *format, ...);

extern const char *const condition_status_names[]; /* "True" */
extern const char *const severity_names[];         /* "critical" */
