/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <fts.h>
#include <sys/syscall.h>

#include <linux/openat2.h>

int read_file(const char *path, size_t max, char **ret, size_t *len)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_free_ char *buffer = NULL;
	struct stat st;
	size_t have = 0, size = 0;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	/* Files of procfs report no size. A large buffer would be mapped, and unmapped again. */
	while (n > 0) {
		if (have + 1 >= size) {
			size = MIN(2 * size + 8192, max + 2);
			buffer = must(realloc(buffer, size));
		}
		n = read(fd, buffer + have, size - 1 - have);
		have += (size_t)MAX(n, 0);
	}
	if (n < 0 || have > max)
		return n < 0 ? -errno : -EFBIG;
	buffer[have] = '\0';
	if (len)
		*len = have;
	*ret = realloc(steal(buffer), have + 1);
	return 0;
}

static bool is_same_file(int fd, const char *path)
{
	struct stat ours, found;

	return fstat(fd, &ours) == 0 && lstat(path, &found) == 0 && ours.st_dev == found.st_dev &&
	       ours.st_ino == found.st_ino;
}

/*
 * The kernel's path of a file begins at the root of a mount namespace. If root is a process's root
 * in another namespace, the path is relative to root. -ESTALE if the path now leads to another
 * file.
 */
static int path_of(int fd, const char *root, char full[static PATH_MAX])
{
	char link[32], name[PATH_MAX], below[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name) - 1);
	if (n < 0)
		return -errno;
	name[n] = '\0';
	if (is_same_file(fd, name)) {
		copy_text(full, PATH_MAX, name);
		return 0;
	}
	if (snprintf(below, sizeof(below), "%s%s", root, name) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (!is_same_file(fd, below))
		return -ESTALE;
	copy_text(full, PATH_MAX, below);
	return 0;
}

int locate_in_root(const char *root, const char *path, int flags, char full[static PATH_MAX])
{
	_cleanup_close_ int top = open(root[0] ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int open_flags = O_PATH | O_CLOEXEC | flags;
	struct open_how how = {
		.flags = (uint64_t)open_flags, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int r = top < 0 ? -errno : -ESTALE;

	/* Try again if the file was replaced meanwhile. */
	for (int i = 0; r == -ESTALE && i < 5; i++) {
		_cleanup_close_ int fd = (int)syscall(SYS_openat2, top, path, &how, sizeof(how));

		/*
		 * openat2(2) may be missing, or denied by seccomp, as with RestrictSUIDSGID=yes.
		 * For this process's own root, openat(2) resolves links in the same way.
		 */
		if (fd < 0 && (errno == ENOSYS || errno == EPERM) && is_same_file(top, "/"))
			fd = openat(top, path, open_flags);
		r = fd < 0 ? -errno : path_of(fd, root, full);
	}
	return r;
}

int path_in_root(const char *root, const char *path, char full[static PATH_MAX])
{
	int r = locate_in_root(root, path, 0, full);

	if (r != -ENOSYS && r != -EPERM)
		return r;
	if (snprintf(full, PATH_MAX, "%s%s", root, path) >= PATH_MAX)
		return -ENAMETOOLONG;
	return access(full, F_OK) < 0 ? -errno : 0;
}

int write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int replace_file(int dir, const char *name, const void *data, size_t len, bool sync)
{
	_cleanup_close_ int fd = -1;
	char temporary[NAME_MAX];
	int r;

	if (!copy_text(temporary, sizeof(temporary) - 4, name))
		return -ENAMETOOLONG;
	strcat(temporary, ".new");
	fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : write_all(fd, data, len);
	if (r == 0 && sync && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir, temporary, dir, name) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(dir, temporary, 0);
		return r;
	}
	return sync && fsync(dir) < 0 ? -errno : 0;
}

int replace_path(const char *path, const void *data, size_t len, bool sync)
{
	const char *name = strrchr(path, '/');
	_cleanup_free_ char *directory =
		must(name ? strndup(path, (size_t)(name - path) + 1) : strdup("."));
	_cleanup_close_ int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir < 0 ? -errno : replace_file(dir, name ? name + 1 : path, data, len, sync);
}

const char *write_cure(int error)
{
	return error == -ENOSPC || error == -EDQUOT ? "make room in"
	       : error == -EROFS                    ? "remount read-write the file system of"
						    : "give write access to";
}

int make_directories(const char *path, mode_t mode)
{
	char partial[PATH_MAX], *end = partial, cut;

	if (!set_text(partial, path))
		return -ENAMETOOLONG;
	do {
		end = strchrnul(end + (*end != '\0'), '/');
		cut = *end;
		*end = '\0';
		if (mkdir(partial, mode) < 0 && errno != EEXIST)
			return -errno;
		*end = cut;
	} while (cut);
	return 0;
}

bool is_own_file(const struct stat *st)
{
	return st->st_uid == 0 || st->st_uid == geteuid();
}

int make_own_directory(const char *path)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r = make_directories(path, 0755);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!is_own_file(&st))
		return -EKEYREJECTED;
	if ((st.st_mode & 022) && fchmod(fd, 0755) < 0)
		return -errno;
	return steal_fd(&fd);
}

int remove_tree(const char *path)
{
	/* Only directories are compared: files of an overlay have other devices than it. */
	FTS *tree = fts_open(
		(char *[]){(char *)path, NULL}, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	int r = tree ? 0 : -errno;

	for (FTSENT *entry; r == 0 && (entry = fts_read(tree));) {
		if (entry->fts_info == FTS_NS || entry->fts_info == FTS_DNR)
			r = entry->fts_errno == ENOENT ? 0 : -entry->fts_errno;
		else if (entry->fts_info != FTS_D && remove(entry->fts_accpath) < 0 &&
			 (entry->fts_level > 0 || errno != EBUSY))
			r = -errno;
	}
	if (tree)
		(void)fts_close(tree);
	return r;
}

bool path_clean(char *path)
{
	char *to = path;
	bool inside = true;
	size_t n;

	for (const char *from = path; *from; from += n) {
		from += strspn(from, "/");
		n = strcspn(from, "/");
		if (n == 2 && starts_with(from, "..")) {
			inside = inside && to > path;
			while (to > path && *--to != '/')
				;
		} else if (n > 0 && !(n == 1 && *from == '.')) {
			*to++ = '/';
			memmove(to, from, n);
			to += n;
		}
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
	return inside;
}
