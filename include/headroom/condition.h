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
	bool is_recorded; /* an incident begins when it becomes True; also if it is critical */
	const char *now;  /* what to type, or the change that helps at once */
};

/* A condition as a tuner's decide() reports it. */
struct condition_reading {
	const struct condition_type *type;
	enum condition_status status;
	enum reason reason; /* REASON_NONE: its limit is the reason */
	const char *limit;  /* the limit that it is about; or NULL */
	unsigned milder;    /* by how much the severity is below the type's this time */
	/* CLOCK_MONOTONIC of the last time, if it stays True for a while after that; else 0. */
	uint64_t last_us;
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

/* Returns the reason that users see: the name of its limit or a slug. */
const char *condition_reason(const struct condition_reading *reading);

enum severity condition_severity(const struct condition_reading *reading);

/* Sets status True and the reason, and appends to the message, after "; " if it is not empty. */
void __attribute__((format(printf, 3, 4))) condition_raise(
	struct condition_reading *reading, enum reason reason, const char *format, ...);

/* Sets status Unknown and the reason. */
void condition_unknown(struct condition_reading *reading, enum reason reason);

/* Appends to the message and truncates it at CONDITION_MESSAGE_MAX. */
void __attribute__((format(printf, 2, 3))) condition_append(
	struct condition_reading *reading, const char *format, ...);

/* Appends "; until 14:03 UTC" if it is over. Both times are of now. */
void condition_add_end(struct condition_reading *reading, uint64_t monotonic_us, uint64_t wall_us);

extern const char *const condition_status_names[]; /* "True" */
extern const char *const severity_names[];         /* "critical" */
