// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts neighbour entries as the kernel makes and refuses them, in every network namespace, and
 * reads how many entries of each table can be collected. All counting is done here: user space
 * reads the records through a shared page and is never woken.
 */
#include <stdbool.h>

#include "kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include <headroom/bpf/neighbor.h>

#define AF_INET  2
#define AF_INET6 10

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct neighbor_record records[NEIGHBOR_FAMILIES];

static __always_inline struct neighbor_record *record_of(int family)
{
	if (family == AF_INET)
		return &records[NEIGHBOR_IPV4];
	if (family == AF_INET6)
		return &records[NEIGHBOR_IPV6];
	return NULL;
}

/*
 * Fires for every creation, and with a NULL neighbour for every refusal (net/core/neighbour.c,
 * ___neigh_create). 5.10 has no atomics that return a value: a plain atomic add does.
 */
SEC("tp_btf/neigh_create")
int BPF_PROG(neigh_create, struct neigh_table *table, struct net_device *device, const void *key,
	const struct neighbour *neighbour, bool exempt)
{
	struct neighbor_record *record = record_of(table->family);

	if (!record)
		return 0;
	if (neighbour)
		__sync_fetch_and_add(&record->created, 1);
	else
		__sync_fetch_and_add(&record->refused, 1);
	return 0;
}

static __always_inline void sample_one(
	struct neighbor_record *record, const struct neigh_table *table)
{
	if (!table)
		return;
	record->collectable = (__u64)BPF_CORE_READ(table, gc_entries.counter);
	record->sampled = 1;
}

/*
 * Attached to nothing: user space runs it (BPF_PROG_TEST_RUN, 5.10) when it wants fresh counts.
 * Every loopback device points to the tables, which all network namespaces share; the kernel's
 * symbols of them are listed only with KALLSYMS_ALL.
 */
SEC("raw_tp")
int sample(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct net_device *loopback = BPF_CORE_READ(task, nsproxy, net_ns, loopback_dev);

	sample_one(&records[NEIGHBOR_IPV4], BPF_CORE_READ(loopback, ip_ptr, arp_parms, tbl));
	sample_one(&records[NEIGHBOR_IPV6], BPF_CORE_READ(loopback, ip6_ptr, nd_parms, tbl));
	return 0;
}
