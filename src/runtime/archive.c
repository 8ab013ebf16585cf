/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads archives of images. In order: parts of files; unpacking (gzip, zstd); headers of tar; files
 * of an archive; blobs and JSON documents; images (of OCI layouts, of docker-save); opening.
 *
 * An archive may be hostile. So nothing here creates a file under a name, believes a size or a
 * digest that it can check, or needs more memory for a larger archive. images.c serves what is
 * found here.
 */

#include "runtime/archive.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "runtime/registry.h"

#include <sys/mman.h>
#include <sys/statvfs.h>

#include <isa-l/igzip_lib.h>
#include <nettle/sha2.h>
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_decompressContinue(), in every build of libzstd */
#include <zstd.h>

#define BLOB_PATH    "blobs/sha256/%s"
#define OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define OCI_CONFIG   "application/vnd.oci.image.config.v1+json"
#define OCI_LAYER    "application/vnd.oci.image.layer.v1.tar"
#define SHORT_DIGEST 19 /* length of a digest in messages: "sha256:" and 12 digits */

/*
 * A file of a tar that may belong to an image. Names may be long, so only their hashes are kept.
 * A collision does no harm: the runtime checks all digests.
 */
struct archive_member {
	uint64_t name;
	uint64_t link; /* a link's target, of "" if outside of the archive; 0: a regular file */
	uint64_t offset, size;
};

struct archive_reader {
	const struct host *host;
	unsigned int percent_free;
	uint64_t unpacked_max;
	const struct wait *wait;
	struct archive *archive;
	char *why;
	struct archive_member *members;
	size_t n_members, members_allocated, images_allocated, blobs_allocated, parts_allocated;
	size_t json;              /* bytes of the parsed documents: who deletes one sets it back */
	unsigned int n_documents; /* parsed so far */
};

/* A file of an archive, opened. */
struct archive_entry {
	int fd; /* the caller closes it */
	uint64_t offset, size;
};

/* Sets the reason and returns error. */
static int PRINTF_LIKE(3, 4)
	archive_fail(struct archive_reader *reader, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reader->why, ARCHIVE_WHY_MAX, format, args);
	va_end(args);
	text_make_printable(reader->why);
	return error;
}

#define archive_bad(reader, ...)     archive_fail(reader, -EBADMSG, __VA_ARGS__)
#define archive_error(reader, error) archive_fail(reader, error, "%s", strerror(-(error)))

/* Returns -ECANCELED or -ETIMEDOUT once the wait is over. */
static int check_wait(struct archive_reader *reader)
{
	const struct wait at_once = {0, reader->wait->cancel_fd};

	if (wait_for(&at_once, -1, 0) == -ECANCELED)
		return archive_fail(reader, -ECANCELED, "canceled");
	if (now_us() >= reader->wait->deadline_us)
		return archive_fail(reader, -ETIMEDOUT, "not read in time");
	return 0;
}

/* Reads size bytes; -EBADMSG at an early end of the file. */
static int pread_all(int fd, void *data, size_t size, uint64_t offset)
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

#define PART ((size_t)4096) /* read at once */

/* Reads the next part of a file, which begins at *done. Returns its length, or 0 at the end. */
static int read_part(struct archive_reader *reader, const struct archive_entry *file,
	uint64_t *done, char part[static PART])
{
	size_t n = (size_t)MIN(file->size - *done, PART);
	int r = pread_all(file->fd, part, n, file->offset + *done);

	*done += n;
	return r < 0 ? archive_error(reader, r) : (int)n;
}

/* ---- unpacking ---- */

#define GZIP_MAGIC "\x1f\x8b"

struct spool {
	struct archive_reader *reader;
	int fd;         /* -1: only count */
	uint64_t total; /* bytes so far */
	FILE *in;
	uint64_t left; /* compressed bytes to read */
	int (*unpack)(struct spool *spool);
	unsigned char input[ZSTD_BLOCKSIZE_MAX];
};

/* Returns 1 when no more bytes need to be counted. */
static int spool_write(struct spool *spool, const void *data, size_t len)
{
	struct statvfs fs;
	int r = check_wait(spool->reader);

	spool->total += len;
	if (r < 0 || spool->fd < 0)
		return r < 0 ? r : spool->total > spool->reader->unpacked_max;
	if (fstatvfs(spool->fd, &fs) < 0)
		return archive_error(spool->reader, -errno);
	if ((uint64_t)fs.f_bavail * fs.f_frsize <
		(uint64_t)fs.f_blocks * fs.f_frsize / 100 * spool->reader->percent_free + len)
		r = -ENOSPC;
	else
		r = write_all(spool->fd, data, len);
	if (r == -ENOSPC)
		return archive_fail(spool->reader, r, "no room to unpack it");
	return r < 0 ? archive_error(spool->reader, r) : 0;
}

/* Sets n to the number of bytes read, which is smaller than size only at the end. */
static int spool_read(struct spool *spool, size_t size, size_t *n)
{
	*n = fread(spool->input, 1, MIN(size, spool->left), spool->in);
	spool->left -= *n;
	return ferror(spool->in) ? archive_error(spool->reader, -errno) : check_wait(spool->reader);
}

/* ---- gzip ---- */

#define WRITE_SIZE ((size_t)128 * 1024) /* smaller writes take longer */

struct gunzip {
	struct inflate_state state;
	struct isal_gzip_header header;
	bool is_member; /* its header is read */
	unsigned char output[WRITE_SIZE];
};

static void begin_member(struct gunzip *gunzip)
{
	isal_inflate_reset(&gunzip->state);
	isal_gzip_header_init(&gunzip->header);
	gunzip->state.crc_flag = ISAL_GZIP_NO_HDR_VER;
	gunzip->is_member = false;
}

/* Unpacks the input. Returns 1 at data after the last member, which gzip(1) ignores as well. */
static int unpack_input(struct spool *spool, struct gunzip *gunzip)
{
	struct inflate_state *state = &gunzip->state;
	int r = 0, code = 0;

	/* A full buffer may leave output pending, so call again without input. */
	for (bool is_full = false; r == 0 && (state->avail_in > 0 || is_full);) {
		if (state->block_state == ISAL_BLOCK_FINISH) {
			if (state->avail_in == 0 ||
				memcmp(state->next_in, GZIP_MAGIC, MIN(2, state->avail_in)) != 0)
				return state->avail_in > 0;
			begin_member(gunzip);
		}
		if (!gunzip->is_member) {
			code = isal_read_gzip_header(state, &gunzip->header);
			gunzip->is_member = code == ISAL_DECOMP_OK;
		}
		if (gunzip->is_member)
			code = isal_inflate(state);
		if (code < 0)
			return archive_bad(spool->reader, "gzip: truncated or damaged");
		is_full = state->avail_out == 0;
		if (is_full) {
			r = spool_write(spool, gunzip->output, WRITE_SIZE);
			state->next_out = gunzip->output;
			state->avail_out = WRITE_SIZE;
		}
	}
	return r;
}

static int unpack_gzip(struct spool *spool)
{
	_cleanup_free_ struct gunzip *gunzip = must(malloc(sizeof(*gunzip)));
	struct inflate_state *state = &gunzip->state;
	size_t n;
	int r;

	isal_inflate_init(state);
	begin_member(gunzip);
	state->next_out = gunzip->output;
	state->avail_out = WRITE_SIZE;
	do {
		r = spool_read(spool, sizeof(spool->input), &n);
		state->next_in = spool->input;
		state->avail_in = (uint32_t)n;
		r = r == 0 ? unpack_input(spool, gunzip) : r;
	} while (r == 0 && n > 0);
	if (r < 0)
		return r;
	if (r == 0 && state->block_state != ISAL_BLOCK_FINISH)
		return archive_bad(spool->reader, "gzip: truncated or damaged");
	return spool_write(spool, gunzip->output, WRITE_SIZE - state->avail_out);
}

/* ---- zstd ---- */

#define PIECE        ((size_t)64 * 1024) /* whole pages of every machine */
#define UNPACKED_MAX ((size_t)1 << 38)   /* 256 GiB of address space */

/* Memory for new blocks: a piece that is not full, one block, and room that zstd overwrites. */
#define AHEAD (PIECE + ZSTD_BLOCKSIZE_MAX + PIECE)

/*
 * Writes the whole pieces of `ready` bytes and maps the file in their place. Later blocks find
 * their matches there, however large the window is, and the kernel can reclaim the pages. Contents
 * do not matter if bytes are only counted. New blocks use the memory of the pieces again.
 */
static int write_pieces(struct spool *spool, char *base, size_t ready)
{
	size_t at = spool->total, end = at + ready / PIECE * PIECE;
	int kind = spool->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	int r = spool_write(spool, base + at, end - at);

	if (r != 0)
		return r;
	if (end > UNPACKED_MAX - 2 * AHEAD)
		return archive_bad(spool->reader, "unpacked, it has more than 256 GiB");
	for (; at < end; at += PIECE)
		if (mremap(base + at, PIECE, PIECE,
			    MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
			    base + at + AHEAD) == MAP_FAILED)
			return archive_error(spool->reader, -errno);
	if (mmap(base, end, PROT_READ, kind | MAP_FIXED, spool->fd, 0) == MAP_FAILED)
		return archive_error(spool->reader, -errno);
	return 0;
}

/* Knows frames, and skippable frames, with which pzstd begins (RFC 8878, 3.1). */
static bool is_zstd(const char magic[static 4])
{
	return memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0 ||
	       ((magic[0] & 0xf0) == 0x50 && memcmp(magic + 1, "\x2a\x4d\x18", 3) == 0);
}

/* Reads the `wanted` bytes, or the beginning of a frame if 0. Returns 1 after the last frame. */
static int read_next(struct spool *spool, ZSTD_DCtx *zstd, size_t *wanted)
{
	bool is_new = *wanted == 0;
	int r = 0;

	if (is_new) {
		ZSTD_decompressBegin(zstd);
		*wanted = ZSTD_nextSrcSizeToDecompress(zstd);
	}
	/* Only a skippable frame is larger than the input, and zstd does not read it. */
	for (size_t n, left = *wanted; r == 0 && left > 0; left -= n) {
		r = spool_read(spool, MIN(left, sizeof(spool->input)), &n);
		if (r == 0 && is_new && left == *wanted && n == 0)
			return 1;
		if (r == 0 && is_new && !is_zstd((const char *)spool->input))
			return archive_bad(spool->reader, "zstd: Unknown frame descriptor");
		if (r == 0 && n == 0)
			return archive_bad(spool->reader, "zstd: truncated or damaged");
	}
	return r;
}

static int unpack_frames(struct spool *spool, ZSTD_DCtx *zstd, char *base)
{
	size_t n, wanted = 0, ready = 0;
	int r;

	while ((r = read_next(spool, zstd, &wanted)) == 0) {
		n = ZSTD_decompressContinue(
			zstd, base + spool->total + ready, AHEAD - ready, spool->input, wanted);
		if (ZSTD_isError(n))
			return archive_bad(spool->reader, "zstd: %s", ZSTD_getErrorName(n));
		wanted = ZSTD_nextSrcSizeToDecompress(zstd);
		ready += n;
		r = ready < PIECE ? 0 : write_pieces(spool, base, ready);
		if (r != 0)
			return r;
		ready %= PIECE;
	}
	return r < 0 ? r : spool_write(spool, base + spool->total, ready);
}

static int unpack_zstd(struct spool *spool)
{
	char *base = mmap(
		NULL, UNPACKED_MAX, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ZSTD_DCtx *zstd;
	int r;

	if (base == MAP_FAILED)
		return archive_error(spool->reader, -errno);
	zstd = must(ZSTD_createDCtx());
	/* The contents are wrong if the bytes are only counted: see write_pieces(). */
	(void)ZSTD_DCtx_setParameter(zstd, ZSTD_d_forceIgnoreChecksum, spool->fd < 0);
	r = mprotect(base, AHEAD, PROT_READ | PROT_WRITE) < 0 ? archive_error(spool->reader, -errno)
							      : unpack_frames(spool, zstd, base);
	ZSTD_freeDCtx(zstd);
	munmap(base, UNPACKED_MAX);
	return r;
}

/* ---- archives and layers ---- */

/* Returns OCI_LAYER, with the suffix "+gzip" or "+zstd" for such files. */
static const char *layer_type(const struct archive_entry *file)
{
	char magic[4] = {0};

	(void)pread_all(file->fd, magic, MIN(sizeof(magic), file->size), file->offset);
	return memcmp(magic, GZIP_MAGIC, 2) == 0 ? OCI_LAYER "+gzip"
	       : is_zstd(magic)                  ? OCI_LAYER "+zstd"
						 : OCI_LAYER;
}

/* Returns a spool without a file for a compressed file, or NULL for others. */
static struct spool *spool_new(struct archive_reader *reader, const struct archive_entry *file)
{
	const char *type = layer_type(file);
	struct spool *spool;

	if (streq(type, OCI_LAYER))
		return NULL;
	spool = must(calloc(1, sizeof(*spool)));
	spool->reader = reader;
	spool->fd = -1;
	spool->left = file->size;
	spool->unpack = streq(type, OCI_LAYER "+gzip") ? unpack_gzip : unpack_zstd;
	return spool;
}

static int spool_unpack(struct spool *spool, const struct archive_entry *file)
{
	int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 3);
	_cleanup_fclose_ FILE *in = fd < 0 ? NULL : must(fdopen(fd, "r"));

	if (!in || fseeko(in, (off_t)file->offset, SEEK_SET) < 0)
		return archive_error(spool->reader, -errno);
	spool->in = in;
	return spool->unpack(spool);
}

/* Layers of images are usually unpacked to 3.5 to 4.5 times their size. */
#define UNPACKED_TENTHS 45

/* Counts the bytes of a layer without its compression. */
static int count_unpacked(
	struct archive_reader *reader, const struct archive_entry *file, uint64_t *unpacked)
{
	_cleanup_free_ struct spool *spool = spool_new(reader, file);
	int r;

	*unpacked = file->size;
	if (!spool)
		return 0;
	if (reader->unpacked_max == 0) {
		*unpacked = file->size * UNPACKED_TENTHS / 10;
		return 0;
	}
	r = spool_unpack(spool, file);
	*unpacked = spool->total;
	/* The runtime reports the damage itself. */
	return r == -EBADMSG ? 0 : MIN(r, 0);
}

/* Replaces a compressed archive->fd by an unpacked file without a name. */
static int unpack_archive(struct archive_reader *reader)
{
	const struct archive_entry file = {.fd = reader->archive->fd, .size = UINT64_MAX};
	_cleanup_free_ struct spool *spool = spool_new(reader, &file);
	int r;

	if (!spool)
		return 0;
	if (reader->host->state[0])
		(void)make_directories(reader->host->state, 0755);
	spool->fd = open(reader->host->state, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (spool->fd < 0)
		return archive_fail(reader, -errno, "cannot create a file to unpack it to: %s",
			strerror(errno));
	r = spool_unpack(spool, &file);
	reader->archive->fd = spool->fd;
	close(file.fd);
	return r;
}

/* ---- tar ---- */

#define MEMBERS_MAX   4096
#define BLOCK         512
#define NO_TAR        "not a tar file, plain or compressed by gzip or zstd"
#define EXTENSION_MAX 65536 /* a pax header or a long name */

struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
	char magic[8], owner[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct tar_header) == BLOCK, "a header is one block");

/* Attributes of the next member, from pax headers and GNU's long names. */
struct extended {
	char name[PATH_MAX], link[PATH_MAX]; /* "": not set */
	bool has_size;
	uint64_t size;
};

/* Parses octal digits, or a big-endian binary number when the first bit is set. */
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

/* Parses records of the form "LENGTH KEY=VALUE\n". LENGTH counts the whole record. */
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
	r = pread_all(reader->archive->fd, text, (size_t)size, at);
	if (r < 0)
		return archive_error(reader, r);
	ok = type == 'x' ? parse_pax(text, (size_t)size, extended)
			 : copy_text(type == 'L' ? extended->name : extended->link, PATH_MAX, text);
	if (ok)
		return 0;
	return archive_bad(reader,
		"the extended header at byte %" PRIu64 " is damaged or of a sparse file", at);
}

static int add_member(struct archive_reader *reader, const struct tar_header *header,
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
	static const struct tar_header zero;
	uint64_t size, sum = 0, expected;
	struct tar_header header;
	int r = check_wait(reader);
	bool valid;

	if (r < 0 || *at >= total)
		return r < 0 ? r : 1;
	r = pread_all(reader->archive->fd, &header, sizeof(header), *at);
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

/* Lists the members of a tar, which is unpacked first. */
static int read_tar(struct archive_reader *reader)
{
	_cleanup_free_ struct extended *extended = must(calloc(1, sizeof(*extended)));
	uint64_t at = 0;
	struct stat st;
	int r = unpack_archive(reader);

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

/* ---- files of the archive ---- */

#define LINKS_MAX 8

/* Opens a regular file below a directory; no part of its path may be a link. */
static int open_below(int directory, const char *name, struct archive_entry *file)
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
	*file = (struct archive_entry){.fd = steal_fd(&at), .size = (uint64_t)st.st_size};
	return 0;
}

/* Returns -ENOENT without such a file. The caller closes the descriptor. */
static int open_file(struct archive_reader *reader, const char *name, struct archive_entry *file)
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
			*file = (struct archive_entry){fd, member->offset, member->size};
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
	struct archive_entry file;
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

/* ---- blobs and JSON documents ---- */

#define BLOBS_MAX      3072
#define DOCUMENTS_MAX  1024
#define MEDIA_TYPE_MAX 96  /* bytes */
#define STRING_MAX     512 /* bytes: names and paths are shorter, labels may be longer */

#define JSON_MEMORY ((size_t)512 * 1024) /* bytes of all documents that are parsed at once */

#define SIZE_LIMIT 0x1p53 /* JSON numbers are exact below it */

/* GOARCH of this machine, a name that containerd takes too, and the baseline variant. */
#if defined(__x86_64__)
static const char architecture[] = "amd64", machine[] = "x86_64", variant[] = "v1";
#elif defined(__aarch64__)
static const char architecture[] = "arm64", machine[] = "aarch64", variant[] = "v8";
#else
#error "add GOARCH of this machine"
#endif

/* The first one stands for all others: a runtime asks only for the types of manifests. */
static const char *const media_types[] = {"application/octet-stream",
	"application/vnd.oci.image.index.v1+json", OCI_MANIFEST,
	"application/vnd.docker.distribution.manifest.list.v2+json",
	"application/vnd.docker.distribution.manifest.v2+json", OCI_CONFIG, OCI_LAYER};

static const char *known_type(const char *type)
{
	size_t i = ARRAY_SIZE(media_types);

	while (--i > 0 && !streq(media_types[i], type))
		;
	return media_types[i];
}

static void finish_digest(struct sha256_ctx *sum, char digest[static DIGEST_MAX])
{
	strcpy(digest, "sha256:");
	hash_finish(sum, digest + strlen("sha256:"));
}

void archive_digest(const void *data, size_t len, char digest[static DIGEST_MAX])
{
	strcpy(digest, "sha256:");
	hash_bytes(data, len, digest + strlen("sha256:"));
}

bool archive_is_digest(const char *text)
{
	return starts_with(text, "sha256:") && strlen(text) == DIGEST_MAX - 1 &&
	       strspn(text + 7, "0123456789abcdef") == 64;
}

/* Parses a descriptor, which needs a SHA-256 digest, a size and a media type. */
static int read_descriptor(struct archive_reader *reader, const char *parent, const cJSON *item,
	struct archive_blob *blob)
{
	const char *type = json_text_at(item, "mediaType");
	const double size = json_number_at(item, "size");

	*blob = (struct archive_blob){
		.media_type = known_type(type), .size = (uint64_t)MIN(MAX(size, 0), SIZE_LIMIT)};
	if (set_text(blob->digest, json_text_at(item, "digest")) &&
		archive_is_digest(blob->digest) && type[0] && strlen(type) < MEDIA_TYPE_MAX &&
		type[strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789.+-_/")] == '\0' &&
		size >= 0 && size < SIZE_LIMIT)
		return 0;
	return archive_bad(
		reader, "%.120s has a descriptor without a valid digest, size or type", parent);
}

/* Adds a blob once, and counts the unpacked bytes of its file (or NULL). Returns its index. */
static int add_blob(
	struct archive_reader *reader, struct archive_blob *blob, const struct archive_entry *file)
{
	struct archive *archive = reader->archive;
	const struct archive_blob *same =
		find_named(archive->blobs, archive->n_blobs, blob->digest);
	int r;

	if (same) {
		blob->unpacked = same->unpacked;
		return same->size == blob->size ? (int)(same - archive->blobs)
						: archive_bad(reader, "%.*s has two sizes",
							  SHORT_DIGEST, blob->digest);
	}
	if (archive->n_blobs == BLOBS_MAX)
		return archive_bad(reader, "more than %d layers and manifests", BLOBS_MAX);
	r = file ? count_unpacked(reader, file, &blob->unpacked) : 0;
	*add_element(&archive->blobs, &archive->n_blobs, &reader->blobs_allocated) = *blob;
	return r < 0 ? r : (int)archive->n_blobs - 1;
}

static void put_descriptor(FILE *out, const char *before, const struct archive_blob *blob)
{
	fprintf(out, "%s{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%" PRIu64 "}", before,
		blob->media_type, blob->digest, blob->size);
}

char *archive_manifest_text(const struct archive *archive, const struct archive_blob *manifest)
{
	const uint16_t *part = archive->parts + manifest->offset;
	size_t n_layers = *part++, size = 0;
	char *text = NULL;
	FILE *out = must(open_memstream(&text, &size));

	put_descriptor(out, "{\"schemaVersion\":2,\"mediaType\":\"" OCI_MANIFEST "\",\"config\":",
		&archive->blobs[*part++]);
	fputs(",\"layers\":[", out);
	for (size_t i = 0; i < n_layers; i++)
		put_descriptor(out, i > 0 ? "," : "", &archive->blobs[part[i]]);
	fputs("]}", out);
	fclose(out);
	return must(text);
}

/* Opens the file of a blob, which must have the size of its descriptor, and adds the blob. */
static int open_blob(
	struct archive_reader *reader, struct archive_blob *blob, struct archive_entry *file)
{
	char name[sizeof(BLOB_PATH) + DIGEST_MAX];
	int r;

	snprintf(name, sizeof(name), BLOB_PATH, blob->digest + strlen("sha256:"));
	r = open_file(reader, name, file);
	if (r < 0)
		return r;
	blob->offset = file->offset;
	if (file->size == blob->size)
		r = add_blob(reader, blob, file);
	else
		r = archive_bad(reader, "%.*s: %" PRIu64 " bytes, expected %" PRIu64, SHORT_DIGEST,
			blob->digest, file->size, blob->size);
	if (r < 0)
		close(file->fd);
	return MIN(r, 0);
}

/*
 * Parses a JSON document: the named file, whose digest and location go to blob (if not NULL), or
 * with name NULL the blob, whose digest is verified.
 */
static int read_document(
	struct archive_reader *reader, const char *name, struct archive_blob *blob, cJSON **json)
{
	_cleanup_close_ int fd = -1;
	_cleanup_(json_compact_clear) struct json_compact compact = {0};
	char digest[DIGEST_MAX], part[PART];
	const char *shown = name ? name : blob->digest;
	struct archive_entry file;
	struct sha256_ctx sum;
	uint64_t done = 0;
	int r = check_wait(reader);

	if (r == 0)
		r = name ? open_file(reader, name, &file) : open_blob(reader, blob, &file);
	if (r < 0)
		return r;
	fd = file.fd;
	if (file.size > ARCHIVE_TEXT_MAX)
		return archive_bad(reader, "%.90s: too large", shown);
	if (++reader->n_documents > DOCUMENTS_MAX)
		return archive_bad(reader, "more than %d manifests", DOCUMENTS_MAX);
	sha256_init(&sum);
	while ((r = read_part(reader, &file, &done, part)) > 0) {
		sha256_update(&sum, (size_t)r, (const uint8_t *)part);
		json_compact_add(&compact, part, (size_t)r, STRING_MAX);
		if (reader->json + compact.memory > JSON_MEMORY)
			return archive_bad(reader, "%.90s: too large", shown);
	}
	if (r < 0)
		return r;
	finish_digest(&sum, digest);
	if (!name && !streq(blob->digest, digest))
		return archive_bad(reader, "%.90s: wrong digest", shown);
	if (name && blob) {
		memcpy(blob->digest, digest, sizeof(digest));
		blob->size = file.size;
		blob->offset = file.offset;
	}
	*json = cJSON_Parse(compact.text ? compact.text : "");
	if (!*json)
		return archive_bad(reader, "%.90s: invalid JSON", shown);
	reader->json += json_memory(*json);
	return 0;
}

typedef int archive_object_fn(struct archive_reader *reader, const cJSON *object);

/* Reads the objects whose text is complete. */
static int read_objects(struct archive_reader *reader, const char *name,
	struct json_compact *compact, archive_object_fn *read)
{
	int r;

	do {
		_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;

		r = json_compact_next(compact, &object);
		if (r <= 0)
			return r < 0 ? archive_bad(reader, "%.90s: invalid JSON", name) : 0;
		reader->json = json_memory(object);
		r = read(reader, object);
		reader->json = 0;
	} while (r == 0);
	return r;
}

/* Calls read() for each object of the list in the named file. The text may hold another value. */
static int read_list(struct archive_reader *reader, const char *name, archive_object_fn *read)
{
	_cleanup_close_ int fd = -1;
	_cleanup_(json_compact_clear) struct json_compact compact = {0};
	struct archive_entry file;
	char part[PART];
	uint64_t done = 0;
	int r = open_file(reader, name, &file), n;

	if (r < 0)
		return r;
	fd = file.fd;
	if (file.size > ARCHIVE_TEXT_MAX)
		return archive_bad(reader, "%.90s: too large", name);
	while ((n = read_part(reader, &file, &done, part)) > 0) {
		bool first = done == (uint64_t)n;

		json_compact_add(&compact, part, (size_t)n, STRING_MAX);
		/* Another format has an object. */
		if (first && compact.text[strspn(compact.text, " \t\r\n")] != '[')
			return 0;
		r = compact.memory > JSON_MEMORY ? archive_bad(reader, "%.90s: too large", name)
						 : read_objects(reader, name, &compact, read);
		if (r < 0)
			return r;
	}
	return n == 0 && compact.len > 0 ? archive_bad(reader, "%.90s: invalid JSON", name) : n;
}

bool archive_fits_machine(const cJSON *platform)
{
	const char *os = json_text_at(platform, "os");
	const char *made_for = json_text_at(platform, "architecture");
	const char *level = json_text_at(platform, "variant");

	return (!os[0] || streq(os, "linux")) &&
	       (!made_for[0] || streq(made_for, architecture) || streq(made_for, machine)) &&
	       (!level[0] || streq(level, variant));
}

static int wrong_machine(struct archive_reader *reader, const char *name)
{
	return archive_fail(reader, -ENOEXEC, "%.120s: not for linux/%s", name, architecture);
}

/* ---- images ---- */

#define IMAGES_MAX 128
#define LAYERS_MAX 512
#define DEPTH_MAX  4  /* indexes within indexes */
#define HERE_MAX   64 /* manifests for this machine in one index */

#define OCI_LAYERS    "application/vnd.oci.image.layer." /* the beginning */
#define DOCKER_LAYERS "application/vnd.docker.image.rootfs."
#define DOCKER_CONFIG "application/vnd.docker.container.image.v1+json"

/* Other content than images, such as charts, has no layers of a root file system. */
static int check_layers(
	struct archive_reader *reader, const char *name, const cJSON *config, const cJSON *layers)
{
	int n = cJSON_GetArraySize(layers);

	if (n > LAYERS_MAX)
		return archive_bad(reader, "%.120s: more than %d layers", name, LAYERS_MAX);
	if (n != cJSON_GetArraySize(json_at(config, "rootfs/diff_ids")))
		return archive_bad(reader, "%.120s: configuration and layers do not agree", name);
	return 0;
}

/* Returns whether an error concerns one image only. */
static bool is_of_image(int r)
{
	return r == -EBADMSG || r == -ENOEXEC || r == -ENOENT || r == -ENOMSG;
}

/*
 * Adds the image with the result of reading it. An unusable one keeps its reason, and its
 * neighbours are loaded.
 */
static int add_image(struct archive_reader *reader, struct archive_image *image, int r)
{
	struct archive *archive = reader->archive;
	struct archive_image *same = find_named(archive->images, archive->n_images, image->name);
	const char *digest = strchr(image->name, '@');

	/* A pod that names a digest gets this content and no other. */
	if (r == 0 && digest && !streq(digest + 1, image->top) &&
		!streq(digest + 1, image->manifest))
		r = archive_bad(
			reader, "its content is not that of its name, but %.71s", image->top);
	if (r < 0 && !is_of_image(r))
		return r;
	image->error = r == -ENOENT ? -EBADMSG : r;
	if (r < 0 && !image->why[0])
		set_text(image->why, reader->why);
	/* One name may have a manifest for each machine. */
	if (same && !same->twice && (same->error || image->error || streq(same->top, image->top))) {
		if (!image->error)
			*same = *image;
		return 0;
	}
	if (same) {
		same->twice = true;
		same->error = archive_bad(reader, "two images are %.150s", image->name);
		set_text(same->why, reader->why);
		return 0;
	}
	if (archive->n_images == IMAGES_MAX)
		return archive_bad(reader, "more than %d images", IMAGES_MAX);
	*add_element(&archive->images, &archive->n_images, &reader->images_allocated) = *image;
	return 0;
}

/* Adds an image that no pod can name. */
static int add_unnamed(struct archive_reader *reader, const char *name)
{
	struct archive_image image = {0};

	snprintf(image.name, sizeof(image.name), "%.*s", IMAGE_NAME_MAX - 1,
		name[0] ? name : "an image");
	text_make_printable(image.name);
	archive_fail(reader, -ENOMSG,
		"it has no complete name: give it one, for example with skopeo copy or docker tag");
	return add_image(reader, &image, -ENOMSG);
}

/* ---- OCI layouts ---- */

/* Go matches keys without regard to case, and takes the letter U+017F for an s. */
static bool has_urls(const cJSON *item)
{
	for (; item; item = item->next)
		if (has_urls(item->child) ||
			(item->child && item->string && strncasecmp(item->string, "url", 3) == 0))
			return true;
	return false;
}

static int read_image(struct archive_reader *reader, struct archive_blob *blob, int depth,
	struct archive_image *image);

/*
 * Reads the first image for this machine of an index, which is deleted before. containerd 2.x also
 * fetches the others for this machine or for none.
 */
static int read_children(struct archive_reader *reader, const struct archive_blob *blob, int depth,
	cJSON *index, struct archive_image *image)
{
	_cleanup_free_ struct archive_blob *here = must(calloc(HERE_MAX, sizeof(*here)));
	const cJSON *item;
	int r, bad = 0, result = -ENOEXEC;
	struct archive_image child;
	const size_t others = reader->json;
	size_t n = 0;

	cJSON_ArrayForEach (item, json_at(index, "manifests"))
		if (bad == 0 && archive_fits_machine(json_at(item, "platform")))
			bad = n == HERE_MAX
				      ? -E2BIG
				      : read_descriptor(reader, blob->digest, item, &here[n++]);
	cJSON_Delete(index);
	for (size_t i = 0; i < n - (bad == -EBADMSG); i++) {
		child = *image;
		r = read_image(reader, &here[i], depth + 1, &child);
		reader->json = others;
		if (r < 0 && r != -ENOEXEC && (result < 0 || !is_of_image(r)))
			return r;
		if (r < 0)
			continue;
		if (result == 0)
			image->size += child.size;
		else
			*image = child;
		result = 0;
	}
	if (result == 0)
		return 0;
	if (bad < 0)
		return archive_bad(reader,
			"%.*s: more than %d manifests for this machine, or a damaged one",
			SHORT_DIGEST, blob->digest, HERE_MAX);
	return n > 0 ? -ENOEXEC : wrong_machine(reader, image->name);
}

/*
 * Returns the first media type that no image has, or NULL. A signature of cosign has the
 * configuration of an image, and containerd 2.x pulls it without complaint.
 */
static const char *foreign_type(const char *config, const cJSON *layers)
{
	const cJSON *item;

	if (!streq(config, OCI_CONFIG) && !streq(config, DOCKER_CONFIG))
		return config;
	cJSON_ArrayForEach (item, layers) {
		const char *type = json_text_at(item, "mediaType");

		if (type[0] && !starts_with(type, OCI_LAYERS) && !starts_with(type, DOCKER_LAYERS))
			return type;
	}
	return NULL;
}

static int read_layers(struct archive_reader *reader, const char *manifest, const cJSON *layers,
	struct archive_image *image)
{
	struct archive_entry file;
	struct archive_blob layer;
	const cJSON *item;
	int r;

	cJSON_ArrayForEach (item, layers) {
		r = read_descriptor(reader, manifest, item, &layer);
		if (r == 0)
			r = open_blob(reader, &layer, &file);
		if (r < 0)
			return r;
		close(file.fd);
		image->size += layer.size;
		image->unpacked += layer.unpacked;
	}
	return 0;
}

/* Reads a manifest, or the first image for this machine of an index. */
static int read_image(struct archive_reader *reader, struct archive_blob *blob, int depth,
	struct archive_image *image)
{
	const size_t others = reader->json;
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL, *config = NULL;
	const cJSON *children, *layers;
	struct archive_entry file;
	struct archive_blob part;
	const char *foreign;
	int r = read_document(reader, NULL, blob, &document);

	if (r < 0)
		return r;
	/* The runtime would ask these servers, not us. */
	if (has_urls(document))
		return archive_bad(
			reader, "%.90s: its content is to be fetched from URLs", image->name);
	children = json_at(document, "manifests");
	layers = json_at(document, "layers");
	if (children && (depth == DEPTH_MAX || layers))
		return archive_bad(reader, "%.*s: %s", SHORT_DIGEST, blob->digest,
			depth == DEPTH_MAX ? "indexes too deep" : "both index and manifest");
	if (children) {
		reader->json = others;
		return read_children(reader, blob, depth, steal(document), image);
	}
	r = read_descriptor(reader, blob->digest, json_at(document, "config"), &part);
	foreign = foreign_type(json_text_at(document, "config/mediaType"), layers);
	if (r == 0 && !foreign)
		r = read_document(reader, NULL, &part, &config);
	if (r == 0 && (foreign || !archive_fits_machine(config))) {
		if (depth > 0 && foreign && (r = open_blob(reader, &part, &file)) == 0)
			close(file.fd);
		if (depth > 0 && r == 0)
			r = read_layers(reader, blob->digest, layers, image);
		if (r < 0 && !is_of_image(r))
			return r;
		return foreign ? archive_fail(reader, depth > 0 ? -ENOEXEC : -EBADMSG,
					 "%.90s: not an image, but %.90s", image->name, foreign)
			       : wrong_machine(reader, image->name);
	}
	if (r == 0)
		r = check_layers(reader, image->name, config, layers);
	if (r < 0)
		return r;
	memcpy(image->manifest, blob->digest, DIGEST_MAX);
	memcpy(image->id, part.digest, DIGEST_MAX);
	image->size = part.size;
	return read_layers(reader, blob->digest, layers, image);
}

static int read_layout(struct archive_reader *reader)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *index = NULL;
	const cJSON *item;
	size_t others;
	int r = read_document(reader, "index.json", NULL, &index);

	if (r < 0)
		return r;
	others = reader->json;
	cJSON_ArrayForEach (item, json_at(index, "manifests")) {
		const cJSON *notes = json_at(item, "annotations");
		const char *name = json_text_at(notes, "io.containerd.image.name");
		struct archive_image image = {0};
		struct archive_blob blob;

		if (!name[0])
			name = json_text_at(notes, "org.opencontainers.image.ref.name");
		/* Without any of these characters it is a mere tag. */
		if (!strpbrk(name, "/:@") || image_normalize(name, image.name) < 0) {
			r = add_unnamed(reader, json_text_at(item, "digest"));
		} else {
			r = read_descriptor(reader, image.name, item, &blob);
			memcpy(image.top, blob.digest, DIGEST_MAX);
			if (r == 0)
				r = read_image(reader, &blob, 0, &image);
			reader->json = others;
			r = add_image(reader, &image, r);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- docker-save ---- */

/* Takes the diff_id as the digest of an uncompressed layer, and computes that of another. */
static int add_layer(struct archive_reader *reader, const char *name, const char *diff_id,
	struct archive_blob *layer)
{
	_cleanup_close_ int fd = -1;
	struct archive_entry file;
	struct sha256_ctx sum;
	char part[PART];
	uint64_t done = 0;
	int r = open_file(reader, name, &file);

	if (r < 0)
		return r;
	fd = file.fd;
	*layer = (struct archive_blob){
		.size = file.size, .offset = file.offset, .media_type = layer_type(&file)};
	/* Do not hash a layer that cannot fit: a sparse file may have any size. */
	if (streq(layer->media_type, OCI_LAYER) ||
		(reader->unpacked_max > 0 && file.size > reader->unpacked_max)) {
		memcpy(layer->digest, diff_id, DIGEST_MAX);
		return add_blob(reader, layer, &file);
	}
	sha256_init(&sum);
	while ((r = check_wait(reader)) == 0 && (r = read_part(reader, &file, &done, part)) > 0)
		sha256_update(&sum, (size_t)r, (const uint8_t *)part);
	if (r < 0)
		return r;
	finish_digest(&sum, layer->digest);
	return add_blob(reader, layer, &file);
}

static void add_part(struct archive_reader *reader, int part)
{
	struct archive *archive = reader->archive;

	*add_element(&archive->parts, &archive->n_parts, &reader->parts_allocated) = (uint16_t)part;
}

/* Adds the layers, and the manifest that a registry would have for an entry of manifest.json. */
static int add_manifest(struct archive_reader *reader, const cJSON *layers, const cJSON *config,
	int config_index, struct archive_image *image)
{
	struct archive_blob manifest = {
		.media_type = OCI_MANIFEST, .offset = reader->archive->n_parts, .made = true};
	const cJSON *diff_ids = json_at(config, "rootfs/diff_ids"), *item;
	const cJSON *diff_id = diff_ids ? diff_ids->child : NULL;
	_cleanup_free_ char *text = NULL;

	add_part(reader, cJSON_GetArraySize(layers));
	add_part(reader, config_index);
	cJSON_ArrayForEach (item, layers) {
		const char *id = json_text_at(diff_id, "");
		struct archive_blob layer;
		int r;

		if (!archive_is_digest(id))
			return archive_bad(reader, "%.120s: a layer without digest", image->name);
		r = add_layer(reader, json_text_at(item, ""), id, &layer);
		if (r < 0)
			return r;
		add_part(reader, r);
		image->size += layer.size;
		image->unpacked += layer.unpacked;
		diff_id = diff_id->next;
	}
	text = archive_manifest_text(reader->archive, &manifest);
	manifest.size = strlen(text);
	archive_digest(text, manifest.size, manifest.digest);
	memcpy(image->top, manifest.digest, DIGEST_MAX);
	memcpy(image->manifest, manifest.digest, DIGEST_MAX);
	return MIN(add_blob(reader, &manifest, NULL), 0);
}

/* Reads an entry of manifest.json, and adds the blobs of its image. */
static int read_entry(
	struct archive_reader *reader, const cJSON *entry, struct archive_image *image)
{
	const char *name = json_text_at(entry, "Config"), *file_name;
	_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;
	struct archive_blob blob = {.media_type = OCI_CONFIG};
	int r = read_document(reader, name, &blob, &config);

	if (r < 0)
		return r;
	file_name = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
	/* If the file name looks like a digest, it must be the digest of the blob. */
	if (strspn(file_name, "0123456789abcdef") == 64 &&
		memcmp(file_name, blob.digest + 7, 64) != 0)
		return archive_bad(reader, "%.90s: wrong digest", name);
	if (!archive_fits_machine(config))
		return wrong_machine(reader, image->name);
	r = check_layers(reader, image->name, config, json_at(entry, "Layers"));
	if (r < 0)
		return r;
	memcpy(image->id, blob.digest, DIGEST_MAX);
	image->size = blob.size;
	r = add_blob(reader, &blob, NULL);
	if (r < 0)
		return r;
	return add_manifest(reader, json_at(entry, "Layers"), config, r, image);
}

static int add_entry(struct archive_reader *reader, const cJSON *entry)
{
	const cJSON *tags = json_at(entry, "RepoTags"), *tag;
	struct archive_image image = {0};
	int result;

	if (!cJSON_GetArraySize(tags))
		return add_unnamed(reader, json_text_at(entry, "Config"));
	set_text(image.name, json_text_at(tags, "0"));
	result = read_entry(reader, entry, &image);
	set_text(image.why, result < 0 ? reader->why : "");
	cJSON_ArrayForEach (tag, tags) {
		struct archive_image named = image;
		int r;

		r = image_normalize(json_text_at(tag, ""), named.name) < 0
			    ? add_unnamed(reader, json_text_at(tag, ""))
			    : add_image(reader, &named, result);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool is_named(const struct archive *archive, const char *top)
{
	for (size_t i = 0; i < archive->n_images; i++)
		if (archive->images[i].error != -ENOMSG && streq(archive->images[i].top, top))
			return true;
	return false;
}

/* Gives an archive without usable images the error of its first image with a name. */
static int check_images(struct archive_reader *reader)
{
	struct archive *archive = reader->archive;
	const struct archive_image *bad = NULL;
	size_t kept = 0, usable = 0;

	for (size_t i = 0; i < archive->n_images; i++) {
		const struct archive_image *image = &archive->images[i];

		/* A mere tag of a named image. */
		if (image->error == -ENOMSG && is_named(archive, image->name))
			continue;
		usable += image->error == 0;
		archive->images[kept++] = *image;
		if (image->error && (!bad || bad->error == -ENOMSG))
			bad = &archive->images[kept - 1];
	}
	archive->n_images = kept;
	if (usable > 0)
		return 0;
	return bad ? archive_fail(reader, bad->error, "%s", bad->why)
		   : archive_bad(reader, "it lists no images");
}

static int read_index(struct archive_reader *reader)
{
	struct archive *archive = reader->archive;
	int r = read_layout(reader), docker;
	size_t of_layout = archive->n_images;
	bool named = false;

	for (size_t i = 0; i < archive->n_images; i++)
		named |= archive->images[i].error != -ENOMSG;
	/* docker-save of 25 and later is also a layout, whose index has tags instead of names. */
	if ((r == -ENOENT || (r == 0 && !named)) && !archive->directory) {
		archive->n_images = 0;
		docker = read_list(reader, "manifest.json", add_entry);
		if (docker == -ENOENT && r == -ENOENT)
			return archive_bad(
				reader, "neither manifest.json nor index.json is in the archive");
		if (docker == -ENOENT)
			archive->n_images = of_layout;
		r = docker == -ENOENT ? r : docker;
	}
	if (r == 0)
		r = check_images(reader);
	return r == -ENOENT ? -EBADMSG : r;
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
	r = archive->directory ? 0 : read_tar(reader);
	return r < 0 ? r : read_index(reader);
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
