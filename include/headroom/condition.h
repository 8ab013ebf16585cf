/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A condition is a statement about the node's health. True means a problem. */

#include <headroom/reason.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONDITION_MESSAGE_MAX 320

enum condition_status {
	CONDITION_FALSE,
	CONDITION_TRUE,
	CONDITION_UNKNOWN,
};

/* The effect of a True condition on the verdict of /health. */
enum severity {
	SEVERITY_ADVICE, /* no effect: an improvement that the administrator can make */
	SEVERITY_WARNING,
	SEVERITY_CRITICAL,
};

/* All reasons that decide() gives a condition: `explain` and the manual list them. */
#define REASON_LIST(...) ((const enum reason[]){__VA_ARGS__, REASON_NONE})

/* A row of a tuner's table of conditions. */
struct condition_type {
	const char *name; /* "NeighborTableOverflow"; NULL ends a table */
	enum severity severity;
	const char *help;           /* meaning and cure */
	const enum reason *reasons; /* a REASON_LIST() */
	bool hides_settings;        /* while it is True, the settings of its tuner are not known */
	bool is_recorded;           /* its findings begin incidents; critical ones do so anyway */
};

/*
 * A condition as its tuner judges it apart from findings: False or Unknown. It is True if and only
 * if it has a finding.
 */
struct condition_reading {
	const struct condition_type *type;
	enum condition_status status;
	enum reason reason;
	/* How many instances failed, also those without a finding: the message begins with it. */
	unsigned n_failed;
	char message[CONDITION_MESSAGE_MAX];
};

#define CONDITION_REASON_MAX 128

/* As users see it. */
struct condition {
	const struct condition_type *type;
	enum condition_status status;
	enum severity severity;          /* while it is True */
	enum reason reason;              /* REASON_NONE: a limit is the reason */
	char slug[CONDITION_REASON_MAX]; /* of the reason, or the limit's name */
	char *message;                   /* owned; NULL: none */
	uint64_t since_us;               /* CLOCK_REALTIME of the last change of status */
};

/* Sets status Unknown and the reason. */
void condition_unknown(struct condition_reading *reading, enum reason reason);

/* Appends to the message and truncates it at CONDITION_MESSAGE_MAX. */
void __attribute__((format(printf, 2, 3))) condition_append(
	struct condition_reading *reading, const char *format, ...);

extern const char *const condition_status_names[]; /* "True" */
extern const char *const severity_names[];         /* "critical" */
