/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_work.h"

#include "apply/editor.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>

#define TRIES 3 /* somebody writes the file while it is restored */

static struct change *change_of(
	const struct work *work, const struct work_file *file, const char *name)
{
	for (size_t i = 0; i < work->job->plan.n; i++) {
		struct change *change = &work->job->plan.changes[i];

		if (streq(change->name, name) && change->file &&
			streq(change->file->target.path, file->note.path))
			return change;
	}
	return NULL;
}

void work_make_restore(struct work *work)
{
	const struct file_journal *journal = work->journal;
	const char *only = work->job->only;

	for (size_t i = 0; i < journal->n_files; i++) {
		struct work_file *file;

		if (only[0] && !streq(only, journal->files[i].tuner))
			continue;
		file = work_add(work, journal->files[i].path);
		for (size_t k = 0; file && k < file->note.n_keys; k++) {
			const struct file_record *record = &file->note.keys[k];
			const struct file_want want = {.target = record->target};
			struct change *change = plan_add(&work->job->plan);

			if (!change)
				break;
			if (change_take_file(change, &want) < 0) {
				work->job->plan.n--;
				break;
			}
			copy_text(change->name, sizeof(change->name), record->name);
			copy_text(change->tuner, sizeof(change->tuner), record->tuner);
			copy_text(change->old, sizeof(change->old), record->wanted);
			copy_text(change->new, sizeof(change->new), record->original);
			change->reason = "original";
		}
	}
}

/* NULL name: all of the file's. A roll-back has no changes. */
static void leave(const struct work *work, const struct work_file *file, const char *name)
{
	for (size_t i = 0; i < file->note.n_keys; i++) {
		const char *its = file->note.keys[i].name;
		struct change *change = change_of(work, file, its);

		if (!change || (name && !streq(name, its)))
			continue;
		change->left = true;
		change->reason = "changed-since";
		change->new[0] = '\0';
	}
}

/* Somebody else has changed the file: our keys are taken out, the rest stays. */
static int take_out(const struct work *work, struct work_file *file)
{
	_cleanup_free_ char *text = NULL;
	size_t len = file->old.len;
	int r;

	if (!file->old.bytes || file->note.format == EDIT_OWN) {
		leave(work, file, NULL);
		return 0;
	}
	text = copy_bytes(file->old.bytes, len);
	r = text ? work_remove_ours(work, file, &text, &len, leave) : -ENOMEM;
	if (r < 0)
		return r;
	if (len == file->old.len && memcmp(text, file->old.bytes, len) == 0)
		return 0;
	r = file_put(&file->at, file->old.hash, text, len);
	file->written = r == 0;
	for (size_t i = 0; r == 0 && i < file->note.n_keys; i++) {
		struct change *change = change_of(work, file, file->note.keys[i].name);

		if (change && !change->left)
			change->reason = "file-changed-since";
	}
	return r;
}

static int put_original(const struct work *work, struct work_file *file)
{
	_cleanup_free_ char *bytes = NULL;
	bool existed = !streq(file->note.original, FILE_HASH_NONE);
	size_t len = 0;
	int r = existed ? file_recall(work->journal->dir, file->note.original, &bytes, &len) : 0;

	if (r < 0) {
		log_warning(file->note.path,
			"the original bytes are lost: %s: only our own keys are taken out",
			strerror(-r));
		return take_out(work, file);
	}
	r = file_put(&file->at, file->old.hash, bytes, len);
	if (r == 0 && !existed)
		file_drop_directories(&file->at, file->note.directories);
	file->written = r == 0;
	return r;
}

static bool is_changed_by_others(const struct work_file *file)
{
	return !streq(file->old.hash, file->note.original) &&
	       !note_is_ours(&file->note, file->old.hash);
}

static int restore_once(const struct work *work, struct work_file *file)
{
	int r = work_read_old(work, file);

	if (r < 0)
		return r;
	file_clean(&file->at);
	if (streq(file->old.hash, file->note.original))
		return 0;
	return is_changed_by_others(file) ? take_out(work, file) : put_original(work, file);
}

static int restore_file(const struct work *work, struct work_file *file)
{
	int r = -ESTALE;

	for (int i = 0; r == -ESTALE && i < TRIES; i++)
		r = restore_once(work, file);
	if (r < 0)
		log_error(file->note.path, "not put back: %s",
			file->why[0] ? file->why : strerror(-r));
	else if (is_changed_by_others(file))
		log_notice(file->note.path, "changed by someone else since: %s",
			file->written ? "only our own keys were taken out" : "left as it is");
	else if (file->written)
		log_info(file->note.path, "%s",
			streq(file->note.original, FILE_HASH_NONE) ? "removed: it was made for us"
								   : "the original bytes are back");
	return r;
}

void work_restore(const struct work *work, struct work_file *file)
{
	int r = file->error = restore_file(work, file);

	for (size_t i = 0; i < file->note.n_keys; i++) {
		struct change *change = change_of(work, file, file->note.keys[i].name);

		if (!change)
			continue;
		change->error = r;
		if (!file->written && !change->left)
			copy_text(change->old, sizeof(change->old), change->new);
		(void)replace_text(&change->why, r < 0 && file->why[0] ? file->why : NULL);
	}
	if (r == 0)
		file_journal_forget(work->journal, file->note.path);
}

/* Their bytes, for people to look at. */
static void keep_rejected(const struct work *work, const struct work_file *file, const char *why)
{
	char name[NAME_MAX];

	snprintf(name, sizeof(name), "rejected-%.200s", strrchr(file->note.path, '/') + 1);
	if (write_file_atomic(work->journal->dir, name, file->old.bytes, file->old.len) < 0)
		copy_text(name, sizeof(name), "nowhere");
	log_error(file->note.path,
		"does not load as someone else changed it (%s): the bytes from before our change replace it; theirs are kept as %s in the state directory",
		why, name);
}

int work_roll_back(const struct work *work, struct work_file *file)
{
	const struct editor editor = {&work->job->host, work->journal->dir, &file->note.service,
		file->note.path, &file->at};
	char why[EDIT_WHY_MAX] = "";
	int r = restore_file(work, file);

	/* The original bytes did load. */
	if (r == 0 && !is_changed_by_others(file))
		return 0;
	if (r == 0)
		r = edit_check(&editor, work->wait, why);
	else
		copy_text(why, sizeof(why), file->why[0] ? file->why : strerror(-r));
	if (r == 0 || r == -ECANCELED || !file->old.bytes)
		return r;
	r = work_read_old(work, file);
	if (r < 0)
		return r;
	keep_rejected(work, file, why);
	return put_original(work, file);
}
