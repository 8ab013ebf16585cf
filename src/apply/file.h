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

/* Sets the location. 0; -ELOOP for a link to a missing file; or another -errno. */
int file_locate(const struct host *host, const char *path, struct file_bytes *file);

/*
 * Locates and reads a file. 0, also for a missing one; -EFBIG above FILE_BYTES_MAX; -EINVAL unless
 * it is regular; or an error of file_locate(). The location is set unless that fails.
 */
int file_read(const struct host *host, const char *path, struct file_bytes *file);

/*
 * Replaces a file that was read or, without new bytes, removes it, durably. Makes missing
 * directories. Keeps the owner, mode and extended attributes. -ESTALE when the file has another
 * hash by now.
 */
int file_put(const struct file_bytes *old, const struct file_bytes *new);

/*
 * Removes a file that was made for us, what a killed process left beside it, and (if they are
 * empty) the directories that were made for it. Errors as above.
 */
int file_remove(const struct file_bytes *old, unsigned directories);

/*
 * A trial file beside the real one, for the verifier. The state directory has a link to it, named
 * TRIAL or TRIAL_MAIN, so that file_sweep() can remove it after a crash. path is below the host's
 * root, where the verifier runs.
 */
#define TRIAL      "trial"
#define TRIAL_MAIN "trial.main"
int file_put_trial(int state, const char *name, const struct host *host,
	const struct file_bytes *real, const struct file_bytes *new, char path[static PATH_MAX]);
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
