/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEADROOM_PLAN_H
#define HEADROOM_PLAN_H

/* A plan lists the settings that should change now: each with its old and new value, and why. */

#include <stdbool.h>
#include <stddef.h>

#include <headroom/file.h>
#include <headroom/setting.h>
#include <headroom/value.h>

/* What a change of a file has besides. */
struct file_change {
	struct file_target target;
	char on_disk[SETTING_VALUE_MAX]; /* what the file has; the change's old is what is in force
					  */
	struct file_edit edit;           /* a copy of the want's; its texts are owned */
	bool activate_only; /* the file is as wanted, and its program does not run with it yet */
};

struct change {
	char name[SETTING_NAME_MAX];
	char tuner[32];
	char old[SETTING_VALUE_MAX];
	char new[SETTING_VALUE_MAX];
	const char *reason;         /* a slug; after apply: that of the error too */
	struct value_target target; /* of a value */
	bool grown;                 /* of a value: see value_want */
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

/* Appends a zeroed change and returns it, or NULL without memory. It moves with the next append. */
struct change *plan_add(struct plan *plan);

/*
 * Puts the changes into an order in which gc_thresh1 <= gc_thresh2 <= gc_thresh3 holds after every
 * single write: what rises from level 3 down to 1, then what falls from 1 up to 3. All other
 * changes keep their place before these.
 */
void plan_sort(struct plan *plan);

/* Makes a change one of a file, with a copy of the want's edit. 0 or -ENOMEM. */
int change_take_file(struct change *change, const struct file_want *want);

/* Frees what a change owns, before it is dropped from a plan. */
void change_release(struct change *change);

/* Moves changes to the end of another plan: all, or those of files alone. 0, or -ENOMEM with the
 * rest left there. */
int plan_move(struct plan *plan, struct plan *from, bool files_alone);

void plan_reset(struct plan *plan); /* empties it, keeps the memory */
void plan_clear(struct plan *plan);

#endif
