/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_work.h"

#include "apply/editor.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define KEYS_MAX 8 /* of one file, in one job */

void work_file_clear(struct work_file *file)
{
	note_clear(&file->note);
	file_bytes_clear(&file->old);
	free(steal(file->new));
}

void work_clear(struct work *work)
{
	for (size_t i = 0; i < work->n; i++)
		work_file_clear(&work->files[i]);
	free(steal(work->files));
	work->n = work->allocated = 0;
}

struct work_file *work_find(const struct work *work, const char *path)
{
	for (size_t i = 0; i < work->n; i++)
		if (streq(work->files[i].note.path, path))
			return &work->files[i];
	return NULL;
}

void work_fail(
	struct change *change, const char *reason, int error, const char *why, uint64_t retry_us)
{
	change->error = error;
	change->reason = reason;
	change->retry_us = retry_us;
	change->held = NULL;
	(void)replace_text(&change->why, why);
}

void work_sweep(const struct work *work)
{
	const struct file_journal *journal = work->journal;
	_cleanup_free_ char *needed = calloc(journal->n_files + 1, 3 * HASH_TEXT_MAX);

	for (size_t i = 0; needed && i < journal->n_files; i++) {
		const struct file_note *note = &journal->files[i];
		char *end = needed + strlen(needed);

		sprintf(end, "%s %s %s ", note->original, note->ours[0], note->ours[1]);
	}
	if (needed)
		file_sweep(journal->dir, needed);
}

/* The changes that go into a file, one after the other: the one after *i, or NULL. */
static struct change *next_of(const struct work *work, const struct work_file *file, size_t *i)
{
	while (*i < work->job->plan.n) {
		struct change *change = &work->job->plan.changes[(*i)++];

		if (!change->file->activate_only &&
			streq(change->file->target.path, file->note.path))
			return change;
	}
	return NULL;
}

struct work_file *work_add(struct work *work, const char *path)
{
	const struct file_note *note = file_journal_find(work->journal, path);
	struct work_file *file;

	if (grow_array(&work->files, work->n, &work->allocated, sizeof(*work->files)) < 0)
		return NULL;
	file = &work->files[work->n];
	if (note && note_copy(note, &file->note) < 0)
		return NULL;
	work->n++;
	file->noted = note;
	file->service = file->note.service;
	copy_text(file->note.path, sizeof(file->note.path), path);
	return file;
}

int work_make(struct work *work)
{
	for (size_t i = 0; i < work->job->plan.n; i++) {
		const struct change *change = &work->job->plan.changes[i];
		struct work_file *file = work_find(work, change->file->target.path);

		if (file)
			continue;
		file = work_add(work, change->file->target.path);
		if (!file)
			return -ENOMEM;
		copy_text(file->note.tuner, sizeof(file->note.tuner), change->tuner);
		file->note.format = change->file->target.format;
		file->note.service = file->service = change->file->edit.service;
	}
	return 0;
}

/* ---- a new text ---- */

static bool is_value_of(const struct file_record *record, const char *value)
{
	return value_equal(value, record->on_disk) || value_equal(value, record->before) ||
	       value_equal(value, record->wanted);
}

/* What people see of a key, and what tells our own writes from those of others. */
static int record_key(const struct work *work, struct work_file *file, const struct change *change,
	const char *table)
{
	const char *on_disk = change->file->on_disk;
	struct file_record *record = note_key(&file->note, change->name);

	if (record) {
		copy_text(record->before, SETTING_VALUE_MAX,
			is_value_of(record, on_disk) ? on_disk : record->wanted);
	} else {
		record = note_add_key(&file->note, change->name);
		if (!record)
			return -ENOMEM;
		/* What a program runs with may not be known: then what it was to start with. */
		copy_text(record->original, SETTING_VALUE_MAX,
			change->old[0] ? change->old : on_disk);
		copy_text(record->on_disk, SETTING_VALUE_MAX, on_disk);
		copy_text(record->before, SETTING_VALUE_MAX, on_disk);
		/* It was in another file before. */
		for (size_t i = work->journal->n_files; i-- > 0;) {
			const struct file_record *key =
				note_key(&work->journal->files[i], change->name);

			if (!key)
				continue;
			copy_text(record->original, SETTING_VALUE_MAX, key->original);
			copy_text(record->on_disk, SETTING_VALUE_MAX, key->on_disk);
		}
	}
	/* Another generation of the program has it elsewhere. */
	copy_text(record->target.table, FILE_TABLE_MAX, table);
	copy_text(record->target.key, FILE_KEY_MAX, change->file->target.key);
	copy_text(record->wanted, SETTING_VALUE_MAX, change->new);
	return 0;
}

/* The literal of a key in kept bytes; NULL: not there. False when the bytes are not. */
static bool kept_literal(const struct work *work, const struct work_file *file, const char *hash,
	const struct file_target *target, char **literal)
{
	_cleanup_free_ char *bytes = NULL;
	char why[EDIT_WHY_MAX];
	size_t len;

	return hash[0] && !streq(hash, FILE_HASH_NONE) &&
	       file_recall(work->journal->dir, hash, &bytes, &len) == 0 &&
	       edit_text_get(file->note.format, bytes, len, target->table, target->key, literal,
		       why) == 0;
}

static bool is_ours(const struct work *work, const struct work_file *file,
	const struct file_target *target, const char *literal)
{
	for (size_t i = 0; i < ARRAY_SIZE(file->note.ours); i++) {
		_cleanup_free_ char *ours = NULL;

		if (kept_literal(work, file, file->note.ours[i], target, &ours) &&
			same_text(literal, ours))
			return true;
	}
	return false;
}

int work_remove_ours(const struct work *work, struct work_file *file, char **text, size_t *len,
	void (*keep)(const struct work *work, const struct work_file *file, const char *name))
{
	for (size_t i = 0; i < file->note.n_keys; i++) {
		const struct file_record *key = &file->note.keys[i];
		const struct file_target *target = &key->target;
		_cleanup_free_ char *literal = NULL, *original = NULL;
		char *edited;
		int r = edit_text_get(file->note.format, *text, *len, target->table, target->key,
			&literal, file->why);

		if (r < 0)
			return r;
		(void)kept_literal(work, file, file->note.original, target, &original);
		if (same_text(literal, original))
			continue;
		if (!is_ours(work, file, target, literal)) {
			if (keep)
				keep(work, file, key->name);
			continue;
		}
		r = edit_text_set(file->note.format, *text, *len, target->table, target->key,
			original, &edited, len, file->why);
		if (r < 0)
			return r;
		free(*text);
		*text = edited;
	}
	return 0;
}

/* The file with everything of the plan in it, accepted by its program. */
static int compose(const struct work *work, struct work_file *file)
{
	const struct editor editor = {
		&work->job->host, work->journal->dir, &file->service, file->note.path, &file->at};
	const char *tables[KEYS_MAX][2] = {0};
	struct edit_key keys[KEYS_MAX];
	const struct change *changes[KEYS_MAX], *change;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; n < KEYS_MAX && (change = next_of(work, file, &i)); n++) {
		const struct file_change *edit = change->file;

		tables[n][0] = edit->target.table;
		changes[n] = change;
		keys[n] = (struct edit_key){
			.tables = edit->edit.tables ? edit->edit.tables : tables[n],
			.key = edit->target.key,
			.literal = edit->edit.text,
			.dump_key = edit->edit.dump_key,
			.table = edit->target.table};
	}
	if (file->note.format == EDIT_OWN) {
		const char *text = changes[0]->file->edit.text;

		file->new = text ? strdup(text) : NULL;
		file->new_len = text ? strlen(text) : 0;
		r = text && !file->new ? -ENOMEM : 0;
	} else {
		r = edit_make(&editor, file->note.format, file->old.bytes, file->old.len,
			changes[0]->file->edit.base, keys, n, work->wait, &file->new,
			&file->new_len, file->why);
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		r = record_key(work, file, changes[i], keys[i].table);
	if (r < 0)
		return r;
	copy_text(file->new_hash, sizeof(file->new_hash), FILE_HASH_NONE);
	if (file->new)
		hash_bytes(file->new, file->new_len, file->new_hash);
	return 0;
}

/*
 * The bytes that a restore gives back are those before our first write; once somebody else has
 * changed the file, theirs without our values. The new ones are kept too, to tell ours by.
 */
static int keep_bytes(const struct work *work, struct work_file *file)
{
	struct file_note *note = &file->note;
	char *hash = note->original;
	bool theirs = file->noted && !streq(file->old.hash, hash) &&
		      !note_is_ours(note, file->old.hash) && file->old.bytes;
	_cleanup_free_ char *text =
		file->old.bytes ? copy_bytes(file->old.bytes, file->old.len) : NULL;
	size_t len = file->old.len;
	int dir = work->journal->dir, r = file->old.bytes && !text ? -ENOMEM : 0;

	if (r == 0 && theirs && note->format != EDIT_OWN) {
		r = work_remove_ours(work, file, &text, &len, NULL);
		if (r == 0)
			hash_bytes(text, len, hash);
	} else if (r == 0 && !theirs && !note_is_ours(note, file->old.hash)) {
		copy_text(hash, HASH_TEXT_MAX, file->old.hash);
	} else {
		free(steal(text));
	}
	if (r == 0 && text)
		r = file_keep(dir, hash, text, len);
	if (r == 0 && file->new && note->format != EDIT_OWN)
		r = file_keep(dir, file->new_hash, file->new, file->new_len);
	return r;
}

int work_read_old(const struct work *work, struct work_file *file)
{
	int r = file_locate(&work->job->host, file->note.path, &file->at);

	file_bytes_clear(&file->old);
	if (r == 0)
		r = file_take(&file->at, &file->old);
	if (r == -ELOOP)
		copy_text(file->why, sizeof(file->why),
			"it is a symbolic link to a file that does not exist");
	return r;
}

/* No step of this file succeeds any more. */
static void fail_file(
	const struct work *work, struct work_file *file, const char *reason, int error)
{
	bool refused = streq(reason, "verify-refused");
	uint64_t retry =
		error == -ESTALE ? 0 : now_us() + (refused ? FILE_REFUSED_US : FILE_RETRY_US);
	struct change *change;

	file->error = error;
	for (size_t i = 0; (change = next_of(work, file, &i));)
		work_fail(change, reason, error, file->why[0] ? file->why : NULL, retry);
}

void work_prepare(const struct work *work, struct work_file *file)
{
	struct file_note *note = &file->note;
	const char *reason = "unreadable";
	size_t first = 0;
	struct stat st;
	int r;

	if (!next_of(work, file, &first))
		return;
	r = work_read_old(work, file);
	if (r == 0) {
		r = compose(work, file);
		reason = file->why[0] || r == -EINVAL || r == -EBADMSG ? "verify-refused"
								       : "write-refused";
	}
	/* The tuner reads it otherwise: it must not be activated again and again. */
	if (r == 0 && streq(file->new_hash, file->old.hash)) {
		r = -ERANGE;
		reason = "not-taken";
	}
	if (r == 0) {
		r = keep_bytes(work, file);
		reason = "not-recorded";
	}
	if (r < 0) {
		fail_file(work, file, reason, r);
		return;
	}
	if (lstat(file->at.full, &st) == 0 && st.st_nlink > 1)
		log_notice(note->path, "its %lu other hard links keep the old content",
			(unsigned long)st.st_nlink - 1);
	copy_text(note->ours[0], HASH_TEXT_MAX,
		note_is_ours(note, file->old.hash) ? file->old.hash : "");
	copy_text(note->ours[1], HASH_TEXT_MAX, file->new_hash);
	note->directories = MAX(note->directories, file->new ? file->at.missing : 0);
}

int work_note(const struct work *work, struct work_file *file)
{
	const struct change *change;
	struct file_note copy;

	if (file->error < 0 || !file->new_hash[0])
		return 0;
	if (note_copy(&file->note, &copy) < 0)
		return -ENOMEM;
	if (file_journal_put(work->journal, &copy) < 0) {
		note_clear(&copy);
		return -ENOMEM;
	}
	for (size_t i = 0; (change = next_of(work, file, &i));)
		file_journal_try_again(work->journal, change->name);
	return 0;
}

/* Written: what is known of its changes until their program takes it. */
static void settle(const struct work *work, const struct work_file *file)
{
	static const char *const held[] = {[ACTIVATE_NOTHING] = NULL,
		[ACTIVATE_RELOAD] = "reload-pending",
		[ACTIVATE_RESTART] = "restart-pending"};
	struct change *change;

	for (size_t i = 0; (change = next_of(work, file, &i));) {
		change->held = held[file->service.activation];
		if (!change->held)
			copy_text(change->actual, SETTING_VALUE_MAX, change->new);
		log_info(change->name, "%s -> %s in %s (%s)",
			change->file->on_disk[0] ? change->file->on_disk : "nothing", change->new,
			file->note.path, change->reason);
	}
}

void work_write(const struct work *work, struct work_file *file, int stored)
{
	int r = stored;

	if (file->error < 0 || !file->new_hash[0])
		return;
	if (r == 0 && atomic_load(&work->job->stale)) {
		r = -ESTALE;
		copy_text(file->why, sizeof(file->why), "the configuration has changed meanwhile");
	}
	if (r < 0) {
		fail_file(work, file, "not-recorded", r);
		return;
	}
	r = file_put(&file->at, file->old.hash, file->new, file->new_len);
	file->written = r == 0;
	if (r == -ESTALE)
		copy_text(file->why, sizeof(file->why),
			"someone else is changing the file just now: try again");
	if (r < 0)
		fail_file(work, file, "write-refused", r);
	else
		settle(work, file);
}
