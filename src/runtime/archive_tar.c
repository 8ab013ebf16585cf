/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tars: ustar and old ones, pax headers (POSIX.1-2008, pax), GNU's long names and sizes; as Go's
 * archive/tar reads them, which container engines use. Only headers are read here.
 */

#include "base/file.h"
#include "runtime/archive_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define MEMBERS_MAX   4096
#define BLOCK         512
#define EXTENSION_MAX 65536 /* of a pax header or a long name */
#define WINDOW_LOG    23    /* 8 MiB: what zstd needs without --long or --ultra */
#define CHUNK         ((size_t)128 * 1024)

/* ---- compressed archives ---- */

struct unpacker {
	struct archive_reader *reader;
	z_stream *gzip; /* one of these */
	ZSTD_DStream *zstd;
	int in, out;
	bool ended; /* at the end of a member or frame; more may follow */
	char input[CHUNK], output[CHUNK];
};

static int unpack_error(struct unpacker *unpacker, const char *what)
{
	return archive_fail(
		unpacker->reader, -EBADMSG, "%s: %s", unpacker->gzip ? "gzip" : "zstd", what);
}

/* Takes some of the input; both are moved on. */
static int unpack_gzip(struct unpacker *unpacker, ZSTD_inBuffer *in, ZSTD_outBuffer *out)
{
	z_stream *z = unpacker->gzip;
	int r;

	if (unpacker->ended && inflateReset(z) != Z_OK)
		return unpack_error(unpacker, "failed");
	z->next_in = (Bytef *)in->src + in->pos;
	z->avail_in = (uInt)(in->size - in->pos);
	z->next_out = out->dst;
	z->avail_out = (uInt)out->size;
	r = inflate(z, Z_NO_FLUSH);
	in->pos = in->size - z->avail_in;
	out->pos = out->size - z->avail_out;
	unpacker->ended = r == Z_STREAM_END;
	if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
		return unpack_error(unpacker, z->msg ? z->msg : "damaged");
	return 0;
}

static int unpack_zstd(struct unpacker *unpacker, ZSTD_inBuffer *in, ZSTD_outBuffer *out)
{
	size_t r = ZSTD_decompressStream(unpacker->zstd, out, in);

	unpacker->ended = r == 0;
	if (!ZSTD_isError(r))
		return 0;
	if (ZSTD_getErrorCode(r) == ZSTD_error_frameParameter_windowTooLarge)
		return unpack_error(unpacker, "its window is over 8 MiB: compress without --long");
	return unpack_error(unpacker, ZSTD_getErrorName(r));
}

static int spool_write(struct unpacker *unpacker, size_t len)
{
	const struct archive_source *source = unpacker->reader->source;
	struct statvfs fs;
	int r;

	if (fstatvfs(source->spool, &fs) < 0)
		return archive_fail(unpacker->reader, -errno, "%s", strerror(errno));
	if ((uint64_t)fs.f_bavail * fs.f_frsize < source->spool_reserve + len)
		r = -ENOSPC;
	else
		r = write_all(unpacker->out, unpacker->output, len);
	if (r < 0)
		return archive_fail(unpacker->reader, r, "%s",
			r == -ENOSPC ? "no room for it unpacked" : strerror(-r));
	return 0;
}

static int unpack_all(struct unpacker *unpacker)
{
	ZSTD_inBuffer in = {.src = unpacker->input};
	bool more = false; /* output may wait, without any input */

	for (;;) {
		ZSTD_outBuffer out = {.dst = unpacker->output, .size = CHUNK};
		int r = archive_go_on(unpacker->reader);

		if (r == 0 && in.pos == in.size && !more) {
			ssize_t n = read(unpacker->in, unpacker->input, CHUNK);

			if (n < 0)
				return archive_fail(
					unpacker->reader, -errno, "%s", strerror(errno));
			if (n == 0)
				return unpacker->ended ? 0 : unpack_error(unpacker, "truncated");
			in.pos = 0;
			in.size = (size_t)n;
		}
		if (r == 0)
			r = unpacker->gzip ? unpack_gzip(unpacker, &in, &out)
					   : unpack_zstd(unpacker, &in, &out);
		if (r == 0 && out.pos > 0)
			r = spool_write(unpacker, out.pos);
		if (r < 0)
			return r;
		more = out.pos == out.size && !unpacker->ended;
	}
}

int archive_unpack(struct archive_reader *reader)
{
	static const unsigned char zstd_magic[] = {0x28, 0xb5, 0x2f, 0xfd};
	_cleanup_free_ struct unpacker *unpacker = NULL;
	unsigned char magic[4] = {0};
	z_stream gzip = {0};
	int r;

	(void)archive_pread(reader->archive->fd, magic, sizeof(magic), 0);
	if ((magic[0] != 0x1f || magic[1] != 0x8b) && memcmp(magic, zstd_magic, 4) != 0)
		return 0;
	unpacker = must(calloc(1, sizeof(*unpacker)));
	unpacker->reader = reader;
	unpacker->in = reader->archive->fd;
	unpacker->out = openat(reader->source->spool, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (unpacker->out < 0)
		return archive_fail(reader, -errno, "no file to unpack it to: %s", strerror(errno));
	if (magic[0] == 0x1f) {
		unpacker->gzip = &gzip;
		must(inflateInit2(&gzip, 16 + MAX_WBITS) == Z_OK ? &gzip : NULL);
		r = unpack_all(unpacker);
		inflateEnd(&gzip);
	} else {
		unpacker->zstd = must(ZSTD_createDStream());
		ZSTD_DCtx_setParameter(unpacker->zstd, ZSTD_d_windowLogMax, WINDOW_LOG);
		r = unpack_all(unpacker);
		ZSTD_freeDStream(unpacker->zstd);
	}
	close(r == 0 ? reader->archive->fd : unpacker->out);
	if (r == 0)
		reader->archive->fd = unpacker->out;
	return r;
}

/* ---- headers ---- */

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
	char magic[8], owner[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

/* What headers before a member say of it. */
struct extended {
	char name[PATH_MAX], link[PATH_MAX]; /* "": nothing */
	bool has_size;
	uint64_t size;
};

/* Octal digits, or with the first bit set a binary number that begins with the highest byte. */
static bool field_number(const char *field, size_t size, uint64_t *ret)
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

static bool checksum_holds(const struct header *header)
{
	const unsigned char *bytes = (const unsigned char *)header;
	uint64_t sum = 0, expected;

	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= offsetof(struct header, checksum) && i < offsetof(struct header, type)
			       ? ' '
			       : bytes[i];
	return field_number(header->checksum, sizeof(header->checksum), &expected) &&
	       sum == expected;
}

/* A path below base without "." and ".."; "" when it is too long or leads out of the archive. */
static void clean_path(const char *base, const char *path, char out[static PATH_MAX])
{
	char part[2 * PATH_MAX];
	size_t len = 0, n;

	n = (size_t)snprintf(part, sizeof(part), "%s/%s", base, path);
	out[0] = '\0';
	if (path[0] == '/' || n >= PATH_MAX)
		return;
	for (const char *at = part; *at; at += n + (at[n] == '/')) {
		n = strcspn(at, "/");
		if (n == 0 || (n == 1 && at[0] == '.'))
			continue;
		if (n == 2 && at[0] == '.' && at[1] == '.') {
			const char *slash = memrchr(out, '/', len);

			if (len == 0) {
				out[0] = '\0';
				return;
			}
			len = slash ? (size_t)(slash - out) : 0;
		} else {
			len += (size_t)sprintf(out + len, "%s%.*s", len > 0 ? "/" : "", (int)n, at);
		}
		out[len] = '\0';
	}
}

/* "LENGTH KEY=VALUE\n", again and again; length counts itself. */
static bool take_pax(char *text, size_t len, struct extended *extended)
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

/* A header that holds for the next one. */
static int take_extension(struct archive_reader *reader, char type, uint64_t at, uint64_t size,
	struct extended *extended)
{
	_cleanup_free_ char *text = NULL;
	bool ok;
	int r;

	if (size > EXTENSION_MAX)
		return archive_fail(
			reader, -EBADMSG, "a header of %llu bytes", (unsigned long long)size);
	text = must(calloc(1, (size_t)size + 1));
	r = archive_pread(reader->archive->fd, text, (size_t)size, at);
	if (r < 0)
		return archive_fail(reader, r, "%s", strerror(-r));
	if (type == 'x')
		ok = take_pax(text, (size_t)size, extended);
	else
		ok = copy_text(type == 'L' ? extended->name : extended->link, PATH_MAX, text);
	return ok ? 0
		  : archive_fail(reader, -EBADMSG,
			    "an extended header at byte %llu that is damaged, or of a sparse file",
			    (unsigned long long)at);
}

static int add_member(struct archive_reader *reader, const struct header *header,
	const struct extended *extended, uint64_t at, uint64_t size)
{
	char name[PATH_MAX], link[PATH_MAX], *slash;
	struct archive_member *member;
	bool ustar = memcmp(header->magic, "ustar\0", 6) == 0 && header->prefix[0];

	if (extended->name[0])
		copy_text(link, sizeof(link), extended->name);
	else
		snprintf(link, sizeof(link), "%.*s%s%.*s", ustar ? 155 : 0, header->prefix,
			ustar ? "/" : "", 100, header->name);
	clean_path("", link, name);
	if (!name[0] && !streq(link, ".") && !streq(link, "./"))
		return archive_fail(reader, -EBADMSG, "%.90s leads out of the archive", link);
	/* Directories and devices, and what of each layer is not needed. */
	slash = strrchr(name, '/');
	if (!strchr("0127", header->type ? header->type : '0') || link[strlen(link) - 1] == '/' ||
		(slash && (streq(slash, "/json") || streq(slash, "/VERSION"))))
		return 0;
	if (reader->n_members == MEMBERS_MAX)
		return archive_fail(reader, -EBADMSG, "more than %d files in it", MEMBERS_MAX);
	member = add_element(
		&reader->members, &reader->n_members, &reader->members_allocated, sizeof(*member));
	*member = (struct archive_member){.name = must(strdup(name)), .offset = at, .size = size};
	if (header->type != '1' && header->type != '2')
		return 0;
	if (extended->link[0])
		copy_text(name, sizeof(name), extended->link);
	else
		snprintf(name, sizeof(name), "%.100s", header->link);
	/* A hard link names another member, a symbolic one is relative to its own directory. */
	slash = strrchr(member->name, '/');
	if (slash && header->type == '2')
		*slash = '\0';
	clean_path(slash && header->type == '2' ? member->name : "", name, link);
	if (slash && header->type == '2')
		*slash = '/';
	member->link = must(strdup(link));
	return 0;
}

/* One header and what belongs to it; at moves on. 1 at the end. */
static int next_header(
	struct archive_reader *reader, uint64_t total, uint64_t *at, struct extended *extended)
{
	static const struct header zero;
	struct header header;
	uint64_t size;
	int r = archive_go_on(reader);

	if (r < 0 || *at >= total)
		return r < 0 ? r : 1;
	r = archive_pread(reader->archive->fd, &header, sizeof(header), *at);
	if (r == -EBADMSG)
		return archive_fail(reader, r, "truncated: it ends within a header at byte %llu",
			(unsigned long long)*at);
	if (r < 0)
		return archive_fail(reader, r, "%s", strerror(-r));
	if (*at > 0 && memcmp(&header, &zero, sizeof(zero)) == 0)
		return 1;
	if (!checksum_holds(&header) || !field_number(header.size, sizeof(header.size), &size))
		return archive_fail(reader, -EBADMSG,
			*at == 0 ? "no tar, also none compressed by gzip or zstd"
				 : "a damaged header at byte %llu",
			(unsigned long long)*at);
	if (header.type == 'S')
		return archive_fail(reader, -EBADMSG, "a sparse file in it");
	if (extended->has_size && !strchr("xLKg", header.type))
		size = extended->size;
	*at += BLOCK;
	/* These have no content, whatever their size. */
	if (header.type && strchr("123456", header.type))
		size = 0;
	if (size > total - *at)
		return archive_fail(reader, -EBADMSG,
			"truncated: %llu bytes of %.60s expected, %llu there",
			(unsigned long long)size, header.name, (unsigned long long)(total - *at));
	if (header.type && strchr("xLK", header.type)) {
		r = take_extension(reader, header.type, *at, size, extended);
	} else if (header.type != 'g') {
		r = add_member(reader, &header, extended, *at, size);
		*extended = (struct extended){0};
	}
	*at += (size + BLOCK - 1) / BLOCK * BLOCK;
	return r;
}

int archive_read_tar(struct archive_reader *reader)
{
	struct extended *extended = must(calloc(1, sizeof(*extended)));
	uint64_t at = 0;
	struct stat st;
	int r = 0;

	if (fstat(reader->archive->fd, &st) < 0)
		r = archive_fail(reader, -errno, "%s", strerror(errno));
	else if (st.st_size == 0)
		r = archive_fail(reader, -EBADMSG, "empty");
	while (r == 0)
		r = next_header(reader, (uint64_t)st.st_size, &at, extended);
	free(extended);
	return r > 0 ? 0 : r;
}
