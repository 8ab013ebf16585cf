/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The images of one runtime: what it has, and how it gets more. Straight-line, blocking calls over
 * the CRI and containerd's images service (cri_client.h), or the Docker Engine API.
 *
 * Names are whole: docker.io/library/busybox:1.36.
 */

#include "runtime/archive.h"
#include "runtime/discover.h"

#define IMAGES_WHY_MAX    256
#define IMAGES_REPOSITORY "headroom-preload" /* of names and leases of ours */

/* Where: plain data. */
struct image_runtime {
	enum runtime_kind kind;
	char socket[128]; /* full path */
	char version[64]; /* "1.6.20"; "" unknown */
};

/* One name of one image. */
struct runtime_image {
	char name[IMAGE_NAME_MAX];
	char id[DIGEST_MAX];
	uint64_t size; /* bytes, as the runtime says it */
	bool pinned;   /* as the runtime's image service itself reports it */
};

/* All images, for the caller to free. 0, or -errno with why. */
int images_list(const struct image_runtime *runtime, const struct wait *wait,
	struct runtime_image **ret, size_t *n, char why[static IMAGES_WHY_MAX]);

/*
 * Makes an image of an archive one of the runtime's, unpacked: the runtime pulls it from an
 * image_server by a name of ours, gets the wanted name for it, and loses ours. done counts bytes
 * given to the runtime. 0, or -errno with why and cure. What a killed agent leaves is removed by
 * images_clean().
 */
int images_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive *archive, const struct archive_image *image, const struct wait *wait,
	_Atomic uint64_t *done, char why[static IMAGES_WHY_MAX]);

/* Pulls by name, with whatever credentials the runtime itself has. 0, or -errno with why. */
int images_pull(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	char why[static IMAGES_WHY_MAX]);

/*
 * Removes names and leases of ours that a killed agent left: not while a transfer is under way. 0,
 * or -errno with why.
 */
int images_clean(const struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, char why[static IMAGES_WHY_MAX]);

/* Removes the directory below certs.d that a load may need: for images_clean() and a restore. */
void images_remove_hosts(const struct host *host);

/*
 * Whether among these images are names of ours, or in the runtime leases: of a transfer under way,
 * or of a killed agent.
 */
bool images_has_leftovers(const struct image_runtime *runtime, const struct wait *wait,
	const struct runtime_image *images, size_t n);

/*
 * Sets or removes the label by which the kubelet's garbage collection leaves an image of containerd
 * (io.cri-containerd.pinned), at this name of it: what a pull replaces it with is without, and what
 * was replaced is not kept. 0, also where nothing was to do; -ENOENT without such an image; another
 * -errno; with why.
 */
int images_pin(const struct image_runtime *runtime, const char *name, bool pinned,
	const struct wait *wait, char why[static IMAGES_WHY_MAX]);
