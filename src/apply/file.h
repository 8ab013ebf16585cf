/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads, replaces and removes configuration files of the host, and keeps the records of that. At
 * any moment, and after a crash, other processes find either the old file or the new one. Every
 * function may block.
 */

#include "base/text.h"
#include "kernel/host.h"

#include <headroom/file.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define FILE_NEW       ".headroom-new" /* suffix: programs that read *.toml ignore the file */

/* In memory only: a file of the host or a new text for one. The content is terminated. */
struct file_bytes {
	/* The location, after the host's symbolic links are followed; empty for a new text. */
	char full[PATH_MAX];      /* as this process sees it */
	char directory[PATH_MAX]; /* its closest parent directory that exists */
	unsigned missing;         /* number of directories below that which do not exist */
	char *bytes;              /* NULL for a missing file */
	size_t len;
	char hash[HASH_TEXT_MAX];
};

void file_bytes_clear(struct file_bytes *file);

/* Sets the location. 0; -ELOOP for a link to a missing file; -EISDIR for /; or another -errno. */
int file_locate(const struct host *host, const char *path, struct file_bytes *file);

/*
 * Locates and reads a file. 0, also for a missing one; -EFBIG above FILE_BYTES_MAX; -EINVAL unless
 * it is regular; or an error of file_locate(). The location is set unless that fails.
 */
int file_read(const struct host *host, const char *path, struct file_bytes *file);

/*
 * Replaces a file that was read or, without new bytes, removes it, durably. Makes missing
 * directories. Keeps the owner, mode and extended attributes. -ESTALE when the file has another
 * hash by now, or others change its metadata meanwhile.
 */
int file_put(const struct file_bytes *old, const struct file_bytes *new);

/*
 * Removes a file that was made for us, what a killed process left beside it, and (if they are
 * empty) the directories that were made for it. Errors as above.
 */
int file_remove(const struct file_bytes *old, unsigned directories);

/*
 * A trial file beside the real one, for the verifier. The state directory has a link to it, named
 * TRIAL or TRIAL_MAIN, so that file_sweep() can remove it after a crash. The link and path are
 * below the host's root, where the verifier runs.
 */
#define TRIAL      "trial"
#define TRIAL_MAIN "trial.main"
int file_put_trial(int state, const char *name, const struct host *host,
	const struct file_bytes *real, const struct file_bytes *new, char path[static PATH_MAX]);
void file_drop_trial(int state, const char *name, const struct host *host);

/*
 * Copies of files, in files/ of the state directory, named by their hash. file_keep() is durable on
 * return. file_recall() returns -EBADMSG when the bytes do not match the hash.
 */
int file_keep(int state, const struct file_bytes *bytes);
int file_recall(int state, const char *hash, struct file_bytes *bytes);

/* ---- the journal ---- */

/*
 * journal.json in the state directory is the durable record of changed configuration files and
 * pins. It is stored before the first write, and a restore needs nothing else: no configuration,
 * tuner or running agent. The original bytes of files are beside it, in files/.
 * It also has the restarts of units, which the next process completes after a crash, and released
 * tuners.
 *
 * replace_file() replaces it, so that a crash or a full disk leaves the old journal or the new
 * one. A damaged journal is refused, and so is a missing one while files/ has originals: until an
 * administrator acts, no file is written and no original is removed.
 */

#define JOURNAL_KEYS_MAX     8 /* in one file */
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
	bool refused;         /* not stored: the last attempt to restore it failed */
	unsigned directories; /* number of parent directories that were made for it */
	/* Hashes of copies in files/. */
	char original[HASH_TEXT_MAX];             /* to restore */
	char ours[2][HASH_TEXT_MAX];              /* hashes of our last write and of the next one */
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

#define FILE_JOURNAL_FILE "journal.json"

/*
 * Loads the journal of a state directory, empty without a file. The one writer sets create, which
 * makes the directory. 0 with *ret; -EBADMSG for a damaged journal; -ENODATA for a missing one
 * while files/ has originals; -EKEYREJECTED if the directory or the journal belongs to another
 * user; -EPROTO for a journal of a newer version; or another -errno.
 */
int file_journal_open(const char *directory, bool create, struct file_journal **ret);
void file_journal_close(struct file_journal *journal);
DEFINE_CLEANUP(struct file_journal, file_journal_close)

/* Writes the version of the program that wrote the journal, if it is known. */
void file_journal_program(const char *directory, char program[static RECORD_PROGRAM_MAX]);

/* Returns the cause and cure of an error of file_journal_open(), for messages. */
const char *file_journal_describe(int error);

/* Stores the journal durably, if it differs from the text on disk. 0 or -errno. */
int file_journal_store(struct file_journal *journal);

/* Copies the records of all file settings; the caller frees them. */
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

/* Returns whether we wrote a file of this hash. */
bool file_is_ours(const struct file_record *record, const char *hash);

/*
 * Removes the trial files that a crash left, and copies that the journal does not mention. If an
 * original is missing, the journal may be wrong: then all copies stay.
 */
void file_sweep(const struct file_journal *journal, const struct host *host);
