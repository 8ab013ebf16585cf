/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_MAPS_H
#define BPF_DNS_MAPS_H

/* The maps of bpf/dns.bpf.c. */

#include <stdbool.h>

#include "dns_read.h"
#include "map.h"

#include <linux/ip.h>
#include <linux/ipv6.h>

#define AF_INET  2
#define AF_INET6 10

enum direction {
	EGRESS,
	INGRESS,
	DIRECTIONS,
};

/*
 * One direction of a TCP connection. Only its packets write it: the two directions often run on
 * different CPUs. A packet in order needs a single cache line.
 */
struct flow {
	/*
	 * INGRESS: a remote server must not choose our work. Messages that it sends are inspected
	 * only up to the allowance of a segment, and one more for each query: so many are spent.
	 */
	__u32 allowance;
	__u32 spent;
	__u64 counted; /* queries; answers to queries */
	struct dns_way way;
} __attribute__((aligned(64)));

/*
 * Kept with the socket. The first members share a cache line with the kernel's pointer to the map,
 * which every lookup reads. Few packets write this line.
 */
struct stream {
	/* The server's slot is valid if the tag matches. */
	__u64 server;
	__u64 tag;
	struct flow flows[DIRECTIONS];
};

/*
 * User space maps the arrays of counters and the pending queries. A mappable array begins at a
 * page: an entry of the cache fills one cache line.
 */
MAP(servers, HASH, 0, DNS_SERVERS_MAX, struct dns_key, __u32);
MAP(server_counts, ARRAY, BPF_F_MMAPABLE, DNS_SERVERS_MAX, __u32, struct dns_server);
MAP(rows, HASH, 0, DNS_ROWS_MAX, struct dns_row_key, __u32);
MAP(row_counts, ARRAY, BPF_F_MMAPABLE, DNS_ROWS_MAX, __u32, struct dns_row);
MAP(cache, ARRAY, BPF_F_MMAPABLE, DNS_CACHE_ENTRIES, __u32, struct dns_cache_entry);
MAP(sources, HASH, 0, DNS_SOURCES_MAX, struct dns_key, struct dns_source);
MAP(pending, ARRAY, BPF_F_MMAPABLE, DNS_PRIMARY + DNS_OVERFLOW, __u32, struct dns_bucket);
MAP(streams, SK_STORAGE, BPF_F_NO_PREALLOC, 0, int, struct stream);

/* User space fills the queues with the free indices. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, DNS_SERVERS_MAX);
	__type(value, __u32);
} free_servers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, DNS_ROWS_MAX);
	__type(value, __u32);
} free_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} samples SEC(".maps");

static const struct dns_key no_key;
static const struct dns_source no_source;

static __always_inline void add_many(__u64 *counter, __u64 n)
{
	__sync_fetch_and_add(counter, n);
}

static __always_inline void add(__u64 *counter)
{
	add_many(counter, 1);
}

/* Returns the bin of this time. Most packets are in the bin of the packet before, which saves a
 * division. */
static __always_inline __u64 bin_of(__u64 now)
{
	__u64 bin = *(volatile __u64 *)&control.bin;

	if (now - bin * DNS_BIN_NS >= DNS_BIN_NS) {
		bin = now / DNS_BIN_NS;
		*(volatile __u64 *)&control.bin = bin;
	}
	return bin & (DNS_BINS - 1);
}

/* Copies the destination (egress) or the source to 16 zero bytes. Returns the family or 0. */
static __always_inline __u32 address_of(
	struct __sk_buff *skb, enum direction direction, __u8 *address)
{
	const struct ipv6hdr *six = (void *)(long)skb->data;
	const struct iphdr *four = (void *)(long)skb->data;
	const void *end = (void *)(long)skb->data_end;

	if ((void *)(four + 1) > end)
		return 0;
	if (four->version == 4) {
		*(__u32 *)address = direction == EGRESS ? four->daddr : four->saddr;
		return AF_INET;
	}
	if ((void *)(six + 1) > end)
		return 0;
	__builtin_memcpy(address, direction == EGRESS ? &six->daddr : &six->saddr, 16);
	return AF_INET6;
}

#endif
