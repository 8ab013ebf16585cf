/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_DOCKER_PROCESS_H
#define RUNTIME_DOCKER_PROCESS_H

/* The process of dockerd, and what its command line says. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/host.h"

#define DOCKER_PID_FILE "/run/docker.pid" /* below the host's root; /var/run is a link to /run */

struct docker_process {
	pid_t pid; /* 0: it runs, and is not visible from here: its command line is not known */
	/* dockerd refuses to start when a key is an option and in daemon.json too. */
	bool downloads_on_command, mirrors_on_command;
	char downloads[24]; /* of the option; "" without it */
};

/*
 * socket is the full path of its socket. -ESRCH when it does not run: there is no pid file, and no
 * process of that name. A connection might make systemd start it.
 */
int docker_process_read(
	const struct host *host, const char *socket, struct docker_process *process);

#endif
