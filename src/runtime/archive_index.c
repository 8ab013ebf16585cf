/* SPDX-License-Identifier: Apache-2.0 */

/* Finds the images of an archive: by an OCI layout's index.json or docker-save's manifest.json. */

#include "runtime/archive_internal.h"

#include <nettle/base16.h>
#include <nettle/sha2.h>

#define IMAGES_MAX 128
#define LAYERS_MAX 512
#define DEPTH_MAX  4  /* of indexes within indexes */
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

/* Whether an error concerns one image only. */
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

/* An image that no pod can name. */
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
	size_t n = 0;

	cJSON_ArrayForEach (item, json_at(index, "manifests"))
		if (bad == 0 && archive_fits_machine(json_at(item, "platform")))
			bad = n == HERE_MAX ? -E2BIG
					    : archive_read_descriptor(
						      reader, blob->digest, item, &here[n++]);
	cJSON_Delete(index);
	for (size_t i = 0; i < n - (bad == -EBADMSG); i++) {
		child = *image;
		r = read_image(reader, &here[i], depth + 1, &child);
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
	return n > 0 ? -ENOEXEC : archive_wrong_machine(reader, image->name);
}

/*
 * The first media type that no image has, or NULL. A signature of cosign has the configuration of
 * an image, and containerd 2.x pulls it without complaint.
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
	struct archive_file file;
	struct archive_blob layer;
	const cJSON *item;
	int r;

	cJSON_ArrayForEach (item, layers) {
		r = archive_read_descriptor(reader, manifest, item, &layer);
		if (r == 0)
			r = archive_open_blob(reader, &layer, &file);
		if (r < 0)
			return r;
		close(file.fd);
		image->size += layer.size;
		image->unpacked += layer.unpacked;
	}
	return 0;
}

static int read_manifest(struct archive_reader *reader, struct archive_blob *blob, int depth,
	struct archive_image *image)
{
	size_t others = reader->json;
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL, *config = NULL;
	const cJSON *children, *layers;
	struct archive_file file;
	struct archive_blob part;
	const char *foreign;
	int r = archive_read_document(reader, NULL, blob, &document);

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
	r = archive_read_descriptor(reader, blob->digest, json_at(document, "config"), &part);
	foreign = foreign_type(json_text_at(document, "config/mediaType"), layers);
	if (r == 0 && !foreign)
		r = archive_read_document(reader, NULL, &part, &config);
	if (r == 0 && (foreign || !archive_fits_machine(config))) {
		if (depth > 0 && foreign && (r = archive_open_blob(reader, &part, &file)) == 0)
			close(file.fd);
		if (depth > 0 && r == 0)
			r = read_layers(reader, blob->digest, layers, image);
		if (r < 0 && !is_of_image(r))
			return r;
		return foreign ? archive_fail(reader, depth > 0 ? -ENOEXEC : -EBADMSG,
					 "%.90s: not an image, but %.90s", image->name, foreign)
			       : archive_wrong_machine(reader, image->name);
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

/* Reads a manifest, or the first image for this machine of an index. */
static int read_image(struct archive_reader *reader, struct archive_blob *blob, int depth,
	struct archive_image *image)
{
	size_t others = reader->json;
	int r = read_manifest(reader, blob, depth, image);

	reader->json = others;
	return r;
}

static int read_layout(struct archive_reader *reader)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *index = NULL;
	const cJSON *item;
	int r = archive_read_document(reader, "index.json", NULL, &index);

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
		if (!strpbrk(name, "/:@") || image_normalize(name, image.name) < 0) {
			r = add_unnamed(reader, json_text_at(item, "digest"));
		} else {
			r = archive_read_descriptor(reader, image.name, item, &blob);
			memcpy(image.top, blob.digest, DIGEST_MAX);
			if (r == 0)
				r = read_image(reader, &blob, 0, &image);
			r = add_image(reader, &image, r);
		}
		if (r < 0)
			return r;
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
	int r = archive_file_open(reader, name, &file);

	if (r < 0)
		return r;
	fd = file.fd;
	*layer = (struct archive_blob){
		.size = file.size, .offset = file.offset, .media_type = archive_layer_type(&file)};
	/* Do not hash a layer that cannot fit: a sparse file may have any size. */
	if (streq(layer->media_type, OCI_LAYER) ||
		(reader->unpacked_max > 0 && file.size > reader->unpacked_max)) {
		memcpy(layer->digest, diff_id, DIGEST_MAX);
		return archive_add_blob(reader, layer, &file);
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
	return archive_add_blob(reader, layer, &file);
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
	strcpy(manifest.digest, "sha256:");
	hash_bytes(text, manifest.size, manifest.digest + strlen("sha256:"));
	memcpy(image->top, manifest.digest, DIGEST_MAX);
	memcpy(image->manifest, manifest.digest, DIGEST_MAX);
	return MIN(archive_add_blob(reader, &manifest, NULL), 0);
}

/* Reads an entry of manifest.json, and adds the blobs of its image. */
static int read_entry(
	struct archive_reader *reader, const cJSON *entry, struct archive_image *image)
{
	const char *name = json_text_at(entry, "Config"), *file_name;
	_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;
	struct archive_blob blob = {.media_type = OCI_CONFIG};
	int r = archive_read_document(reader, name, &blob, &config);

	if (r < 0)
		return r;
	file_name = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
	/* If the file name looks like a digest, it must be the digest of the blob. */
	if (strspn(file_name, "0123456789abcdef") == 64 &&
		memcmp(file_name, blob.digest + 7, 64) != 0)
		return archive_bad(reader, "%.90s: wrong digest", name);
	if (!archive_fits_machine(config))
		return archive_wrong_machine(reader, image->name);
	r = check_layers(reader, image->name, config, json_at(entry, "Layers"));
	if (r < 0)
		return r;
	memcpy(image->id, blob.digest, DIGEST_MAX);
	image->size = blob.size;
	r = archive_add_blob(reader, &blob, NULL);
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

/* An archive without any usable image has the error of the first one that has a name. */
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

int archive_read_index(struct archive_reader *reader)
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
		docker = archive_read_list(reader, "manifest.json", add_entry);
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
