/* SPDX-License-Identifier: Apache-2.0 */

/* Unpacks archives compressed by gzip or zstd, and counts the bytes of compressed layers. */

#include "base/file.h"
#include "runtime/archive_internal.h"

#include <sys/mman.h>
#include <sys/statvfs.h>

#include <isa-l/igzip_lib.h>
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_decompressContinue(), in every build of libzstd */
#include <zstd.h>

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

/* 1: no more bytes need to be counted. */
static int spool_write(struct spool *spool, const void *data, size_t len)
{
	struct statvfs fs;
	int r = archive_check_wait(spool->reader);

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
	return ferror(spool->in) ? archive_error(spool->reader, -errno)
				 : archive_check_wait(spool->reader);
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

/* RFC 8878, 3.1: a frame, or a skippable frame, with which pzstd begins. */
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

const char *archive_layer_type(const struct archive_file *file)
{
	char magic[4] = {0};

	(void)archive_pread(file->fd, magic, MIN(sizeof(magic), file->size), file->offset);
	return memcmp(magic, GZIP_MAGIC, 2) == 0 ? OCI_LAYER "+gzip"
	       : is_zstd(magic)                  ? OCI_LAYER "+zstd"
						 : OCI_LAYER;
}

/* Returns a spool without a file for a compressed file, or NULL for others. */
static struct spool *spool_new(struct archive_reader *reader, const struct archive_file *file)
{
	const char *type = archive_layer_type(file);
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

static int spool_unpack(struct spool *spool, const struct archive_file *file)
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

int archive_count_unpacked(
	struct archive_reader *reader, const struct archive_file *file, uint64_t *unpacked)
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

int archive_unpack(struct archive_reader *reader)
{
	const struct archive_file file = {.fd = reader->archive->fd, .size = UINT64_MAX};
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
