/* SPDX-License-Identifier: Apache-2.0 */

/* Blobs and JSON documents of an archive. */

#include "runtime/archive_internal.h"

#include <nettle/base16.h>
#include <nettle/sha2.h>

#define BLOBS_MAX      3072
#define DOCUMENTS_MAX  1024
#define MEDIA_TYPE_MAX 96  /* bytes */
#define STRING_MAX     512 /* bytes: names and paths are shorter, labels may be longer */

#define JSON_MEMORY ((size_t)512 * 1024) /* bytes of all documents that are parsed at once */

#define PART ((size_t)4096) /* that is read at once */

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

int archive_add_blob(
	struct archive_reader *reader, struct archive_blob *blob, const struct archive_file *file)
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
	r = file ? archive_count_unpacked(reader, file, &blob->unpacked) : 0;
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
	return MIN(r, 0);
}

/* Reads the text that is to be parsed, and the digest of the whole text. */
static int read_text(struct archive_reader *reader, const char *shown,
	const struct archive_file *file, struct json_compact *compact,
	char digest[static DIGEST_MAX])
{
	uint8_t sum[SHA256_DIGEST_SIZE];
	struct sha256_ctx context;
	char part[PART];

	sha256_init(&context);
	for (uint64_t done = 0, n; done < file->size; done += n) {
		int r;

		n = MIN(file->size - done, sizeof(part));
		r = archive_pread(file->fd, part, (size_t)n, file->offset + done);
		if (r < 0)
			return archive_error(reader, r);
		sha256_update(&context, (size_t)n, (const uint8_t *)part);
		json_compact_add(compact, part, (size_t)n, STRING_MAX);
		if (reader->json + compact->memory > JSON_MEMORY)
			return archive_bad(reader, "%.90s: too large", shown);
	}
	sha256_digest(&context, sizeof(sum), sum);
	strcpy(digest, "sha256:");
	base16_encode_update(digest + strlen(digest), sizeof(sum), sum);
	digest[DIGEST_MAX - 1] = '\0';
	return 0;
}

int archive_read_document(
	struct archive_reader *reader, const char *name, struct archive_blob *blob, cJSON **json)
{
	_cleanup_close_ int fd = -1;
	struct json_compact compact = {0};
	char digest[DIGEST_MAX];
	const char *shown = name ? name : blob->digest;
	struct archive_file file;
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
	r = read_text(reader, shown, &file, &compact, digest);
	if (r == 0 && !name && !streq(blob->digest, digest))
		r = archive_bad(reader, "%.90s: wrong digest", shown);
	if (r == 0 && name && blob) {
		memcpy(blob->digest, digest, sizeof(digest));
		blob->size = file.size;
		blob->offset = file.offset;
	}
	if (r == 0)
		*json = cJSON_Parse(compact.text ? compact.text : "");
	free(compact.text);
	if (r == 0 && !*json)
		r = archive_bad(reader, "%.90s: invalid JSON", shown);
	if (r == 0)
		reader->json += json_memory(*json);
	return r;
}

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

int archive_read_list(struct archive_reader *reader, const char *name, archive_object_fn *read)
{
	_cleanup_close_ int fd = -1;
	struct json_compact compact = {0};
	struct archive_file file;
	char part[PART];
	int r = archive_file_open(reader, name, &file);

	if (r < 0)
		return r;
	fd = file.fd;
	if (file.size > ARCHIVE_TEXT_MAX)
		return archive_bad(reader, "%.90s: too large", name);
	for (uint64_t done = 0, n; r == 0 && done < file.size; done += n) {
		n = MIN(file.size - done, PART);
		r = archive_pread(fd, part, (size_t)n, file.offset + done);
		if (r < 0) {
			archive_error(reader, r);
			break;
		}
		json_compact_add(&compact, part, (size_t)n, STRING_MAX);
		/* Another format has an object. */
		if (done == 0 && compact.text[strspn(compact.text, " \t\r\n")] != '[') {
			compact.len = 0;
			break;
		}
		r = compact.memory > JSON_MEMORY ? archive_bad(reader, "%.90s: too large", name)
						 : read_objects(reader, name, &compact, read);
	}
	if (r == 0 && compact.len > 0)
		r = archive_bad(reader, "%.90s: invalid JSON", name);
	free(compact.text);
	return r;
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

int archive_wrong_machine(struct archive_reader *reader, const char *name)
{
	return archive_fail(reader, -ENOEXEC, "%.120s: not for linux/%s", name, architecture);
}
