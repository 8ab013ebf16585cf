/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The driver of Docker: its state, and the functions that its tests call. All calls block; socket
 * is the full path of dockerd's. They return 0, or -errno with why: -ETIMEDOUT, -ECANCELED, -EPROTO
 * for an error that Docker reports, -EBADMSG for an answer that is not Docker's, or the error of
 * connecting.
 */

#include "base/child.h"
#include "workload/cgroup.h"

#include <headroom/daemon.h>

#define DOCKER_PID_FILE "/run/docker.pid" /* below the host's root; /var/run is a link to /run */

#define DOCKER_NAME_MAX  256 /* for image references */
#define DOCKER_PATH_MAX  256
#define DOCKER_VALUE_MAX 128
#define DOCKER_ERROR_MAX 256
#define DOCKER_LIST_MAX  2048

struct docker_info {
	char version[64]; /* "20.10.24+dfsg1" */
	char storage_driver[64];
	char root_dir[DOCKER_PATH_MAX]; /* as the daemon sees it, not below the host's root */
	char mirrors[DOCKER_LIST_MAX];  /* in force, separated by spaces; or "none" */
	char insecure[DOCKER_LIST_MAX]; /* registries and networks without checks of certificates */
	/* From the last reload that the daemon remembers; else "" and 0. */
	char reloaded_downloads[24];
	uint64_t reloaded_us; /* CLOCK_REALTIME */
};

/*
 * info is empty or the result of the last call. The daemon walks its containers for /info: it is
 * read once and after each reload.
 */
int docker_read_info(const char *socket, struct docker_info *info, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX]);

/* Reads the names of images pulled since then (CLOCK_REALTIME), oldest first; at most max. */
int docker_read_pulled(const char *socket, uint64_t since_us, char (*names)[DOCKER_NAME_MAX],
	size_t max, size_t *n, const struct wait *wait);

/*
 * Reads all running containers; the caller frees them. With the labels of cri-dockerd, a
 * container's name is its pod, which is listed under its UID too.
 */
int docker_read_names(
	const char *socket, struct name_entry **names, size_t *n, const struct wait *wait);

/* A member of struct runtime_driver. */
struct image_runtime;
struct runtime_image;
int docker_list_images(const struct image_runtime *runtime, const struct wait *wait,
	struct runtime_image **images, size_t *n, char why[static DOCKER_ERROR_MAX]);

/*
 * Whether dockerd accepts a terminated text, which is also in the file path, inside the host's
 * root. Asks `dockerd --validate` of the program that the next start runs, which 23.0 brought; for
 * 20.10, compares with the keys that it knows. 0; -EBADMSG with why: "PATH:LINE:COLUMN: what";
 * another -errno if dockerd did not run.
 */
struct host;
int docker_config_check(const struct host *host, const struct daemon *daemon, const char *text,
	size_t len, const char *path, const struct wait *wait, char why[static CHILD_WHY_MAX]);
