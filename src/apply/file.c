/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file.h"

#include "apply/file_journal.h"
#include "base/file.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define KEPT            "files"
#define DIRECTORIES_MAX 16

#define TRIAL          "trial."
#define TRIAL_NAME_MAX (sizeof(TRIAL) + HASH_TEXT_MAX)

void file_bytes_clear(struct file_bytes *bytes)
{
	free(steal(bytes->bytes));
}

int file_locate(const struct host *host, const char *path, struct file_at *at)
{
	struct file_at found = {0};
	char above[PATH_MAX], link[PATH_MAX];
	int r = locate_in_root(host->root, path, 0, found.full);

	if (r == 0) {
		copy_text(found.directory, sizeof(found.directory), found.full);
		*strrchr(found.directory, '/') = '\0';
		*at = found;
		return 0;
	}
	if (!copy_text(above, sizeof(above), path))
		return -ENAMETOOLONG;
	for (unsigned i = 0; r == -ENOENT && i < DIRECTORIES_MAX; i++) {
		char *slash = strrchr(above, '/');

		if (!slash)
			return -EINVAL;
		if (locate_in_root(host->root, above, O_NOFOLLOW, link) == 0)
			return -ELOOP;
		found.missing = i;
		*slash = '\0';
		r = locate_in_root(host->root, above[0] ? above : "/", 0, found.directory);
	}
	if (r < 0)
		return r;
	if (streq(found.directory, "/"))
		found.directory[0] = '\0';
	if (snprintf(found.full, PATH_MAX, "%s%s", found.directory, path + strlen(above)) >=
		PATH_MAX)
		return -ENAMETOOLONG;
	*at = found;
	return 0;
}

int file_take(const struct file_at *at, struct file_bytes *bytes)
{
	struct file_bytes taken = {.hash = FILE_HASH_NONE};
	int r = read_file(at->full, FILE_BYTES_MAX, &taken.bytes, &taken.len);

	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0)
		hash_bytes(taken.bytes, taken.len, taken.hash);
	*bytes = taken;
	return 0;
}

static int sync_directory(const char *directory)
{
	_cleanup_close_ int fd =
		open(directory[0] ? directory : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* From the deepest one that exists down to the file's own. */
static int make_missing_directories(const struct file_at *at)
{
	char directory[PATH_MAX];
	char *end = directory + strlen(at->directory);
	int r = 0;

	copy_text(directory, sizeof(directory), at->full);
	for (unsigned i = 0; r == 0 && i < at->missing; i++) {
		char *slash = strchr(end + 1, '/');

		if (!slash)
			return -EINVAL;
		*slash = '\0';
		/* Whatever the umask, which is a daemon's: others read what lies beside ours. */
		if (mkdir(directory, 0755) == 0 ? chmod(directory, 0755) < 0 : errno != EEXIST)
			return -errno;
		*end = '\0';
		r = sync_directory(directory);
		*end = *slash = '/';
		end = slash;
	}
	return r;
}

/* The old content's measurement and signature. */
static bool is_of_content(const char *name)
{
	return streq(name, "security.ima") || streq(name, "security.evm");
}

/*
 * EPERM for security.*: without its module a label means nothing, and only CAP_SYS_ADMIN may set
 * it. With the module a refusal is EACCES.
 */
static int copy_attribute(int from, int to, const char *name)
{
	char value[4096], present[4096];
	ssize_t n = fgetxattr(from, name, value, sizeof(value));
	ssize_t n_present = fgetxattr(to, name, present, sizeof(present));

	if (n < 0)
		return errno == ENODATA ? 0 : -errno;
	if (n == n_present && memcmp(value, present, (size_t)n) == 0)
		return 0;
	if (fsetxattr(to, name, value, (size_t)n, 0) == 0 || errno == EOPNOTSUPP)
		return 0;
	return errno == EPERM && starts_with(name, "security.") ? 0 : -errno;
}

/* What the new file took from its directory, such as a default ACL, and the old one lacks. */
static int remove_attribute(int from, int to, const char *name)
{
	if (fgetxattr(from, name, NULL, 0) >= 0 || errno != ENODATA ||
		starts_with(name, "security."))
		return 0;
	return fremovexattr(to, name) < 0 && errno != ENODATA && errno != EOPNOTSUPP ? -errno : 0;
}

static int copy_attributes(int from, int to)
{
	for (int copying = 0; copying < 2; copying++) {
		char names[4096];
		ssize_t n = flistxattr(copying ? from : to, names, sizeof(names));

		if (n < 0 && errno != EOPNOTSUPP)
			return -errno;
		for (const char *name = names; n > 0 && name < names + n;
			name += strlen(name) + 1) {
			int r = is_of_content(name) ? 0
				: copying           ? copy_attribute(from, to, name)
						    : remove_attribute(from, to, name);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

/*
 * Mode before owner: a file of somebody else may be changed no more. Only who differs asks for
 * CAP_CHOWN, and setuid bits, which a change of owner takes, for CAP_FOWNER.
 */
static int copy_metadata(int from, int to)
{
	struct stat old, new;
	int r;

	if (fstat(from, &old) < 0)
		return -errno;
	/* First, because with the mode an inherited ACL takes effect. */
	r = copy_attributes(from, to);
	if (r < 0)
		return r;
	if (fchmod(to, old.st_mode & 0777) < 0 || fstat(to, &new) < 0 ||
		((old.st_uid != new.st_uid || old.st_gid != new.st_gid) &&
			fchown(to, old.st_uid, old.st_gid) < 0))
		return -errno;
	if ((old.st_mode & 07777) != (old.st_mode & 0777) && fchmod(to, old.st_mode & 07777) < 0)
		return -errno;
	return 0;
}

/* A new file beside the old one, as nobody but root may read it yet. */
static int write_beside(const char *path, const char *bytes, size_t len)
{
	_cleanup_close_ int fd = -1;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	return write_all(fd, bytes, len);
}

static int apply_metadata(const char *path, const char *like)
{
	_cleanup_close_ int to = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_close_ int from = open(like, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int r = 0;

	if (from < 0 && errno != ENOENT)
		return -errno;
	if (to < 0)
		return -errno;
	if (from >= 0)
		r = copy_metadata(from, to);
	else if (fchmod(to, 0644) < 0)
		r = -errno;
	if (r < 0)
		return r;
	return fsync(to) < 0 ? -errno : 0;
}

static int check_unchanged(const struct file_at *at, const char *expected)
{
	struct file_bytes now;
	int r = file_take(at, &now);

	if (r < 0)
		return r;
	file_bytes_clear(&now);
	return streq(now.hash, expected) ? 0 : -ESTALE;
}

/* A file that somebody made since we looked stays, where the file system can tell in one step. */
static int move_into_place(const char *new, const char *path, bool is_first)
{
	if (is_first) {
		if (renameat2(AT_FDCWD, new, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
			return 0;
		if (errno == EEXIST)
			return -ESTALE;
		if (errno != EINVAL && errno != ENOSYS)
			return -errno;
	}
	return rename(new, path) < 0 ? -errno : 0;
}

static int replace(const struct file_at *at, const char *expected, const char *bytes, size_t len)
{
	char new[PATH_MAX];
	int r;

	if (snprintf(new, sizeof(new), "%s" FILE_NEW, at->full) >= PATH_MAX)
		return -ENAMETOOLONG;
	r = make_missing_directories(at);
	if (r == 0)
		r = write_beside(new, bytes, len);
	if (r == 0)
		r = apply_metadata(new, at->full);
	if (r == 0)
		r = check_unchanged(at, expected);
	if (r == 0)
		r = move_into_place(new, at->full, streq(expected, FILE_HASH_NONE));
	if (r < 0)
		unlink(new);
	return r;
}

int file_put(const struct file_at *at, const char *expected, const char *bytes, size_t len)
{
	char directory[PATH_MAX];
	int r;

	if (bytes) {
		r = replace(at, expected, bytes, len);
	} else {
		r = check_unchanged(at, expected);
		if (r == 0 && unlink(at->full) < 0 && errno != ENOENT)
			r = -errno;
	}
	if (r < 0)
		return r;
	copy_text(directory, sizeof(directory), at->full);
	*strrchr(directory, '/') = '\0';
	r = sync_directory(directory);
	return r == -ENOENT && !bytes ? 0 : r;
}

void file_drop_directories(const struct file_at *at, unsigned n)
{
	char directory[PATH_MAX];

	copy_text(directory, sizeof(directory), at->full);
	for (unsigned i = 0; i < n; i++) {
		*strrchr(directory, '/') = '\0';
		if (directory[0] == '\0' || (rmdir(directory) < 0 && errno != ENOENT))
			return;
	}
}

void file_clean(const struct file_at *at)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s" FILE_NEW, at->full) < PATH_MAX)
		unlink(path);
}

static int open_kept(int state, bool make)
{
	int fd;

	if (make && mkdirat(state, KEPT, 0700) == 0 && fsync(state) < 0)
		return -errno;
	fd = openat(state, KEPT, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

/* A link in files/ to the trial. */
static void name_trial(const char *path, char name[static TRIAL_NAME_MAX])
{
	char hash[HASH_TEXT_MAX];

	hash_bytes(path, strlen(path), hash);
	snprintf(name, TRIAL_NAME_MAX, TRIAL "%s", hash);
}

int file_put_trial(int state, const struct file_at *at, const char *bytes, size_t len,
	char path[static PATH_MAX])
{
	_cleanup_close_ int kept = open_kept(state, true);
	char name[TRIAL_NAME_MAX];
	int r;

	if (kept < 0)
		return kept;
	if (snprintf(path, PATH_MAX, "%s%s" FILE_NEW, at->directory, strrchr(at->full, '/')) >=
		PATH_MAX)
		return -ENAMETOOLONG;
	name_trial(path, name);
	if (symlinkat(path, kept, name) < 0 && errno != EEXIST)
		return -errno;
	r = write_beside(path, bytes, len);
	if (r < 0)
		file_drop_trial(state, path);
	return r;
}

void file_drop_trial(int state, const char *path)
{
	_cleanup_close_ int kept = open_kept(state, false);
	char name[TRIAL_NAME_MAX];

	unlink(path);
	name_trial(path, name);
	if (kept >= 0)
		unlinkat(kept, name, 0);
}

static void drop_left_trial(int kept, const char *name)
{
	char path[PATH_MAX];
	ssize_t n = readlinkat(kept, name, path, sizeof(path) - 1);

	if (n < 0)
		return;
	path[n] = '\0';
	unlink(path);
	unlinkat(kept, name, 0);
}

int file_recall(int state, const char *hash, char **bytes, size_t *len)
{
	_cleanup_free_ char *read = NULL;
	char path[64 + HASH_TEXT_MAX], found[HASH_TEXT_MAX];
	size_t n;
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/" KEPT "/%s", state, hash);
	r = read_file(path, FILE_BYTES_MAX, &read, &n);
	if (r < 0)
		return r;
	hash_bytes(read, n, found);
	if (!streq(found, hash))
		return -EBADMSG;
	*bytes = steal(read);
	*len = n;
	return 0;
}

int file_keep(int state, const char *hash, const char *bytes, size_t len)
{
	_cleanup_close_ int kept = open_kept(state, true);
	_cleanup_free_ char *there = NULL;
	size_t n;

	if (kept < 0)
		return kept;
	/* Killed before the directory was synced, an earlier run left only the name. */
	if (file_recall(state, hash, &there, &n) == 0)
		return fsync(kept) < 0 ? -errno : 0;
	return write_file_atomic(kept, hash, bytes, len);
}

void file_sweep(int state, const char *keep)
{
	int fd = open_kept(state, false);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	/* The only one that can tell what they are of is to be read by people. */
	bool keep_all = faccessat(state, JOURNAL_BAD, F_OK, 0) == 0;

	if (!directory) {
		cleanup_close(&fd);
		return;
	}
	while ((entry = readdir(directory)))
		if (starts_with(entry->d_name, TRIAL))
			drop_left_trial(fd, entry->d_name);
		else if (entry->d_name[0] != '.' && !keep_all && !strstr(keep, entry->d_name))
			unlinkat(fd, entry->d_name, 0);
	closedir(directory);
}
