/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Pressure stall information (PSI) of the node and of a cgroup. */

#include "kernel/host.h"

#include <headroom/finding.h>

/* Reads that of the node. */
void pressure_read(const struct host *host, struct pressure *pressure);

/* Reads that of a cgroup: its path below root, a descriptor of cgroup2's. */
void pressure_read_cgroup(int root, const char *path, struct pressure *pressure);
