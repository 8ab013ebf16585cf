/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_PLACES_H
#define BPF_DNS_PLACES_H

/*
 * Where a message is counted: at an index of server_counts and one of row_counts. The hash tables
 * that know the index of each key are asked but seldom: a memo of one cache line tells both for
 * whoever asked lately, and a TCP connection remembers its server's.
 */

#include "dns_maps.h"

#define NO_PLACE 0xffffffff

/* A row's in the upper half, its server's in the lower. */
#define SERVER_PLACE(places) ((__u32)(places))
#define ROW_PLACE(places)    ((__u32)((places) >> 32))

static __always_inline struct dns_server *server_at(__u32 place)
{
	return bpf_map_lookup_elem(&server_counts, &place);
}

/* The index that belongs to a key, a new one if need be; several processors may try at once. */
static __always_inline __u32 place_of(void *map, void *free_places, const void *key)
{
	const __u32 *place = bpf_map_lookup_elem(map, key);
	__u32 fresh = 0;

	if (place)
		return *place;
	if (bpf_map_pop_elem(free_places, &fresh) < 0)
		return NO_PLACE;
	if (bpf_map_update_elem(map, key, &fresh, BPF_NOEXIST) == 0) {
		add(&control.made);
		return fresh;
	}
	bpf_map_push_elem(free_places, &fresh, 0);
	place = bpf_map_lookup_elem(map, key);
	return place ? *place : NO_PLACE;
}

/* The server's, to whom the packet goes. */
static __noinline __u32 place_of_receiver(struct __sk_buff *skb)
{
	struct dns_key key = {0};

	key.family = address_of(skb, EGRESS, key.address);
	return key.family ? place_of(&servers, &free_servers, &key) : NO_PLACE;
}

static __always_inline __u64 mix_address(const struct dns_key *key)
{
	const __u32 *words = (const void *)key;
	__u64 hash = DNS_HASH_SEED;

#pragma clang loop unroll(full)
	for (unsigned i = 0; i < sizeof(*key) / sizeof(*words); i++)
		hash = dns_mix(hash, words[i]);
	return hash;
}

static __always_inline __u64 mix_words(const struct dns_row_key *who)
{
	const __u64 *words = (const void *)who;
	__u64 hash = DNS_HASH_SEED;

#pragma clang loop unroll(full)
	for (unsigned i = 0; i < sizeof(*who) / sizeof(*words); i++)
		hash = dns_mix(hash, words[i]);
	return hash;
}

static __always_inline bool is_same(const struct dns_row_key *a, const struct dns_row_key *b)
{
	const __u64 *one = (const void *)a, *other = (const void *)b;
	__u64 differ = 0;

#pragma clang loop unroll(full)
	for (unsigned i = 0; i < sizeof(*a) / sizeof(*one); i++)
		differ |= one[i] ^ other[i];
	return differ == 0;
}

/*
 * What was written by two processors at once has no valid seal, nor has what is older than the last
 * time that user space took an index away.
 */
static __always_inline __u64 seal_of(__u64 hash, __u64 places, __u64 generation)
{
	return dns_mix(dns_mix(hash, places), generation);
}

/* generation was read before: an index that is taken away meanwhile is not sealed as if it were
 * newer. */
static __noinline __u64 find_places(const struct dns_row_key *who, __u64 hash, __u64 generation)
{
	__u32 index = hash >> 32 & (DNS_MEMOS - 1), server, row;
	struct dns_memo *memo = bpf_map_lookup_elem(&memos, &index);
	struct dns_row_key key = *who;
	__u64 places;

	server = place_of(&servers, &free_servers, &key.server);
	if (server == NO_PLACE) {
		add(&control.lost_servers);
		/* Thousands of servers without a place are not to take that of other rows. */
		__builtin_memset(&key.server, 0, sizeof(key.server));
	}
	row = place_of(&rows, &free_rows, &key);
	places = (__u64)row << 32 | (server == NO_PLACE ? 0 : server);
	if (!memo || server == NO_PLACE || row == NO_PLACE)
		return places;
	if (*(const volatile __u64 *)&control.generation != generation)
		return places;
	memo->who = *who;
	memo->places = places;
	memo->seal = seal_of(hash, places, generation);
	return places;
}

static __always_inline __u64 places_of(const struct dns_row_key *who)
{
	__u64 generation = *(const volatile __u64 *)&control.generation;
	__u64 hash = mix_words(who), places;
	__u32 index = hash >> 32 & (DNS_MEMOS - 1);
	const struct dns_memo *memo = bpf_map_lookup_elem(&memos, &index);

	if (memo) {
		places = *(const volatile __u64 *)&memo->places;
		if (is_same(&memo->who, who) && memo->seal == seal_of(hash, places, generation))
			return places;
	}
	return find_places(who, hash, generation);
}

#endif
