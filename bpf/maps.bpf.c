// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tells user space how full each BPF map is, from Linux 6.6 on. It is an object of its own: libbpf
 * 1.1 refuses a whole object if the kernel lacks a function that a program of it calls.
 */
#include <stdbool.h>

#include "maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

extern __s64 bpf_map_sum_elem_count(const struct bpf_map *map) __ksym;

SEC("iter/bpf_map")
int count_maps(struct bpf_iter__bpf_map *ctx)
{
	struct bpf_map *map = ctx->map;

	if (map && is_hash(map))
		write_map(ctx->meta->seq, map, bpf_map_sum_elem_count(map));
	else if (map && is_trie(map))
		write_map(ctx->meta->seq, map, used_of_trie(map));
	return 0;
}
