/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKLOAD_CGROUP_H
#define WORKLOAD_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/host.h"

#include <headroom/workload.h>

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

#endif
