/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads archives of container images, as `docker save`, `ctr images export`, podman, skopeo and
 * crane write them: a tar of docker-save (moby image/spec/v1.2: manifest.json) or of an OCI image
 * layout (opencontainers/image-spec image-layout.md), plain or compressed by gzip or zstd, or a
 * layout as a directory. Archives are not trusted: names, links, sizes and digests are checked, and
 * no file is created under a name from an archive.
 *
 * All calls block.
 */

#include <stdatomic.h>
#include <sys/types.h>

#include "base/wait.h"
#include "kernel/host.h"

#define DIGEST_MAX       72  /* "sha256:", 64 hexadecimal digits and the end */
#define IMAGE_NAME_MAX   256 /* "docker.io/library/busybox:1.36" */
#define ARCHIVE_WHY_MAX  200
#define ARCHIVE_TEXT_MAX ((size_t)1024 * 1024) /* for a manifest, an index, a configuration */

/* A manifest, configuration or layer that a registry would serve under this digest. */
struct archive_blob {
	char digest[DIGEST_MAX];
	const char *media_type;  /* static */
	uint64_t size, unpacked; /* without the compression of a layer */
	uint64_t offset;         /* in the file of archive_blob_open(), or in parts */
	bool made;               /* a manifest for docker-save: use archive_manifest_text() */
};

struct archive_image {
	char name[IMAGE_NAME_MAX]; /* with registry and tag; without a name: a digest or file */
	char top[DIGEST_MAX];      /* digest of its manifest or index */
	char manifest[DIGEST_MAX]; /* digest of the manifest for this machine */
	char id[DIGEST_MAX];       /* digest of its configuration: the runtime's image ID */
	uint64_t size;             /* bytes of configuration and layers for this machine */
	uint64_t unpacked;         /* bytes of the layers without their compression */
	int error; /* -ENOEXEC: for another machine; -ENOMSG: unnamed; -EBADMSG: damaged */
	char why[ARCHIVE_WHY_MAX]; /* explains error */
	bool twice;                /* other images have the name, too */
};

struct archive {
	struct archive_image *images;
	size_t n_images;
	struct archive_blob *blobs; /* each digest once */
	size_t n_blobs;
	uint16_t *parts; /* made manifests: the number of layers; blobs: configuration, layers */
	size_t n_parts;
	int fd; /* the tar, unpacked if it was compressed, or the directory */
	bool directory;
};

/*
 * Opens an archive and lists its images; path is below the host's root. A compressed tar is
 * unpacked to an unnamed file in the state directory, as long as percent_free % of the file system
 * stays free. Layers are unpacked to count their bytes, each up to unpacked_max: no format has a
 * size that its author cannot forge. With unpacked_max 0 the bytes are an estimate. An image with
 * an error does not keep its archive from others. 0, or -errno with why: -EBADMSG for a file that
 * is damaged, inconsistent or not an archive; -ENOEXEC with images for other machines only; -ENOMSG
 * with unnamed ones only; -ENOSPC without room to unpack.
 */
int archive_open(const struct host *host, const char *path, unsigned int percent_free,
	uint64_t unpacked_max, const struct wait *wait, struct archive **ret,
	char why[static ARCHIVE_WHY_MAX]);
void archive_close(struct archive *archive);
DEFINE_CLEANUP(struct archive, archive_close)

/* Writes the digest of a text: "sha256:" and 64 digits. */
void archive_digest(const void *data, size_t len, char digest[static DIGEST_MAX]);
bool archive_is_digest(const char *text);

/* Returns whether a descriptor or configuration is for this machine: an absent field matches. */
struct cJSON;
bool archive_fits_machine(const struct cJSON *platform);

/* Returns the text of a made manifest, which the caller frees. */
char *archive_manifest_text(const struct archive *archive, const struct archive_blob *manifest);

/* Opens the file of another blob. Returns a descriptor or -errno. */
int archive_blob_open(const struct archive *archive, const struct archive_blob *blob);
