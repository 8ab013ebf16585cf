/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_DOCKER_H
#define RUNTIME_DOCKER_H

/*
 * The Docker Engine API over its unix socket: docs.docker.com/engine/api, from 1.41 (Docker 20.10)
 * on; paths without a version, so that the daemon's own applies. No credentials are read or sent.
 *
 * All calls block. socket is the full path of the daemon's socket. Where systemd listens on it, a
 * connection starts dockerd: call these only when it runs (docker_process.h). All return 0,
 * -ETIMEDOUT, -ECANCELED, -EPROTO or -EBADMSG for what is no answer of Docker, -errno of
 * connecting, or -ENOMEM.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"

#define DOCKER_ID_MAX    72  /* "sha256:" and 64 hexadecimal digits, or the digits alone */
#define DOCKER_NAME_MAX  256 /* of containers, labels' values and image references */
#define DOCKER_PATH_MAX  256
#define DOCKER_VALUE_MAX 128
#define DOCKER_ERROR_MAX 256

/* What dockerd says of itself. */
struct docker_info {
	char version[64]; /* "20.10.24+dfsg1" */
	char storage_driver[64];
	char root_dir[DOCKER_PATH_MAX]; /* as the daemon has it: not below the host's root */
	char mirrors[DOCKER_VALUE_MAX]; /* in force, as registry_shorten_list() shows them */
	/* Of the last reload that it remembers; "" and 0 when there was none. */
	char reloaded_downloads[24];
	uint64_t reloaded_us; /* CLOCK_REALTIME */
};

/*
 * info is empty, or what the last call wrote: then /info, for which the daemon walks its
 * containers, is only asked after a reload. why describes an error.
 */
int docker_read_info(const char *socket, struct docker_info *info, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX]);

/*
 * Waits for the `reload` event that dockerd sends when it has read daemon.json again; a reload that
 * it refused sends none. since_us is CLOCK_REALTIME from before the SIGHUP: events after it are
 * found also when they came before this call. value becomes what is in force of a top-level key of
 * daemon.json: "10"; for registry-mirrors as in struct docker_info; "" for a key that the event
 * does not have.
 */
int docker_wait_reload(const char *socket, uint64_t since_us, const char *key,
	char value[static DOCKER_VALUE_MAX], const struct wait *wait);

/* Names of the images that were pulled since then (CLOCK_REALTIME), oldest first; at most max. */
int docker_read_pulled(const char *socket, uint64_t since_us, char (*names)[DOCKER_NAME_MAX],
	size_t max, size_t *n, const struct wait *wait);

struct docker_container {
	char id[DOCKER_ID_MAX];
	char name[DOCKER_NAME_MAX]; /* without the slash */
	bool running;
	/* From the labels of cri-dockerd; "" without them. */
	char pod_namespace[DOCKER_NAME_MAX], pod_name[DOCKER_NAME_MAX], pod_uid[64];
};

/* All containers, also stopped ones, for the caller to free. */
int docker_read_containers(
	const char *socket, struct docker_container **list, size_t *n, const struct wait *wait);

#endif
