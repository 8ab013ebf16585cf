/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

#include "kernel/host.h"

#include <headroom/workload.h>

/*
 * The names behind ids: the pod of a uid, the container of an id, the pod of an address. Container
 * runtimes provide them.
 */

#define NAMES_ADDRESS_MAX 46 /* INET6_ADDRSTRLEN */

struct name_entry {
	struct workload workload; /* its id is what it is found by: pod uid or container id */
	char address[NAMES_ADDRESS_MAX]; /* as inet_ntop(3) prints it; empty for none of its own */
	const char *source;              /* set by names_replace() */
};

/* Zeroed: nothing is known. */
struct names {
	struct name_entry *entries; /* of all sources, by id; owned */
	size_t n, allocated;
};

/*
 * Everything that one source knows now; what it knew before is dropped. source is kept; a runtime's
 * socket. Takes over entries (malloc'ed; NULL with n 0: it knows nothing any more).
 */
void names_replace(struct names *names, const char *source, struct name_entry *entries, size_t n);

/* Gives a workload the namespace and name that belong to its id. False when it is not known. */
bool names_apply(const struct names *names, struct workload *workload);

/* The workload that has this address alone. */
bool names_at_address(const struct names *names, const char *address, struct workload *workload);

/* Inode of the root of every hierarchy: kernfs counts from there. A container's has another. */
#define CGROUP_ROOT_INODE 1

/*
 * Whose a cgroup is, by its path: a pod of Kubernetes (cgroupfs or systemd driver, any QoS class),
 * a container of Docker or containerd, an LXD container, a systemd service. False, and nothing
 * written, for any other path. A pod's name is its uid, a container's its short id: names_apply()
 * finds better ones.
 */
bool cgroup_workload(const char *path, struct workload *workload);

/* The same for the text of /proc/PID/cgroup: the most specific of its lines. */
bool cgroup_file_workload(const char *text, struct workload *workload);

/*
 * The root directory of the host's cgroup2 hierarchy, wherever it is mounted: a descriptor. Else
 * -1, and why with its cure.
 */
int cgroup_root_open(const struct host *host, char *why, size_t size);

/*
 * From the inode of a cgroup's directory, which BPF knows, to the workload. The kernel has no way
 * from one to the other but a walk through all directories, which is done less often the longer it
 * takes.
 */
struct cgroups;

/* root: descriptor of the hierarchy's root, taken over; -1: nothing is found. */
struct cgroups *cgroups_open(const struct host *host, int root);
void cgroups_close(struct cgroups *cgroups);

/*
 * Searches those of these that are not known yet, when a walk is due. When there are many, those
 * that were not among the wanted for ten minutes are forgotten: their inodes are never used again.
 */
void cgroups_learn(struct cgroups *cgroups, const uint64_t *inodes, size_t n, uint64_t now_us);

/* The workload; for a cgroup that is not known, kind unit, named by its inode. */
struct workload cgroups_find(const struct cgroups *cgroups, uint64_t inode);

/* A process that was in it when it was found and still runs; 0: none. */
pid_t cgroups_process(const struct cgroups *cgroups, uint64_t inode);
