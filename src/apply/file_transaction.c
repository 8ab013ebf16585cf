/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_transaction.h"

#include "apply/file_work.h"
#include "base/log.h"
#include "runtime/driver.h"

#include <sys/stat.h>

void work_file_clear(struct work_file *file)
{
	file_bytes_clear(&file->old);
	file_bytes_clear(&file->new);
}

int work_read(const struct file_job *job, struct work_file *file)
{
	int r;

	file_bytes_clear(&file->old);
	r = file_locate(&job->host, file->note.path, &file->at);
	if (r == 0)
		r = file_take(&file->at, &file->old);
	if (r == -ELOOP)
		copy_text(file->why, sizeof(file->why),
			"it is a symbolic link to a file that does not exist");
	return r;
}

int work_put(struct work_file *file, const struct file_bytes *new)
{
	int r = file_put(&file->at, file->old.hash, new);

	file->written = r == 0;
	return r;
}

/* ---- one transaction ---- */

void work_fail(
	struct change *change, const char *reason, int error, const char *why, uint64_t retry_us)
{
	change->error = error;
	change->reason = reason;
	change->retry_us = retry_us;
	change->held = NULL;
	free(change->why);
	change->why = why && why[0] ? must(strdup(why)) : NULL;
}

int work_store(struct file_job *job)
{
	/* The whole of it: a later success makes up for an error. */
	return job->error = file_journal_store(job->journal);
}

/* All that go into the file of the first one and are not done yet. */
static void take_changes(struct file_job *job, const struct change *first, struct work_file *file)
{
	const struct file_change *its = first->file;
	const struct file_note *note =
		find_named(job->journal->files, job->journal->n_files, its->target.path);

	if (note)
		file->note = *note;
	copy_text(file->note.path, sizeof(file->note.path), its->target.path);
	copy_text(file->note.tuner, sizeof(file->note.tuner), first->tuner);
	file->note.format = its->target.format;
	file->note.service = its->edit.service;
	for (size_t i = 0; i < job->plan.n && file->n_changes < JOURNAL_KEYS_MAX; i++) {
		struct change *change = &job->plan.changes[i];

		if (change->file && !change->file->activate_only && !change->file->written &&
			change->error == 0 && streq(change->file->target.path, its->target.path))
			file->changes[file->n_changes++] = change;
	}
}

/* What people see of a key, and what tells our own writes from those of others. */
static int record_key(
	const struct file_job *job, struct file_note *note, const struct change *change)
{
	const char *on_disk = change->file->on_disk;
	struct file_record *record = find_named(note->keys, note->n_keys, change->name);
	const struct file_record *older = NULL;

	if (record) {
		bool known = value_equal(on_disk, record->on_disk) ||
			     value_equal(on_disk, record->before) ||
			     value_equal(on_disk, record->wanted);

		copy_text(record->before, SETTING_VALUE_MAX, known ? on_disk : record->wanted);
	} else {
		if (note->n_keys == JOURNAL_KEYS_MAX)
			return -ENOSPC;
		/* It may have been in another file before. */
		for (size_t i = 0; i < job->journal->n_files && !older; i++) {
			const struct file_note *other = &job->journal->files[i];

			older = find_named(other->keys, other->n_keys, change->name);
		}
		record = &note->keys[note->n_keys++];
		*record = older ? *older : (struct file_record){0};
		if (!older) {
			copy_text(record->name, SETTING_NAME_MAX, change->name);
			/* What a program runs with may not be known: then what it was to start
			 * with. */
			copy_text(record->original, SETTING_VALUE_MAX,
				change->old[0] ? change->old : on_disk);
			copy_text(record->on_disk, SETTING_VALUE_MAX, on_disk);
		}
		copy_text(record->before, SETTING_VALUE_MAX, on_disk);
	}
	/* Another generation of the program has it elsewhere. */
	record->target = change->file->target;
	copy_text(record->wanted, SETTING_VALUE_MAX, change->new);
	return 0;
}

/*
 * All that a restore needs, durably. The bytes that it gives back are those before our first write;
 * once someone else has changed the file, theirs without our values. The new ones are kept too, to
 * tell ours by.
 */
static int record(struct file_job *job, struct work_file *file)
{
	_cleanup_(file_bytes_clear) struct file_bytes theirs = {0};
	struct file_note *note = &file->note;
	const struct file_bytes *old = &file->old, *original = NULL;
	int dir = job->journal->dir, r = 0;
	struct stat st;

	if (!note_is_ours(note, old->hash))
		original = old;
	if (original && note->original[0] && old->bytes && !streq(old->hash, note->original))
		original = note->format == EDIT_OWN ? NULL : &theirs;
	if (original == &theirs) {
		text_copy(&theirs, old->bytes, old->len);
		r = work_remove_ours(job, file, &theirs);
		hash_bytes(theirs.bytes, theirs.len, theirs.hash);
	}
	if (r == 0 && original)
		copy_text(note->original, HASH_TEXT_MAX, original->hash);
	if (r == 0 && original && original->bytes)
		r = file_keep(dir, original);
	if (r == 0 && file->new.bytes && note->format != EDIT_OWN)
		r = file_keep(dir, &file->new);
	for (size_t i = 0; r == 0 && i < file->n_changes; i++)
		r = record_key(job, note, file->changes[i]);
	if (r < 0)
		return r;
	if (lstat(file->at.full, &st) == 0 && st.st_nlink > 1)
		log_notice(note->path, "its %lu other hard links keep the old content",
			(unsigned long)st.st_nlink - 1);
	copy_text(note->ours[0], HASH_TEXT_MAX, note_is_ours(note, old->hash) ? old->hash : "");
	copy_text(note->ours[1], HASH_TEXT_MAX, file->new.hash);
	note->directories = MAX(note->directories, file->new.bytes ? file->at.missing : 0);
	file_journal_put(job->journal, note);
	for (size_t i = 0; i < file->n_changes; i++)
		file_journal_try_again(job->journal, file->changes[i]->name);
	return work_store(job);
}

/* Edit, verify, keep the original and note it durably; replace. */
static void apply_file(struct file_job *job, const struct change *first)
{
	_cleanup_(work_file_clear) struct work_file file = {0};
	const struct editor editor = {&job->host, job->journal->dir, &file.note.service,
		file.note.path, &file.at, job->wait};
	const char *reason = "unreadable";
	bool refused = false;
	int r;

	take_changes(job, first, &file);
	r = work_read(job, &file);
	if (r == 0) {
		if (file.old.bytes)
			text_copy(&file.new, file.old.bytes, file.old.len);
		r = edit_make(&editor, file.changes, file.n_changes, &file.new, file.why);
		/* The tuner reads it otherwise: it must not be activated again and again. */
		if (r == 0 && streq(file.new.hash, file.old.hash))
			r = -ERANGE;
		refused = r < 0 && r != -ERANGE;
		reason = refused ? "verify-refused" : "not-taken";
	}
	if (r == 0) {
		r = record(job, &file);
		reason = "not-recorded";
	}
	if (r == 0 && atomic_load(&job->stale)) {
		r = -ESTALE;
		copy_text(file.why, sizeof(file.why), "the configuration has changed meanwhile");
	} else if (r == 0) {
		r = work_put(&file, &file.new);
		reason = "write-refused";
		if (r == -ESTALE)
			copy_text(file.why, sizeof(file.why),
				"someone else is changing the file just now: try again");
	}
	for (size_t i = 0; i < file.n_changes; i++) {
		enum activation activation = file.note.service.activation;
		uint64_t retry_us = refused ? FILE_REFUSED_US : FILE_RETRY_US;
		struct change *change = file.changes[i];

		if (r < 0) {
			work_fail(change, reason, r, file.why,
				r == -ESTALE ? 0 : now_us() + retry_us);
			continue;
		}
		/* What is known of it until its program takes it. */
		change->file->written = true;
		change->held = activation == ACTIVATE_RESTART  ? "restart-pending"
			       : activation == ACTIVATE_RELOAD ? "reload-pending"
							       : NULL;
		if (!change->held)
			copy_text(change->actual, SETTING_VALUE_MAX, change->new);
		log_info(change->name, "%s -> %s in %s (%s)",
			change->file->on_disk[0] ? change->file->on_disk : "nothing", change->new,
			file.note.path, change->reason);
	}
}

void file_transaction(void *userdata, const struct wait *wait)
{
	struct file_job *job = userdata;
	struct file_journal *journal = job->journal;
	bool restores = job->task == FILE_RESTORE, applies = job->task == FILE_APPLY;
	int r;

	job->wait = wait;
	/*
	 * Values that programs did not come back with may be tried again by the plan that is made
	 * next; what fails in the resuming itself is not among them.
	 */
	for (size_t i = 0; job->forced && job->task == FILE_RESUME && i < journal->n_files; i++) {
		struct file_note *note = &journal->files[i];

		for (size_t k = 0; k < note->n_keys; k++)
			if (!job->only[0] || streq(job->only, note->tuner))
				note->keys[k].failed[0] = '\0';
	}
	if (work_store(job) == 0)
		file_sweep(journal);
	r = work_resume(job);
	/* What is restored is forgotten, and the next one moves up. */
	for (size_t i = 0; restores && r >= 0 && i < journal->n_files;) {
		const struct file_note *note = &journal->files[i];
		bool skipped = job->only[0] && !streq(job->only, note->tuner);

		i += skipped || work_restore(job, note) < 0;
	}
	if (restores && r >= 0) {
		pins_restore(job);
		images_remove_files(&job->host);
		if (work_store(job) == 0)
			file_sweep(journal);
	}
	for (size_t i = 0; applies && i < job->plan.n; i++) {
		struct change *change = &job->plan.changes[i];

		if (r == 0 && job->forced)
			file_journal_try_again(journal, change->name);
		/* An earlier restart was seen to just now: the plan is from before that. */
		if (r != 0 && change->error == 0)
			work_fail(change, "not-recorded", -ESTALE,
				"an earlier restart was seen to first: try again", 0);
		else if (change->kind == SETTING_PIN)
			pin_apply(job, change);
		else if (!change->file->activate_only && !change->file->written &&
			 change->error == 0)
			apply_file(job, change);
	}
	/* File by file, then the programs take them. */
	if ((restores && r >= 0) || (applies && r == 0))
		work_activate(job);
	(void)work_store(job);
}
