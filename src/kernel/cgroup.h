/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_CGROUP_H
#define KERNEL_CGROUP_H

#include <stdbool.h>

#include <headroom/workload.h>

/*
 * Whose a cgroup is, by its path: a pod of Kubernetes (cgroupfs or systemd driver, any QoS class),
 * a container of Docker or containerd, an LXD container, a systemd unit. False, and nothing
 * written, for a path that tells nothing. Names that only a runtime knows are left to whoever asks
 * it: a pod's name is its uid then, a container's its short id.
 */
bool cgroup_workload(const char *path, struct workload *workload);

/* The same for the text of /proc/PID/cgroup: the line that tells most. */
bool cgroup_file_workload(const char *text, struct workload *workload);

#endif
