/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The images of one runtime: what it has, and how it gets more. The calls themselves are members of
 * its driver (driver.h). Names are complete: docker.io/library/busybox:1.36.
 */

#include "runtime/archive.h"

#define IMAGES_WHY_MAX    256
#define IMAGES_REGISTRY   "headroom.invalid" /* a name that no registry has */
#define IMAGES_REPOSITORY "headroom-preload" /* of names and leases of ours */

/* A runtime whose images are managed: plain data. */
struct image_runtime {
	const struct runtime_driver *driver;
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

struct image_info {
	char store[256];              /* the directory of the images, below the host's root */
	pid_t pid;                    /* of the daemon; 0: not known */
	bool wants_sandbox;           /* in: sandbox is to be read, which may run a program */
	char sandbox[IMAGE_NAME_MAX]; /* the image of pods' sandboxes; "": the runtime has none */
};

/*
 * Makes an image of an archive one of the runtime's: serves it on 127.0.0.1 and has the driver load
 * it. done counts bytes given to the runtime. 0, or -errno with why and cure; -EOPNOTSUPP for a
 * runtime that cannot load archives.
 */
int images_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive *archive, const struct archive_image *image, const struct wait *wait,
	_Atomic uint64_t *done, char why[static IMAGES_WHY_MAX]);

/*
 * Removes names and leases of ours that a killed agent left: not while a transfer is under way. 0,
 * or -errno with why.
 */
int images_clean(const struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, char why[static IMAGES_WHY_MAX]);

/* Removes files that loads of a killed agent left: for images_clean() and a restore. */
void images_remove_files(const struct host *host);

/* Whether a name is one that a load gives an image for a while. */
bool images_is_ours(const char *name);

/*
 * Whether the runtime has names or leases of ours: of a transfer under way, or of a killed agent.
 * images are all that it has.
 */
bool images_has_leftovers(const struct image_runtime *runtime, const struct wait *wait,
	const struct runtime_image *images, size_t n);
