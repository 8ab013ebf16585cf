/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of a job: file_transaction.c changes, file_restore.c undoes, file_activate.c reloads
 * and restarts, by means of unit.c.
 */

#include "apply/editor.h"
#include "apply/file_transaction.h"

/* One file on its way. */
struct work_file {
	struct file_note note;
	struct file_at at;
	struct file_bytes old, new; /* what is there, and what is to be */
	char why[EDIT_WHY_MAX];     /* of an error */

	struct change *changes[JOURNAL_KEYS_MAX]; /* of the job's plan: what goes into it */
	size_t n_changes;

	/* Of a restore: */
	bool left[JOURNAL_KEYS_MAX]; /* a key is someone else's by now */
	bool written;
	int lost; /* -errno: the original bytes are not where they were kept; else 0 */
};

void work_file_clear(struct work_file *file);

/*
 * Where the file is and what it has. 0 or -errno, with why.
 */
int work_read(const struct file_job *job, struct work_file *file);

/* Replaces what work_read() found. 0 or -errno, with why. */
int work_put(struct work_file *file, const struct file_bytes *new);

/* A change's result. why may be NULL. */
void work_fail(
	struct change *change, const char *reason, int error, const char *why, uint64_t retry_us);

/* Stores the journal; an error is one of the job's too. 0 or -errno. */
int work_store(struct file_job *job);

/* A change of a noted key that no tuner asked for. */
struct change *work_add_change(struct file_job *job, const struct file_note *note,
	const struct file_record *key, const char *old, const char *new);

/*
 * Our values out of a text that someone else changed, originals in their place. What is theirs by
 * now is left. 0 or -errno, with why in file.
 */
int work_remove_ours(const struct file_job *job, struct work_file *file, struct file_bytes *text);

/*
 * The original bytes; where someone else changed the file since, only our keys go. What is restored
 * is forgotten in the journal, which the caller stores, and is in the plan. 0 or -errno.
 */
int work_restore(struct file_job *job, const struct file_note *note);

/*
 * The same for a program that did not come back; it stays recorded. The file must load: where
 * others' changes do not, the original bytes replace them, and theirs are kept in the state
 * directory. 0 or -errno.
 */
int work_roll_back(const struct file_job *job, const struct file_note *note);

/*
 * Reloads or restarts the programs of files that were written, or wait to take effect, as policy
 * allows; a program that does not come back gets its old files.
 */
void work_activate(struct file_job *job);

/* Sees to restarts that an earlier process left open. How many there were, or -ECANCELED. */
int work_resume(struct file_job *job);

/* Pins or unpins an image. An image is recorded before it is pinned. */
void pin_apply(struct file_job *job, struct change *change);

/* Unpins the recorded images and adds them to the plan. */
void pins_restore(struct file_job *job);

/*
 * unit.c restarts the unit of a program through systemd, by D-Bus, and waits until it answers
 * again. Containers survive only where systemd kills the daemon alone: so KillMode must be
 * `process`, and no active unit may depend on this one. Units of k3s, RKE2 and their like, which
 * run the kubelet and the runtime in one, are never restarted.
 *
 * All calls block. The job's wait bounds and cancels them; why describes any result but 0.
 */

/*
 * Whether it may be restarted. 0; -EPERM when it must not be; -ENOTCONN without systemd; any other
 * -errno when that could not be found out.
 */
int unit_may_restart(
	const struct file_job *job, const struct service *service, char why[static EDIT_WHY_MAX]);

/* How much of the program answers on its socket now: enum cri_answers. */
unsigned unit_probe(
	const struct file_job *job, const struct service *service, const struct wait *wait);

/*
 * Asks systemd for a restart. force: also of a unit that failed; else one that was stopped
 * meanwhile is not started. 0 also without a reply in time: it may have begun.
 */
int unit_restart(const struct file_job *job, const struct service *service, bool force,
	char why[static EDIT_WHY_MAX]);

/*
 * Waits until as much of it answers as did before, for 30 s. 0; -ETIMEDOUT when it does not; -EPERM
 * when someone else stopped it; -ECANCELED; any other -errno when systemd did not report its state.
 * A job of systemd's that is under way does not count.
 */
int unit_await(const struct file_job *job, const struct service *service, unsigned answered,
	bool force, char why[static EDIT_WHY_MAX]);
