/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_transaction.h"

#include "apply/file_work.h"
#include "apply/load_file.h"
#include "base/log.h"
#include "runtime/images.h"

#include <sys/stat.h>

void work_file_clear(struct work_file *file)
{
	file_bytes_clear(&file->old);
	file_bytes_clear(&file->new);
}

int work_read(const struct file_job *job, struct work_file *file)
{
	int r = file_locate(&job->host, file->note.path, &file->at);

	file_bytes_clear(&file->old);
	if (r == 0)
		r = file_read(&file->at, &file->old);
	if (r == -ELOOP)
		set_text(file->why, "it is a symbolic link to a file that does not exist");
	return r;
}

void work_result(
	struct change *change, enum reason reason, int error, const char *why, uint64_t retry_us)
{
	change->error = error;
	change->reason = reason;
	change->retry_us = retry_us;
	change->held = REASON_NONE;
	free(change->why);
	change->why = why && why[0] ? must(strdup(why)) : NULL;
}

bool work_is_chosen(const struct file_job *job, const char *tuner)
{
	return !job->only[0] || streq(job->only, tuner);
}

int work_store(struct file_job *job)
{
	return job->error = file_journal_store(job->journal);
}

/* The change has a file that is still to be written. */
static bool is_due(const struct change *change)
{
	return change->file && !change->file->activate_only && !change->file->written &&
	       change->error == 0;
}

/* Adds the changes that have the same file as the first one. */
static void collect_changes(
	struct file_job *job, const struct change *first, struct work_file *file)
{
	const struct file_change *wanted = first->file;
	struct file_note *note =
		find_named(job->journal->files, job->journal->n_files, wanted->path);

	if (note)
		file->note = *note;
	set_text(file->note.path, wanted->path);
	set_text(file->note.tuner, first->tuner);
	file->note.format = wanted->format;
	file->note.activation = wanted->activation;
	file->note.restart = wanted->restart;
	file->note.daemon = wanted->daemon;
	for (size_t i = 0; i < job->plan.n && file->n_changes < JOURNAL_KEYS_MAX; i++) {
		struct change *change = &job->plan.changes[i];

		if (is_due(change) && streq(change->file->path, wanted->path))
			file->changes[file->n_changes++] = change;
	}
}

static int record_key(
	const struct file_job *job, struct file_note *note, const struct change *change)
{
	const char *on_disk = change->file->on_disk, *before = on_disk;
	struct file_record *record = find_named(note->keys, note->n_keys, change->name);
	const struct file_record *older = NULL;

	if (!record && note->n_keys == JOURNAL_KEYS_MAX)
		return -ENOSPC;
	if (!record) {
		/* The setting may have moved here from another file. */
		for (size_t i = 0; i < job->journal->n_files && !older; i++)
			older = find_named(job->journal->files[i].keys,
				job->journal->files[i].n_keys, change->name);
		record = &note->keys[note->n_keys++];
		if (older)
			*record = *older;
		copy_text(record->name, SETTING_NAME_MAX, change->name);
		if (!older) {
			/* If the value in force is unknown, it is the one in the file. */
			copy_text(record->in_force_originally, SETTING_VALUE_MAX,
				change->old[0] ? change->old : on_disk);
			copy_text(record->on_disk_originally, SETTING_VALUE_MAX, on_disk);
		}
	} else if (!value_equal(on_disk, record->on_disk_originally) &&
		   !value_equal(on_disk, record->value_before)) {
		before = record->wanted; /* on_disk is that, or someone else's */
	}
	copy_text(record->value_before, SETTING_VALUE_MAX, before);
	/* An upgraded program may have the key in another table. */
	copy_text(record->table, FILE_TABLE_MAX, change->file->table);
	copy_text(record->key, FILE_KEY_MAX, change->file->key);
	copy_text(record->wanted, SETTING_VALUE_MAX, change->new);
	return 0;
}

/*
 * Records durably what a restore needs. It restores the bytes from before our first write or, if
 * someone else has changed the file since, their bytes without our values. The new bytes are kept
 * too: they identify our values.
 */
static int record(struct file_job *job, struct work_file *file)
{
	_cleanup_(file_bytes_clear) struct file_bytes theirs = {0};
	struct file_note *note = &file->note;
	const struct file_bytes *old = &file->old, *original = NULL;
	bool own = note->format == EDIT_OWN, ours = note_is_ours(note, old->hash);
	int dir = job->journal->dir, r = 0;
	struct stat st;

	if (!ours && note->original[0] && old->bytes && !streq(old->hash, note->original)) {
		if (!own) {
			text_copy(&theirs, old->bytes, old->len);
			r = work_remove_ours(job, file, &theirs);
			hash_bytes(theirs.bytes, theirs.len, theirs.hash);
			original = &theirs;
		}
	} else if (!ours) {
		original = old;
	}
	if (r == 0 && original)
		copy_text(note->original, HASH_TEXT_MAX, original->hash);
	if (r == 0 && original && original->bytes)
		r = file_keep(dir, original);
	if (r == 0 && file->new.bytes && !own)
		r = file_keep(dir, &file->new);
	for (size_t i = 0; r == 0 && i < file->n_changes; i++)
		r = record_key(job, note, file->changes[i]);
	if (r < 0)
		return r;
	if (lstat(file->at.full, &st) == 0 && st.st_nlink > 1)
		log_notice(note->path, "its %lu other hard links keep the old content",
			(unsigned long)st.st_nlink - 1);
	note->restoring = false;
	copy_text(note->ours[0], HASH_TEXT_MAX, ours ? old->hash : "");
	copy_text(note->ours[1], HASH_TEXT_MAX, file->new.hash);
	note->directories = MAX(note->directories, file->new.bytes ? file->at.missing : 0);
	file_journal_put(job->journal, note);
	for (size_t i = 0; i < file->n_changes; i++)
		file_journal_try_again(job->journal, file->changes[i]->name);
	return work_store(job);
}

/* Edits, verifies, records and replaces a file. *reason says why it failed. */
static int write_file(struct file_job *job, struct work_file *file, enum reason *reason)
{
	const struct editor editor = {&job->host, job->journal->dir, &file->note.daemon,
		file->note.path, &file->at, job->wait};
	int r = work_read(job, file);

	*reason = REASON_UNREADABLE;
	if (r < 0)
		return r;
	if (file->old.bytes)
		text_copy(&file->new, file->old.bytes, file->old.len);
	*reason = REASON_VERIFY_REFUSED;
	r = edit_make(&editor, file->changes, file->n_changes, &file->new, file->why);
	if (r < 0)
		return r;
	/* The tuner reads the file differently: another write would not help. */
	*reason = REASON_NOT_TAKEN;
	if (streq(file->new.hash, file->old.hash))
		return -ERANGE;
	*reason = REASON_NOT_RECORDED;
	r = record(job, file);
	if (r < 0)
		return r;
	if (atomic_load(&job->stale)) {
		set_text(file->why, WORK_STALE);
		return -ESTALE;
	}
	*reason = REASON_WRITE_REFUSED;
	return work_put(file, &file->new, 0);
}

static void apply_file(struct file_job *job, const struct change *first)
{
	_cleanup_(work_file_clear) struct work_file file = {0};
	static const enum reason pending[] = {
		[ACTIVATE_RELOAD] = REASON_RELOAD_PENDING,
		[ACTIVATE_RESTART] = REASON_RESTART_PENDING,
	};
	enum reason reason;
	uint64_t retry_us;
	int r;

	collect_changes(job, first, &file);
	r = write_file(job, &file, &reason);
	retry_us = reason_rows[reason].retry ? FILE_RETRY_US : FILE_REFUSED_US;
	for (size_t i = 0; i < file.n_changes; i++) {
		struct change *change = file.changes[i];

		if (r < 0) {
			work_result(change, reason, r, file.why,
				r == -ESTALE ? 0 : now_us() + retry_us);
			continue;
		}
		change->file->written = true;
		change->held = pending[file.note.activation];
		if (!change->held)
			copy_text(change->actual, SETTING_VALUE_MAX, change->new);
		log_info(change->name, "%s -> %s in %s (%s)",
			change->file->on_disk[0] ? change->file->on_disk : "nothing", change->new,
			file.note.path, reason_rows[change->reason].slug);
	}
}

static void apply_all(struct file_job *job, bool resumed)
{
	for (size_t i = 0; i < job->plan.n; i++) {
		struct change *change = &job->plan.changes[i];

		if (job->forced && !resumed)
			file_journal_try_again(job->journal, change->name);
		if (change->error < 0)
			continue;
		if (resumed) /* the plan was made before that */
			work_result(change, REASON_NOT_RECORDED, -ESTALE,
				"an earlier restart had to finish first: try again", 0);
		else if (change->kind == SETTING_PIN)
			pin_apply(job, change);
		else if (is_due(change) && !work_yields(job, change))
			apply_file(job, change);
	}
}

/* Also what an earlier process began; resume: only that. */
static void restore_files(struct file_job *job, bool resume)
{
	const struct file_journal *journal = job->journal;

	/* A note may be removed, and then the next one moves to its index. */
	for (size_t i = 0, n; i < journal->n_files; i += journal->n_files == n) {
		const struct file_note *note = &journal->files[i];

		n = journal->n_files;
		if (note->restoring || (!resume && work_is_chosen(job, note->tuner)))
			(void)work_restore(job, note);
	}
}

/*
 * Forgets the restored files, unless the process ends before their programs were activated. No
 * program restarts without a record, so in a full state directory a later job resumes the restore.
 */
static void end_restore(struct file_job *job)
{
	const struct wait now = wait_at_most(job->wait, 0);
	struct file_journal *journal = job->journal;

	if (work_store(job) < 0)
		return;
	for (size_t i = journal->n_files; wait_for(&now, -1, 0) != -ECANCELED && i-- > 0;)
		if (journal->files[i].restoring)
			file_journal_forget(journal, journal->files[i].path);
	if (work_store(job) == 0)
		file_sweep(journal);
}

void file_transaction(void *userdata, const struct wait *wait)
{
	struct file_job *job = userdata;
	struct file_journal *journal = job->journal;
	int r;

	job->wait = wait;
	/* The next plan retries failed values. Failures of the resume itself stay recorded. */
	for (size_t i = 0; job->forced && job->task == FILE_RESUME && i < journal->n_files; i++)
		for (size_t k = 0; k < journal->files[i].n_keys; k++)
			if (work_is_chosen(job, journal->files[i].tuner))
				journal->files[i].keys[k].failed[0] = '\0';
	if (work_store(job) == 0)
		file_sweep(journal);
	r = work_resume(job);
	if (job->task == FILE_APPLY)
		apply_all(job, r != 0);
	else if (r >= 0 && (job->task == FILE_RESTORE || !job->forced))
		restore_files(job, job->task == FILE_RESUME);
	if (job->task == FILE_RESTORE && r >= 0) {
		pins_restore(job);
		if (work_is_chosen(job, IMAGES_TUNER))
			(void)load_file_put(&job->host, NULL, NULL);
		(void)work_store(job);
	}
	if ((job->task != FILE_APPLY && r >= 0) || (job->task == FILE_APPLY && r == 0))
		work_activate(job);
	if (job->task != FILE_APPLY && !job->forced)
		end_restore(job);
	(void)work_store(job);
}
