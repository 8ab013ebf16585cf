/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_work.h"

#include "base/file.h"
#include "base/log.h"

#define TRIES 3 /* someone writes the file while it is restored */

/* The literal of a key in kept bytes; NULL: not there. False when the bytes are not. */
static bool kept_literal(const struct file_job *job, const struct file_note *note, const char *hash,
	const struct file_target *target, char **literal)
{
	_cleanup_(file_bytes_clear) struct file_bytes kept = {0};
	char why[EDIT_WHY_MAX];

	return file_recall(job->journal->dir, hash, &kept) == 0 &&
	       edit_get(note->format, &kept, target->table, target->key, literal, why) == 0;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? streq(a, b) : a == b;
}

int work_remove_ours(const struct file_job *job, struct work_file *file, struct file_bytes *text)
{
	const struct file_note *note = &file->note;

	for (size_t i = 0; i < note->n_keys; i++) {
		const struct file_target *target = &note->keys[i].target;
		_cleanup_free_ char *literal = NULL, *original = NULL;
		bool ours = note_is_ours(note, file->old.hash);
		int r = edit_get(
			note->format, text, target->table, target->key, &literal, file->why);

		if (r < 0)
			return r;
		(void)kept_literal(job, note, note->original, target, &original);
		if (same_text(literal, original))
			continue;
		/* It has a value that one of ours had. */
		for (size_t h = 0; !ours && h < ARRAY_SIZE(note->ours); h++) {
			_cleanup_free_ char *kept = NULL;

			ours = kept_literal(job, note, note->ours[h], target, &kept) &&
			       same_text(literal, kept);
		}
		file->left[i] = !ours;
		if (!ours)
			continue;
		r = edit_set(note->format, text, target->table, target->key, original, file->why);
		if (r < 0)
			return r;
	}
	return 0;
}

/* With the directories that were made for it, as long as they are empty. */
static int put_original(struct work_file *file)
{
	char *directory = file->at.full;
	int r = work_put(file, &file->new);

	for (unsigned i = file->note.directories; r == 0 && i > 0 && !file->new.bytes; i--) {
		*strrchr(directory, '/') = '\0';
		if (directory[0] == '\0' || (rmdir(directory) < 0 && errno != ENOENT))
			break;
	}
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
	/* What a crash may have left beside it. */
	if (file->at.full[0] &&
		snprintf(left, sizeof(left), "%s" FILE_NEW, file->at.full) < PATH_MAX)
		unlink(left);
	if (streq(old->hash, original))
		return 0;
	file_bytes_clear(&file->new);
	memset(file->left, false, sizeof(file->left));
	r = streq(original, FILE_HASH_NONE) ? 0
					    : file_recall(job->journal->dir, original, &file->new);
	file->lost = r;
	if (r < 0 && r != -ENOENT && r != -EBADMSG)
		return r;
	if (file->lost == 0 && !is_changed_by_others(file))
		return put_original(file);
	/* Someone else has changed the file, or its original is lost: what is ours goes. */
	if (!old->bytes || (own && !note_is_ours(&file->note, old->hash))) {
		memset(file->left, true, sizeof(file->left));
		return 0;
	}
	if (!own) {
		text_copy(&text, old->bytes, old->len);
		r = work_remove_ours(job, file, &text);
		if (r < 0 ||
			(text.len == old->len && memcmp(text.bytes, old->bytes, old->len) == 0))
			return r;
	}
	return work_put(file, &text);
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
			file->written ? "only our own keys were taken out" : "it is left as it is");
		log_error(path, "%s", file->why);
	} else if (is_changed_by_others(file)) {
		log_notice(path, "changed by someone else since: %s",
			file->written ? "only our own keys were taken out" : "left as it is");
	} else if (file->written) {
		log_info(path, "%s",
			file->new.bytes ? "the original bytes are back"
					: "removed: it was made for us");
	}
	return r;
}

struct change *work_add_change(struct file_job *job, const struct file_note *note,
	const struct file_record *key, const char *old, const char *new)
{
	struct file_change file = {.target = key->target, .edit = {.service = note->service}};

	copy_text(file.target.path, sizeof(file.target.path), note->path);
	file.target.format = note->format;
	return plan_add(&job->plan, &file, key->name, note->tuner, old, new);
}

int work_restore(struct file_job *job, const struct file_note *note)
{
	_cleanup_(work_file_clear) struct work_file file = {.note = *note};
	int r = restore_file(job, &file);
	bool others = is_changed_by_others(&file);

	for (size_t i = 0; i < file.note.n_keys; i++) {
		const struct file_record *key = &file.note.keys[i];
		bool left = file.left[i] && r == 0 && file.lost == 0;
		struct change *change = work_add_change(job, &file.note, key,
			file.written || left ? key->wanted : key->original,
			left ? "" : key->original);

		change->left = left;
		change->reason = left                     ? "changed-since"
				 : file.written && others ? "file-changed-since"
							  : "original";
		change->error = r < 0 ? r : file.lost;
		change->why = change->error < 0 && file.why[0] ? strdup(file.why) : NULL;
		change->file->written = file.written;
	}
	/* A lost original stays recorded: every restore says so. */
	if (r == 0 && file.lost == 0)
		file_journal_forget(job->journal, file.note.path);
	return r < 0 ? r : file.lost;
}

int work_roll_back(const struct file_job *job, const struct file_note *note)
{
	_cleanup_(work_file_clear) struct work_file file = {.note = *note};
	char why[EDIT_WHY_MAX] = "", name[NAME_MAX];
	int r = restore_file(job, &file);

	/* The original bytes did load. */
	if (r == 0 && file.lost == 0 && !is_changed_by_others(&file))
		return 0;
	if (r == 0)
		r = edit_check(&job->host, &note->service, job->wait, why);
	else
		copy_text(why, sizeof(why), file.why[0] ? file.why : strerror(-r));
	if (r == 0 || r == -ECANCELED || file.lost < 0 || !file.old.bytes)
		return r;
	r = work_read(job, &file);
	if (r == 0) {
		/* Their bytes, for people to look at. */
		snprintf(name, sizeof(name), "rejected-%.200s", strrchr(note->path, '/') + 1);
		if (write_file_atomic(job->journal->dir, name, file.old.bytes, file.old.len) < 0)
			copy_text(name, sizeof(name), "nowhere");
		log_error(note->path,
			"does not load as someone else changed it (%s): the bytes from before our change replace it; theirs are kept as %s in the state directory",
			why, name);
		r = put_original(&file);
	}
	if (r < 0)
		log_error(note->path, "not restored: %s", strerror(-r));
	return r;
}
