/* SPDX-License-Identifier: Apache-2.0 */

/* Finds the images of an archive: by an OCI layout's index.json or docker-save's manifest.json. */

#include "runtime/archive_internal.h"

#include <nettle/base16.h>
#include <nettle/sha2.h>

#define IMAGES_MAX    128
#define LAYERS_MAX    512
#define DEPTH_MAX     4 /* of indexes within indexes */
#define DOCUMENTS_MAX 1024
#define VALUES_MAX    50000 /* of one document: cJSON needs about 100 bytes for each */

#define OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define OCI_CONFIG   "application/vnd.oci.image.config.v1+json"
#define OCI_LAYER    "application/vnd.oci.image.layer.v1.tar"

#define SIZE_LIMIT 0x1p53 /* JSON numbers are exact below it */
#define SHORT      19     /* length of a digest in messages: "sha256:" and 12 digits */

/* GOARCH of this machine, and its baseline variant. */
#if defined(__x86_64__)
static const char architecture[] = "amd64", variant[] = "v1";
#elif defined(__aarch64__)
static const char architecture[] = "arm64", variant[] = "v8";
#else
#error "add GOARCH of this machine"
#endif

static bool is_digest(const char *text)
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

	*blob = (struct archive_blob){.size = (uint64_t)MIN(MAX(size, 0), SIZE_LIMIT)};
	/* The media type is sent as an HTTP header and put in JSON: restrict its characters. */
	if (copy_text(blob->digest, sizeof(blob->digest), json_text_at(item, "digest")) &&
		is_digest(blob->digest) &&
		copy_text(blob->media_type, sizeof(blob->media_type), type) &&
		type[strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789.+-_/")] == '\0' &&
		size >= 0 && size < SIZE_LIMIT)
		return 0;
	return archive_bad(
		reader, "%.120s has a descriptor without a valid digest, size or type", parent);
}

/* Adds a blob once; the archive owns its text. Reads its size from the file (or NULL). */
static int add_blob(
	struct archive_reader *reader, struct archive_blob *blob, const struct archive_file *file)
{
	const struct archive_blob *same =
		find_named(reader->archive->blobs, reader->archive->n_blobs, blob->digest);

	int r = !same && file ? archive_count_unpacked(reader, file, &blob->unpacked) : 0;

	if (same) {
		blob->unpacked = same->unpacked;
		free(blob->text);
		return same->size == blob->size
			       ? 0
			       : archive_bad(reader, "%.*s has two sizes", SHORT, blob->digest);
	}
	*add_element(&reader->archive->blobs, &reader->archive->n_blobs, &reader->blobs_allocated) =
		*blob;
	return r;
}

/* Opens the file of a blob, which must have the size of its descriptor, and adds the blob. */
static int open_blob(
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
		r = add_blob(reader, blob, file);
	else
		r = archive_bad(reader, "%.*s: %" PRIu64 " bytes, expected %" PRIu64, SHORT,
			blob->digest, file->size, blob->size);
	if (r < 0)
		close(file->fd);
	return r;
}

/*
 * Parses a JSON document: the named file, whose digest and location go to blob (if not NULL), or
 * with name NULL the blob, whose digest is verified.
 */
static int read_document(
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
		r = name ? archive_file_open(reader, name, &file) : open_blob(reader, blob, &file);
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

/* Whether a descriptor or configuration is for this machine: an absent field matches. */
static bool platform_matches(const cJSON *platform)
{
	const char *os = json_text_at(platform, "os");
	const char *machine = json_text_at(platform, "architecture");
	const char *level = json_text_at(platform, "variant");

	return (!os[0] || streq(os, "linux")) && (!machine[0] || streq(machine, architecture)) &&
	       (!level[0] || streq(level, variant));
}

static int wrong_platform(struct archive_reader *reader, const char *name)
{
	return archive_fail(reader, -ENOEXEC, "%.120s: not for linux/%s", name, architecture);
}

/* ---- OCI layouts ---- */

/* Reads a manifest, or the first manifest for this machine of an index. */
static int read_image(struct archive_reader *reader, struct archive_blob *blob, int depth,
	struct archive_image *image)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL, *config = NULL;
	const cJSON *item, *children, *layers;
	struct archive_file file;
	struct archive_blob part;
	int r = read_document(reader, NULL, blob, &document);

	if (r < 0)
		return r;
	children = json_at(document, "manifests");
	layers = json_at(document, "layers");
	if (children && (depth == DEPTH_MAX || layers))
		return archive_bad(reader, "%.*s: %s", SHORT, blob->digest,
			depth == DEPTH_MAX ? "indexes too deep" : "both index and manifest");
	cJSON_ArrayForEach (item, children) {
		if (!platform_matches(json_at(item, "platform")))
			continue;
		r = read_descriptor(reader, blob->digest, item, &part);
		if (r == 0)
			r = read_image(reader, &part, depth + 1, image);
		if (r != -ENOEXEC)
			return r;
	}
	if (children)
		return wrong_platform(reader, image->name);
	r = read_descriptor(reader, blob->digest, json_at(document, "config"), &part);
	if (r == 0)
		r = read_document(reader, NULL, &part, &config);
	if (r < 0)
		return r;
	if (!platform_matches(config))
		return wrong_platform(reader, image->name);
	memcpy(image->id, part.digest, DIGEST_MAX);
	image->size = part.size;
	cJSON_ArrayForEach (item, layers) {
		r = read_descriptor(reader, blob->digest, item, &part);
		if (r == 0)
			r = open_blob(reader, &part, &file);
		if (r < 0)
			return r;
		close(file.fd);
		image->size += part.size;
		image->unpacked += part.unpacked;
	}
	return 0;
}

static int add_image(struct archive_reader *reader, const struct archive_image *image)
{
	const struct archive_image *same =
		find_named(reader->archive->images, reader->archive->n_images, image->name);

	if (same)
		return streq(same->top, image->top)
			       ? 0
			       : archive_bad(reader, "two images are %.150s", image->name);
	if (reader->archive->n_images == IMAGES_MAX)
		return archive_bad(reader, "more than %d images", IMAGES_MAX);
	*add_element(&reader->archive->images, &reader->archive->n_images,
		&reader->images_allocated) = *image;
	return 0;
}

static int read_layout(struct archive_reader *reader)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *index = NULL;
	const cJSON *item;
	int r = read_document(reader, "index.json", NULL, &index);

	if (r < 0)
		return r;
	cJSON_ArrayForEach (item, json_at(index, "manifests")) {
		const cJSON *notes = json_at(item, "annotations");
		const char *name = json_text_at(notes, "io.containerd.image.name");
		struct archive_image image = {0};
		struct archive_blob blob;

		if (!name[0])
			name = json_text_at(notes, "org.opencontainers.image.ref.name");
		/* Without any of these characters it is a mere tag. */
		if (!strpbrk(name, "/:@") || image_normalize(name, image.name) < 0)
			continue;
		r = read_descriptor(reader, image.name, item, &blob);
		memcpy(image.top, blob.digest, DIGEST_MAX);
		if (r == 0)
			r = read_image(reader, &blob, 0, &image);
		if (r == 0)
			r = add_image(reader, &image);
		if (r < 0)
			return r == -ENOEXEC || r == -ENOENT ? -EBADMSG : r;
	}
	return 0;
}

/* ---- docker-save ---- */

/* An uncompressed layer's digest is its diff_id; that of a compressed one is computed. */
static int add_layer(struct archive_reader *reader, const char *name, const char *diff_id,
	struct archive_blob *layer)
{
	uint8_t buffer[16384], sum[SHA256_DIGEST_SIZE];
	_cleanup_close_ int fd = -1;
	struct sha256_ctx context;
	struct archive_file file;
	unsigned char magic[4] = {0};
	int r = archive_file_open(reader, name, &file);

	if (r < 0)
		return r;
	fd = file.fd;
	*layer = (struct archive_blob){
		.size = file.size, .offset = file.offset, .media_type = OCI_LAYER};
	if (file.size >= sizeof(magic))
		(void)archive_pread(fd, magic, sizeof(magic), file.offset);
	if (memcmp(magic, GZIP_MAGIC, 2) == 0) {
		strcat(layer->media_type, "+gzip");
	} else if (memcmp(magic, ZSTD_MAGIC, 4) == 0) {
		strcat(layer->media_type, "+zstd");
	} else {
		memcpy(layer->digest, diff_id, DIGEST_MAX);
		return add_blob(reader, layer, &file);
	}
	sha256_init(&context);
	for (uint64_t done = 0; done < file.size;) {
		size_t n = (size_t)MIN(file.size - done, sizeof(buffer));

		r = archive_check_wait(reader);
		if (r < 0)
			return r;
		r = archive_pread(fd, buffer, n, file.offset + done);
		if (r < 0)
			return archive_error(reader, r);
		sha256_update(&context, n, buffer);
		done += n;
	}
	sha256_digest(&context, sizeof(sum), sum);
	strcpy(layer->digest, "sha256:");
	base16_encode_update(layer->digest + 7, sizeof(sum), sum);
	return add_blob(reader, layer, &file);
}

/* Writes the manifest that a registry would have for an entry of manifest.json. */
static int make_manifest(struct archive_reader *reader, const cJSON *entry, const cJSON *config,
	struct archive_image *image, FILE *out)
{
	const cJSON *diff_ids = json_at(config, "rootfs/diff_ids"), *item;
	const cJSON *diff_id = diff_ids ? diff_ids->child : NULL;
	const char *comma = "";

	fprintf(out,
		"{\"schemaVersion\":2,\"mediaType\":\"" OCI_MANIFEST
		"\",\"config\":{\"mediaType\":\"" OCI_CONFIG
		"\",\"digest\":\"%s\",\"size\":%" PRIu64 "},\"layers\":[",
		image->id, image->size);
	if (cJSON_GetArraySize(diff_ids) != cJSON_GetArraySize(json_at(entry, "Layers")) ||
		cJSON_GetArraySize(diff_ids) > LAYERS_MAX)
		return archive_bad(
			reader, "%.120s: configuration and layers do not agree", image->name);
	cJSON_ArrayForEach (item, json_at(entry, "Layers")) {
		const char *id = json_text_at(diff_id, "");
		struct archive_blob layer;
		int r;

		if (!is_digest(id))
			return archive_bad(reader, "%.120s: a layer without digest", image->name);
		r = add_layer(reader, json_text_at(item, ""), id, &layer);
		if (r < 0)
			return r;
		fprintf(out, "%s{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%" PRIu64 "}",
			comma, layer.media_type, layer.digest, layer.size);
		image->size += layer.size;
		image->unpacked += layer.unpacked;
		comma = ",";
		diff_id = diff_id->next;
	}
	fputs("]}", out);
	return 0;
}

/* Adds the images of an entry of manifest.json, one for each name. */
static int read_entry(struct archive_reader *reader, const cJSON *entry)
{
	const char *name = json_text_at(entry, "Config"), *file_name;
	_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;
	struct archive_blob manifest = {.media_type = OCI_MANIFEST};
	struct archive_blob blob = {.media_type = OCI_CONFIG};
	struct archive_image image = {0};
	const cJSON *tag;
	size_t size = 0;
	FILE *out;
	int r;

	copy_text(image.name, sizeof(image.name), json_text_at(entry, "RepoTags/0"));
	r = read_document(reader, name, &blob, &config);
	if (r < 0)
		return r;
	file_name = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
	/* A file name that looks like a digest must be the right one. */
	if (strspn(file_name, "0123456789abcdef") == 64 &&
		memcmp(file_name, blob.digest + 7, 64) != 0)
		return archive_bad(reader, "%.90s: wrong digest", name);
	if (!platform_matches(config))
		return wrong_platform(reader, image.name);
	memcpy(image.id, blob.digest, DIGEST_MAX);
	image.size = blob.size;
	r = add_blob(reader, &blob, NULL);
	if (r < 0)
		return r;
	out = must(open_memstream(&manifest.text, &size));
	r = make_manifest(reader, entry, config, &image, out);
	fclose(out);
	if (r < 0) {
		free(manifest.text);
		return r;
	}
	manifest.size = size;
	strcpy(manifest.digest, "sha256:");
	hash_bytes(must(manifest.text), size, manifest.digest + strlen("sha256:"));
	memcpy(image.top, manifest.digest, DIGEST_MAX);
	r = add_blob(reader, &manifest, NULL);
	cJSON_ArrayForEach (tag, json_at(entry, "RepoTags"))
		if (r == 0 && image_normalize(json_text_at(tag, ""), image.name) == 0)
			r = add_image(reader, &image);
	return r;
}

int archive_read_index(struct archive_reader *reader)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = NULL;
	const cJSON *entry;
	int r = read_layout(reader), docker;

	/* docker-save of 25 and later is also a layout, whose index has tags instead of names. */
	if ((r == -ENOENT || (r == 0 && reader->archive->n_images == 0)) &&
		!reader->archive->directory) {
		docker = read_document(reader, "manifest.json", NULL, &list);
		if (docker == -ENOENT && r == -ENOENT)
			return archive_bad(
				reader, "neither manifest.json nor index.json is in the archive");
		r = docker == -ENOENT ? r : docker;
		cJSON_ArrayForEach (entry, list)
			if (r == 0 && json_text_at(entry, "RepoTags/0")[0])
				r = read_entry(reader, entry);
	}
	if (r == 0 && reader->archive->n_images == 0)
		return archive_bad(reader, "none of its images has a name");
	return r == -ENOENT || r == -ENOEXEC ? -EBADMSG : r;
}
