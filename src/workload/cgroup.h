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
	uint64_t gone; /* the source lists it no longer: in which order they went; else 0 */
};

struct names {
	struct name_entry *entries; /* from all sources, by id; owned */
	size_t n, allocated;
	uint64_t gone; /* entries gone so far */
};

/*
 * Sets the entries of one source, a runtime's socket; source must stay valid. Frees entries, which
 * may be NULL when n is 0. The last few hundred entries that the sources list no longer stay,
 * without their addresses: rows of pods that have ended are still shown.
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

/* Makes the slice of its user the id of a unit at this path, such as the scope of a session. */
void cgroup_user_slice(const char *path, struct workload *workload);

/*
 * Returns the length of a cgroup's path up to the cgroup of its workload, which is that of the pod,
 * of the container or of the unit. A path of no workload is returned whole.
 */
size_t cgroup_workload_length(const char *path);

/*
 * Opens the root of the host's cgroup2 hierarchy, or of that of cgroup v1 with this controller.
 * Otherwise -1; of cgroup2, why has the reason and the cure.
 */
int cgroup_root_open(const struct host *host, const char *controller, char *why, size_t size);

/*
 * Returns the path in the line of a controller, or of cgroup2 (""), of /proc/PID/cgroup: a part of
 * text, which it changes. NULL: there is no such line.
 */
char *cgroup_of_text(char *text, const char *controller);

/*
 * Reads the maximum of a cgroup's memory in bytes, and writes the path of its file on the host. A
 * cgroup without one has CGROUP_NO_MAXIMUM or more. 0: not known, or the cgroup is gone.
 */
#define CGROUP_NO_MAXIMUM (UINT64_C(1) << 62)
uint64_t cgroup_memory_maximum(
	const struct host *host, const char *cgroup, char path[static PATH_MAX]);

/* The same for the cgroup of this process. */
uint64_t cgroup_own_memory_maximum(const struct host *host);

/* Writes the path that the host has for the root of a hierarchy; "": it is not known. */
void cgroup_root_path(const struct host *host, int root, char path[static PATH_MAX]);

/*
 * Maps the inode of a cgroup's directory, which BPF knows, to the workload. The kernel tells the
 * path of each new and removed cgroup; other inodes need a walk through all directories, which uses
 * at most a small share of a CPU. The kernel never reuses these inodes. One for the node, in facts:
 * cgroups that several tuners want are found by the same walk.
 */
struct cgroups;

/* A controller of cgroup v1 has a hierarchy of its own, with inodes of its own. */
enum cgroup_hierarchy {
	CGROUP_UNIFIED,
	CGROUP_BLKIO,
	CGROUP_MEMORY,
	CGROUP_PIDS,
	CGROUP_HIERARCHIES,
};

/*
 * The key of a cgroup, which the functions below take. In cgroup2 it is the inode. A node without a
 * hierarchy for the controller has the cgroup in cgroup2.
 */
#define CGROUP_KEY_SHIFT 56
static inline uint64_t cgroup_key(enum cgroup_hierarchy hierarchy, uint64_t inode)
{
	return (uint64_t)hierarchy << CGROUP_KEY_SHIFT | inode;
}

/* names may be NULL. */
struct cgroups *cgroups_open(const struct host *host, const struct names *names);
void cgroups_close(struct cgroups *cgroups);

/* Replaces the root that cgroups_open() has found. Takes the descriptor. */
void cgroups_set_root(struct cgroups *cgroups, enum cgroup_hierarchy hierarchy, int root);

/* Returns the descriptor of a hierarchy's root, or -1. */
int cgroups_root(const struct cgroups *cgroups, enum cgroup_hierarchy hierarchy);

/*
 * The programs that record new and removed cgroups. Load them on a thread, with the privileges of
 * the start: NULL if this node lacks something, and then only walks find names.
 */
struct cgroup_watch;
struct cgroup_watch *cgroup_watch_load(void);
void cgroups_adopt(struct cgroups *cgroups, struct cgroup_watch *watch);

/* Returns what an unknown cgroup is called: kind unit, and its inode as the name. */
struct workload cgroup_unknown(uint64_t cgroup);

/*
 * Finds the unknown cgroups among these keys: at once if they are new or were just removed, else by
 * a walk when one is due. Call it at each poll while they are shown. A full table forgets cgroups
 * that nobody asked for within ten minutes.
 */
void cgroups_learn(struct cgroups *cgroups, const uint64_t *wanted, size_t n, uint64_t now_us);

/*
 * Names the user of a finding if that is not known yet: the cgroup_unknown() of this key by its
 * cgroup, which also walks at once, but only one time for each cgroup; an id by the names that
 * runtimes give. True: it has a new name. A name that is known is never replaced.
 */
bool names_of_cgroup(
	struct cgroups *cgroups, uint64_t cgroup, uint64_t now_us, struct workload *workload);

/* Returns the workload; that of the root is the host. */
struct workload cgroups_find(const struct cgroups *cgroups, uint64_t cgroup);

/*
 * Returns the path of a cgroup below its hierarchy's root, "/system.slice/x.service". NULL: it is
 * not known. It is valid until the next call of cgroups_learn().
 */
const char *cgroups_path(const struct cgroups *cgroups, uint64_t cgroup);

/* Returns the first process of the cgroup when it was found, if it still runs; otherwise 0. */
pid_t cgroups_process(const struct cgroups *cgroups, uint64_t cgroup);
