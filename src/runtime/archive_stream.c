/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/archive_internal.h"

#define BLOCK 512

/* A blob's bytes, or a text: of a header, of padding, of manifest.json. */
struct piece {
	const struct archive_blob *blob;
	char *text;
	uint64_t size;
};

struct archive_stream {
	const struct archive *archive;
	struct piece *pieces;
	size_t n_pieces, allocated, piece; /* the one at which it is */
	uint64_t at;                       /* byte of that piece */
	int fd;                            /* of its blob; -1: not open */
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

static void add_piece(
	struct archive_stream *stream, const struct archive_blob *blob, char *text, uint64_t size)
{
	struct piece *piece =
		add_element(&stream->pieces, &stream->n_pieces, &stream->allocated, sizeof(*piece));

	*piece = (struct piece){blob, text, size};
}

/* Header, content, and zeros up to a whole block. */
static void add_file(struct archive_stream *stream, const char *name,
	const struct archive_blob *blob, char *text, uint64_t size)
{
	char *header = must(calloc(1, BLOCK));
	unsigned int sum = 0;

	snprintf(header, 100, "%s", name);
	write_number(header + 100, 8, 0644);
	write_number(header + 108, 8, 0);
	write_number(header + 116, 8, 0);
	write_number(header + 124, 12, size);
	write_number(header + 136, 12, 0);
	header[156] = '0';
	memcpy(header + 257, "ustar\00000", 8);
	memset(header + 148, ' ', 8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)header[i];
	snprintf(header + 148, 8, "%06o", sum);
	add_piece(stream, NULL, header, BLOCK);
	add_piece(stream, blob, text, size);
	add_piece(stream, NULL, must(calloc(1, BLOCK)), -size % BLOCK);
}

static int add_blob(struct archive_stream *stream, const char *digest, const char *suffix,
	char name[static 100])
{
	const struct archive_blob *blob = archive_find_blob(stream->archive, digest);

	if (!blob)
		return -EBADMSG;
	snprintf(name, 100, "%.64s%s", digest + strlen("sha256:"), suffix);
	for (size_t i = 0; i < stream->n_pieces; i++)
		if (stream->pieces[i].blob == blob)
			return 0;
	add_file(stream, name, blob, NULL, blob->size);
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

static int add_files(struct archive_stream *stream, const struct archive_image *image)
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
	add_file(stream, "manifest.json", NULL, must(text), size);
	add_piece(stream, NULL, must(calloc(2, BLOCK)), (uint64_t)2 * BLOCK); /* the end */
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
	r = add_files(stream, image);
	if (r < 0) {
		snprintf(why, ARCHIVE_WHY_MAX, "the archive changed since it was opened");
		return r;
	}
	*ret = steal(stream);
	return 0;
}

ssize_t archive_stream_read(struct archive_stream *stream, void *data, size_t size)
{
	const struct piece *piece = &stream->pieces[stream->piece];
	const char *text;
	ssize_t n;

	while (stream->piece < stream->n_pieces && stream->at == piece->size) {
		piece = &stream->pieces[++stream->piece];
		stream->at = 0;
		cleanup_close(&stream->fd);
		stream->fd = -1;
	}
	if (stream->piece == stream->n_pieces)
		return 0;
	n = (ssize_t)MIN(size, piece->size - stream->at);
	text = piece->blob ? piece->blob->text : piece->text;
	if (text) {
		memcpy(data, text + stream->at, (size_t)n);
	} else {
		if (stream->fd < 0)
			stream->fd = archive_blob_open(stream->archive, piece->blob);
		if (stream->fd < 0)
			return stream->fd;
		n = pread(stream->fd, data, (size_t)n, (off_t)(piece->blob->offset + stream->at));
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
	}
	stream->at += (uint64_t)n;
	return n;
}

void archive_stream_close(struct archive_stream *stream)
{
	for (size_t i = 0; i < stream->n_pieces; i++)
		free(stream->pieces[i].text);
	free(stream->pieces);
	cleanup_close(&stream->fd);
	free(stream);
}
