/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_journal.h"

#include "base/file.h"

#define CURRENT "journal.json"
#define COPY    "journal.json.1"

/* ---- notes of files ---- */

struct file_record *note_key(struct file_note *note, const char *name)
{
	for (size_t i = 0; i < note->n_keys; i++)
		if (streq(note->keys[i].name, name))
			return &note->keys[i];
	return NULL;
}

struct file_record *note_add_key(struct file_note *note, const char *name)
{
	struct file_record *key = &note->keys[note->n_keys];

	if (note->n_keys == JOURNAL_KEYS_MAX)
		return NULL;
	*key = (struct file_record){.target.format = note->format};
	copy_text(key->name, sizeof(key->name), name);
	copy_text(key->tuner, sizeof(key->tuner), note->tuner);
	copy_text(key->target.path, sizeof(key->target.path), note->path);
	note->n_keys++;
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

void file_journal_put(struct file_journal *journal, const struct file_note *note)
{
	struct file_note *slot = file_journal_find(journal, note->path);

	if (!slot)
		slot = add_element(&journal->files, &journal->n_files, &journal->files_allocated,
			sizeof(*slot));
	*slot = *note;
	journal->dirty = true;
}

void file_journal_forget(struct file_journal *journal, const char *path)
{
	struct file_note *note = file_journal_find(journal, path);

	if (!note)
		return;
	journal->n_files--;
	memmove(note, note + 1, (size_t)(&journal->files[journal->n_files] - note) * sizeof(*note));
	journal->dirty = true;
}

/* A setting that moved from one file to another is in both: the newer one counts. */
struct file_record *file_journal_snapshot(const struct file_journal *journal, size_t *n)
{
	struct file_record *list =
		must(calloc(journal->n_files * JOURNAL_KEYS_MAX + 1, sizeof(*list)));

	*n = 0;
	for (size_t i = journal->n_files; i-- > 0;)
		for (size_t k = 0; k < journal->files[i].n_keys; k++) {
			const struct file_record *record = &journal->files[i].keys[k];

			if (!file_record_find(list, *n, record->name))
				list[(*n)++] = *record;
		}
	return list;
}

/* ---- released tuners, restarted units ---- */

void release_set(struct release_list *list, const char *tuner, bool released)
{
	size_t i = 0;

	while (i < list->n && !streq(list->tuners[i].tuner, tuner))
		i++;
	if ((i < list->n) == released || i == JOURNAL_RELEASED_MAX)
		return;
	if (!released) {
		list->tuners[i] = list->tuners[--list->n];
		return;
	}
	copy_text(list->tuners[i].tuner, sizeof(list->tuners[i].tuner), tuner);
	list->tuners[i].since_s = realtime_us() / USEC_PER_SEC;
	list->n++;
}

struct unit_mark *file_journal_unit(struct file_journal *journal, const char *unit, bool add)
{
	struct unit_mark *mark = journal->units;

	while (mark < &journal->units[journal->n_units] && !streq(mark->unit, unit))
		mark++;
	if (mark < &journal->units[journal->n_units])
		return mark;
	if (!add || journal->n_units == JOURNAL_UNITS_MAX)
		return NULL;
	journal->n_units++;
	*mark = (struct unit_mark){0};
	copy_text(mark->unit, sizeof(mark->unit), unit);
	return mark;
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
	if (error == -ENODEV)
		return "not the host's, but of this container: originals of files cannot be recorded, so files "
		       "are only observed: mount the host's there, writable";
	return strerror(-error);
}

static int read_copy(struct file_journal *journal, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", journal->dir, name);
	r = read_file(path, JOURNAL_FILE_MAX, &text, NULL);
	return r < 0 ? r : file_journal_parse(journal, text);
}

/* Nothing is known of the file then, least of all that it is lost. */
static bool is_out_of_reach(int error)
{
	return error == -EPROTO || error == -EACCES || error == -EMFILE || error == -ENFILE;
}

/* repair: this process is the one writer, and may move files. */
static int load(struct file_journal *journal, bool repair)
{
	int r = read_copy(journal, CURRENT), copy;

	if (r == 0 || is_out_of_reach(r))
		return r;
	copy = read_copy(journal, COPY);
	if (is_out_of_reach(copy))
		return copy;
	if (r == -ENOENT && copy == -ENOENT)
		return 0;
	if (repair)
		renameat(journal->dir, CURRENT, journal->dir, JOURNAL_BAD);
	if (copy == 0) {
		snprintf(journal->note, sizeof(journal->note),
			"journal.json: %s: its copy journal.json.1 is used",
			file_journal_describe(r));
		journal->dirty = repair;
		return 0;
	}
	journal->lost = true;
	snprintf(journal->note, sizeof(journal->note),
		"journal.json: %s, and so is journal.json.1: originals of files set before are lost; "
		"kept as journal.json.bad",
		file_journal_describe(r == -ENOENT ? copy : r));
	if (repair)
		renameat(
			journal->dir, COPY, journal->dir, r == -ENOENT ? JOURNAL_BAD : COPY ".bad");
	return 0;
}

int file_journal_open(const char *directory, bool create, struct file_journal **ret)
{
	_cleanup_(cleanup_file_journal_close) struct file_journal *journal =
		must(calloc(1, sizeof(*journal)));
	int r;

	journal->dir = -1;
	r = create ? make_directories(directory, 0755) : 0;
	if (r < 0)
		return r;
	journal->dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (journal->dir < 0 && (create || errno != ENOENT))
		return -errno;
	r = journal->dir >= 0 ? load(journal, create) : 0;
	if (r < 0)
		return r;
	*ret = steal(journal);
	return 0;
}

void file_journal_close(struct file_journal *journal)
{
	cleanup_close(&journal->dir);
	free(journal->files);
	free(journal);
}

/* The copy first: at every moment one of both is whole, whatever became of the other. */
int file_journal_store(struct file_journal *journal)
{
	_cleanup_free_ char *text = NULL;
	int r;

	if (!journal->dirty)
		return 0;
	text = file_journal_print(journal);
	r = write_file_atomic(journal->dir, COPY, text, strlen(text));
	if (r == 0)
		r = write_file_atomic(journal->dir, CURRENT, text, strlen(text));
	journal->dirty = r < 0;
	return r;
}
