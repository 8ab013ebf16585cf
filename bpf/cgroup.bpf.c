// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Records the path of each cgroup that is made or removed: a workload can end before user space has
 * found its name, and finding a new one needs no walk through all directories.
 */
#include "kernel_types.h"

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include <headroom/bpf/cgroup.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct cgroup_log recorded;

/* The kernel's caller holds cgroup_mutex, so there is one writer at a time. */
static __always_inline int record(const struct bpf_raw_tracepoint_args *context)
{
	const struct cgroup *cgroup = (void *)context->args[0];
	__u32 hierarchy = (__u32)BPF_CORE_READ(cgroup, root, hierarchy_id);
	struct cgroup_event *event;

	if (hierarchy >= 64 || !(recorded.hierarchies >> hierarchy & 1))
		return 0;
	event = &recorded.events[recorded.n++ % CGROUP_EVENTS];
	*(volatile __u64 *)&event->inode = 0;
	event->hierarchy = hierarchy;
	bpf_probe_read_kernel_str(event->path, sizeof(event->path), (const void *)context->args[1]);
	*(volatile __u64 *)&event->inode = BPF_CORE_READ(cgroup, kn, id);
	return 0;
}

SEC("raw_tp/cgroup_mkdir")
int cgroup_mkdir(struct bpf_raw_tracepoint_args *context)
{
	return record(context);
}

SEC("raw_tp/cgroup_rmdir")
int cgroup_rmdir(struct bpf_raw_tracepoint_args *context)
{
	return record(context);
}
