/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Functions that containerd.c, containerd_images.c and containerd_mirrors.c, parts of one driver,
 * share. The functions block.
 */

#include "runtime/driver.h"

#define CONTAINERD_CERTS "/etc/containerd/certs.d"

#define CONTAINERD_MAIN_FILE "/etc/containerd/config.toml" /* unless an option names another */

/* ---- containerd.c ---- */

/*
 * Gets the output of `containerd -c path config dump`, run in the daemon's working directory and
 * the host's root; path NULL: of `config default`. The caller frees it. -EINVAL when containerd
 * refuses the files, another -errno when it did not run; both with why.
 */
int containerd_dump(const struct host *host, const struct daemon *daemon, const char *path,
	const struct wait *wait, char **dump, char why[static RUNTIME_WHY_MAX]);

/*
 * Checks that the program has the daemon's version: a relative name or an upgrade can lead to
 * another. Returns 0, -ESTALE if it differs, or the error of child_ask(); with why.
 */
int containerd_check_program(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, char why[static RUNTIME_WHY_MAX]);

/* Reads all files. config is zeroed or the result of the last call for this daemon. */
void containerd_config_read(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, struct runtime_files *config);

/* version is "1.6.20~ds1", "v2.1.4" or alike. */
bool containerd_is_at_least(const char *version, unsigned major, unsigned minor);

/* ---- containerd_mirrors.c ---- */

extern const struct mirror_format containerd_hosts_files;

size_t containerd_find_mirrors(const struct image_runtime *runtime, const struct host *host,
	const char *registry, struct mirror_access *mirrors, size_t max);

/* ---- containerd_images.c ---- */

int containerd_read_images_info(struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, struct image_info *info, char why[static IMAGES_WHY_MAX]);

int containerd_pin(const struct image_runtime *runtime, const char *name, bool pinned,
	const struct wait *wait, char why[static IMAGES_WHY_MAX]);
int containerd_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive_image *image, const char *reference, const struct wait *wait,
	const struct image_server *server, char why[static IMAGES_WHY_MAX]);
int containerd_pull(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	_Atomic uint64_t *progress, char why[static IMAGES_WHY_MAX]);
int containerd_clean(const struct image_runtime *runtime, const struct wait *wait,
	char why[static IMAGES_WHY_MAX]);
bool containerd_has_leftovers(const struct image_runtime *runtime, const struct wait *wait);
