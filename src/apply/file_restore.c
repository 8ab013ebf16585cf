/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_work.h"

#include "base/file.h"
#include "base/log.h"
#include "base/toml.h"

#define TRIES 3 /* when someone writes the file during the restore */

/* Reads a key from the copy with this hash; *literal is NULL without the key. False: unreadable. */
static bool kept_literal(const struct file_job *job, const struct file_note *note, const char *hash,
	const char *table, const char *key, char **literal)
{
	_cleanup_(file_bytes_clear) struct file_bytes kept = {0};
	char why[EDIT_WHY_MAX];

	return file_recall(job->journal->dir, hash, &kept) == 0 &&
	       edit_get(note->format, &kept, table, key, literal, why) == 0;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? streq(a, b) : a == b;
}

/*
 * Finds the table to which others have moved our value: an upgraded containerd has the key in
 * another table, and "containerd config migrate" writes the file anew. Returns false if no table or
 * several tables have the value, or if the table had the key beside ours.
 */
static bool find_moved(const struct file_job *job, const struct file_note *note, const char *hash,
	const struct file_bytes *text, const char *key, char table[static FILE_TABLE_MAX])
{
	_cleanup_free_ char *kept = NULL, *beside = NULL;
	struct toml_scan scan = {.text = text->bytes, .len = text->len};
	struct toml_item item;
	size_t n = 0;

	if (note->format != EDIT_TOML || !kept_literal(job, note, hash, table, key, &kept) || !kept)
		return false;
	while (toml_next(&scan, &item) > 0)
		if (!item.header && streq(item.key, key) &&
			item.value_end - item.value == strlen(kept) &&
			memcmp(text->bytes + item.value, kept, strlen(kept)) == 0 && n++ == 0)
			copy_text(table, FILE_TABLE_MAX, item.table);
	return n == 1 && kept_literal(job, note, hash, table, key, &beside) && !beside;
}

int work_remove_ours(const struct file_job *job, struct work_file *file, struct file_bytes *text)
{
	const struct file_note *note = &file->note;

	for (size_t i = 0; i < note->n_keys; i++) {
		const char *key = note->keys[i].key;
		char table[FILE_TABLE_MAX];
		_cleanup_free_ char *literal = NULL, *original = NULL;
		bool ours = note_is_ours(note, file->old.hash);
		int r;

		set_text(table, note->keys[i].table);
		r = edit_get(note->format, text, table, key, &literal, file->why);
		if (r < 0)
			return r;
		(void)kept_literal(job, note, note->original, table, key, &original);
		for (size_t h = 0; !literal && !ours && h < ARRAY_SIZE(note->ours); h++)
			ours = find_moved(job, note, note->ours[h], text, key, table);
		if (!ours && same_text(literal, original))
			continue;
		/* A value is ours if a text in ours[] has it. */
		for (size_t h = 0; !ours && h < ARRAY_SIZE(note->ours); h++) {
			_cleanup_free_ char *kept = NULL;

			ours = kept_literal(job, note, note->ours[h], table, key, &kept) &&
			       same_text(literal, kept);
		}
		file->left[i] = !ours;
		if (ours)
			r = edit_set(note->format, text, table, key, original, file->why);
		if (r < 0)
			return r;
	}
	return 0;
}

int work_put(struct work_file *file, const struct file_bytes *new, unsigned directories)
{
	int r = new->bytes ? file_put(&file->at, file->old.hash, new)
			   : file_remove(&file->at, file->old.hash, directories);

	if (r == -EPERM)
		snprintf(file->why, sizeof(file->why),
			"%.200s may be immutable: see lsattr, and chattr -i", file->note.path);
	else if (r == -ESTALE)
		set_text(file->why, "someone else is changing the file now: try again");
	file->written = r == 0;
	return r;
}

static bool is_changed_by_others(const struct work_file *file)
{
	return !streq(file->old.hash, file->note.original) &&
	       !note_is_ours(&file->note, file->old.hash);
}

static int restore_once(const struct file_job *job, struct work_file *file)
{
	_cleanup_(file_bytes_clear) struct file_bytes text = {0};
	const struct file_bytes *old = &file->old;
	const char *original = file->note.original;
	bool own = file->note.format == EDIT_OWN;
	int r = work_read(job, file);
	char left[PATH_MAX];

	if (r < 0)
		return r;
	/* A crash during an earlier write may have left this. */
	if (snprintf(left, sizeof(left), "%s" FILE_NEW, file->at.full) < PATH_MAX)
		unlink(left);
	if (streq(old->hash, original))
		return old->bytes ? 0 : file_remove(&file->at, old->hash, file->note.directories);
	file_bytes_clear(&file->new);
	memset(file->left, false, sizeof(file->left));
	if (!streq(original, FILE_HASH_NONE))
		file->lost = file_recall(job->journal->dir, original, &file->new);
	if (file->lost < 0 && file->lost != -ENOENT && file->lost != -EBADMSG)
		return file->lost;
	if (file->lost == 0 && !is_changed_by_others(file))
		return work_put(file, &file->new, file->note.directories);
	/* Someone else changed the file, or its original is lost: restore only our own keys. */
	if (!old->bytes || (own && !note_is_ours(&file->note, old->hash))) {
		memset(file->left, true, sizeof(file->left));
		return 0;
	}
	if (own)
		return work_put(file, &text, 0);
	text_copy(&text, old->bytes, old->len);
	r = work_remove_ours(job, file, &text);
	if (r < 0 || (text.len == old->len && memcmp(text.bytes, old->bytes, old->len) == 0))
		return r;
	return work_put(file, &text, 0);
}

static int restore_file(const struct file_job *job, struct work_file *file)
{
	const char *path = file->note.path;
	int r = -ESTALE;

	for (int i = 0; r == -ESTALE && i < TRIES; i++)
		r = restore_once(job, file);
	if (r < 0) {
		log_error(path, "not restored: %s", file->why[0] ? file->why : strerror(-r));
	} else if (file->lost < 0) {
		snprintf(file->why, sizeof(file->why),
			"the original bytes of %.120s are lost from the state directory (%s): %s",
			path, strerror(-file->lost),
			file->written ? "only our own keys were removed" : "the file is unchanged");
		log_error(path, "%s", file->why);
	} else if (is_changed_by_others(file)) {
		log_notice(path, "changed by someone else since: %s",
			file->written ? "only our own keys were removed" : "the file is unchanged");
	} else if (file->written) {
		log_info(path, "%s",
			file->new.bytes ? "the original bytes are restored"
					: "removed, because it was made for us");
	}
	return r;
}

struct change *work_add_change(struct file_job *job, const struct file_note *note,
	const struct file_record *key, const char *old, const char *new)
{
	struct file_change file = {.format = note->format,
		.activation = note->activation,
		.restart = note->restart,
		.daemon = note->daemon};

	set_text(file.path, note->path);
	set_text(file.table, key->table);
	set_text(file.key, key->key);
	return plan_add(&job->plan, &file, key->name, note->tuner, old, new);
}

int work_restore(struct file_job *job, const struct file_note *note)
{
	_cleanup_(work_file_clear) struct work_file file = {.note = *note};
	bool resumed = note->restoring, activate, others;
	int r, error;

	/* Kept before the write: if the process is killed after it, the next one restarts the
	 * program. */
	file.note.restoring = note->activation != ACTIVATE_NOTHING;
	if (file.note.restoring && !resumed) {
		file_journal_put(job->journal, &file.note);
		(void)work_store(job);
	}
	r = restore_file(job, &file);
	error = r < 0 ? r : file.lost;
	activate = file.written || resumed;
	others = is_changed_by_others(&file);
	for (size_t i = 0; i < file.note.n_keys; i++) {
		const struct file_record *key = &file.note.keys[i];
		bool left = file.left[i] && error == 0;
		struct change *change = work_add_change(job, &file.note, key,
			file.written || left ? key->wanted : key->in_force_originally,
			left ? "" : key->in_force_originally);
		enum reason reason = left                     ? REASON_CHANGED_SINCE
				     : file.written && others ? REASON_FILE_CHANGED_SINCE
							      : REASON_ORIGINAL;

		change->left = left;
		work_result(change, reason, error, error < 0 ? file.why : NULL, 0);
		change->file->written = activate;
		change->file->restart = job->restart;
	}
	/* The note of a lost original stays: every restore reports it. */
	file.note.restoring = error < 0 ? resumed : activate && file.note.restoring;
	if (error < 0 || file.note.restoring)
		file_journal_put(job->journal, &file.note);
	else
		file_journal_forget(job->journal, file.note.path);
	return error;
}

int work_roll_back(const struct file_job *job, const struct file_note *note)
{
	_cleanup_(work_file_clear) struct work_file file = {.note = *note};
	char why[EDIT_WHY_MAX] = "", name[NAME_MAX];
	int r = restore_file(job, &file);

	/* The program did accept the original bytes. */
	if (r == 0 && file.lost == 0 && !is_changed_by_others(&file))
		return 0;
	if (r == 0)
		r = edit_check(&job->host, &note->daemon, job->wait, why);
	else
		set_text(why, file.why[0] ? file.why : strerror(-r));
	if (r == 0 || r == -ECANCELED || file.lost < 0 || !file.old.bytes)
		return r;
	r = work_read(job, &file);
	if (r == 0) {
		snprintf(name, sizeof(name), "rejected-%.200s", strrchr(note->path, '/') + 1);
		if (replace_file(job->journal->dir, name, file.old.bytes, file.old.len, true) < 0)
			set_text(name, "nowhere");
		log_error(note->path,
			"does not load with the changes of others (%s): the bytes from before our change replace it; theirs are kept as %s in the state directory",
			why, name);
		r = work_put(&file, &file.new, file.note.directories);
	}
	if (r < 0)
		log_error(note->path, "not restored: %s", strerror(-r));
	return r;
}
