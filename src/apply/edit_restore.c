/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/edit.h"

#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>

/* Somebody writes the file while it is put back: it is looked at afresh so often. */
#define TRIES 3

static int add_change(struct edits *edits, const struct file_note *note, const struct file_key *key,
	const struct record *record)
{
	struct change *change = plan_add(&edits->plan);

	if (!change)
		return -ENOMEM;
	copy_text(change->name, sizeof(change->name), key->name);
	copy_text(change->tuner, sizeof(change->tuner), note->tuner);
	change->place.kind = PLACE_EDIT;
	change->place.format = note->format;
	copy_text(change->place.path, sizeof(change->place.path), note->path);
	copy_text(change->old, sizeof(change->old), record ? record->target : "");
	copy_text(change->new, sizeof(change->new), record ? record->original : "");
	change->reason = "original";
	return 0;
}

static int add_file(
	struct edits *edits, const struct journal *journal, const struct file_note *note)
{
	struct edit_file *file;

	if (grow_array(&edits->files, edits->n, &edits->allocated, sizeof(*edits->files)) < 0)
		return -ENOMEM;
	file = &edits->files[edits->n];
	if (file_note_copy(note, &file->note) < 0)
		return -ENOMEM;
	edits->n++;
	file->noted = true;
	file->service = note->service;
	for (size_t i = 0; i < note->n_keys; i++)
		if (add_change(edits, note, &note->keys[i],
			    record_find(journal->records, journal->n_records, note->keys[i].name)) <
			0)
			return -ENOMEM;
	return 0;
}

int edits_add_restore(const struct host *host, const struct journal *journal, const char *path,
	struct edits *edits)
{
	const struct file_note *note = journal_file(journal, path);

	edits->host = *host;
	edits->state = journal->dir;
	return note ? add_file(edits, journal, note) : 0;
}

int edits_make_restore(const struct host *host, const struct journal *journal, const char *tuner,
	struct edits *edits)
{
	int r = 0;

	edits->host = *host;
	edits->state = journal->dir;
	for (size_t i = 0; r == 0 && i < journal->n_files; i++)
		if (!tuner || streq(tuner, journal->files[i].tuner))
			r = edits_add_restore(host, journal, journal->files[i].path, edits);
	return r;
}

/* A setting that moved from one file to another is in both. */
static struct change *change_of(
	const struct edits *edits, const struct edit_file *file, const char *name)
{
	for (size_t i = 0; i < edits->plan.n; i++) {
		struct change *change = &edits->plan.changes[i];

		if (streq(change->name, name) && streq(change->place.path, file->note.path))
			return change;
	}
	return NULL;
}

static void leave(const struct edits *edits, const struct edit_file *file, const char *name)
{
	struct change *change = change_of(edits, file, name);

	change->left = true;
	change->reason = "changed-since";
	change->new[0] = '\0';
}

static void leave_all(const struct edits *edits, const struct edit_file *file)
{
	for (size_t i = 0; i < file->note.n_keys; i++)
		leave(edits, file, file->note.keys[i].name);
}

/* One of our keys in a file that somebody else has changed: ours are taken out, theirs stay. */
static int take_out_key(const struct edits *edits, const struct edit_file *file,
	const struct file_key *key, char **text, size_t *len, char *why)
{
	_cleanup_free_ char *literal = NULL;
	char *edited;
	int r = edit_text_get(file->note.format, *text, *len, key->table, key->key, &literal, why);

	if (r < 0 || same_text(literal, key->original))
		return r;
	if (!same_text(literal, key->target) && !same_text(literal, key->before)) {
		leave(edits, file, key->name);
		return 0;
	}
	r = edit_text_set(file->note.format, *text, *len, key->table, key->key, key->original,
		&edited, len, why);
	if (r < 0)
		return r;
	free(*text);
	*text = edited;
	change_of(edits, file, key->name)->reason = "file-changed-since";
	return 0;
}

static int take_out(const struct edits *edits, struct edit_file *file)
{
	_cleanup_free_ char *text = NULL;
	size_t len = file->old.len;
	int r = 0;

	if (!file->old.bytes || file->note.format == EDIT_OWN) {
		leave_all(edits, file);
		return 0;
	}
	text = copy_bytes(file->old.bytes, len);
	if (!text)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < file->note.n_keys; i++)
		r = take_out_key(edits, file, &file->note.keys[i], &text, &len, file->why);
	if (r < 0 || (len == file->old.len && memcmp(text, file->old.bytes, len) == 0))
		return r;
	r = file_put(&file->at, file->old.hash, text, len);
	file->written = r == 0;
	return r;
}

static int put_back(const struct edits *edits, struct edit_file *file)
{
	_cleanup_free_ char *bytes = NULL;
	bool existed = !streq(file->note.original, FILE_HASH_NONE);
	size_t len = 0;
	int r = existed ? file_recall(edits->state, file->note.original, &bytes, &len) : 0;

	if (r < 0) {
		log_warning(file->note.path,
			"the original bytes are lost: %s: only our own keys are taken out",
			strerror(-r));
		return take_out(edits, file);
	}
	r = file_put(&file->at, file->old.hash, bytes, len);
	if (r == 0 && !existed)
		file_drop_directories(&file->at, file->note.directories);
	file->written = r == 0;
	return r;
}

static int restore_once(const struct edits *edits, struct edit_file *file)
{
	int r = file_locate(&edits->host, file->note.path, &file->at);

	if (r == 0)
		r = file_take(&file->at, &file->old);
	if (r < 0)
		return r;
	file_clean(&file->at);
	if (streq(file->old.hash, file->note.original)) {
		/* Killed after the note and before the write, its directories were made already. */
		if (!file->old.bytes)
			file_drop_directories(&file->at, file->note.directories);
		return 0;
	}
	return file_note_is_ours(&file->note, file->old.hash) ? put_back(edits, file)
							      : take_out(edits, file);
}

static void restore(const struct edits *edits, struct edit_file *file)
{
	int r = -ESTALE;

	for (int i = 0; r == -ESTALE && i < TRIES; i++) {
		file_bytes_clear(&file->old);
		r = restore_once(edits, file);
	}
	file->error = r;
	for (size_t i = 0; i < file->note.n_keys; i++) {
		struct change *change = change_of(edits, file, file->note.keys[i].name);

		change->error = r;
		if (!file->written && !change->left)
			copy_text(change->old, sizeof(change->old), change->new);
		(void)replace_text(&change->why, r < 0 && file->why[0] ? file->why : NULL);
	}
}

void edits_restore(struct edits *edits)
{
	edits_sweep(edits);
	for (size_t i = 0; i < edits->n; i++)
		restore(edits, &edits->files[i]);
}

static void say(const struct edit_file *file)
{
	bool existed = !streq(file->note.original, FILE_HASH_NONE);

	if (file->error < 0)
		log_error(file->note.path, "not put back: %s",
			file->why[0] ? file->why : strerror(-file->error));
	else if (!streq(file->old.hash, file->note.original) &&
		 !file_note_is_ours(&file->note, file->old.hash))
		log_notice(file->note.path, "changed by someone else since: %s",
			file->written ? "only our own keys were taken out" : "left as it is");
	else if (file->written)
		log_info(file->note.path, "%s",
			existed ? "the original bytes are back" : "removed: it was made for us");
}

void edits_finish_restore(const struct edits *edits, struct journal *journal)
{
	for (size_t i = 0; i < edits->n; i++) {
		const struct edit_file *file = &edits->files[i];

		say(file);
		if (file->error == 0)
			journal_forget_file(journal, file->note.path);
	}
}
