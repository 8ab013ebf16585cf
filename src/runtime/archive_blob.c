/* SPDX-License-Identifier: Apache-2.0 */

/* Blobs and JSON documents of an archive. */

#include "runtime/archive_internal.h"

#define DOCUMENTS_MAX 1024
#define VALUES_MAX    8000 /* of one document: cJSON needs about 150 bytes for each */

#define SIZE_LIMIT 0x1p53 /* JSON numbers are exact below it */

/* GOARCH of this machine and the baseline variant. */
#if defined(__x86_64__)
static const char architecture[] = "amd64", variant[] = "v1";
#elif defined(__aarch64__)
static const char architecture[] = "arm64", variant[] = "v8";
#else
#error "add GOARCH of this machine"
#endif

bool archive_is_digest(const char *text)
{
	return starts_with(text, "sha256:") && strlen(text) == DIGEST_MAX - 1 &&
	       strspn(text + 7, "0123456789abcdef") == 64;
}

int archive_read_descriptor(struct archive_reader *reader, const char *parent, const cJSON *item,
	struct archive_blob *blob)
{
	const char *type = json_text_at(item, "mediaType");
	const double size = json_number_at(item, "size");

	*blob = (struct archive_blob){.size = (uint64_t)MIN(MAX(size, 0), SIZE_LIMIT)};
	/* The media type is sent as an HTTP header and put in JSON: restrict its characters. */
	if (set_text(blob->digest, json_text_at(item, "digest")) &&
		archive_is_digest(blob->digest) && set_text(blob->media_type, type) && type[0] &&
		type[strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789.+-_/")] == '\0' &&
		size >= 0 && size < SIZE_LIMIT)
		return 0;
	return archive_bad(
		reader, "%.120s has a descriptor without a valid digest, size or type", parent);
}

int archive_add_blob(
	struct archive_reader *reader, struct archive_blob *blob, const struct archive_file *file)
{
	const struct archive_blob *same =
		find_named(reader->archive->blobs, reader->archive->n_blobs, blob->digest);

	int r = !same && file ? archive_count_unpacked(reader, file, &blob->unpacked) : 0;

	if (same) {
		blob->unpacked = same->unpacked;
		free(blob->text);
		return same->size == blob->size ? 0
						: archive_bad(reader, "%.*s has two sizes",
							  SHORT_DIGEST, blob->digest);
	}
	*add_element(&reader->archive->blobs, &reader->archive->n_blobs, &reader->blobs_allocated) =
		*blob;
	return r;
}

int archive_open_blob(
	struct archive_reader *reader, struct archive_blob *blob, struct archive_file *file)
{
	char name[sizeof(BLOB_PATH) + DIGEST_MAX];
	int r;

	snprintf(name, sizeof(name), BLOB_PATH, blob->digest + strlen("sha256:"));
	r = archive_file_open(reader, name, file);
	if (r < 0)
		return r;
	blob->offset = file->offset;
	if (file->size == blob->size)
		r = archive_add_blob(reader, blob, file);
	else
		r = archive_bad(reader, "%.*s: %" PRIu64 " bytes, expected %" PRIu64, SHORT_DIGEST,
			blob->digest, file->size, blob->size);
	if (r < 0)
		close(file->fd);
	return r;
}

int archive_read_document(
	struct archive_reader *reader, const char *name, struct archive_blob *blob, cJSON **json)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *text = NULL;
	char digest[DIGEST_MAX] = "sha256:";
	const char *shown = name ? name : blob->digest;
	struct archive_file file;
	size_t values = 0;
	int r = archive_check_wait(reader);

	if (r == 0)
		r = name ? archive_file_open(reader, name, &file)
			 : archive_open_blob(reader, blob, &file);
	if (r < 0)
		return r;
	fd = file.fd;
	if (file.size > ARCHIVE_TEXT_MAX)
		return archive_bad(reader, "%.90s: too large", shown);
	if (++reader->n_documents > DOCUMENTS_MAX)
		return archive_bad(reader, "more than %d manifests", DOCUMENTS_MAX);
	text = must(calloc(1, (size_t)file.size + 1));
	r = archive_pread(fd, text, (size_t)file.size, file.offset);
	if (r < 0)
		return archive_error(reader, r);
	hash_bytes(text, (size_t)file.size, digest + strlen(digest));
	if (!name && !streq(blob->digest, digest))
		return archive_bad(reader, "%.90s: wrong digest", shown);
	for (const char *at = text; *at; at++)
		values += *at == ',' || *at == '[' || *at == '{';
	if (values > VALUES_MAX)
		return archive_bad(reader, "%.90s: too many values", shown);
	if (name && blob) {
		memcpy(blob->digest, digest, sizeof(digest));
		blob->size = file.size;
		blob->offset = file.offset;
	}
	*json = cJSON_Parse(text);
	return *json ? 0 : archive_bad(reader, "%.90s: invalid JSON", shown);
}

bool archive_fits_machine(const cJSON *platform)
{
	const char *os = json_text_at(platform, "os");
	const char *machine = json_text_at(platform, "architecture");
	const char *level = json_text_at(platform, "variant");

	return (!os[0] || streq(os, "linux")) && (!machine[0] || streq(machine, architecture)) &&
	       (!level[0] || streq(level, variant));
}

int archive_wrong_machine(struct archive_reader *reader, const char *name)
{
	return archive_fail(reader, -ENOEXEC, "%.120s: not for linux/%s", name, architecture);
}
