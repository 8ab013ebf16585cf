/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/journal.h"

#include "base/file.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#define CURRENT "journal.json"
#define OLDER   "journal.json.1"

static struct record *find(struct journal *journal, const char *name)
{
	return (struct record *)record_find(journal->records, journal->n_records, name);
}

static int read_generation(struct journal *journal, const char *directory, const char *name)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	r = read_file(path, JOURNAL_FILE_MAX, &text, NULL);
	return r < 0 ? r : journal_parse(journal, text);
}

const char *journal_describe(int error)
{
	if (error == -EBADMSG)
		return "torn or altered";
	if (error == -EPROTO)
		return "the journal was written by a newer version: install that one, or restore with it";
	return strerror(-error);
}

/* Both generations are unreadable: they are kept for whoever wants to look; a new one begins. */
static void begin_anew(struct journal *journal, bool repair, int error)
{
	journal->lost = true;
	snprintf(journal->note, sizeof(journal->note),
		"journal.json: %s, and so is journal.json.1: originals of values set before are lost; "
		"kept as journal.json.bad",
		journal_describe(error));
	if (!repair)
		return;
	renameat(journal->dir, CURRENT, journal->dir, JOURNAL_BAD);
	renameat(journal->dir, OLDER, journal->dir, OLDER ".bad");
}

/*
 * Storing gives up the older generation before the new one is whole, so that must not be the only
 * good one: it becomes the current one. An error here is one of storing too, and is told there.
 */
static void promote_older(struct journal *journal)
{
	renameat(journal->dir, CURRENT, journal->dir, JOURNAL_BAD);
	renameat(journal->dir, OLDER, journal->dir, CURRENT);
	journal->dirty = journal->added = true;
}

/* Nothing is known of the file then, least of all that it is lost. */
static bool is_out_of_reach(int error)
{
	return error == -EPROTO || error == -EACCES || error == -ENOMEM || error == -EMFILE ||
	       error == -ENFILE;
}

/* repair: this process is the one writer, and may move files. */
static int load(struct journal *journal, const char *directory, bool repair)
{
	int r = read_generation(journal, directory, CURRENT);
	int older;

	if (r == 0 || is_out_of_reach(r))
		return r;
	older = read_generation(journal, directory, OLDER);
	if (older == 0) {
		snprintf(journal->note, sizeof(journal->note),
			"journal.json: %s: the older journal.json.1 is used", journal_describe(r));
		if (repair)
			promote_older(journal);
	} else if (is_out_of_reach(older)) {
		return older;
	} else if (r != -ENOENT || older != -ENOENT) {
		begin_anew(journal, repair, r == -ENOENT ? older : r);
	}
	return 0;
}

/*
 * A boot begins procfs and sysfs afresh; files stay as they are. Where the boot cannot be told, as
 * below a root that is not mounted, nothing may be given up.
 */
static void drop_other_boot(struct journal *journal, const char *boot)
{
	size_t kept = 0;

	if (boot[0] == '\0' || streq(journal->boot, boot))
		return;
	for (size_t i = 0; i < journal->n_records; i++)
		if (journal->records[i].place.kind == PLACE_EDIT)
			journal->records[kept++] = journal->records[i];
	journal->dirty = journal->dirty || kept < journal->n_records;
	journal->n_records = kept;
	copy_text(journal->boot, sizeof(journal->boot), boot);
}

int journal_open(const char *directory, const char *boot, bool create, struct journal **ret)
{
	_cleanup_(cleanup_journal_close) struct journal *journal = calloc(1, sizeof(*journal));
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
	drop_other_boot(journal, boot);
	*ret = steal(journal);
	return 0;
}

static void clear_files(struct journal *journal)
{
	for (size_t i = 0; i < journal->n_files; i++)
		file_note_clear(&journal->files[i]);
	journal->n_files = 0;
}

void journal_close(struct journal *journal)
{
	cleanup_close(&journal->dir);
	clear_files(journal);
	free(journal->files);
	free(journal->records);
	free(journal);
}

/* What stands where it will be written: of a file that is not what is in force. */
static const char *standing(const struct change *change)
{
	return change->place.kind == PLACE_EDIT ? change->on_disk : change->old;
}

static int add_record(struct journal *journal, const struct change *change)
{
	struct record *record;

	if (grow_array(&journal->records, journal->n_records, &journal->records_allocated,
		    sizeof(*journal->records)) < 0)
		return -ENOMEM;
	record = &journal->records[journal->n_records++];
	copy_text(record->name, sizeof(record->name), change->name);
	copy_text(record->tuner, sizeof(record->tuner), change->tuner);
	record->place = change->place;
	/* What a program runs with may not be known: then what it was to start with. */
	copy_text(record->original, sizeof(record->original),
		change->old[0] ? change->old : standing(change));
	copy_text(record->before, sizeof(record->before), standing(change));
	copy_text(record->target, sizeof(record->target), change->new);
	copy_text(record->on_disk, sizeof(record->on_disk), change->on_disk);
	record->ahead = change->ahead;
	journal->dirty = journal->added = true;
	return 0;
}

/*
 * Like an original, rungs must be in both generations before anything relies on them. The rung that
 * growth has reached stays one, whatever the new ladder: it is still ours, and not to be cut.
 */
static void renew_ladder(struct journal *journal, struct record *record, const struct ladder *ahead)
{
	struct ladder renewed = *ahead;

	if (ladder_covers(&record->ahead, ahead))
		return;
	if (ladder_has(&record->ahead, record->target) && !ladder_has(ahead, record->target))
		ladder_add(&renewed, record->target);
	record->ahead = renewed;
	journal->dirty = journal->added = true;
}

/*
 * before is what a crash between this note and the write leaves behind: ours to put back. A value
 * that someone else wrote is not, so it never gets in there.
 */
static void renew_record(
	struct journal *journal, struct record *record, const struct change *change)
{
	const char *found = record->place.kind == PLACE_EDIT ? record->on_disk : record->original;
	const char *old = standing(change);
	char before[SETTING_VALUE_MAX];

	renew_ladder(journal, record, &change->ahead);
	if (change->record_only)
		return;
	copy_text(before, sizeof(before), record_is_foreign(record, old) ? record->target : old);
	if (streq(record->before, before) && streq(record->target, change->new))
		return;
	if (streq(record->target, change->new) && value_equal(old, found))
		return; /* written again over the original that someone put there: nothing new */
	copy_text(record->before, sizeof(record->before), before);
	copy_text(record->target, sizeof(record->target), change->new);
	journal->dirty = true;
}

int journal_note(struct journal *journal, const struct plan *plan)
{
	for (size_t i = 0; i < plan->n; i++) {
		struct record *record = find(journal, plan->changes[i].name);

		if (record)
			renew_record(journal, record, &plan->changes[i]);
		else if (add_record(journal, &plan->changes[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

void journal_note_actual(struct journal *journal, const struct plan *plan)
{
	for (size_t i = 0; i < plan->n; i++) {
		const struct change *change = &plan->changes[i];
		struct record *record = find(journal, change->name);

		if (!record || change->error != -ERANGE || streq(change->reason, "drift") ||
			!record_is_foreign(record, change->actual))
			continue;
		copy_text(record->before, sizeof(record->before), change->actual);
		journal->dirty = true;
	}
}

void journal_forget(struct journal *journal, const char *name)
{
	struct record *record = find(journal, name);

	if (!record)
		return;
	*record = journal->records[--journal->n_records];
	journal->dirty = true;
}

const struct file_note *journal_file(const struct journal *journal, const char *path)
{
	for (size_t i = 0; i < journal->n_files; i++)
		if (streq(journal->files[i].path, path))
			return &journal->files[i];
	return NULL;
}

int journal_note_file(struct journal *journal, const struct file_note *note)
{
	struct file_note *old = (struct file_note *)journal_file(journal, note->path);
	struct file_note copy;
	bool original_is_new = !old || !streq(old->original, note->original);

	if (old && file_note_equal(old, note))
		return 0;
	if (file_note_copy(note, &copy) < 0)
		return -ENOMEM;
	if (old) {
		original_is_new = original_is_new || old->n_keys != note->n_keys;
		file_note_clear(old);
	} else if (grow_array(&journal->files, journal->n_files, &journal->files_allocated,
			   sizeof(*journal->files)) < 0) {
		file_note_clear(&copy);
		return -ENOMEM;
	} else {
		old = &journal->files[journal->n_files++];
	}
	*old = copy;
	journal->dirty = true;
	journal->added = journal->added || original_is_new;
	return 0;
}

/* A setting that moved from one file to another is in the notes of both. */
static bool is_noted_elsewhere(const struct journal *journal, const char *name)
{
	for (size_t i = 0; i < journal->n_files; i++)
		if (file_note_key(&journal->files[i], name))
			return true;
	return false;
}

void journal_forget_file(struct journal *journal, const char *path)
{
	struct file_note *note = (struct file_note *)journal_file(journal, path);
	struct file_note forgotten;

	if (!note)
		return;
	forgotten = *note;
	*note = journal->files[--journal->n_files];
	for (size_t i = 0; i < forgotten.n_keys; i++)
		if (!is_noted_elsewhere(journal, forgotten.keys[i].name))
			journal_forget(journal, forgotten.keys[i].name);
	file_note_clear(&forgotten);
	/* Both generations: the bytes that the older one would ask for are about to go. */
	journal->dirty = journal->added = true;
}

void journal_give_up(struct journal *journal, const char *name, uint32_t config)
{
	struct record *record = find(journal, name);

	if (!record)
		return;
	record->given_up = config;
	journal->dirty = true;
}

void journal_try_again(struct journal *journal, const char *tuner)
{
	for (size_t i = 0; i < journal->n_records; i++) {
		struct record *record = &journal->records[i];

		if (record->given_up == 0 || (tuner && !streq(record->tuner, tuner)))
			continue;
		record->given_up = 0;
		journal->dirty = true;
	}
}

void journal_set_config(struct journal *journal, uint32_t checksum)
{
	size_t kept = 0;

	for (size_t i = 0; i < journal->n_released; i++)
		if (journal->released[i].config == checksum)
			journal->released[kept++] = journal->released[i];
	journal->dirty =
		journal->dirty || journal->config != checksum || kept < journal->n_released;
	journal->n_released = kept;
	journal->config = checksum;
}

void journal_release(struct journal *journal, const char *tuner)
{
	struct journal_release *release;

	journal_unrelease(journal, tuner);
	if (journal->n_released == JOURNAL_RELEASED_MAX)
		return;
	release = &journal->released[journal->n_released++];
	copy_text(release->tuner, sizeof(release->tuner), tuner);
	release->config = journal->config;
	journal->dirty = true;
}

void journal_unrelease(struct journal *journal, const char *tuner)
{
	for (size_t i = 0; i < journal->n_released; i++) {
		if (!streq(journal->released[i].tuner, tuner))
			continue;
		journal->released[i] = journal->released[--journal->n_released];
		journal->dirty = true;
		return;
	}
}

bool journal_is_released(const struct journal *journal, const char *tuner, uint32_t config)
{
	for (size_t i = 0; i < journal->n_released; i++)
		if (streq(journal->released[i].tuner, tuner) &&
			journal->released[i].config == config)
			return true;
	return false;
}

static int copy_files(const struct journal *journal, struct journal *copy)
{
	copy->n_files = 0;
	copy->files_allocated = MAX(journal->n_files, 1);
	copy->files = calloc(copy->files_allocated, sizeof(*copy->files));
	if (!copy->files)
		return -ENOMEM;
	for (; copy->n_files < journal->n_files; copy->n_files++)
		if (file_note_copy(&journal->files[copy->n_files], &copy->files[copy->n_files]) < 0)
			return -ENOMEM;
	return 0;
}

struct journal *journal_copy(const struct journal *journal)
{
	struct journal *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *journal;
	copy->dir = -1; /* stays the original's */
	copy->records_allocated = journal->n_records;
	copy->records = calloc(MAX(journal->n_records, 1), sizeof(*copy->records));
	if (copy_files(journal, copy) < 0 || !copy->records) {
		journal_close(copy);
		return NULL;
	}
	if (journal->n_records > 0)
		memcpy(copy->records, journal->records,
			journal->n_records * sizeof(*copy->records));
	return copy;
}

void journal_take_back(struct journal *journal, struct journal *copy)
{
	struct journal taken = *copy;

	clear_files(journal);
	taken.dir = journal->dir;
	copy->records = steal(journal->records);
	copy->files = steal(journal->files);
	copy->n_files = 0;
	*journal = taken;
}

/* The file that stands becomes the older generation without ever leaving its name. */
static int store_once(int dir, const char *text)
{
	if (unlinkat(dir, OLDER, 0) < 0 && errno != ENOENT)
		return -errno;
	if (linkat(dir, CURRENT, dir, OLDER, 0) < 0 && errno != ENOENT)
		return -errno;
	return write_file_atomic(dir, CURRENT, text, strlen(text));
}

int journal_store_text(int dir, const char *text, bool twice)
{
	int r = store_once(dir, text);

	return r == 0 && twice ? store_once(dir, text) : r;
}

int journal_store(struct journal *journal)
{
	_cleanup_free_ char *text = NULL;
	int r;

	if (!journal->dirty)
		return 0;
	r = journal_print(journal, &text);
	if (r == 0)
		r = journal_store_text(journal->dir, text, journal->added);
	if (r == 0)
		journal->dirty = journal->added = false;
	return r;
}
