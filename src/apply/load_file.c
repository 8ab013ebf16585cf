/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/load_file.h"

#include "apply/file.h"
#include "apply/file_journal.h"
#include "runtime/images.h"

#include <sys/file.h>

static int remove_file(const struct host *host, struct file_journal *journal)
{
	const struct file_note *note = journal->files;
	_cleanup_(file_bytes_clear) struct file_bytes now = {0};
	struct file_at at;
	int r;

	if (journal->n_files == 0)
		return 0;
	r = file_locate(host, note->path, &at);
	if (r == 0)
		r = file_read(&at, &now);
	if (r == 0 && (!now.bytes || note_is_ours(note, now.hash)))
		r = file_remove(&at, now.hash, note->directories);
	if (r < 0)
		return r;
	file_journal_forget(journal, note->path);
	return file_journal_store(journal);
}

int load_file_put(const struct host *host, const char *path, const char *text)
{
	_cleanup_(cleanup_file_journal_close) struct file_journal *journal = NULL;
	struct file_note note = {
		.tuner = IMAGES_TUNER, .format = EDIT_OWN, .original = FILE_HASH_NONE};
	struct file_bytes now = {0}, new = {.bytes = (char *)text};
	char directory[PATH_MAX];
	struct file_at at;
	int r;

	if (!host->state[0] ||
		snprintf(directory, sizeof(directory), "%s/load", host->state) >= PATH_MAX)
		return -ENODEV;
	r = file_journal_open(directory, text != NULL, &journal);
	/* A restore and the end of a load are on different threads. */
	if (r == 0 && journal->dir >= 0 && flock(journal->dir, LOCK_EX) < 0)
		r = -errno;
	if (r == 0)
		r = remove_file(host, journal);
	if (r < 0 || !text)
		return r;
	r = file_locate(host, path, &at);
	if (r == 0)
		r = file_read(&at, &now);
	if (r == 0 && now.bytes)
		r = -EEXIST;
	file_bytes_clear(&now);
	if (r < 0)
		return r;
	new.len = strlen(text);
	hash_bytes(text, new.len, note.ours[1]);
	set_text(note.path, path);
	note.directories = at.missing;
	file_journal_put(journal, &note);
	r = file_journal_store(journal);
	return r < 0 ? r : file_put(&at, FILE_HASH_NONE, &new);
}
