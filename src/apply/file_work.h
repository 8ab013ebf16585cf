/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_FILE_WORK_H
#define APPLY_FILE_WORK_H

/* The parts of a job, for file_transaction.c: file_work.c, file_restore.c and file_activate.c. */

#include "apply/edit_text.h"
#include "apply/file.h"
#include "apply/file_transaction.h"

struct work_file {
	struct file_note note;  /* as the journal has it; prepare makes it what is to be noted */
	bool noted;             /* the journal had it before */
	struct service service; /* as it is today; of a restore, as noted */
	struct file_at at;
	struct file_bytes old;
	char *new; /* NULL: the file is removed */
	size_t new_len;
	char new_hash[HASH_TEXT_MAX]; /* empty: nothing is to be written */
	bool written;
	int error; /* 0 or -errno; nothing was written then */
	char why[EDIT_WHY_MAX];
};

struct work {
	struct file_job *job;
	struct file_journal *journal;
	const struct wait *wait;
	struct work_file *files;
	size_t n, allocated;
};

void work_file_clear(struct work_file *file);
void work_clear(struct work *work);
struct work_file *work_find(const struct work *work, const char *path);

struct work_file *work_add(struct work *work, const char *path); /* NULL without memory */

/* A change's result. why may be NULL. */
void work_fail(
	struct change *change, const char *reason, int error, const char *why, uint64_t retry_us);

/* Of the job's changes: one file for all that belong to it. 0 or -ENOMEM. */
int work_make(struct work *work);

/* Where the file is and what it has. 0 or -errno, with why. */
int work_read_old(const struct work *work, struct work_file *file);

/* Reads, edits, has the program verify it, keeps the original bytes. */
void work_prepare(const struct work *work, struct work_file *file);

/*
 * Our values out of a text that somebody else changed, originals in their place; keep (may be NULL)
 * is called for a key that is theirs by now. 0 or -errno, with why in file.
 */
int work_remove_ours(const struct work *work, struct work_file *file, char **text, size_t *len,
	void (*keep)(const struct work *work, const struct work_file *file, const char *name));

/* Into the journal, which the caller stores. 0 or -ENOMEM. */
int work_note(const struct work *work, struct work_file *file);

/* Replaces the file, unless somebody was quicker; with an error of storing, says so. */
void work_write(const struct work *work, struct work_file *file, int stored);

/* The files that a restore is about, and the job's plan for it. */
void work_make_restore(struct work *work);

/*
 * The original bytes; where somebody else changed the file since, only our keys go. What is
 * restored is forgotten in the journal, which the caller stores.
 */
void work_restore(const struct work *work, struct work_file *file);

/*
 * The same for a program that did not come back; it stays recorded. The file must load: where
 * others' changes do not, the original bytes replace them, and theirs are kept in the state
 * directory. 0 or -errno.
 */
int work_roll_back(const struct work *work, struct work_file *file);

/* Removes original bytes that nothing needs any more. */
void work_sweep(const struct work *work);

/* Stores the journal, whatever has changed in it; an error is one of the job's too. 0 or -errno. */
int work_store(const struct work *work);

/*
 * Reloads or restarts the programs of files that were written, or wait to take effect, as policy
 * allows; a program that does not come back gets its old files.
 */
void work_activate(const struct work *work);

/* Sees to restarts that an earlier process left open. How many there were, or -ECANCELED. */
int work_resume(const struct work *work);

#endif
