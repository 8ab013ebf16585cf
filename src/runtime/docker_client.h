/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Docker Engine API over its unix socket: docs.docker.com/engine/api, from 1.41 (Docker 20.10)
 * on; paths without a version, so that the daemon's own applies. No credentials are read or sent.
 *
 * All calls block. socket is the full path of the daemon's socket. Where systemd listens on it, a
 * connection starts dockerd: call these only when docker_process_read() finds it. All return 0,
 * -ETIMEDOUT, -ECANCELED, -EPROTO or -EBADMSG for what is no answer of Docker, or -errno of
 * connecting.
 */

#include "base/wait.h"
#include "workload/cgroup.h"

#define DOCKER_PID_FILE "/run/docker.pid" /* below the host's root; /var/run is a link to /run */

#define DOCKER_NAME_MAX  256 /* of image references */
#define DOCKER_PATH_MAX  256
#define DOCKER_VALUE_MAX 128
#define DOCKER_ERROR_MAX 256

/* The process of dockerd, and what its command line says. */
struct docker_process {
	pid_t pid; /* 0: it runs, and is not visible from here: its command line is not known */
	/* dockerd refuses to start when a key is an option and in daemon.json too. */
	bool downloads_on_command, mirrors_on_command;
	char downloads[24]; /* of the option; "" without it */
};

/* -ESRCH when it does not run: there is no pid file, and no process of that name on the host. */
int docker_process_read(const struct host *host, struct docker_process *process);

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

/*
 * Of all running containers, for the caller to free. By the labels of cri-dockerd a pod's container
 * is the pod, which is found by its uid, too.
 */
int docker_read_names(
	const char *socket, struct name_entry **names, size_t *n, const struct wait *wait);

/* Every name of every image; for the caller to free. */
struct runtime_image;
int docker_read_images(const char *socket, struct runtime_image **images, size_t *n,
	const struct wait *wait, char why[static DOCKER_ERROR_MAX]);

/*
 * Pulls an image by its whole name; gives an image one more name, which has a tag;
 * takes one name from its image. What the daemon tells at last, in its answer's stream, is -EPROTO
 * with why.
 */
int docker_pull(const char *socket, const char *name, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX]);
int docker_add_name(const char *socket, const char *image, const char *name,
	const struct wait *wait, char why[static DOCKER_ERROR_MAX]);
int docker_remove_name(const char *socket, const char *name, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX]);
