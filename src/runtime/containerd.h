/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The members of containerd's struct runtime_driver that are not in containerd.c. */

#include "runtime/driver.h"

#define CONTAINERD_CERTS "/etc/containerd/certs.d"

#define CONTAINERD_MAIN_FILE "/etc/containerd/config.toml" /* unless an option names another */

extern const struct mirror_format containerd_mirrors;

int containerd_read_images_info(struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, struct image_info *info, char why[static IMAGES_WHY_MAX]);

/* Reads hosts.toml files of any author. */
size_t containerd_find_mirrors(const struct image_runtime *runtime, const struct host *host,
	const char *registry, struct mirror_access *mirrors, size_t max);

int containerd_pin(const struct image_runtime *runtime, const struct host *host, const char *name,
	bool pinned, const struct wait *wait, char why[static IMAGES_WHY_MAX]);
int containerd_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive_image *image, const char *reference, const struct wait *wait,
	const struct image_server *server, char why[static IMAGES_WHY_MAX]);
int containerd_pull(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	_Atomic uint64_t *progress, char why[static IMAGES_WHY_MAX]);
int containerd_clean(const struct image_runtime *runtime, const struct wait *wait,
	char why[static IMAGES_WHY_MAX]);
bool containerd_has_leftovers(const struct image_runtime *runtime, const struct wait *wait);
void containerd_remove_files(const struct host *host);
