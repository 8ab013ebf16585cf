/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * journal.json in the state directory is the durable record of changed configuration files and
 * pins. It is stored before the first write, and a restore needs nothing else: no configuration,
 * tuner or running agent. The original bytes of files are beside it, in files/ (src/apply/file.h).
 * It also has the restarts of units, which the next process completes after a crash, and released
 * tuners.
 *
 * replace_file() replaces it, so that a crash or a full disk leaves the old journal or the new
 * one. A damaged journal is refused, and so is a missing one while files/ has originals: until an
 * administrator acts, no file is written and no original is removed.
 */

#include "base/text.h"

#include <headroom/file.h>

#define JOURNAL_KEYS_MAX     8 /* of one file */
#define JOURNAL_RELEASED_MAX 16
#define JOURNAL_UNITS_MAX    16

/* Durable, in the journal: a changed file, with the records of its settings. */
struct file_record {
	char path[SETTING_PATH_MAX]; /* below the host's root */
	char tuner[32];
	enum edit_format format;
	enum activation activation;
	enum restart_policy restart;
	struct daemon daemon;
	bool restoring;       /* the file is restored, its program has yet to restart or reload */
	unsigned directories; /* number of parent directories that were made for it */
	/* Hashes of copies in files/. */
	char original[HASH_TEXT_MAX];             /* to restore */
	char ours[2][HASH_TEXT_MAX];              /* of our last write, and of the next one */
	struct key_record keys[JOURNAL_KEYS_MAX]; /* its settings */
	size_t n_keys;
};

/* A tuner that only observes, from `headroom restore` to `headroom apply`. */
struct release {
	char tuner[32];
	uint64_t since_s; /* CLOCK_REALTIME */
};

struct release_list {
	struct release tuners[JOURNAL_RELEASED_MAX];
	size_t n;
};

struct file_journal {
	int dir;                   /* the state directory; -1 if it does not exist */
	char owner[OWNER_MAX];     /* the installation that wrote last; or empty */
	struct file_record *files; /* the newest last */
	size_t n_files, files_allocated;
	struct pin_record *pins;
	size_t n_pins, pins_allocated;
	struct release_list released;
	struct restart_history restarts[JOURNAL_UNITS_MAX];
	size_t n_restarts;
	char *stored; /* the text on disk; NULL: none, or unknown */
};

/*
 * Loads the journal of a state directory, empty without a file. The one writer sets create, which
 * makes the directory. 0 with *ret; -EBADMSG for a damaged journal; -ENODATA for a missing one
 * while files/ has originals; -EPROTO for a journal of a newer version; or another -errno.
 */
int file_journal_open(const char *directory, bool create, struct file_journal **ret);
void file_journal_close(struct file_journal *journal);
DEFINE_CLEANUP(struct file_journal, file_journal_close)

/* The cause and cure of an error of file_journal_open(), for messages. */
const char *file_journal_describe(int error);

/* Stores the journal durably, if it differs from the text on disk. 0 or -errno. */
int file_journal_store(struct file_journal *journal);

/* The records of all file settings, for the caller to free. */
struct key_record *file_journal_snapshot(const struct file_journal *journal, size_t *n);

/*
 * Adds a record or replaces that of its path, and moves records in memory. The next store writes
 * the file even if nothing changed, because someone may have removed it.
 */
void file_journal_put(struct file_journal *journal, const struct file_record *record);
void file_journal_forget(struct file_journal *journal, const char *path);

void release_set(struct release_list *list, const char *tuner, bool released);

/* Allows a value that failed, or was tried without effect, to be tried again. */
void file_journal_try_again(struct file_journal *journal, const char *name);

/* True when a file of this hash was written by us. */
bool file_is_ours(const struct file_record *record, const char *hash);
