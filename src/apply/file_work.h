/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_FILE_WORK_H
#define APPLY_FILE_WORK_H

/* The parts of a job: file_transaction.c changes, file_restore.c undoes, file_activate.c restarts.
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

/* Where the file is and what it has. 0 or -errno, with why. */
int work_read(const struct file_job *job, struct work_file *file);

/* Replaces what work_read() found. 0 or -errno, with why. */
int work_put(const struct file_job *job, struct work_file *file, const struct file_bytes *new);

/* pin.c: the same of EDIT_PIN. An image that is not there is not pinned. */
int pin_take(const struct file_job *job, struct work_file *file);
int pin_put(const struct file_job *job, struct work_file *file, const struct file_bytes *new);

/* A change's result. why may be NULL. */
void work_fail(
	struct change *change, const char *reason, int error, const char *why, uint64_t retry_us);

/* Stores the journal; an error is one of the job's too. 0 or -errno. */
int work_store(struct file_job *job);

/* A change of a noted key that no tuner asked for. NULL without memory. */
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

#endif
