/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads headers of tar files as Go's archive/tar does, which container engines use: old and ustar
 * headers, pax headers (POSIX.1-2008, pax), long names and sizes of GNU tar.
 */

#include "base/file.h"
#include "runtime/archive_internal.h"

#define MEMBERS_MAX   4096
#define BLOCK         512
#define NO_TAR        "not a tar file, plain or compressed by gzip or zstd"
#define EXTENSION_MAX 65536 /* of a pax header or a long name */

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
	char magic[8], owner[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

/* Attributes of the next member, from pax headers and GNU's long names. */
struct extended {
	char name[PATH_MAX], link[PATH_MAX]; /* "": not set */
	bool has_size;
	uint64_t size;
};

/* Octal digits, or a big-endian binary number when the first bit is set. */
static bool parse_number(const char *field, size_t size, uint64_t *ret)
{
	uint64_t n = (unsigned char)field[0] & 0x7f;
	size_t i = 1;

	if (field[0] & 0x80) {
		for (; i < size && n >> 55 == 0; i++)
			n = n << 8 | (unsigned char)field[i];
		*ret = n;
		return i == size;
	}
	for (i = 0, n = 0; i < size && field[i] == ' '; i++)
		;
	for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
		n = n << 3 | (uint64_t)(field[i] - '0');
	*ret = n;
	return i == size || field[i] == '\0' || field[i] == ' ';
}

/* Joins base and path without "." and ".."; "" when it is too long or leads out of the archive. */
static void clean_path(const char *base, const char *path, char out[static PATH_MAX])
{
	char all[PATH_MAX];

	out[0] = '\0';
	if (path[0] != '/' && snprintf(all, PATH_MAX, "/%s/%s", base, path) < PATH_MAX &&
		path_clean(all))
		strcpy(out, all + 1);
}

/* Records have the form "LENGTH KEY=VALUE\n"; LENGTH counts the whole record. */
static bool parse_pax(char *text, size_t len, struct extended *extended)
{
	for (char *at = text, *end = text + len; at < end && *at;) {
		char *key, *value;
		size_t n = strtoul(at, &key, 10);

		if (*key != ' ' || n > (size_t)(end - at) || at + n <= key + 1 || at[n - 1] != '\n')
			return false;
		at += n;
		at[-1] = '\0';
		value = strchr(++key, '=');
		if (!value || starts_with(key, "GNU.sparse."))
			return false;
		*value++ = '\0';
		if (streq(key, "size")) {
			extended->has_size = true;
			if (parse_count(value, &extended->size) < 0)
				return false;
		}
		if ((streq(key, "path") && !copy_text(extended->name, PATH_MAX, value)) ||
			(streq(key, "linkpath") && !copy_text(extended->link, PATH_MAX, value)))
			return false;
	}
	return true;
}

static int read_extension(struct archive_reader *reader, char type, uint64_t at, uint64_t size,
	struct extended *extended)
{
	_cleanup_free_ char *text = NULL;
	bool ok;
	int r;

	if (size > EXTENSION_MAX)
		return archive_bad(reader, "a header of %" PRIu64 " bytes", size);
	text = must(calloc(1, (size_t)size + 1));
	r = archive_pread(reader->archive->fd, text, (size_t)size, at);
	if (r < 0)
		return archive_error(reader, r);
	ok = type == 'x' ? parse_pax(text, (size_t)size, extended)
			 : copy_text(type == 'L' ? extended->name : extended->link, PATH_MAX, text);
	if (ok)
		return 0;
	return archive_bad(reader,
		"the extended header at byte %" PRIu64 " is damaged or of a sparse file", at);
}

static int add_member(struct archive_reader *reader, const struct header *header,
	const struct extended *extended, uint64_t at, uint64_t size)
{
	char raw[PATH_MAX], name[PATH_MAX], base[PATH_MAX];
	bool ustar = memcmp(header->magic, "ustar", 6) == 0 && header->prefix[0];
	struct archive_member *member;
	const char *slash;

	snprintf(raw, sizeof(raw), "%.155s%s%.100s", ustar ? header->prefix : "", ustar ? "/" : "",
		header->name);
	if (extended->name[0])
		set_text(raw, extended->name);
	clean_path("", raw, name);
	/* Skip directories, devices, and files of a layer that are not needed. */
	slash = strrchr(name, '/');
	if (!strchr("0127", header->type ? header->type : '0') || raw[strlen(raw) - 1] == '/' ||
		(slash && (streq(slash, "/json") || streq(slash, "/VERSION"))))
		return 0;
	if (!name[0])
		return archive_bad(reader, "%.90s leads out of the archive", raw);
	if (reader->n_members == MEMBERS_MAX)
		return archive_bad(reader, "more than %d files", MEMBERS_MAX);
	member = add_element(&reader->members, &reader->n_members, &reader->members_allocated);
	*member = (struct archive_member){
		.name = hash_text(HASH_START, name), .offset = at, .size = size};
	if (header->type != '1' && header->type != '2')
		return 0;
	/* A hard link names another member; a symbolic link is relative to its own directory. */
	snprintf(base, sizeof(base), "%.*s", header->type == '2' && slash ? (int)(slash - name) : 0,
		name);
	snprintf(raw, sizeof(raw), "%.100s", header->link);
	clean_path(base, extended->link[0] ? extended->link : raw, name);
	member->link = hash_text(HASH_START, name);
	return 0;
}

/* Reads the header at *at and moves *at to the next one. Returns 1 at the end. */
static int next_header(
	struct archive_reader *reader, uint64_t total, uint64_t *at, struct extended *extended)
{
	static const struct header zero;
	uint64_t size, sum = 0, expected;
	struct header header;
	int r = archive_check_wait(reader);
	bool valid;

	if (r < 0 || *at >= total)
		return r < 0 ? r : 1;
	r = archive_pread(reader->archive->fd, &header, sizeof(header), *at);
	if (r == -EBADMSG)
		return archive_bad(reader,
			*at == 0 ? NO_TAR : "truncated within the header at byte %" PRIu64, *at);
	if (r < 0)
		return archive_error(reader, r);
	if (*at > 0 && memcmp(&header, &zero, sizeof(zero)) == 0)
		return 1;
	valid = parse_number(header.checksum, sizeof(header.checksum), &expected) &&
		parse_number(header.size, sizeof(header.size), &size);
	/* The checksum is computed with blanks in its own field. */
	memset(header.checksum, ' ', sizeof(header.checksum));
	for (size_t i = 0; i < BLOCK; i++)
		sum += ((const unsigned char *)&header)[i];
	if (!valid || sum != expected)
		return archive_bad(reader,
			*at == 0 ? NO_TAR : "the header at byte %" PRIu64 " is damaged", *at);
	if (header.type == 'S')
		return archive_bad(reader, "it has a sparse file");
	if (extended->has_size && !strchr("xLKg", header.type))
		size = extended->size;
	*at += BLOCK;
	/* The size field of links, devices and directories does not count. */
	if (header.type && strchr("123456", header.type))
		size = 0;
	if (size > total - *at)
		return archive_bad(reader,
			"truncated: %" PRIu64 " bytes of %.60s expected, %" PRIu64 " there", size,
			header.name, total - *at);
	if (header.type && strchr("xLK", header.type)) {
		r = read_extension(reader, header.type, *at, size, extended);
	} else if (header.type != 'g') {
		r = add_member(reader, &header, extended, *at, size);
		*extended = (struct extended){0};
	}
	*at += (size + BLOCK - 1) / BLOCK * BLOCK;
	return r;
}

int archive_read_tar(struct archive_reader *reader)
{
	_cleanup_free_ struct extended *extended = must(calloc(1, sizeof(*extended)));
	uint64_t at = 0;
	struct stat st;
	int r = archive_unpack(reader);

	if (r < 0)
		return r;
	if (fstat(reader->archive->fd, &st) < 0)
		return archive_error(reader, -errno);
	if (st.st_size == 0)
		return archive_bad(reader, "empty");
	while (r == 0)
		r = next_header(reader, (uint64_t)st.st_size, &at, extended);
	return r > 0 ? 0 : r;
}
