/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKLOAD_CGROUPS_H
#define WORKLOAD_CGROUPS_H

/*
 * From the inode of a cgroup's directory, which BPF knows, to the workload. The kernel has no way
 * from one to the other but a walk through all directories, which is done less often the longer it
 * takes.
 */

#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "kernel/host.h"

#include <headroom/workload.h>

struct cgroups;

/* root: descriptor of the hierarchy's root, taken over; -1: nothing is found. NULL without memory.
 */
struct cgroups *cgroups_open(const struct host *host, int root);
void cgroups_close(struct cgroups *cgroups);
DEFINE_CLEANUP(struct cgroups, cgroups_close)

/*
 * Searches those of these that are not known yet, when a walk is due. When there are many, those
 * that were not among the wanted for ten minutes are forgotten: their inodes are never used again.
 */
void cgroups_learn(struct cgroups *cgroups, const uint64_t *inodes, size_t n, uint64_t now_us);

/* The workload; for a cgroup that is not known, kind unit, named by its inode. */
struct workload cgroups_find(const struct cgroups *cgroups, uint64_t inode);

/* A process that was in it when it was found and still runs; 0: none. */
pid_t cgroups_process(const struct cgroups *cgroups, uint64_t inode);

#endif
