/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_MAP_TABLE_H
#define TUNERS_DNS_MAP_TABLE_H

/*
 * Reading the kernel's maps: a hash table of keys, and a table in two parts: a hash table that has
 * an index for each key, and an array, in our memory too, that has what is counted there. Such a
 * table is read without a system call as long as no key is new.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tuners/dns/bpf.h"

#include <bpf/libbpf.h>
#include <linux/types.h>

struct dns_map_table {
	const struct bpf_map *keys;
	int free; /* queue of the indices that have no key */
	const struct bpf_map *array;
	char *counts; /* as far as indices have been used: what is mapped counts as resident */
	size_t mapped;
	size_t size; /* of an element */
	/* The keys as they were last read, each followed by its index. */
	char *known;
	size_t n_known, known_allocated;
	bool incomplete;  /* not all of them found memory */
	uint64_t read_at; /* what made was then; 0: to be read again */
	/* Indices taken from their keys, which programs may still be using. */
	struct {
		uint32_t index;
		uint64_t at_us;
	} * gone;
	size_t n_gone, gone_allocated;
};

/* Those from first on belong to no key yet. 0 or -errno; to be closed in either case. */
int dns_map_table_open(struct dns_map_table *table, const struct bpf_map *keys,
	const struct bpf_map *counts, const struct bpf_map *unused, uint32_t first);
void dns_map_table_close(struct dns_map_table *table);

/*
 * Calls take with each key and what is counted there, which may change at any time. made rises with
 * each key that a program adds, afterwards. 0, or -errno when the keys cannot be read.
 */
int dns_map_table_each(
	struct dns_map_table *table, const __u64 *made, dns_take *take, void *userdata);

/* Gives the key an index, if it has none and there is one. */
void dns_map_table_add(struct dns_map_table *table, const void *key);

/*
 * Takes the key's index away, if it has one. The index and what is counted there stay as they are
 * until dns_map_table_reuse() with that time, in microseconds, or a later one. False when the key
 * keeps its index.
 */
bool dns_map_table_remove(struct dns_map_table *table, const void *key, uint64_t until);
void dns_map_table_reuse(struct dns_map_table *table, uint64_t now);

/* Calls take for each element of a hash table. 0, or -errno when it cannot be read. */
int dns_map_each(const struct bpf_map *map, dns_take *take, void *userdata);

/* Puts some of an array, from a whole page on, at *start; munmap() releases it. 0 or -errno. */
int dns_map_array(const struct bpf_map *map, size_t offset, size_t size, void *start);

#endif
