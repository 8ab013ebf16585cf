/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_DISCOVER_H
#define RUNTIME_DISCOVER_H

/* Which container runtimes this node has, and where their sockets, configurations and units are. */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum runtime_kind {
	RUNTIME_CONTAINERD, /* its own services, and the CRI unless that plugin is disabled */
	RUNTIME_DOCKER,     /* Docker Engine API */
	RUNTIME_CRIO,       /* the CRI alone */
};

/* Who writes the configuration and restarts the daemon. */
enum runtime_managed_by {
	RUNTIME_OF_NODE,   /* a unit of its own: the administrator's */
	RUNTIME_OF_K8S,    /* part of k3s, RKE2, k0s or MicroK8s, which writes it from a template */
	RUNTIME_OF_DOCKER, /* the containerd that dockerd starts for itself */
};

#define RUNTIME_MAX 8 /* found at once */

struct runtime {
	const char *name; /* "containerd", "docker", "crio", "k3s", "rke2", "k0s", "microk8s",
			     "docker-containerd" */
	enum runtime_kind kind;
	enum runtime_managed_by managed_by;
	const char *socket;   /* below the host's root, as all paths here */
	const char *config;   /* where it lies unless the daemon was told another; may not exist */
	const char *template; /* what the managed_by makes the configuration from, or NULL */
	const char *unit; /* "containerd.service": the one that is installed, else the usual one */
	bool has_socket;  /* a socket stands there; whether anyone serves it is not asked */
	bool has_unit;    /* the unit is installed, and not masked */
};

/*
 * Fills in what is here: everything with a socket, and what is installed without one, which is down
 * or not started yet. Two names for one socket count once. host_root: "" for /, as in struct host.
 * Returns how many.
 */
size_t runtime_discover(const char *host_root, struct runtime found[static RUNTIME_MAX]);

/*
 * The configuration that a daemon was started with: the argument of --config, -c or --config-file
 * in its command line, which is words that each end with a zero byte. -ENOENT when there is none
 * (then runtime.config holds, or what is built in), -EINVAL for a relative path.
 */
int runtime_command_config(
	enum runtime_kind kind, const char *command, size_t len, char path[static PATH_MAX]);

/* The same of a running process, by this pid namespace's number. Also -ESRCH, -EACCES. */
int runtime_process_config(enum runtime_kind kind, pid_t pid, char path[static PATH_MAX]);

/*
 * The program that a daemon runs, as its next start will find it: the first word of its command
 * line, looked for below host_root where it has no directory. -ENOENT; -ENAMETOOLONG.
 */
int runtime_command_program(
	const char *host_root, const char *command, size_t len, char path[static PATH_MAX]);

/*
 * The same of a running process: what /proc/PID/exe says, or, where that may not be read
 * (PTRACE_MODE_READ) or the file was replaced since, its command line. Also -ESRCH, -EACCES.
 */
int runtime_process_program(const char *host_root, pid_t pid, char path[static PATH_MAX]);

/*
 * When a process began, CLOCK_REALTIME in microseconds, to within 10 ms: a file changed later is
 * not what it runs with. 0, -ESRCH, -EACCES, -EBADMSG.
 */
int runtime_process_started(pid_t pid, uint64_t *started_us);

/* "containerd", "docker", "crio". */
const char *runtime_kind_name(enum runtime_kind kind);

#endif
