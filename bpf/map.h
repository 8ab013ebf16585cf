/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_MAP_H
#define BPF_MAP_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* Defines a BPF map. */
#define MAP(name, kind, flags, entries, key_type, value_type) \
	struct {                                              \
		__uint(type, BPF_MAP_TYPE_##kind);            \
		__uint(map_flags, flags);                     \
		__uint(max_entries, entries);                 \
		__type(key, key_type);                        \
		__type(value, value_type);                    \
	} name SEC(".maps")

/* Finds or adds the element of a key. NULL when the map is full. */
static __always_inline void *element_of(void *map, const void *key, const void *zero)
{
	void *element = bpf_map_lookup_elem(map, key);

	if (element)
		return element;
	bpf_map_update_elem(map, key, zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

#endif
