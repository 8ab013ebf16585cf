/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads, replaces and removes configuration files of the host. At any moment, and after a crash,
 * other processes find either the old file or the new one. Every function may block.
 */

#include "base/text.h"
#include "kernel/host.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define FILE_NEW       ".headroom-new" /* suffix: programs that read *.toml ignore the file */
#define FILE_HASH_NONE "none"          /* the hash of a missing file */

/* The location of a file after the host's symbolic links are followed. */
struct file_at {
	char full[PATH_MAX];      /* as this process sees it */
	char directory[PATH_MAX]; /* its closest parent directory that exists */
	unsigned missing;         /* number of directories below that which do not exist */
};

/* The content of a file, terminated. */
struct file_bytes {
	char *bytes; /* NULL for a missing file */
	size_t len;
	char hash[HASH_TEXT_MAX];
};

void file_bytes_clear(struct file_bytes *bytes);

/* 0; -ELOOP for a link to a missing file; or another -errno. */
int file_locate(const struct host *host, const char *path, struct file_at *at);

/* 0, also for a missing file; -EFBIG above FILE_BYTES_MAX; -EINVAL unless the file is regular. */
int file_read(const struct file_at *at, struct file_bytes *bytes);

/*
 * Replaces a file, or (without new bytes) removes it, durably. Makes missing directories. Keeps the
 * owner, mode and extended attributes. -ESTALE when the hash of the file is not the expected one.
 */
int file_put(const struct file_at *at, const char *expected, const struct file_bytes *new);

/*
 * Removes a file that was made for us, what a killed process left beside it, and (if they are
 * empty) the directories that were made for it. Errors as above.
 */
int file_remove(const struct file_at *at, const char *expected, unsigned directories);

/*
 * A trial file beside the real one, for the verifier. The state directory has a link to it, named
 * TRIAL or TRIAL_MAIN, so that file_sweep() can remove it after a crash. path is below the host's
 * root, where the verifier runs.
 */
#define TRIAL      "trial"
#define TRIAL_MAIN "trial.main"
int file_put_trial(int state, const char *name, const struct host *host, const struct file_at *at,
	const struct file_bytes *new, char path[static PATH_MAX]);
void file_drop_trial(int state, const char *name);

/*
 * Copies of files, in files/ of the state directory, named by their hash. file_keep() is durable on
 * return. file_recall() returns -EBADMSG when the bytes do not match the hash.
 */
int file_keep(int state, const struct file_bytes *bytes);
int file_recall(int state, const char *hash, struct file_bytes *bytes);

/* True when files/ has a copy. */
bool file_any_kept(int state);

/*
 * Removes the trial files that a crash left, and copies that the journal does not mention. If an
 * original is missing, the journal may be wrong: then all copies stay.
 */
struct file_journal;
void file_sweep(const struct file_journal *journal);
