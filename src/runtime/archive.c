/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/archive_internal.h"

#include "base/file.h"

#include <regex.h>

#define LINKS_MAX 8

int archive_fail(struct archive_reader *reader, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reader->why, ARCHIVE_WHY_MAX, format, args);
	va_end(args);
	text_make_printable(reader->why);
	return error;
}

int archive_check_wait(struct archive_reader *reader)
{
	const struct wait at_once = {0, reader->wait->cancel_fd};

	if (wait_for(&at_once, -1, 0) == -ECANCELED)
		return archive_fail(reader, -ECANCELED, "canceled");
	if (now_us() >= reader->wait->deadline_us)
		return archive_fail(reader, -ETIMEDOUT, "not read in time");
	return 0;
}

int archive_pread(int fd, void *data, size_t size, uint64_t offset)
{
	for (size_t have = 0; have < size;) {
		ssize_t n = pread(fd, (char *)data + have, size - have, (off_t)(offset + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		have += (size_t)n;
	}
	return 0;
}

/* ---- files of the archive ---- */

/* Opens a regular file below a directory; no part of its path may be a link. */
static int open_below(int directory, const char *name, struct archive_file *file)
{
	_cleanup_close_ int at = fcntl(directory, F_DUPFD_CLOEXEC, 3);
	char part[NAME_MAX + 1];
	struct stat st;

	for (size_t len; at >= 0 && *name; name += len + (name[len] == '/')) {
		_cleanup_close_ int parent = at;

		len = strcspn(name, "/");
		snprintf(part, sizeof(part), "%.*s", (int)len, name);
		at = openat(parent, part,
			O_RDONLY | O_CLOEXEC | O_NOFOLLOW |
				(name[len] == '/' ? O_DIRECTORY : O_NONBLOCK | O_NOCTTY));
	}
	if (at < 0 || fstat(at, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	*file = (struct archive_file){.fd = steal_fd(&at), .size = (uint64_t)st.st_size};
	return 0;
}

int archive_file_open(struct archive_reader *reader, const char *name, struct archive_file *file)
{
	uint64_t wanted = hash_text(HASH_START, name);
	int r;

	if (!name[0])
		return archive_bad(reader, "a configuration or layer without a file name");
	if (reader->archive->directory) {
		r = open_below(reader->archive->fd, name, file);
		if (r < 0)
			archive_fail(reader, r, "%.90s: %s", name,
				r == -ELOOP || r == -ENOTDIR
					? "a symbolic link: copy the layout with cp -rL"
					: strerror(-r));
		return r == 0 || r == -ENOENT ? r : -EBADMSG;
	}
	for (int links = 0; links <= LINKS_MAX; links++) {
		const struct archive_member *member = NULL;

		/* The last member with a name counts, as in an unpacked archive. */
		for (size_t i = reader->n_members; i-- > 0 && !member;)
			if (reader->members[i].name == wanted)
				member = &reader->members[i];
		if (!member)
			return archive_fail(
				reader, -ENOENT, "%.90s is missing in the archive", name);
		if (!member->link) {
			int fd = fcntl(reader->archive->fd, F_DUPFD_CLOEXEC, 3);

			if (fd < 0)
				return archive_error(reader, -errno);
			*file = (struct archive_file){fd, member->offset, member->size};
			return 0;
		}
		if (member->link == hash_text(HASH_START, ""))
			return archive_bad(reader, "%.90s links out of the archive", name);
		wanted = member->link;
	}
	return archive_bad(reader, "%.90s: more than %d links", name, LINKS_MAX);
}

int archive_blob_open(const struct archive *archive, const struct archive_blob *blob)
{
	struct archive_file file;
	char name[sizeof(BLOB_PATH) + DIGEST_MAX];
	int r;

	if (!archive->directory) {
		r = fcntl(archive->fd, F_DUPFD_CLOEXEC, 3);
		return r < 0 ? -errno : r;
	}
	snprintf(name, sizeof(name), BLOB_PATH, blob->digest + strlen("sha256:"));
	r = open_below(archive->fd, name, &file);
	if (r < 0 || file.size == blob->size)
		return r < 0 ? r : file.fd;
	close(file.fd);
	return -ESTALE;
}

/* ---- opening ---- */

static int read_archive(struct archive_reader *reader, const char *path)
{
	struct archive *archive = reader->archive;
	char full[PATH_MAX];
	struct stat st;
	int r = path_in_root(reader->host->root, path, full);

	if (r < 0)
		return archive_error(reader, r);
	archive->fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	if (archive->fd < 0 || fstat(archive->fd, &st) < 0)
		return archive_error(reader, -errno);
	archive->directory = S_ISDIR(st.st_mode);
	if (!archive->directory && !S_ISREG(st.st_mode))
		return archive_bad(reader, "neither a file nor a directory");
	r = archive->directory ? 0 : archive_read_tar(reader);
	return r < 0 ? r : archive_read_index(reader);
}

int archive_open(const struct host *host, const char *path, unsigned int percent_free,
	uint64_t unpacked_max, const struct wait *wait, struct archive **ret,
	char why[static ARCHIVE_WHY_MAX])
{
	_cleanup_(cleanup_archive_close) struct archive *archive =
		must(calloc(1, sizeof(*archive)));
	struct archive_reader reader = {.host = host,
		.percent_free = percent_free,
		.unpacked_max = unpacked_max,
		.wait = wait,
		.archive = archive,
		.why = why};
	int r;

	archive->fd = -1;
	r = read_archive(&reader, path);
	free(reader.members);
	if (r < 0)
		return r;
	*ret = steal(archive);
	why[0] = '\0';
	return 0;
}

void archive_close(struct archive *archive)
{
	free(archive->blobs);
	free(archive->parts);
	free(archive->images);
	cleanup_close(&archive->fd);
	free(archive);
}

/* ---- names ---- */

#define DOMAIN    "([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+])(:[0-9]+)?"
#define COMPONENT "[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*"
#define WHOLE_NAME \
	"^" DOMAIN "(/" COMPONENT ")+(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$"
#define TAG_MAX 128

int image_normalize(const char *reference, char name[static IMAGE_NAME_MAX])
{
	char copy[IMAGE_NAME_MAX], whole[IMAGE_NAME_MAX], *rest = copy, *slash, *tag, *digest;
	const char *domain = "docker.io";
	regex_t regex;
	int n, r;

	if (!set_text(copy, reference))
		return -EINVAL;
	slash = strchr(copy, '/');
	n = slash ? (int)(slash - copy) : 0;
	if (strcspn(copy, ".:") < (size_t)n || (n == 9 && starts_with(copy, "localhost"))) {
		domain = copy;
		rest = slash + 1;
		*slash = '\0';
	}
	digest = strchr(rest, '@');
	if (digest)
		*digest++ = '\0';
	tag = strrchr(rest, ':');
	if (tag)
		*tag++ = '\0';
	if (streq(domain, "index.docker.io"))
		domain = "docker.io";
	/* A digest overrides the tag. */
	n = snprintf(whole, sizeof(whole), "%s/%s%s%c%s", domain,
		streq(domain, "docker.io") && !strchr(rest, '/') ? "library/" : "", rest,
		digest ? '@' : ':',
		digest ? digest
		: tag  ? tag
		       : "latest");
	/* 64 hexadecimal digits are an image ID. */
	if (n >= (int)sizeof(whole) || (tag && strlen(tag) > TAG_MAX) ||
		(strlen(reference) == 64 && strspn(reference, "0123456789abcdef") == 64))
		return -EINVAL;
	if (regcomp(&regex, WHOLE_NAME, REG_EXTENDED | REG_NOSUB) != 0)
		return -EINVAL;
	r = regexec(&regex, whole, 0, NULL, 0);
	regfree(&regex);
	if (r != 0)
		return -EINVAL;
	copy_text(name, IMAGE_NAME_MAX, whole);
	return 0;
}
