/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A plan lists the settings to change now, each with its old and new value and the reason. */

#include <headroom/file.h>

/* The value that a tuner's decide() wants for a setting. */
struct want {
	char name[SETTING_NAME_MAX];
	enum setting_kind kind;
	char actual[SETTING_VALUE_MAX];     /* in force now; empty: unknown */
	char wanted[SETTING_VALUE_MAX];     /* empty: leave the setting alone */
	char configured[SETTING_VALUE_MAX]; /* below the administrator's value; empty: as wanted */
	/* 0, or -errno of reading it. -ENOENT: unsupported. -EOPNOTSUPP: possible, if not here. */
	int error;
	enum reason reason;
	bool requested; /* a configuration file asks for it: impossible is then a failure */
	char why[SETTING_WHY_MAX]; /* why it is impossible; empty: the reason says it */
	const char *cost; /* what the change takes away, for plan and apply; NULL: nothing known */
	union {
		struct value_target target; /* SETTING_VALUE */
		struct pin_target pin;      /* SETTING_PIN */
	};
	bool grown;               /* SETTING_VALUE: reached by growth, kept across restarts */
	struct file_change *file; /* SETTING_FILE, owned by the proposal; else NULL */
};

struct change {
	char name[SETTING_NAME_MAX];
	char tuner[32];
	enum setting_kind kind;
	char old[SETTING_VALUE_MAX];
	char new[SETTING_VALUE_MAX];
	enum reason reason; /* after apply possibly that of an error */
	union {
		struct value_target target; /* SETTING_VALUE */
		struct pin_target pin;      /* SETTING_PIN */
	};
	bool grown;               /* SETTING_VALUE: see struct want */
	struct file_change *file; /* SETTING_FILE, owned; else NULL */
	char *cost;               /* of struct want, or NULL; owned */
	bool left;                /* restore: the setting is left alone, for reason; new is empty */
	char followed[SETTING_VALUE_MAX]; /* what the kernel set with another value; or empty */
	/* After apply: */
	int error;                      /* 0 or -errno */
	char *why;                      /* details beyond strerror(-error), or NULL; owned */
	char actual[SETTING_VALUE_MAX]; /* the value read back */
	enum reason held;  /* why the written file is not in force yet, or REASON_NONE */
	bool lost;         /* the program was restarted and reads another value, see why */
	uint64_t retry_us; /* the earliest next attempt, CLOCK_MONOTONIC; 0: at any time */
};

struct plan {
	struct change *changes;
	size_t n, allocated;
};

/*
 * Appends a change of a file, which is copied, or (file NULL) of a value. The pointer is valid
 * until the next append.
 */
struct change *plan_add(struct plan *plan, const struct file_change *file, const char *name,
	const char *tuner, const char *old, const char *new);

/*
 * Sorts the changes so that gc_thresh1 <= gc_thresh2 <= gc_thresh3 holds after each write: first
 * rising thresholds, from level 3 to 1, then falling thresholds, from level 1 to 3. All
 * other changes come first, in their order.
 */
void plan_sort(struct plan *plan);

/* Frees the memory that a change owns. */
void change_release(struct change *change);

enum plan_part {
	PLAN_VALUES, /* the loop writes them */
	PLAN_FILES,  /* and pins: a task writes them */
	PLAN_ALL,
};

/* Moves changes to the end of another plan. */
void plan_move(struct plan *plan, struct plan *from, enum plan_part part);

void plan_clear(struct plan *plan);
