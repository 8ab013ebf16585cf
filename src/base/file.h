/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/util.h"

DEFINE_CLEANUP(DIR, closedir)

/*
 * Reads a whole regular file of at most max bytes into a new terminated buffer, which the caller
 * frees. len may be NULL and does not count the terminator. Returns 0, -EFBIG for a larger file,
 * -EISDIR for a directory, -EINVAL for any other kind of file, or -errno. Never blocks on a FIFO.
 */
int read_file(const char *path, size_t max, char **ret, size_t *len);

/*
 * Replaces dir/name: writes dir/name.new, calls fsync(2), renames it and calls fsync(2) for dir.
 * Readers see the old content or the new, never a part. Returns 0, or -errno with the old file
 * kept. Without sync it never waits for a disk, but a crash of the node can lose the file.
 */
int replace_file(int dir, const char *name, const void *data, size_t len, bool sync);
int replace_path(const char *path, const void *data, size_t len, bool sync);

/*
 * Resolves a path below root ("" for /). Symbolic links are followed as on the host: an absolute
 * link begins at root. path is absolute and must exist. Returns 0 or -errno: -ENOENT,
 * -ENAMETOOLONG. Before Linux 5.6, or if openat2(2) is denied, links are not resolved.
 */
int path_in_root(const char *root, const char *path, char full[static PATH_MAX]);

/*
 * Does the same with additional flags of open(2). If root is not this process's own: -ENOSYS before
 * Linux 5.6, -ENOSYS or -EPERM if openat2(2) is denied.
 */
int locate_in_root(const char *root, const char *path, int flags, char full[static PATH_MAX]);

/* Removes "", "." and ".." from an absolute path, in place. False if ".." leads above the root. */
bool path_clean(char *path);

/* Writes all bytes, with several calls of write(2) if necessary. Returns 0 or -errno. */
int write_all(int fd, const void *data, size_t len);

/* Returns what lets a write succeed that failed with this error, followed by a path. */
const char *write_cure(int error);

/* Makes directories like mkdir -p. Returns 0 or -errno. */
int make_directories(const char *path, mode_t mode);

/*
 * Makes a directory like mkdir -p and opens it. Only its owner may change it: an earlier process
 * may have made it under another umask. Returns a descriptor, or -errno: -EKEYREJECTED if its owner
 * is another user, who can replace each file in it.
 */
int make_own_directory(const char *path);

/* Returns whether a file belongs to root or to the user of this process. */
bool is_own_file(const struct stat *st);

/* Removes like rm -rf, but keeps path itself, empty, if it is a mount. Returns 0 or -errno. */
int remove_tree(const char *path);
