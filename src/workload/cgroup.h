/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "kernel/host.h"

#include <headroom/workload.h>

/* The names that container runtimes give to pod uids, container ids and pod addresses. */

#define NAMES_ADDRESS_MAX 46 /* INET6_ADDRSTRLEN */

struct name_entry {
	struct workload workload;        /* its id, a pod uid or a container id, is the key */
	char address[NAMES_ADDRESS_MAX]; /* as inet_ntop(3) prints it; empty if it shares one */
	const char *source;              /* set by names_replace() */
};

struct names {
	struct name_entry *entries; /* from all sources, by id; owned */
	size_t n, allocated;
};

/*
 * Replaces all entries of one source, a runtime's socket; source must stay valid. Frees entries,
 * which may be NULL when n is 0.
 */
void names_replace(struct names *names, const char *source, struct name_entry *entries, size_t n);

/* Sets the namespace and name that belong to the workload's id. False for an unknown id. */
bool names_apply(const struct names *names, struct workload *workload);

/* Finds the workload that alone has this address. */
bool names_at_address(const struct names *names, const char *address, struct workload *workload);

/* Inode of a hierarchy's root in kernfs. The root that a container sees has another inode. */
#define CGROUP_ROOT_INODE 1

/*
 * Finds the workload in the text of /proc/PID/cgroup, by the most specific path: a Kubernetes pod
 * (cgroupfs or systemd driver, any QoS class), a Docker or containerd container, an LXD container,
 * a systemd service. Returns false and writes nothing for other paths. The name is the pod's uid or
 * the container's short id until names_apply() sets a better one.
 */
bool cgroup_file_workload(const char *text, struct workload *workload);

/*
 * Opens the root of the host's cgroup2 hierarchy, or of that of cgroup v1 with this controller.
 * Otherwise -1; of cgroup2, why has the reason and the cure.
 */
int cgroup_root_open(const struct host *host, const char *controller, char *why, size_t size);

/*
 * Maps the inode of a cgroup's directory, which BPF knows, to the workload. Finding an inode needs
 * a walk through all directories; the longer a walk takes, the less often it runs.
 */
struct cgroups;

/*
 * cgroups_close() closes root, a descriptor of the hierarchy's root. -1: no cgroup is known. names
 * may be NULL.
 */
struct cgroups *cgroups_open(const struct host *host, const struct names *names, int root);
void cgroups_close(struct cgroups *cgroups);

/*
 * Searches the unknown cgroups among these when a walk is due. A full table forgets cgroups that
 * nobody asked for within ten minutes: the kernel never reuses their inodes. True if some stay
 * unknown.
 */
bool cgroups_learn(struct cgroups *cgroups, const uint64_t *inodes, size_t n, uint64_t now_us);

/* Names an unknown cgroup by its path below the hierarchy's root. */
void cgroups_name(struct cgroups *cgroups, uint64_t inode, const char *path);

/* Returns the workload. An unknown cgroup has kind unit and its inode as the name. */
struct workload cgroups_find(const struct cgroups *cgroups, uint64_t inode);

/* Returns the first process of the cgroup at the time of the walk, if it still runs; otherwise 0.
 */
pid_t cgroups_process(const struct cgroups *cgroups, uint64_t inode);
