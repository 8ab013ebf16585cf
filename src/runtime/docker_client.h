/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Docker Engine API over its unix socket: docs.docker.com/engine/api, from 1.41 (Docker 20.10)
 * on, with paths without a version. No credentials are read or sent.
 *
 * All calls block. socket is the full path of the daemon's socket. With socket activation a
 * connection starts dockerd: call these only after docker_process_read() has found it. All return
 * 0, or -errno with why: -ETIMEDOUT, -ECANCELED, -EPROTO for an error that Docker reports, -EBADMSG
 * for an answer that is not Docker's, or the error of connecting.
 */

#include "base/wait.h"
#include "workload/cgroup.h"

#define DOCKER_PID_FILE "/run/docker.pid" /* below the host's root; /var/run is a link to /run */

#define DOCKER_NAME_MAX  256 /* of image references */
#define DOCKER_PATH_MAX  256
#define DOCKER_VALUE_MAX 128
#define DOCKER_ERROR_MAX 256
#define DOCKER_LIST_MAX  2048

struct docker_process {
	pid_t pid; /* 0: it runs outside of our PID namespace, with an unknown command line */
	/* dockerd refuses a key that is both on its command line and in daemon.json. */
	bool downloads_on_command, mirrors_on_command;
	char downloads[24]; /* of the command line; "" without the option */
};

/*
 * known: the process of an earlier call, if it still runs; or 0. -ESRCH when dockerd does not run:
 * it has neither a pid file nor a process on the host that listens, or that systemd started.
 */
int docker_process_read(
	const struct host *host, const char *socket, pid_t known, struct docker_process *process);

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

/*
 * Waits for the `reload` event that dockerd sends after it has read daemon.json again; it sends
 * none for a file that it refuses. since_us is CLOCK_REALTIME from before the SIGHUP, so that an
 * event before this call is found too. value is then in force for a top-level key of daemon.json:
 * "10"; for registry-mirrors as registry_shorten_list() shows them; "" without the key.
 */
int docker_wait_reload(const char *socket, uint64_t since_us, const char *key,
	char value[static DOCKER_VALUE_MAX], const struct wait *wait);

/* Names of images pulled since then (CLOCK_REALTIME), oldest first; at most max. */
int docker_read_pulled(const char *socket, uint64_t since_us, char (*names)[DOCKER_NAME_MAX],
	size_t max, size_t *n, const struct wait *wait);

/*
 * All running containers; the caller frees them. With the labels of cri-dockerd, a container's name
 * is its pod, which is listed under its UID too.
 */
int docker_read_names(
	const char *socket, struct name_entry **names, size_t *n, const struct wait *wait);

/* Members of struct runtime_driver. */
struct image_runtime;
struct runtime_image;
int docker_list_images(const struct image_runtime *runtime, const struct wait *wait,
	struct runtime_image **images, size_t *n, char why[static DOCKER_ERROR_MAX]);
int docker_find_image(const struct image_runtime *runtime, const char *name,
	const struct wait *wait, struct runtime_image *image, char why[static DOCKER_ERROR_MAX]);

/* progress (or NULL) counts what the daemon reports. */
int docker_pull(const char *socket, const char *name, const struct wait *wait,
	_Atomic uint64_t *progress, char why[static DOCKER_ERROR_MAX]);

/*
 * Gives an image one more name; removes one name from its image. Only a pull from its registry
 * makes a name with a digest: NAME@sha256:HEX becomes NAME:sha256-HEX, and is listed as both.
 */
int docker_add_name(const char *socket, const char *image, const char *name,
	const struct wait *wait, char why[static DOCKER_ERROR_MAX]);
int docker_remove_name(const char *socket, const char *name, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX]);
