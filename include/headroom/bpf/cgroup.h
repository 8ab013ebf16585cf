/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/* The memory that bpf/cgroup.bpf.c shares with user space: the cgroups made and removed last. */

#include <linux/types.h>

#define CGROUP_EVENTS 256 /* a power of two */

struct cgroup_event {
	__u64 inode;     /* of its directory; 0: no event, or it is being written */
	__u32 hierarchy; /* the kernel's number; 0: cgroup2 */
	char path[244];  /* below the hierarchy's root; a longer one is cut */
};

/* The mapped global variable "recorded". */
struct cgroup_log {
	__u64 hierarchies; /* user space writes it: bit N says that hierarchy N is recorded */
	__u64 n;           /* events so far */
	struct cgroup_event events[CGROUP_EVENTS];
};
