/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/load_file.h"

#include "apply/file.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/images.h"

#include <sys/file.h>

static int remove_file(const struct host *host, struct file_journal *journal)
{
	const struct file_record *record = journal->files;
	_cleanup_(file_bytes_clear) struct file_bytes now = {0};
	int r;

	if (journal->n_files == 0)
		return 0;
	r = file_read(host, record->path, &now);
	if (r == 0 && (!now.bytes || file_is_ours(record, now.hash)))
		r = file_remove(&now, record->directories);
	if (r < 0) {
		log_error(record->path, "not removed: %s", strerror(-r));
		return r;
	}
	file_journal_forget(journal, record->path);
	return file_journal_store(journal);
}

int load_file_put(const struct host *host, const char *path, const char *text)
{
	_cleanup_(cleanup_file_journal_close) struct file_journal *journal = NULL;
	_cleanup_close_ int lock = -1;
	struct file_record record = {
		.tuner = IMAGES_TUNER, .format = EDIT_OWN, .original = FILE_HASH_NONE};
	_cleanup_(file_bytes_clear) struct file_bytes now = {0};
	const struct file_bytes new = {.bytes = (char *)text, .len = text ? strlen(text) : 0};
	char directory[PATH_MAX];
	int r;

	if (!host->state[0] ||
		snprintf(directory, sizeof(directory), "%s/load", host->state) >= PATH_MAX)
		return -ENODEV;
	r = text ? make_directories(directory, 0700) : 0;
	if (r < 0)
		return r;
	/*
	 * A restore and the end of a load are on different threads. A process that can open the
	 * directory can lock it, and earlier versions let everybody open it.
	 */
	lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0 || fchmod(lock, 0700) < 0 || flock(lock, LOCK_EX) < 0)
		return !text && errno == ENOENT ? 0 : -errno;
	r = file_journal_open(directory, false, &journal);
	if (r < 0)
		log_error("load/journal.json", "%s",
			r == -EBADMSG  ? "damaged: remove it, and the hosts.toml that an earlier "
					 "load left for " IMAGES_REGISTRY
			: r == -EPROTO ? "a newer version wrote it: install that version, which "
					 "removes the hosts.toml of its load"
				       : strerror(-r));
	else
		r = remove_file(host, journal);
	if (r < 0 || !text)
		return r;
	r = file_read(host, path, &now);
	if (r == 0 && now.bytes)
		r = -EEXIST;
	if (r < 0)
		return r;
	hash_bytes(text, new.len, record.ours[1]);
	set_text(record.path, path);
	record.directories = now.missing;
	file_journal_put(journal, &record);
	r = file_journal_store(journal);
	return r < 0 ? r : file_put(&now, &new);
}
