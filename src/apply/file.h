/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_FILE_H
#define APPLY_FILE_H

/*
 * Configuration files of the host: read, replaced and removed so that whoever opens them at any
 * moment, or after any crash, finds the old file or the new one. Everything here may block.
 */

#include "base/hash.h"
#include "kernel/host.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define FILE_NEW       ".headroom-new" /* ends no name that a program would read by a pattern */

/* Where a file really is, symbolic links of the host followed below the host's root. */
struct file_at {
	char full[PATH_MAX];      /* as this process sees it */
	char directory[PATH_MAX]; /* the deepest directory above it that exists */
	unsigned missing;         /* how many directories between them do not */
};

struct file_bytes {
	char *bytes; /* terminated; NULL when there is no such file */
	size_t len;
	char hash[HASH_TEXT_MAX]; /* FILE_HASH_NONE when there is no such file */
};

void file_bytes_clear(struct file_bytes *bytes);

/* 0 or -errno; -ELOOP for a link that points nowhere. */
int file_locate(const struct host *host, const char *path, struct file_at *at);

/* A missing file is no error. -EFBIG over FILE_BYTES_MAX, -EINVAL for what is no regular file. */
int file_take(const struct file_at *at, struct file_bytes *bytes);

/*
 * Puts bytes in the place of a file that still has the hash expected, with its owner, mode and
 * extended attributes, making missing directories; bytes NULL removes the file. Durable on return.
 * -ESTALE when the file has another hash now.
 */
int file_put(const struct file_at *at, const char *expected, const char *bytes, size_t len);

/* Removes up to n directories above a file that was removed, as long as they are empty. */
void file_drop_directories(const struct file_at *at, unsigned n);

/*
 * A file for the verifier's eyes only, beside the real one or as near as directories exist. The
 * state directory remembers it, so that file_sweep() finds what a crash left.
 */
int file_put_trial(int state, const struct file_at *at, const char *bytes, size_t len,
	char path[static PATH_MAX]);
void file_drop_trial(int state, const char *path);

/* What a crash may have left beside a file. */
void file_clean(const struct file_at *at);

/*
 * Original bytes, in files/ of the state directory under the name of their hash. file_keep is
 * durable on return; file_recall gives -EBADMSG for bytes that are not those of the name.
 */
int file_keep(int state, const char *hash, const char *bytes, size_t len);
int file_recall(int state, const char *hash, char **bytes, size_t *len);

/*
 * Removes all kept bytes whose hash does not occur in keep, unless a journal that could not be read
 * may know them; and trials that a crash left.
 */
void file_sweep(int state, const char *keep);

#endif
