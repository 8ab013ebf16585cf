/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_PENDING_H
#define BPF_DNS_PENDING_H

#include "dns_slots.h"

#define SOCK_RAW 3

static __always_inline const struct bpf_sock *socket_of(struct __sk_buff *skb)
{
	struct bpf_sock *socket = skb->sk;

	return socket ? bpf_sk_fullsock(socket) : NULL;
}

/* A raw socket receives copies of the packets of other sockets. */
static __always_inline bool is_raw(struct __sk_buff *skb)
{
	const struct bpf_sock *socket = socket_of(skb);

	return socket && socket->type == SOCK_RAW;
}

/*
 * The UDP port of the socket, before any address translation: sockets with SO_REUSEPORT share the
 * port and receive each other's answers. Otherwise the cookie; 0 for a raw socket.
 */
static __always_inline __u64 endpoint_of(struct __sk_buff *skb, bool tcp)
{
	const struct bpf_sock *socket = tcp ? NULL : socket_of(skb);

	if (socket && socket->type == SOCK_RAW)
		return 0;
	return socket && socket->src_port ? socket->src_port : bpf_get_socket_cookie(skb);
}

static __always_inline __u64 hash_of(__u64 endpoint, __u16 id)
{
	return (endpoint << 16 ^ id) * DNS_HASH_FACTOR;
}

static __always_inline struct dns_pending *primary_of(__u64 endpoint, __u16 id)
{
	__u64 hash = hash_of(endpoint, id);
	__u32 index = hash >> 56 & (DNS_PRIMARY - 1);
	struct dns_bucket *bucket = bpf_map_lookup_elem(&pending, &index);

	return bucket ? &bucket->ways[hash >> 54 & (DNS_WAYS - 1)] : NULL;
}

static __always_inline struct dns_bucket *overflow_of(__u64 endpoint, __u16 id)
{
	__u32 index = DNS_PRIMARY + (hash_of(endpoint, id) >> 40 & (DNS_OVERFLOW - 1));

	return bpf_map_lookup_elem(&pending, &index);
}

static __always_inline bool is_overflow_used(void)
{
	return *(volatile __u64 *)&control.overflow != 0;
}

static __always_inline bool is_server(const struct dns_pending *query, const struct dns_key *key)
{
	const __u32 *one = (const void *)query->server, *other = (const void *)key->address;

	return one[0] == other[0] && one[1] == other[1] && one[2] == other[2] &&
	       one[3] == other[3] && query->family == (key->family == AF_INET ? 4 : 6);
}

/* Writes sent_ns last: user space reads the other fields only of a complete query. */
static __always_inline void put(struct dns_pending *way, const struct dns_row_key *client,
	__u64 slots, __u64 endpoint, __u64 read, __u64 now)
{
	*(volatile __u64 *)&way->sent_ns = 0;
	way->endpoint = endpoint;
	way->slots = slots;
	way->question = dns_read_question(read);
	way->id = read;
	way->family = client->server.family == AF_INET ? 4 : 6;
	way->suffix = client->suffix;
	__builtin_memcpy(way->server, client->server.address, 16);
	barrier();
	*(volatile __u64 *)&way->sent_ns = now;
}

static __always_inline void clear(struct dns_pending *way, bool overflow)
{
	*(volatile __u64 *)&way->sent_ns = 0;
	if (overflow)
		add_many(&control.overflow, -1);
}

static __always_inline bool is_again(const struct dns_pending *sent,
	const struct dns_row_key *client, __u64 endpoint, __u64 read)
{
	return sent->sent_ns && sent->endpoint == endpoint && sent->id == (__u16)read &&
	       sent->question == dns_read_question(read) && is_server(sent, &client->server);
}

/* A free way or the oldest one. Queries start at different ways to avoid conflicts. */
static __always_inline struct dns_pending *find_way(
	struct dns_bucket *bucket, __u64 endpoint, __u64 read)
{
	struct dns_pending *way = &bucket->ways[(endpoint ^ read) & (DNS_WAYS - 1)];

	for (int i = 0; i < DNS_WAYS; i++)
		if (bucket->ways[i].sent_ns < way->sent_ns)
			way = &bucket->ways[i];
	return way;
}

/* Frees a way of the overflow bucket. A separate function uses less stack. */
__noinline int evict(__u64 endpoint, __u32 id)
{
	struct dns_bucket *bucket = overflow_of(endpoint, id);
	struct dns_pending *oldest;
	struct dns_server *server;

	if (!bucket)
		return 0;
	oldest = find_way(bucket, endpoint, id);
	if (!oldest->sent_ns)
		return 0;
	server = server_at(SERVER_SLOT(oldest->slots));
	clear(oldest, true);
	if (server)
		add(&server->totals.unknown);
	return 0;
}

/*
 * Stores a query. True for a retransmission. Two CPUs may write the same way at once: then a few
 * answers in a million count as late.
 */
static __always_inline bool remember(
	const struct dns_row_key *client, __u64 slots, __u64 endpoint, __u64 read, __u64 now)
{
	struct dns_pending *primary = primary_of(endpoint, read);
	struct dns_bucket *bucket;

	if (!primary)
		return false;
	if (is_again(primary, client, endpoint, read))
		return true;
	if (is_overflow_used()) {
		bucket = overflow_of(endpoint, read);
		for (int i = 0; bucket && i < DNS_WAYS; i++)
			if (is_again(&bucket->ways[i], client, endpoint, read))
				return true;
	}
	if (!primary->sent_ns) {
		put(primary, client, slots, endpoint, read, now);
		return false;
	}
	evict(endpoint, read & 0xffff);
	bucket = overflow_of(endpoint, read);
	if (!bucket)
		return false;
	put(find_way(bucket, endpoint, read), client, slots, endpoint, read, now);
	add(&control.overflow);
	return false;
}

static __always_inline bool matches(const struct dns_pending *query, __u64 endpoint, __u64 read)
{
	__u32 question = dns_read_question(read);

	return query->sent_ns && query->endpoint == endpoint && query->id == (__u16)read &&
	       (!question || !query->question || question == query->question);
}

/*
 * Finds the query of an answer. The answer may come from another address (NAT), and a socket may
 * query several servers with the same id: a query to the answer's sender is preferred.
 */
static __always_inline struct dns_pending *recall(
	const struct dns_key *server, __u64 endpoint, __u64 read, bool *overflow)
{
	struct dns_pending *found = primary_of(endpoint, read);
	struct dns_bucket *bucket;

	*overflow = false;
	if (found && !matches(found, endpoint, read))
		found = NULL;
	if (!is_overflow_used() || (found && is_server(found, server)))
		return found;
	bucket = overflow_of(endpoint, read);
	for (int i = 0; bucket && i < DNS_WAYS; i++) {
		struct dns_pending *way = &bucket->ways[i];

		if (!matches(way, endpoint, read) || (found && !is_server(way, server)))
			continue;
		found = way;
		*overflow = true;
		if (is_server(way, server))
			break;
	}
	return found;
}

#endif
