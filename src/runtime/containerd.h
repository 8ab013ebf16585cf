/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of containerd's driver: members of struct runtime_driver in containerd_images.c. */

#include "runtime/driver.h"

/* Where containerd finds a registry's server, and a name that no registry has. */
#define CONTAINERD_CERTS        "/etc/containerd/certs.d"
#define CONTAINERD_OUR_REGISTRY "headroom.invalid"

int containerd_pin(const struct image_runtime *runtime, const char *name, bool pinned,
	const struct wait *wait, char why[static IMAGES_WHY_MAX]);
int containerd_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive_image *image, const char *reference, const struct wait *wait,
	const _Atomic uint64_t *done, char why[static IMAGES_WHY_MAX]);
int containerd_pull(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	char why[static IMAGES_WHY_MAX]);
int containerd_clean(const struct image_runtime *runtime, const struct wait *wait,
	char why[static IMAGES_WHY_MAX]);
bool containerd_has_leftovers(const struct image_runtime *runtime, const struct wait *wait);
