/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Configuration files of the host: read, replaced and removed so that a process that opens them at
 * any moment, or after any crash, finds the old file or the new one. Everything here may block.
 */

#include "base/text.h"
#include "kernel/host.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define FILE_NEW       ".headroom-new" /* ends no name that a program would read by a pattern */
#define FILE_HASH_NONE "none"          /* instead of a hash: there is no such file */

/* Where a file really is, symbolic links of the host followed below the host's root. */
struct file_at {
	char full[PATH_MAX];      /* as this process sees it */
	char directory[PATH_MAX]; /* the deepest directory above it that exists */
	unsigned missing;         /* how many directories between them do not */
};

/* A content; bytes is terminated where it was read. */
struct file_bytes {
	char *bytes; /* NULL when there is no such file */
	size_t len;
	char hash[HASH_TEXT_MAX]; /* FILE_HASH_NONE when there is no such file */
};

void file_bytes_clear(struct file_bytes *bytes);

/* 0 or -errno; -ELOOP for a link that points nowhere. */
int file_locate(const struct host *host, const char *path, struct file_at *at);

/* A missing file is no error. -EFBIG over FILE_BYTES_MAX, -EINVAL for what is no regular file. */
int file_take(const struct file_at *at, struct file_bytes *bytes);

/*
 * Replaces a file that still has the hash expected, keeping its owner, mode and extended
 * attributes, and makes missing directories; without new bytes it removes the file. Durable on
 * return. -ESTALE when the file has another hash now.
 */
int file_put(const struct file_at *at, const char *expected, const struct file_bytes *new);

/*
 * A file for the verifier's eyes only, beside the real one or as near as directories exist. The
 * state directory has a link to it, under one of these names, so that file_sweep() finds what a
 * crash left. path is as the verifier names it, which runs inside the host's root.
 */
#define TRIAL      "trial"
#define TRIAL_MAIN "trial.main"
int file_put_trial(int state, const char *name, const struct host *host, const struct file_at *at,
	const struct file_bytes *new, char path[static PATH_MAX]);
void file_drop_trial(int state, const char *name);

/*
 * Original bytes, in files/ of the state directory under the name of their hash. file_keep is
 * durable on return; file_recall gives -EBADMSG for bytes that are not those of the name.
 */
int file_keep(int state, const struct file_bytes *bytes);
int file_recall(int state, const char *hash, struct file_bytes *bytes);

/* True when files/ holds kept bytes. */
bool file_any_kept(int state);

/*
 * Removes trials that a crash left, and kept bytes that the journal does not name; those stay if
 * the journal names an original that is not there, because then its names may be wrong.
 */
struct file_journal;
void file_sweep(const struct file_journal *journal);
