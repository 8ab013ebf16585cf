/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Creates archives of images like the tools, and opens them. */

#include "directory.h"
#include "tar.h"

#include "base/text.h"
#include "runtime/images.h"
#include "runtime/registry.h"

#include <sys/mman.h>

#include <zlib.h>
#include <zstd.h>

#if defined(__aarch64__)
#define MACHINE "arm64"
#define FOREIGN "amd64"
#else
#define MACHINE "amd64"
#define FOREIGN "arm64"
#endif

#define ARCHIVE "/images/archive.tar"
#define NAME    "docker.io/library/busybox:1.36"

#define INDEX_TYPE    "application/vnd.oci.image.index.v1+json"
#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define CONFIG_TYPE   "application/vnd.oci.image.config.v1+json"
#define LAYER_TYPE    "application/vnd.oci.image.layer.v1.tar"

/* ---- compression ---- */

static inline struct bytes gzip_of(const void *data, size_t len)
{
	struct bytes out = {.len = compressBound(len) + 64};
	int fd = memfd_create("gzip", MFD_CLOEXEC);
	gzFile file = must(gzdopen(dup(fd), "w"));

	assert_int_equal(gzwrite(file, data, (unsigned int)len), len);
	gzclose(file);
	out.data = must(malloc(out.len));
	out.len = (size_t)pread(fd, out.data, out.len, 0);
	close(fd);
	return out;
}

static inline struct bytes zstd_of(const void *data, size_t len, int window_log)
{
	ZSTD_CCtx *context = must(ZSTD_createCCtx());
	struct bytes out = {.len = ZSTD_compressBound(len)};
	ZSTD_inBuffer from = {data, len, 0};
	ZSTD_outBuffer to = {out.data = must(malloc(out.len)), out.len, 0};

	/* Without a known size, as from a pipe, zstd uses the requested window. */
	if (window_log)
		ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
	ZSTD_compressStream2(context, &to, &from, ZSTD_e_flush);
	assert_int_equal(ZSTD_compressStream2(context, &to, &from, ZSTD_e_end), 0);
	ZSTD_freeCCtx(context);
	out.len = to.pos;
	return out;
}

/* ---- images ---- */

/* Returns "sha256:..." of these bytes. */
static inline const char *digest_of(const void *data, size_t len, char digest[static DIGEST_MAX])
{
	char hash[HASH_TEXT_MAX];

	hash_bytes(data, len, hash);
	snprintf(digest, DIGEST_MAX, "sha256:%s", hash);
	return digest;
}

/* Adds a blob of a layout to a tar and writes its descriptor, to which more can be appended. */
static inline void put_blob(struct bytes *tar, const char *type, const void *data, size_t len,
	char descriptor[static 512])
{
	char digest[DIGEST_MAX], name[100];

	digest_of(data, len, digest);
	snprintf(name, sizeof(name), "blobs/sha256/%s", digest + 7);
	tar_add(tar, '0', name, "", data, len);
	snprintf(descriptor, 512, "\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%zu", type,
		digest, len);
}

/* The parts of an image for this machine. */
struct sample {
	char id[DIGEST_MAX], manifest[DIGEST_MAX], layers[2][DIGEST_MAX];
	uint64_t size;
	char config[1024];
};

#define LAYER_0 "the first layer, plain as docker save has it"
#define LAYER_1 "the second one"

static inline void sample_make(struct sample *sample, const char *architecture)
{
	digest_of(LAYER_0, strlen(LAYER_0), sample->layers[0]);
	digest_of(LAYER_1, strlen(LAYER_1), sample->layers[1]);
	snprintf(sample->config, sizeof(sample->config),
		"{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":{},\"rootfs\":{\"type\":"
		"\"layers\",\"diff_ids\":[\"%s\",\"%s\"]}}",
		architecture, sample->layers[0], sample->layers[1]);
	digest_of(sample->config, strlen(sample->config), sample->id);
	sample->size = strlen(sample->config) + strlen(LAYER_0) + strlen(LAYER_1);
}

/* Adds an OCI manifest with its configuration and layers. */
static inline void put_manifest(struct bytes *tar, struct sample *sample, const char *architecture,
	char descriptor[static 512])
{
	char config[512], layers[2][512], manifest[2048];

	sample_make(sample, architecture);
	put_blob(tar, CONFIG_TYPE, sample->config, strlen(sample->config), config);
	put_blob(tar, LAYER_TYPE, LAYER_0, strlen(LAYER_0), layers[0]);
	put_blob(tar, LAYER_TYPE, LAYER_1, strlen(LAYER_1), layers[1]);
	snprintf(manifest, sizeof(manifest),
		"{\"schemaVersion\":2,\"mediaType\":\"" MANIFEST_TYPE
		"\",\"config\":{%s},\"layers\":[{%s},{%s}]}",
		config, layers[0], layers[1]);
	put_blob(tar, MANIFEST_TYPE, manifest, strlen(manifest), descriptor);
	digest_of(manifest, strlen(manifest), sample->manifest);
}

/* Adds index.json with one image, and ends the tar. */
static inline void put_index(struct bytes *tar, const char *descriptor, const char *name)
{
	char index[1024];

	snprintf(index, sizeof(index),
		"{\"schemaVersion\":2,\"manifests\":[{%s,\"annotations\":{"
		"\"io.containerd.image.name\":\"%s\"}}]}",
		descriptor, name);
	tar_put(tar, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
	tar_put(tar, "index.json", index);
	tar_end(tar);
}

static inline struct bytes make_oci(struct sample *sample)
{
	struct bytes tar = {0};
	char descriptor[512];

	put_manifest(&tar, sample, MACHINE, descriptor);
	put_index(&tar, descriptor, NAME);
	return tar;
}

/* The format of docker save up to version 24: the second layer is a link to an earlier one. */
static inline struct bytes make_docker_save(struct sample *sample)
{
	struct bytes tar = {0};
	char name[100], manifest[1024];

	sample_make(sample, MACHINE);
	snprintf(name, sizeof(name), "%s.json", sample->id + 7);
	tar_put(&tar, name, sample->config);
	tar_add(&tar, '5', "aa/", "", "", 0);
	tar_put(&tar, "aa/VERSION", "1.0");
	tar_put(&tar, "aa/json", "{}");
	tar_put(&tar, "aa/layer.tar", LAYER_0);
	tar_put(&tar, "other/layer.tar", LAYER_1);
	tar_add(&tar, '2', "bb/layer.tar", "../other/layer.tar", "", 0);
	snprintf(manifest, sizeof(manifest),
		"[{\"Config\":\"%s\",\"RepoTags\":[\"busybox:1.36\"],\"Layers\":[\"aa/layer.tar\","
		"\"bb/layer.tar\"]}]",
		name);
	tar_put(&tar, "manifest.json", manifest);
	tar_put(&tar, "repositories", "{}");
	tar_end(&tar);
	return tar;
}

/* ---- opening ---- */

struct archive_fixture {
	struct sample sample;
	struct bytes tar; /* an OCI layout */
	struct directory root;
	unsigned int percent_free;
	struct archive *archive;
	char why[ARCHIVE_WHY_MAX];
};

static inline void archive_fixture_make(struct archive_fixture *fixture)
{
	*fixture = (struct archive_fixture){0};
	fixture->tar = make_oci(&fixture->sample);
	directory_make(&fixture->root);
	fixture->root.host.state = fixture->root.path;
}

static inline void archive_fixture_clear(struct archive_fixture *fixture)
{
	cleanup_archive_close(&fixture->archive);
	bytes_clear(&fixture->tar);
	directory_remove(&fixture->root);
}

#define ARCHIVE_TEST(name) \
	TEST_OF(archive_fixture, fixture, archive_fixture_make, archive_fixture_clear, name)

static inline int open_path(struct archive_fixture *fixture, const char *path)
{
	const struct wait wait = {UINT64_MAX, -1};

	cleanup_archive_close(&fixture->archive);
	fixture->archive = NULL;
	fixture->why[0] = '\0';
	return archive_open(&fixture->root.host, path, fixture->percent_free, 0, &wait,
		&fixture->archive, fixture->why);
}

static inline int open_bytes(struct archive_fixture *fixture, const struct bytes *bytes)
{
	directory_put_bytes(&fixture->root, ARCHIVE, bytes->data, bytes->len);
	return open_path(fixture, ARCHIVE);
}

static inline void assert_opens(struct archive_fixture *fixture, const struct bytes *bytes)
{
	if (open_bytes(fixture, bytes) != 0)
		fail_msg("refused: %s", fixture->why);
}

static inline void assert_refused(
	struct archive_fixture *fixture, const struct bytes *bytes, const char *why)
{
	assert_int_equal(open_bytes(fixture, bytes), -EBADMSG);
	if (!strstr(fixture->why, why))
		fail_msg("not '%s' but: %s", why, fixture->why);
}
