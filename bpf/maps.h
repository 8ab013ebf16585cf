/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_MAPS_H
#define BPF_MAPS_H

/* Both iterators over BPF maps share this: maps.bpf.c counts elements, census.bpf.c cannot. */

#include "kernel_types.h"

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include <headroom/bpf/census.h>

static __noinline struct mem_cgroup *creator_of(struct bpf_map *map)
{
	return BPF_CORE_READ(map, objcg, memcg);
}

static __noinline struct mem_cgroup *creator_before_6_0(struct bpf_map *map)
{
	return BPF_CORE_READ((struct bpf_map___before_6_0 *)map, memcg);
}

/* The kernel charges the memory of a map to the memory cgroup of its creator, from 5.11 on. */
static __always_inline __u64 cgroup_of(struct bpf_map *map)
{
	struct mem_cgroup *creator = NULL;

	if (bpf_core_field_exists(map->objcg))
		creator = creator_of(map);
	else if (bpf_core_field_exists(struct bpf_map___before_6_0, memcg))
		creator = creator_before_6_0(map);
	return BPF_CORE_READ(creator, css.cgroup, kn, id);
}

static __always_inline __s64 used_of_trie(struct bpf_map *map)
{
	return BPF_CORE_READ((struct lpm_trie *)map, n_entries);
}

static __always_inline bool is_hash(const struct bpf_map *map)
{
	return map->map_type == BPF_MAP_TYPE_HASH || map->map_type == BPF_MAP_TYPE_PERCPU_HASH ||
	       map->map_type == BPF_MAP_TYPE_LRU_HASH ||
	       map->map_type == BPF_MAP_TYPE_LRU_PERCPU_HASH ||
	       map->map_type == BPF_MAP_TYPE_HASH_OF_MAPS;
}

static __always_inline bool is_trie(const struct bpf_map *map)
{
	return map->map_type == BPF_MAP_TYPE_LPM_TRIE;
}

static __always_inline void write_map(struct seq_file *seq, struct bpf_map *map, __s64 used)
{
	struct census_map record = {
		.id = map->id, .type = map->map_type, .max = map->max_entries, .used = used};

	record.cgroup = cgroup_of(map);
	bpf_probe_read_kernel(record.name, sizeof(record.name), map->name);
	bpf_seq_write(seq, &record, sizeof(record));
}

#endif
