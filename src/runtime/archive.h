/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Archives of container images: what `docker save`, `ctr images export`, podman, skopeo and crane
 * write. A tar of docker-save (moby image/spec/v1.2: manifest.json) or of an OCI image layout
 * (opencontainers/image-spec image-layout.md), plain or compressed by gzip or zstd, or a layout as
 * a directory. Nothing in it is trusted: names, links, sizes and digests are checked, and nothing
 * is ever written below a name from an archive.
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
#define ARCHIVE_TEXT_MAX ((size_t)4 * 1024 * 1024) /* of a manifest, an index, a configuration */

/* What a registry would serve under this digest. */
struct archive_blob {
	char digest[DIGEST_MAX];
	char media_type[96];
	uint64_t size;
	char *text; /* of a manifest that was made for docker-save; else NULL: archive_blob_open()
		     */
	uint64_t offset;
};

struct archive_image {
	char name[IMAGE_NAME_MAX]; /* whole: with registry and tag */
	char top[DIGEST_MAX];      /* its manifest or index */
	char id[DIGEST_MAX]; /* its configuration for this machine: what runtimes call its id */
	uint64_t size;       /* bytes of configuration and layers for this machine */
};

struct archive {
	struct archive_image *images;
	size_t n_images;
	struct archive_blob *blobs; /* each digest once */
	size_t n_blobs;
	int fd; /* the tar, or what it was unpacked to, or the directory */
	bool directory;
};

/*
 * Opens an archive, whose path is below the host's root, and reads what is in it. A compressed tar
 * is unpacked to a file without a name in the state directory, as long as percent_free % of the
 * file system stays free. 0, or with why: -EBADMSG for what is no archive, is
 * torn, or does not hold together; -ENOSPC for one that has no room unpacked; -ENOENT; -ECANCELED;
 * another -errno of reading. Images without a name are left out; without any other that is
 * -EBADMSG.
 */
int archive_open(const struct host *host, const char *path, unsigned int percent_free,
	const struct wait *wait, struct archive **ret, char why[static ARCHIVE_WHY_MAX]);
void archive_close(struct archive *archive);
DEFINE_CLEANUP(struct archive, archive_close)

/* A descriptor of a blob without text, whose bytes are there from offset on; -errno. */
int archive_blob_open(const struct archive *archive, const struct archive_blob *blob);

/*
 * A read-only registry on 127.0.0.1 that serves one archive (OCI distribution specification: the
 * pull part): GET and HEAD of /v2/, /v2/NAME/manifests/DIGEST and /v2/NAME/blobs/DIGEST. It lives
 * as long as the transfer that needs it, in a thread of its own. name: the repository, the only one
 * there is. sent counts bytes of blobs. 0 with the port, or -errno.
 */
struct image_server;
int image_server_open(const struct archive *archive, const char *name, _Atomic uint64_t *sent,
	struct image_server **ret, uint16_t *port);
void image_server_close(struct image_server *server);
DEFINE_CLEANUP(struct image_server, image_server_close)

/*
 * "busybox" as docker.io/library/busybox:latest (distribution/reference, normalize.go). 0, or
 * -EINVAL for what is no reference. A digest stays: docker.io/library/busybox@sha256:...
 */
int image_normalize(const char *reference, char name[static IMAGE_NAME_MAX]);
