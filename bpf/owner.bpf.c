// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lists which process lives in which network namespace. /proc/PID/ns/net tells it only to those who
 * may trace the process; this needs nothing once it is loaded.
 */
#include "kernel_types.h"

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include <headroom/bpf/owner.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta { /* include/linux/bpf.h */
	struct seq_file *seq;
};

struct bpf_iter__task { /* kernel/bpf/task_iter.c */
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

SEC("iter/task")
int list_owners(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct owner_record record = {0};

	if (!task || task->pid != task->tgid)
		return 0;
	record.pid = task->tgid;
	/* A process that is ending has left its namespaces. */
	record.netns = BPF_CORE_READ(task, nsproxy, net_ns, ns.inum);
	if (record.netns)
		bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}
