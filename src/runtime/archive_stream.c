/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/archive_internal.h"

#include <errno.h>

#define BLOCK 512

/* One file of the tar: header, content, zeros up to a whole block. */
struct part {
	char header[BLOCK];
	const struct archive_blob *blob; /* NULL: text */
	char *text;
	uint64_t size;
};

struct archive_stream {
	const struct archive *archive;
	struct part *parts;
	size_t n_parts, allocated, part; /* the one at which it is */
	uint64_t at;                     /* byte of that part */
	int fd;                          /* of its blob; -1: not open */
};

static void write_number(char *field, size_t size, uint64_t n)
{
	if (n >> 3 * (size - 1) == 0) {
		snprintf(field, size, "%0*llo", (int)size - 1, (unsigned long long)n);
		return;
	}
	/* As GNU tar and Go have it: 8 GiB and more. */
	for (size_t i = size; i-- > 0; n >>= 8)
		field[i] = (char)(n & 0xff);
	field[0] = (char)0x80;
}

static void add_part(struct archive_stream *stream, const char *name,
	const struct archive_blob *blob, char *text, uint64_t size)
{
	struct part *part =
		add_element(&stream->parts, &stream->n_parts, &stream->allocated, sizeof(*part));
	unsigned int sum = 0;

	part->blob = blob;
	part->text = text;
	part->size = size;
	snprintf(part->header, 100, "%s", name);
	write_number(part->header + 100, 8, 0644);
	write_number(part->header + 108, 8, 0);
	write_number(part->header + 116, 8, 0);
	write_number(part->header + 124, 12, size);
	write_number(part->header + 136, 12, 0);
	part->header[156] = '0';
	memcpy(part->header + 257, "ustar\00000", 8);
	memset(part->header + 148, ' ', 8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)part->header[i];
	snprintf(part->header + 148, 8, "%06o", sum);
}

static bool has_part(const struct archive_stream *stream, const struct archive_blob *blob)
{
	for (size_t i = 0; i < stream->n_parts; i++)
		if (stream->parts[i].blob == blob)
			return true;
	return false;
}

static int add_blob(struct archive_stream *stream, const char *digest, const char *suffix,
	char name[static 100])
{
	const struct archive_blob *blob = archive_find_blob(stream->archive, digest);

	if (!blob)
		return -EBADMSG;
	snprintf(name, 100, "%.64s%s", digest + strlen("sha256:"), suffix);
	if (!has_part(stream, blob))
		add_part(stream, name, blob, NULL, blob->size);
	return 0;
}

/* The text of a blob that was checked when the archive was opened. */
static cJSON *parse_blob(const struct archive *archive, const struct archive_blob *blob)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *text = NULL;

	if (blob->text)
		return cJSON_Parse(blob->text);
	fd = archive_blob_open(archive, blob);
	if (fd < 0 || blob->size > ARCHIVE_TEXT_MAX)
		return NULL;
	text = must(calloc(1, (size_t)blob->size + 1));
	if (archive_pread(fd, text, (size_t)blob->size, blob->offset) < 0)
		return NULL;
	return cJSON_Parse(text);
}

static int add_parts(struct archive_stream *stream, const struct archive_image *image)
{
	const struct archive_blob *blob = archive_find_blob(stream->archive, image->manifest);
	_cleanup_(cleanup_cJSON_Delete) cJSON *manifest =
		blob ? parse_blob(stream->archive, blob) : NULL;
	const char *comma = "";
	const cJSON *layer;
	char name[100], *text = NULL;
	size_t size = 0;
	FILE *out;
	int r;

	if (!manifest)
		return -EBADMSG;
	r = add_blob(stream, image->id, ".json", name);
	out = must(open_memstream(&text, &size));
	fprintf(out, "[{\"Config\":\"%s\",\"RepoTags\":[\"%s\"],\"Layers\":[", name, image->name);
	cJSON_ArrayForEach (layer, json_at(manifest, "layers")) {
		if (r == 0)
			r = add_blob(stream, json_text_at(layer, "digest"), ".tar", name);
		fprintf(out, "%s\"%s\"", comma, name);
		comma = ",";
	}
	fputs("]}]\n", out);
	fclose(out);
	add_part(stream, "manifest.json", NULL, must(text), size);
	return r;
}

int archive_stream_open(const struct archive *archive, const struct archive_image *image,
	struct archive_stream **ret, char why[static ARCHIVE_WHY_MAX])
{
	_cleanup_(cleanup_archive_stream_close) struct archive_stream *stream =
		must(calloc(1, sizeof(*stream)));
	int r;

	stream->archive = archive;
	stream->fd = -1;
	r = add_parts(stream, image);
	if (r < 0) {
		snprintf(why, ARCHIVE_WHY_MAX, "the archive changed since it was opened");
		return r;
	}
	*ret = steal(stream);
	return 0;
}

/* Bytes of a part from an offset on: at most up to the end of header, content or padding. */
static ssize_t read_part(
	struct archive_stream *stream, const struct part *part, void *data, size_t size)
{
	uint64_t at = stream->at, left;
	ssize_t n;

	if (at < BLOCK) {
		size = MIN(size, (size_t)(BLOCK - at));
		memcpy(data, part->header + at, size);
		return (ssize_t)size;
	}
	at -= BLOCK;
	if (at >= part->size) {
		size = MIN(size, (size_t)(-at % BLOCK));
		memset(data, 0, size);
		return (ssize_t)size;
	}
	left = part->size - at;
	size = (size_t)MIN(size, left);
	if (!part->blob || part->blob->text) {
		memcpy(data, (part->blob ? part->blob->text : part->text) + at, size);
		return (ssize_t)size;
	}
	if (stream->fd < 0)
		stream->fd = archive_blob_open(stream->archive, part->blob);
	if (stream->fd < 0)
		return stream->fd;
	n = pread(stream->fd, data, size, (off_t)(part->blob->offset + at));
	return n < 0 ? -errno : n == 0 ? -EBADMSG : n;
}

ssize_t archive_stream_read(struct archive_stream *stream, void *data, size_t size)
{
	/* Two blocks of zeros are the end: the padding of a part that is not there. */
	while (stream->part < stream->n_parts) {
		const struct part *part = &stream->parts[stream->part];
		uint64_t whole = BLOCK + (part->size + BLOCK - 1) / BLOCK * BLOCK;
		ssize_t n;

		if (stream->at < whole) {
			n = read_part(stream, part, data, size);
			stream->at += n > 0 ? (uint64_t)n : 0;
			return n;
		}
		stream->part++;
		stream->at = 0;
		cleanup_close(&stream->fd);
		stream->fd = -1;
	}
	size = MIN(size, (size_t)(2 * BLOCK - stream->at));
	memset(data, 0, size);
	stream->at += size;
	return (ssize_t)size;
}

void archive_stream_close(struct archive_stream *stream)
{
	for (size_t i = 0; i < stream->n_parts; i++)
		free(stream->parts[i].text);
	free(stream->parts);
	cleanup_close(&stream->fd);
	free(stream);
}
