/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Images of a runtime (calls: driver.h). Names are complete: docker.io/library/busybox:1.36. */

#include <headroom/daemon.h>

#include "runtime/archive.h"

#define IMAGES_WHY_MAX    256
#define IMAGES_REGISTRY   "headroom.invalid" /* a name that no registry has */
#define IMAGES_REPOSITORY "headroom-preload" /* in names of ours */
#define IMAGES_TUNER      "images"           /* in records */

struct mirror_access;

/* A runtime whose images are managed: plain data. */
struct image_runtime {
	const struct runtime_driver *driver;
	struct daemon daemon;
	char socket[128]; /* full path of the daemon's */
	bool knows_mirrors;
	/* Directories of mirror files, separated by colons; or URLs, separated by spaces. */
	char mirrors[1024];
	/* Registries and networks whose certificates are not checked, separated by spaces. */
	char insecure[1024];
};

/* One name of one image. */
struct runtime_image {
	char name[IMAGE_NAME_MAX];
	char id[DIGEST_MAX];
	uint64_t size; /* bytes, as the runtime reports it */
	bool pinned;   /* as the runtime reports it */
};

struct image_info {
	char store[256];              /* the directory of the images */
	pid_t pid;                    /* the daemon's; 0: unknown */
	uint64_t fetching;            /* changes with downloads that a pull does not report */
	bool wants_sandbox;           /* in: read sandbox, which may run a program */
	bool wants_mirrors;           /* in: the same for the runtime's mirrors */
	char sandbox[IMAGE_NAME_MAX]; /* the image of pods' sandboxes; "": unknown */
};

/*
 * Opens a read-only registry on 127.0.0.1 that serves one archive (OCI distribution specification:
 * the pull part): GET and HEAD of /v2/, /v2/NAME/manifests/DIGEST and /v2/NAME/blobs/DIGEST. It
 * runs in a thread of its own until it is closed. name is the only repository, and serves as the
 * password; sent counts bytes of blobs. 0 with the port, or -errno.
 */
struct image_server;
int image_server_open(const struct archive *archive, const char *name, _Atomic uint64_t *sent,
	struct image_server **ret, uint16_t *port);
/* While *waits is true, blobs are sent so slowly that the disk is free, and no runtime gives up. */
void image_server_hold(struct image_server *server, const _Atomic bool *waits);
bool image_server_was_asked(const struct image_server *server); /* for the repository */
void image_server_close(struct image_server *server);
DEFINE_CLEANUP(struct image_server, image_server_close)

/*
 * Loads an image of an archive: serves it on 127.0.0.1 for the driver. done counts the bytes; while
 * *waits is true, the load pauses (NULL: never). 0, or -errno with why; -EOPNOTSUPP: the runtime
 * cannot load archives; -EREMCHG: others gave its name to another image meanwhile, which stays.
 */
int images_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive *archive, const struct archive_image *image, const struct wait *wait,
	_Atomic uint64_t *done, const _Atomic bool *waits, char why[static IMAGES_WHY_MAX]);

/* For drivers: returns -EREMCHG, and says why. */
int images_moved(const char *name, char why[static IMAGES_WHY_MAX]);

/* Removes leftovers of a killed agent, not during a transfer. 0, or -errno with why. */
int images_clean(const struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, char why[static IMAGES_WHY_MAX]);

/* Removes the file that a load needed, also one of a killed agent. */
void images_remove_file(const struct host *host);

/* Returns whether a load gave an image this temporary name. */
bool images_is_ours(const char *name);

/* Returns whether the runtime has names or leases of a transfer. images lists all its images. */
bool images_has_leftovers(const struct image_runtime *runtime, const struct wait *wait,
	const struct runtime_image *images, size_t n);
