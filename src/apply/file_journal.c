/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_journal.h"

#include "base/file.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define CURRENT "journal.json"
#define COPY    "journal.json.1"

/* ---- notes of files ---- */

void note_clear(struct file_note *note)
{
	free(note->keys);
	*note = (struct file_note){0};
}

int note_copy(const struct file_note *note, struct file_note *out)
{
	struct file_record *keys = calloc(MAX(note->n_keys, 1), sizeof(*keys));

	if (!keys)
		return -ENOMEM;
	if (note->n_keys > 0)
		memcpy(keys, note->keys, note->n_keys * sizeof(*keys));
	*out = *note;
	out->keys = keys;
	out->keys_allocated = MAX(note->n_keys, 1);
	return 0;
}

struct file_record *note_key(const struct file_note *note, const char *name)
{
	for (size_t i = 0; i < note->n_keys; i++)
		if (streq(note->keys[i].name, name))
			return &note->keys[i];
	return NULL;
}

struct file_record *note_add_key(struct file_note *note, const char *name)
{
	struct file_record *key;

	if (grow_array(&note->keys, note->n_keys, &note->keys_allocated, sizeof(*note->keys)) < 0)
		return NULL;
	key = &note->keys[note->n_keys++];
	copy_text(key->name, sizeof(key->name), name);
	copy_text(key->tuner, sizeof(key->tuner), note->tuner);
	copy_text(key->target.path, sizeof(key->target.path), note->path);
	key->target.format = note->format;
	return key;
}

bool note_is_ours(const struct file_note *note, const char *hash)
{
	return streq(note->ours[0], hash) || streq(note->ours[1], hash);
}

struct file_note *file_journal_find(const struct file_journal *journal, const char *path)
{
	for (size_t i = 0; i < journal->n_files; i++)
		if (streq(journal->files[i].path, path))
			return &journal->files[i];
	return NULL;
}

int file_journal_put(struct file_journal *journal, struct file_note *note)
{
	struct file_note *slot = file_journal_find(journal, note->path);

	if (slot) {
		note_clear(slot);
	} else {
		if (grow_array(&journal->files, journal->n_files, &journal->files_allocated,
			    sizeof(*journal->files)) < 0)
			return -ENOMEM;
		slot = &journal->files[journal->n_files++];
	}
	*slot = *note;
	*note = (struct file_note){0};
	journal->dirty = true;
	return 0;
}

void file_journal_forget(struct file_journal *journal, const char *path)
{
	struct file_note *note = file_journal_find(journal, path);

	if (!note)
		return;
	note_clear(note);
	journal->n_files--;
	memmove(note, note + 1, (size_t)(&journal->files[journal->n_files] - note) * sizeof(*note));
	journal->dirty = true;
}

/* A setting that moved from one file to another is in both: the newer one counts. */
int file_journal_snapshot(
	const struct file_journal *journal, struct file_record **records, size_t *n)
{
	struct file_record *list;
	size_t max = 0, have = 0;

	for (size_t i = 0; i < journal->n_files; i++)
		max += journal->files[i].n_keys;
	list = calloc(max + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = journal->n_files; i-- > 0;)
		for (size_t k = 0; k < journal->files[i].n_keys; k++) {
			const struct file_record *record = &journal->files[i].keys[k];

			if (!file_record_find(list, have, record->name))
				list[have++] = *record;
		}
	*records = list;
	*n = have;
	return 0;
}

/* ---- released tuners, restarted units ---- */

const struct release *file_journal_released(const struct file_journal *journal, const char *tuner)
{
	for (size_t i = 0; i < journal->n_released; i++)
		if (streq(journal->released[i].tuner, tuner))
			return &journal->released[i];
	return NULL;
}

void file_journal_release(struct file_journal *journal, const char *tuner)
{
	struct release *release;

	if (file_journal_released(journal, tuner) || journal->n_released == JOURNAL_RELEASED_MAX)
		return;
	release = &journal->released[journal->n_released++];
	copy_text(release->tuner, sizeof(release->tuner), tuner);
	release->since_s = realtime_us() / USEC_PER_SEC;
	journal->dirty = true;
}

void file_journal_unrelease(struct file_journal *journal, const char *tuner)
{
	struct release *release = (struct release *)file_journal_released(journal, tuner);

	if (!release)
		return;
	*release = journal->released[--journal->n_released];
	journal->dirty = true;
}

struct unit_mark *file_journal_unit(struct file_journal *journal, const char *unit, bool add)
{
	struct unit_mark *found = NULL;

	for (size_t i = 0; i < journal->n_units; i++) {
		struct unit_mark *mark = &journal->units[i];

		if (streq(mark->unit, unit))
			return mark;
		if (!mark->open && (!found || mark->at_s < found->at_s))
			found = mark;
	}
	if (!add)
		return NULL;
	if (journal->n_units < JOURNAL_UNITS_MAX)
		found = &journal->units[journal->n_units++];
	if (!found)
		return NULL;
	*found = (struct unit_mark){0};
	copy_text(found->unit, sizeof(found->unit), unit);
	return found;
}

void file_journal_try_again(struct file_journal *journal, const char *name)
{
	for (size_t i = 0; i < journal->n_files; i++) {
		struct file_record *key = note_key(&journal->files[i], name);

		if (!key || !key->failed[0])
			continue;
		key->failed[0] = '\0';
		journal->dirty = true;
	}
	for (size_t i = 0; i < journal->n_units; i++) {
		struct unit_mark *mark = &journal->units[i];

		for (size_t t = 0; t < mark->n_tried; t++) {
			if (!streq(mark->tried[t].name, name))
				continue;
			mark->tried[t--] = mark->tried[--mark->n_tried];
			journal->dirty = true;
		}
	}
}

/* ---- on disk ---- */

const char *file_journal_describe(int error)
{
	if (error == -EBADMSG)
		return "torn or altered";
	if (error == -EPROTO)
		return "the journal was written by a newer version: install that one, or restore with it";
	return strerror(-error);
}

static int read_copy(struct file_journal *journal, const char *directory, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	r = read_file(path, JOURNAL_FILE_MAX, &text, NULL);
	return r < 0 ? r : file_journal_parse(journal, text);
}

/* Nothing is known of the file then, least of all that it is lost. */
static bool is_out_of_reach(int error)
{
	return error == -EPROTO || error == -EACCES || error == -ENOMEM || error == -EMFILE ||
	       error == -ENFILE;
}

/* repair: this process is the one writer, and may move files. */
static int load(struct file_journal *journal, const char *directory, bool repair)
{
	int r = read_copy(journal, directory, CURRENT);
	int copy = r == 0 ? 0 : -ENOENT;

	if (r != 0 && !is_out_of_reach(r))
		copy = read_copy(journal, directory, COPY);
	if (r == 0 || is_out_of_reach(r) || is_out_of_reach(copy))
		return is_out_of_reach(copy) ? copy : r;
	if (r == -ENOENT && copy == -ENOENT)
		return 0;
	if (repair)
		renameat(journal->dir, CURRENT, journal->dir, JOURNAL_BAD);
	if (copy == 0) {
		snprintf(journal->note, sizeof(journal->note),
			"journal.json: %s: its copy journal.json.1 is used",
			file_journal_describe(r));
		/* Storing removes the copy before the new text is whole: it must not be the only
		 * good one. */
		if (repair)
			renameat(journal->dir, COPY, journal->dir, CURRENT);
		journal->dirty = repair;
		return 0;
	}
	journal->lost = true;
	snprintf(journal->note, sizeof(journal->note),
		"journal.json: %s, and so is journal.json.1: originals of files set before are lost; "
		"kept as journal.json.bad",
		file_journal_describe(r == -ENOENT ? copy : r));
	if (repair)
		renameat(journal->dir, COPY, journal->dir, COPY ".bad");
	return 0;
}

int file_journal_open(const char *directory, bool create, struct file_journal **ret)
{
	_cleanup_(cleanup_file_journal_close) struct file_journal *journal =
		calloc(1, sizeof(*journal));
	int r;

	if (!journal)
		return -ENOMEM;
	journal->dir = -1;
	r = create ? make_directories(directory, 0755) : 0;
	if (r < 0)
		return r;
	journal->dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (journal->dir < 0 && (create || errno != ENOENT))
		return -errno;
	r = journal->dir >= 0 ? load(journal, directory, create) : 0;
	if (r < 0)
		return r;
	*ret = steal(journal);
	return 0;
}

void file_journal_close(struct file_journal *journal)
{
	cleanup_close(&journal->dir);
	for (size_t i = 0; i < journal->n_files; i++)
		note_clear(&journal->files[i]);
	free(journal->files);
	free(journal);
}

/* The present file becomes the copy without ever leaving its name. */
static int store_once(int dir, const char *text)
{
	if (unlinkat(dir, COPY, 0) < 0 && errno != ENOENT)
		return -errno;
	if (linkat(dir, CURRENT, dir, COPY, 0) < 0 && errno != ENOENT)
		return -errno;
	return write_file_atomic(dir, CURRENT, text, strlen(text));
}

int file_journal_store(struct file_journal *journal)
{
	_cleanup_free_ char *text = NULL;
	int r;

	if (!journal->dirty)
		return 0;
	r = file_journal_print(journal, &text);
	/* Twice: either file may be lost or torn afterwards, and nothing is forgotten. */
	for (int i = 0; r == 0 && i < 2; i++)
		r = store_once(journal->dir, text);
	if (r == 0)
		journal->dirty = false;
	return r;
}

int replace_text(char **slot, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return -ENOMEM;
	free(*slot);
	*slot = copy;
	return 0;
}

bool same_text(const char *a, const char *b)
{
	return a && b ? streq(a, b) : a == b;
}
