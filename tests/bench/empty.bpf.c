// SPDX-License-Identifier: Apache-2.0
/* Does nothing at the same tracepoint: what the kernel's own bookkeeping of run times costs. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/neigh_create")
int empty_create(void *ctx)
{
	return 0;
}
