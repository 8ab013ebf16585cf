/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_SLOTS_H
#define BPF_DNS_SLOTS_H

/*
 * Every query has a slot in server_counts and one in row_counts. A cache entry of one cache line
 * has the slots of a recent client, and a TCP connection has its server's slot, so that lookups in
 * the hash tables are rare.
 */

#include "dns_maps.h"

#define NO_SLOT 0xffffffff

#define SERVER_SLOT(slots) ((__u32)(slots))
#define ROW_SLOT(slots)    ((__u32)((slots) >> 32))

static __always_inline struct dns_server *server_at(__u32 slot)
{
	return bpf_map_lookup_elem(&server_counts, &slot);
}

/* Finds the slot of a key or assigns a free one. Another CPU may add the same key meanwhile. */
static __always_inline __u32 slot_of(void *map, void *free_slots, const void *key)
{
	const __u32 *slot = bpf_map_lookup_elem(map, key);
	__u32 fresh = 0;

	if (slot)
		return *slot;
	if (bpf_map_pop_elem(free_slots, &fresh) < 0)
		return NO_SLOT;
	if (bpf_map_update_elem(map, key, &fresh, BPF_NOEXIST) == 0) {
		add(&control.made);
		return fresh;
	}
	bpf_map_push_elem(free_slots, &fresh, 0);
	slot = bpf_map_lookup_elem(map, key);
	return slot ? *slot : NO_SLOT;
}

/* The slot of the packet's destination. */
static __noinline __u32 slot_of_receiver(struct __sk_buff *skb)
{
	struct dns_key key = {0};

	key.family = address_of(skb, EGRESS, key.address);
	return key.family ? slot_of(&servers, &free_servers, &key) : NO_SLOT;
}

static __always_inline __u64 mix_address(const __u8 *address)
{
	const __u32 *words = (const void *)address;
	__u64 hash = dns_mix(words[0] | (__u64)words[1] << 32, DNS_HASH_SEED);

	return dns_mix(hash, words[2] | (__u64)words[3] << 32);
}

static __always_inline __u64 mix_client(const struct dns_row_key *client)
{
	const __u64 *words = (const void *)client;
	__u64 hash = 0;

	/* The products do not wait for each other. */
#pragma clang loop unroll(full)
	for (unsigned i = 0; i < sizeof(*client) / sizeof(*words); i++)
		hash += words[i] * (DNS_HASH_FACTOR + 2 * i * DNS_HASH_SEED);
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
 * The tag is invalid if two CPUs wrote the entry at once, or if user space has removed any key
 * since then.
 */
static __always_inline __u64 tag_of(__u64 hash, __u64 slots, __u64 generation)
{
	return dns_mix(dns_mix(hash, slots), generation);
}

/* The caller read generation first: if user space removes the key now, the tag is invalid. */
static __noinline __u64 find_slots(struct dns_row_key *client, __u64 hash, __u64 generation)
{
	__u32 index = hash >> 32 & (DNS_CACHE_ENTRIES - 1), server, row;
	struct dns_cache_entry *entry = bpf_map_lookup_elem(&cache, &index);
	__u64 slots;

	server = slot_of(&servers, &free_servers, &client->server);
	if (server == NO_SLOT) {
		add(&control.lost_servers);
		/* Servers without a slot share their rows. */
		__builtin_memset(&client->server, 0, sizeof(client->server));
	}
	row = slot_of(&rows, &free_rows, client);
	slots = (__u64)row << 32 | (server == NO_SLOT ? 0 : server);
	if (!entry || server == NO_SLOT || row == NO_SLOT)
		return slots;
	if (*(const volatile __u64 *)&control.generation != generation)
		return slots;
	entry->client = *client;
	entry->slots = slots;
	entry->tag = tag_of(hash, slots, generation);
	return slots;
}

/* Clears the server of the client unless it has a slot. */
static __always_inline __u64 slots_of(struct dns_row_key *client)
{
	__u64 generation = *(const volatile __u64 *)&control.generation;
	__u64 hash = mix_client(client), slots;
	__u32 index = hash >> 32 & (DNS_CACHE_ENTRIES - 1);
	const struct dns_cache_entry *entry = bpf_map_lookup_elem(&cache, &index);

	if (entry) {
		slots = *(const volatile __u64 *)&entry->slots;
		if (is_same(&entry->client, client) &&
			entry->tag == tag_of(hash, slots, generation))
			return slots;
	}
	return find_slots(client, hash, generation);
}

#endif
