/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file.h"

#include "apply/file_journal.h"
#include "base/file.h"

#include <sys/xattr.h>

#define KEPT            "files"
#define DIRECTORIES_MAX 16

void file_bytes_clear(struct file_bytes *file)
{
	free(steal(file->bytes));
}

int file_locate(const struct host *host, const char *path, struct file_bytes *file)
{
	struct file_bytes found = {0};
	char above[PATH_MAX];
	unsigned up = 0; /* levels above it, to the first that exists */
	int r;

	if (!set_text(above, path))
		return -ENAMETOOLONG;
	while ((r = locate_in_root(host->root, above[0] ? above : "/", 0, found.directory)) ==
			-ENOENT &&
		above[0] && up++ < DIRECTORIES_MAX) {
		if (locate_in_root(host->root, above, O_NOFOLLOW, found.full) == 0)
			return -ELOOP;
		*strrchr(above, '/') = '\0';
	}
	if (r < 0)
		return r;
	if (streq(found.directory, "/"))
		found.directory[0] = '\0';
	if (snprintf(found.full, PATH_MAX, "%s%s", found.directory, path + strlen(above)) >=
		PATH_MAX)
		return -ENAMETOOLONG;
	if (up == 0)
		*strrchr(found.directory, '/') = '\0';
	found.missing = up > 0 ? up - 1 : 0;
	*file = found;
	return 0;
}

static int read_at(struct file_bytes *file)
{
	int r = read_file(file->full, FILE_BYTES_MAX, &file->bytes, &file->len);

	set_text(file->hash, FILE_HASH_NONE);
	if (r == 0)
		hash_bytes(file->bytes, file->len, file->hash);
	return r == -ENOENT ? 0 : r;
}

int file_read(const struct host *host, const char *path, struct file_bytes *file)
{
	int r = file_locate(host, path, file);

	return r < 0 ? r : read_at(file);
}

/*
 * Copies an extended attribute, or removes it from the new file if the old one lacks it, such as
 * the default ACL of the directory. EPERM for security.* is ignored: no security module uses it,
 * and only CAP_SYS_ADMIN may set it. A security module refuses with EACCES.
 */
static int match_attribute(int from, int to, const char *name)
{
	char value[4096], present[4096];
	ssize_t n_present = fgetxattr(to, name, present, sizeof(present));
	ssize_t n = fgetxattr(from, name, value, sizeof(value));
	bool security = starts_with(name, "security.");
	int r = 0;

	/* These are a measurement and a signature of the old content. */
	if (streq(name, "security.ima") || streq(name, "security.evm"))
		return 0;
	if (n < 0 && errno != ENODATA)
		return -errno;
	if (n < 0 && !security)
		r = fremovexattr(to, name);
	else if (n >= 0 && (n != n_present || memcmp(value, present, (size_t)n) != 0))
		r = fsetxattr(to, name, value, (size_t)n, 0);
	if (r == 0 || errno == EOPNOTSUPP || (n < 0 && errno == ENODATA))
		return 0;
	return errno == EPERM && security ? 0 : -errno;
}

/*
 * Without CAP_FOWNER the mode can only be set before the owner changes. CAP_CHOWN is needed only
 * for another owner, and CAP_FOWNER only for setuid bits, which a change of owner clears.
 */
static int copy_metadata(int from, int to)
{
	const int files[] = {to, from};
	struct stat old, new;

	if (fstat(from, &old) < 0)
		return -errno;
	/* Attributes before the mode, which would activate an inherited ACL. */
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char names[4096];
		ssize_t n = flistxattr(files[i], names, sizeof(names));
		int r = n < 0 && errno != EOPNOTSUPP ? -errno : 0;

		for (const char *name = names; r == 0 && name < names + n; name += strlen(name) + 1)
			r = match_attribute(from, to, name);
		if (r < 0)
			return r;
	}
	if (fchmod(to, old.st_mode & 0777) < 0 || fstat(to, &new) < 0 ||
		((old.st_uid != new.st_uid || old.st_gid != new.st_gid) &&
			fchown(to, old.st_uid, old.st_gid) < 0) ||
		((old.st_mode & 07000) && fchmod(to, old.st_mode & 07777) < 0))
		return -errno;
	return 0;
}

/* Writes a new file. like: durably, with the metadata of that file; NULL: readable by root only. */
static int write_beside(const char *path, const struct file_bytes *new, const char *like)
{
	_cleanup_close_ int to = -1, from = -1;
	int r;

	unlink(path);
	to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (to < 0)
		return -errno;
	r = write_all(to, new->bytes, new->len);
	if (r < 0 || !like)
		return r;
	from = open(like, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (from < 0 && errno != ENOENT)
		return -errno;
	r = from >= 0 ? copy_metadata(from, to) : fchmod(to, 0644);
	if (r == 0)
		r = fsync(to);
	return r == -1 ? -errno : r;
}

int file_put(const struct file_bytes *old, const struct file_bytes *new)
{
	_cleanup_(file_bytes_clear) struct file_bytes now = {0};
	_cleanup_close_ int directory = -1;
	char path[PATH_MAX], *end = path + strlen(old->directory);
	int r = 0;

	if (snprintf(path, sizeof(path), "%s" FILE_NEW, old->full) >= PATH_MAX)
		return -ENAMETOOLONG;
	/* chmod() because of the umask: other users read files in these directories. */
	for (unsigned i = 0; r == 0 && i < old->missing && new->bytes; i++) {
		end = strchr(end + 1, '/');
		*end = '\0';
		if (mkdir(path, 0755) == 0 ? chmod(path, 0755) < 0 : errno != EEXIST)
			r = -errno;
		*end = '/';
	}
	if (r == 0 && new->bytes)
		r = write_beside(path, new, old->full);
	set_text(now.full, old->full);
	if (r == 0)
		r = read_at(&now);
	if (r == 0 && !streq(now.hash, old->hash))
		r = -ESTALE;
	if (r == 0 && (new->bytes ? rename(path, old->full) : unlink(old->full)) < 0 &&
		(new->bytes || errno != ENOENT))
		r = -errno;
	if (r < 0) {
		unlink(path);
		return r;
	}
	*strrchr(path, '/') = '\0';
	directory = open(path[0] ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0 || fsync(directory) < 0)
		return errno == ENOENT && !new->bytes ? 0 : -errno;
	return 0;
}

int file_remove(const struct file_bytes *old, unsigned directories)
{
	const struct file_bytes none = {0};
	char path[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s" FILE_NEW, old->full) < PATH_MAX)
		unlink(path);
	r = file_put(old, &none);
	copy_text(path, sizeof(path), old->full);
	for (; r == 0 && directories > 0; directories--) {
		*strrchr(path, '/') = '\0';
		if (path[0] == '\0' || (rmdir(path) < 0 && errno != ENOENT))
			break;
	}
	return r;
}

static int open_kept(int state, bool make)
{
	int fd;

	if (make && mkdirat(state, KEPT, 0700) == 0 && fsync(state) < 0)
		return -errno;
	fd = openat(state, KEPT, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

void file_drop_trial(int state, const char *name)
{
	_cleanup_close_ int kept = open_kept(state, false);
	char path[PATH_MAX];
	ssize_t n = kept < 0 ? -1 : readlinkat(kept, name, path, sizeof(path) - 1);

	if (n < 0)
		return;
	path[n] = '\0';
	unlink(path);
	unlinkat(kept, name, 0);
}

int file_put_trial(int state, const char *name, const struct host *host,
	const struct file_bytes *real, const struct file_bytes *new, char path[static PATH_MAX])
{
	_cleanup_close_ int kept = open_kept(state, true);
	size_t root = strlen(host->root);
	char full[PATH_MAX];
	int r;

	if (kept < 0)
		return kept;
	if (snprintf(full, PATH_MAX, "%s%s" FILE_NEW, real->directory, strrchr(real->full, '/')) >=
		PATH_MAX)
		return -ENAMETOOLONG;
	if (symlinkat(full, kept, name) < 0)
		return -errno;
	r = write_beside(full, new, NULL);
	if (r < 0)
		file_drop_trial(state, name);
	else
		copy_text(path, PATH_MAX,
			strncmp(full, host->root, root) == 0 && full[root] == '/' ? full + root
										  : full);
	return r;
}

int file_recall(int state, const char *hash, struct file_bytes *bytes)
{
	_cleanup_(file_bytes_clear) struct file_bytes read = {0};
	char path[64 + HASH_TEXT_MAX];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/" KEPT "/%s", state, hash);
	r = read_file(path, FILE_BYTES_MAX, &read.bytes, &read.len);
	if (r < 0)
		return r;
	hash_bytes(read.bytes, read.len, read.hash);
	if (!streq(read.hash, hash))
		return -EBADMSG;
	*bytes = read;
	read.bytes = NULL;
	return 0;
}

int file_keep(int state, const struct file_bytes *bytes)
{
	_cleanup_close_ int kept = open_kept(state, true);
	_cleanup_(file_bytes_clear) struct file_bytes there = {0};

	if (kept < 0)
		return kept;
	/* An earlier process may have been killed before it synced the directory. */
	if (file_recall(state, bytes->hash, &there) == 0)
		return fsync(kept) < 0 ? -errno : 0;
	return replace_file(kept, bytes->hash, bytes->bytes, bytes->len, true);
}

bool file_any_kept(int state)
{
	int kept = open_kept(state, false);
	struct dirent *entry = NULL;
	DIR *directory;

	if (kept < 0)
		return false;
	directory = must(fdopendir(kept));
	while ((entry = readdir(directory)) && strlen(entry->d_name) != HASH_TEXT_MAX - 1)
		;
	closedir(directory);
	return entry;
}

void file_sweep(const struct file_journal *journal)
{
	int kept = open_kept(journal->dir, false);
	bool agrees = true;
	struct dirent *entry;
	DIR *directory;

	file_drop_trial(journal->dir, TRIAL);
	file_drop_trial(journal->dir, TRIAL_MAIN);
	if (kept < 0)
		return;
	for (size_t i = 0; i < journal->n_files; i++)
		agrees = agrees &&
			 (streq(journal->files[i].original, FILE_HASH_NONE) ||
				 faccessat(kept, journal->files[i].original, F_OK, 0) == 0);
	directory = must(fdopendir(kept));
	while (agrees && (entry = readdir(directory))) {
		const char *hash = entry->d_name;
		bool needed = hash[0] == '.';

		for (size_t i = 0; !needed && i < journal->n_files; i++)
			needed = streq(journal->files[i].original, hash) ||
				 file_is_ours(&journal->files[i], hash);
		if (!needed)
			unlinkat(kept, hash, 0);
	}
	closedir(directory);
}
