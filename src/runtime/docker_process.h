/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_DOCKER_PROCESS_H
#define RUNTIME_DOCKER_PROCESS_H

/*
 * What the running dockerd is, besides what its API tells: its process, its command line, and
 * whether its daemon.json is still the one that it read. Reads a few small files; nothing waits.
 */

#include "runtime/docker.h"

/* Where things are: full paths, the host's root already before them. */
struct docker_paths {
	char root[DOCKER_PATH_MAX];
	char socket[DOCKER_PATH_MAX], pid_file[DOCKER_PATH_MAX];
	char config[DOCKER_PATH_MAX]; /* without the root: the command line may name another one */
};

/*
 * Fills in pid, started_us, config_path, containerd (where only the command line has it), the
 * *_on_command, and max_downloads with its source where no reload told it.
 */
void docker_process_look(const struct docker_paths *paths, struct docker_state *state);

/* The same with the daemon's process known (0: not): for tests, proc is where /proc is. */
void docker_process_look_at(
	const struct docker_paths *paths, const char *proc, pid_t pid, struct docker_state *state);

/* ---- Blocking; the part above goes with docker.c's asynchronous client. ---- */

#define DOCKER_CONFIG_FILE "/etc/docker/daemon.json"

/* What the process of the running dockerd says. */
struct docker_process {
	pid_t pid; /* 0: it is not seen: what its command line has is not known, nothing is edited */
	uint64_t started_us; /* CLOCK_REALTIME; 0: not known */
	char config[DOCKER_PATH_MAX];     /* daemon.json, as it was started with */
	char containerd[DOCKER_PATH_MAX]; /* --containerd; empty: it starts its own */
	/* Flags that must not be in the file too: dockerd would not start again. */
	bool downloads_on_command, mirrors_on_command;
	char downloads[32]; /* the flag's value */
};

/* root is that of workload/process.h; pid_file is its usual one, with the host's root. */
void docker_process_read(const char *root, const char *pid_file, struct docker_process *process);

#endif
