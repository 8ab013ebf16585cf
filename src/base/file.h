/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/util.h"

DEFINE_CLEANUP(DIR, closedir)

/*
 * Reads a whole regular file, at most max bytes, into a new terminated buffer that the caller
 * frees; len (may be NULL) is without the terminator. -EFBIG when there is more, -EISDIR or -EINVAL
 * for what is no regular file, else -errno. A FIFO or device never blocks.
 */
int read_file(const char *path, size_t max, char **ret, size_t *len);

/*
 * Replaces dir/name by way of dir/name.new: written, fsynced, renamed over it, dir fsynced. Anyone
 * who opens the name sees the old content or the new, never a part. 0 or -errno; on an error the
 * old file stands.
 */
int write_file_atomic(int dir, const char *name, const void *data, size_t len);

/*
 * Where a file below root ("" for /) really is, links on the way followed as the host itself would:
 * an absolute one begins at root and not at ours. path is absolute and must be there. 0 or -errno:
 * -ENOENT, -ENAMETOOLONG. Before Linux 5.6, or without leave to call openat2(2), links are not
 * looked at.
 */
int path_in_root(const char *root, const char *path, char full[static PATH_MAX]);

/*
 * The same, with flags of open(2) added; -ENOSYS before Linux 5.6, and that or -EPERM without leave
 * to call openat2(2), where root is not this process's own.
 */
int locate_in_root(const char *root, const char *path, int flags, char full[static PATH_MAX]);

/* Removes "", "." and ".." from an absolute path, in place. False if ".." leads above the root. */
bool path_clean(char *path);

/* Writes all of it, whatever the kernel takes at once. 0 or -errno. */
int write_all(int fd, const void *data, size_t len);

/* mkdir -p. 0 or -errno. */
int make_directories(const char *path, mode_t mode);

/* rm -rf, but leaves path itself, empty, where it is a mount. 0 or -errno. */
int remove_tree(const char *path);
