/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which container runtimes this node has, and where their sockets, configurations and units are. */

#include <sys/types.h>

#include "kernel/host.h"

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
	const char *socket; /* below the host's root, as all paths here */
	const char *config; /* unless its command line names another; may not exist */
	const char *unit; /* "containerd.service": the one that is installed, else the usual one */
	bool has_socket;  /* there is a socket; whether anyone serves it is not asked */
};

/*
 * Fills in what is here: everything with a socket, and what is installed without one, which is down
 * or not started yet. Two names for one socket count once. host_root: "" for /, as in struct host.
 * Returns how many.
 */
size_t runtime_discover(const char *host_root, struct runtime found[static RUNTIME_MAX]);

/*
 * The process of a daemon, by this PID namespace's number. Paths are below the host's root; each
 * that is not known stays empty.
 */
struct runtime_process {
	uint64_t start_us; /* CLOCK_BOOTTIME: with the pid it tells processes apart */
	/* CLOCK_REALTIME to within 10 ms: a file changed later is not what it runs with. */
	uint64_t started_us;
	char program[SETTING_PATH_MAX];   /* as its next start will find it */
	char config[SETTING_PATH_MAX];    /* of --config, -c or --config-file */
	char directory[SETTING_PATH_MAX]; /* its working directory */
};

/* 0, -ESRCH or -errno of /proc/PID/stat. */
int runtime_process_read(
	const char *host_root, enum runtime_kind kind, pid_t pid, struct runtime_process *process);

/* One whose configuration is read. Paths are below the host's root; "" for unknown. */
struct runtime_daemon {
	const struct host *host;
	const char *binary;
	const char *version;   /* as the daemon itself says: "1.6.20~ds1", "v2.1.4" */
	const char *config;    /* its main file or daemon.json, absolute */
	const char *directory; /* its working directory; unknown counts as / */
};

/* "containerd", "docker", "crio". */
extern const char *const runtime_kind_names[];
