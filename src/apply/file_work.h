/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of a job: file_transaction.c changes files, file_restore.c restores them, pin.c pins
 * images, file_activate.c reloads and restarts programs, budget.c counts restarts, unit.c speaks to
 * systemd.
 */

#include "apply/editor.h"
#include "apply/file_transaction.h"

/* why of -ESTALE. */
#define WORK_STALE "the configuration has changed meanwhile"

struct work_file {
	struct file_note note;
	struct file_at at;
	struct file_bytes old, new;
	char why[EDIT_WHY_MAX]; /* of an error */

	struct change *changes[JOURNAL_KEYS_MAX]; /* of this file, in the job's plan */
	size_t n_changes;

	/* For a restore: */
	bool left[JOURNAL_KEYS_MAX]; /* the key was changed by someone else */
	bool written;
	int lost; /* 0, or -errno of reading the original bytes */
};

void work_file_clear(struct work_file *file);

/* Whether job->only is empty or this tuner. */
bool work_is_chosen(const struct file_job *job, const char *tuner);

/* Locates the file and reads it into old. 0 or -errno, with why. */
int work_read(const struct file_job *job, struct work_file *file);

/* Sets a change's result. why may be NULL. */
void work_result(
	struct change *change, enum reason reason, int error, const char *why, uint64_t retry_us);

/* Stores the journal; job->error gets the result. 0 or -errno. */
int work_store(struct file_job *job);

struct change *work_add_change(struct file_job *job, const struct file_note *note,
	const struct file_record *key, const char *old, const char *new);

/*
 * Replaces our values in a text that someone else changed with the original ones. Keys that they
 * changed are left. 0 or -errno, with why in file.
 */
int work_remove_ours(const struct file_job *job, struct work_file *file, struct file_bytes *text);

/*
 * Replaces the file with these bytes, or removes it and the directories that were made for it. 0 or
 * -errno, with why for some errors.
 */
int work_put(struct work_file *file, const struct file_bytes *new, unsigned directories);

/*
 * Restores the original bytes, or only our keys if someone else changed the file, and adds the
 * changes to the plan. On success the note is removed, or is restoring until its program was
 * activated. 0 or -errno.
 */
int work_restore(struct file_job *job, const struct file_note *note);

/*
 * Restores the file of a program that did not come back; the note stays. If the program rejects the
 * changes of others, the original bytes replace them, and a copy of theirs is kept in the state
 * directory. 0 or -errno.
 */
int work_roll_back(const struct file_job *job, const struct file_note *note);

/*
 * Reloads or restarts the programs whose files were written or are not in force, if policy allows
 * it. Rolls back the files of a program that does not come back.
 */
void work_activate(struct file_job *job);

/*
 * Holds back a change after a drift, unwritten, while the budget allows its unit no further
 * restart.
 */
bool work_yields(struct file_job *job, struct change *change);

/* Completes the restarts that an earlier process left open. Their number, or -ECANCELED. */
int work_resume(struct file_job *job);

/* Pins or unpins an image. An image is recorded before it is pinned. */
void pin_apply(struct file_job *job, struct change *change);

/* Unpins the recorded images and adds the changes to the plan. */
void pins_restore(struct file_job *job);

/*
 * The budget of restarts of a unit (budget.c): every restart by us counts, a roll-back
 * too. mark may be NULL: never restarted.
 */

/* The time until the budget allows a restart, or 0. */
uint64_t budget_rest(const struct file_job *job, struct unit_mark *mark, bool roll_back);

/* The time until the last restart is an hour ago, or 0. */
uint64_t budget_hour_rest(struct unit_mark *mark);

/* The number of restarts within a day. */
size_t budget_used_today(const struct unit_mark *mark);

/*
 * Takes a restart, durably, before systemd is asked. 0; -EDQUOT; or another -errno when it could
 * not be recorded.
 */
int budget_take(struct file_job *job, struct unit_mark *mark, bool roll_back);

/*
 * Units are restarted through systemd, over D-Bus. Containers survive only if systemd kills the
 * daemon alone, so KillMode must be `process`, and no active unit may depend on this one. Units of
 * k3s, RKE2 and others that run the kubelet together with the runtime are never restarted. The
 * job's wait bounds and cancels all calls. why describes any result but 0.
 */

/* 0 if the unit may be restarted; -EPERM if not; -ENOTCONN without systemd; or another -errno. */
int unit_may_restart(
	const struct file_job *job, const struct daemon *daemon, char why[static EDIT_WHY_MAX]);

/* Asks the program's socket: enum cri_answers. */
unsigned unit_probe(const struct file_job *job, const struct daemon *daemon);

/*
 * Requests a restart. force: also start the unit if it failed or was stopped. 0 also without a
 * reply in time, because the restart may have begun.
 */
int unit_restart(const struct file_job *job, const struct daemon *daemon, bool force,
	char why[static EDIT_WHY_MAX]);

/*
 * Waits until the program answers as it did before, 30 s after systemd's job at most. 0;
 * -ETIMEDOUT; -EPERM when someone else stopped the unit; -ECANCELED; or another -errno when systemd
 * did not report the unit's state.
 */
int unit_await(const struct file_job *job, const struct daemon *daemon, unsigned answered,
	bool force, char why[static EDIT_WHY_MAX]);
