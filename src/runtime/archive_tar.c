/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads headers of tar files as Go's archive/tar does, which container engines use: old and ustar
 * headers, pax headers (POSIX.1-2008, pax), long names and sizes of GNU tar.
 */

#include "base/file.h"
#include "runtime/archive_internal.h"

#include <sys/mman.h>
#include <sys/statvfs.h>

#include <zlib.h>
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_createDStream_advanced(), in every build of libzstd */
#include <zstd.h>

#define MEMBERS_MAX   4096
#define NAMES_MAX     ((size_t)1024 * 1024) /* bytes of all their names */
#define BLOCK         512
#define NO_TAR        "not a tar file, plain or compressed by gzip or zstd"
#define EXTENSION_MAX 65536 /* of a pax header or a long name */
#define WINDOW_LOG    25    /* 32 MiB, as k3s and RKE2 compress theirs; zstd without --long: 8 */
#define READ_SIZE     ((size_t)16 * 1024)
#define WRITE_SIZE    ((size_t)128 * 1024) /* smaller writes take longer */
#define WINDOW_HEAP   ((size_t)256 * 1024) /* a larger one is in a file */

/* ---- compressed archives ---- */

struct spool {
	struct archive_reader *reader;
	int fd;         /* -1: only count */
	uint64_t total; /* bytes so far */
	uint64_t left;  /* compressed bytes to read */
	int (*unpack)(struct spool *spool, int in);
	void *window; /* of zstd, in a file; or NULL */
	size_t window_size;
	char input[READ_SIZE], output[WRITE_SIZE];
};

/* 1: no more bytes need to be counted. */
static int spool_write(struct spool *spool, size_t len)
{
	struct statvfs fs;
	int r = archive_check_wait(spool->reader);

	spool->total += len;
	/*
	 * Its pages stay in the page cache, from which the kernel can reclaim them. The next block
	 * maps the pages of its matches again, at worst all.
	 */
	if (spool->window)
		(void)madvise(spool->window, spool->window_size, MADV_DONTNEED);
	if (r < 0 || spool->fd < 0)
		return r < 0 ? r : spool->total > spool->reader->unpacked_max;
	if (fstatvfs(spool->fd, &fs) < 0)
		return archive_error(spool->reader, -errno);
	if ((uint64_t)fs.f_bavail * fs.f_frsize <
		(uint64_t)fs.f_blocks * fs.f_frsize / 100 * spool->reader->percent_free + len)
		r = -ENOSPC;
	else
		r = write_all(spool->fd, spool->output, len);
	if (r == -ENOSPC)
		return archive_fail(spool->reader, r, "no room to unpack it");
	return r < 0 ? archive_error(spool->reader, r) : 0;
}

/* zlib reads all gzip members and ignores other data after the last one. */
static int unpack_gzip(struct spool *spool, int in)
{
	int n, code, r = 0, fd = fcntl(in, F_DUPFD_CLOEXEC, 3);
	gzFile gzip;

	if (fd < 0)
		return archive_error(spool->reader, -errno);
	gzip = must(gzdopen(fd, "r"));
	while (r == 0 && (n = gzread(gzip, spool->output, WRITE_SIZE)) > 0)
		r = spool_write(spool, (size_t)n);
	(void)gzerror(gzip, &code);
	gzclose(gzip);
	return r != 0 || code == Z_OK ? r
				      : archive_bad(spool->reader, "gzip: truncated or damaged");
}

static int open_unnamed(const struct archive_reader *reader)
{
	if (reader->host->state[0])
		(void)make_directories(reader->host->state, 0755);
	return open(reader->host->state, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

/* A large window would be private memory of the agent. In a full file system it still is. */
static void *allocate(void *userdata, size_t size)
{
	struct spool *spool = userdata;
	bool is_window = size > WINDOW_HEAP && !spool->window;
	_cleanup_close_ int fd = is_window ? open_unnamed(spool->reader) : -1;
	void *window;

	if (fd < 0 || fallocate(fd, 0, 0, (off_t)size) < 0)
		return malloc(size);
	window = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (window == MAP_FAILED)
		return malloc(size);
	spool->window_size = size;
	return spool->window = window;
}

static void release(void *userdata, void *memory)
{
	struct spool *spool = userdata;

	if (memory && memory == spool->window)
		munmap(steal(spool->window), spool->window_size);
	else
		free(memory);
}

static int unpack_zstd(struct spool *spool, int in)
{
	ZSTD_DStream *zstd = must(ZSTD_createDStream_advanced(
		(ZSTD_customMem){.customAlloc = allocate, .customFree = release, .opaque = spool}));
	ZSTD_outBuffer to = {.dst = spool->output, .size = WRITE_SIZE};
	size_t left = 1;
	ssize_t n;
	int r = 0;

	ZSTD_DCtx_setParameter(zstd, ZSTD_d_windowLogMax, WINDOW_LOG);
	while (r == 0 && (n = read(in, spool->input, MIN(READ_SIZE, spool->left))) > 0) {
		ZSTD_inBuffer from = {.src = spool->input, .size = (size_t)n};
		bool full;

		spool->left -= (uint64_t)n;
		do {
			left = ZSTD_decompressStream(zstd, &to, &from);
			full = to.pos == to.size;
			if (ZSTD_isError(left)) {
				r = archive_bad(spool->reader, "zstd: %s", ZSTD_getErrorName(left));
			} else if (full) {
				r = spool_write(spool, to.pos);
				to.pos = 0;
			}
		} while (r == 0 && (from.pos < from.size || (left > 0 && full)));
		if (r == 0)
			r = archive_check_wait(spool->reader);
	}
	if (r == 0)
		r = n < 0 ? archive_error(spool->reader, -errno) : spool_write(spool, to.pos);
	ZSTD_freeDStream(zstd);
	return r == 0 && left > 0 ? archive_bad(spool->reader, "zstd: truncated") : r;
}

/* RFC 8878, 3.1: a frame, or a skippable frame, with which pzstd begins. */
bool archive_is_zstd(const char magic[static 4])
{
	return memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0 ||
	       ((magic[0] & 0xf0) == 0x50 && memcmp(magic + 1, "\x2a\x4d\x18", 3) == 0);
}

/* Returns a spool without a file for compressed bytes, or NULL for others. */
static struct spool *spool_new(
	struct archive_reader *reader, int in, uint64_t offset, uint64_t size)
{
	char magic[4] = {0};
	struct spool *spool;

	(void)archive_pread(in, magic, MIN(sizeof(magic), size), offset);
	if (memcmp(magic, GZIP_MAGIC, 2) != 0 && !archive_is_zstd(magic))
		return NULL;
	spool = must(calloc(1, sizeof(*spool)));
	spool->reader = reader;
	spool->fd = -1;
	spool->left = size;
	spool->unpack = magic[0] == GZIP_MAGIC[0] ? unpack_gzip : unpack_zstd;
	return spool;
}

/* Layers of images are usually unpacked to 3.5 to 4.5 times their size. */
#define UNPACKED_TENTHS 45

int archive_count_unpacked(
	struct archive_reader *reader, const struct archive_file *file, uint64_t *unpacked)
{
	_cleanup_free_ struct spool *spool = spool_new(reader, file->fd, file->offset, file->size);
	int r;

	*unpacked = file->size;
	if (!spool)
		return 0;
	if (reader->unpacked_max == 0) {
		*unpacked = file->size * UNPACKED_TENTHS / 10;
		return 0;
	}
	(void)lseek(file->fd, (off_t)file->offset, SEEK_SET);
	r = spool->unpack(spool, file->fd);
	*unpacked = spool->total;
	/* The runtime reports the damage itself. */
	return r == -EBADMSG ? 0 : MIN(r, 0);
}

static int unpack(struct archive_reader *reader)
{
	int r, in = reader->archive->fd;
	_cleanup_free_ struct spool *spool = spool_new(reader, in, 0, UINT64_MAX);

	if (!spool)
		return 0;
	spool->fd = open_unnamed(reader);
	if (spool->fd < 0)
		return archive_fail(reader, -errno, "cannot create a file to unpack it to: %s",
			strerror(errno));
	r = spool->unpack(spool, in);
	reader->archive->fd = spool->fd;
	close(in);
	return r;
}

/* ---- headers ---- */

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
	reader->names += strlen(name) + strlen(extended->link);
	if (reader->names > NAMES_MAX)
		return archive_bad(reader, "more than %zu bytes of names", NAMES_MAX);
	member = add_element(&reader->members, &reader->n_members, &reader->members_allocated);
	*member = (struct archive_member){.name = must(strdup(name)), .offset = at, .size = size};
	if (header->type != '1' && header->type != '2')
		return 0;
	/* A hard link names another member; a symbolic link is relative to its own directory. */
	snprintf(base, sizeof(base), "%.*s", header->type == '2' && slash ? (int)(slash - name) : 0,
		name);
	snprintf(raw, sizeof(raw), "%.100s", header->link);
	clean_path(base, extended->link[0] ? extended->link : raw, name);
	member->link = must(strdup(name));
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
	int r = unpack(reader);

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
