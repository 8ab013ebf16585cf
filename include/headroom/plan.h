/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A plan lists the settings that should change now: each with its old and new value, and why. */

#include <headroom/setting.h>

/* What a want or a change of a file has besides. */
struct file_change {
	struct file_target target;
	/*
	 * What the file has for the next start, in the form of wanted; empty: nothing. For EDIT_OWN
	 * it must equal wanted exactly when the file is edit.text.
	 */
	char on_disk[SETTING_VALUE_MAX];
	struct file_edit edit; /* its text is owned */
	bool activate_only;    /* the file is as wanted, and its program does not run with it yet */
	bool written;          /* after apply or restore */
};

/* What a tuner's decide() wants of a setting. wanted is empty for "leave it alone". */
struct want {
	char name[SETTING_NAME_MAX];
	char actual[SETTING_VALUE_MAX]; /* what is in force now; empty: not known */
	char wanted[SETTING_VALUE_MAX];
	int error;          /* 0, or -errno of reading it: -ENOENT means unsupported */
	const char *reason; /* a slug */
	bool requested;     /* by a file of the configuration: a node that lacks it fails it */
	struct value_target target; /* of a value */
	bool grown;                 /* of a value: by growth, which a restart does not undo */
	struct file_change *file;   /* of a file, the proposal's; NULL for a value */
};

struct change {
	char name[SETTING_NAME_MAX];
	char tuner[32];
	char old[SETTING_VALUE_MAX];
	char new[SETTING_VALUE_MAX];
	const char *reason;         /* a slug; after apply: that of the error too */
	struct value_target target; /* of a value */
	bool grown;                 /* of a value: see struct want */
	struct file_change *file;   /* of a file, owned; NULL for a value */
	bool gone; /* of a restore: there is no such thing here now; its record stays */
	bool left; /* of a restore: not ours to restore, reason says why; new is empty */
	/* After apply: */
	int error;                      /* 0 or -errno */
	char *why;                      /* more about error than strerror(3) can say; owned */
	char actual[SETTING_VALUE_MAX]; /* what was read back */
	const char *held;  /* a slug: the file is written, and not in force yet; else NULL */
	uint64_t retry_us; /* not to be tried again before; 0: at any time */
};

struct plan {
	struct change *changes;
	size_t n, allocated;
};

/*
 * Appends a change, which moves with the next append. file is NULL for a value, else
 * copied.
 */
struct change *plan_add(struct plan *plan, const struct file_change *file, const char *name,
	const char *tuner, const char *old, const char *new);

/*
 * Puts the changes into an order in which gc_thresh1 <= gc_thresh2 <= gc_thresh3 holds after every
 * single write: what rises from level 3 down to 1, then what falls from 1 up to 3. All other
 * changes keep their place before these.
 */
void plan_sort(struct plan *plan);

/* Frees what a change owns, before it is dropped from a plan. */
void change_release(struct change *change);

enum plan_part {
	PLAN_VALUES,
	PLAN_FILES,
	PLAN_ALL,
};

/* Moves changes to the end of another plan. */
void plan_move(struct plan *plan, struct plan *from, enum plan_part part);

void plan_clear(struct plan *plan);
