/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_PENDING_H
#define BPF_DNS_PENDING_H

/* The queries that wait for their answers. */

#include "dns_maps.h"

static __always_inline struct dns_bucket *bucket_of(__u64 cookie, __u16 id)
{
	__u32 index = ((cookie << 16 ^ id) * DNS_HASH_FACTOR) >> 40 & (DNS_BUCKETS - 1);

	return bpf_map_lookup_elem(&pending, &index);
}

static __always_inline bool is_server(const struct dns_pending *query, const struct dns_key *key)
{
	const __u32 *one = (const void *)query->server, *other = (const void *)key->address;

	return one[0] == other[0] && one[1] == other[1] && one[2] == other[2] &&
	       one[3] == other[3] && query->family == (key->family == AF_INET ? 4 : 6);
}

static __always_inline void server_of(const struct dns_pending *query, struct dns_key *key)
{
	key->family = query->family == 4 ? AF_INET : AF_INET6;
	__builtin_memcpy(key->address, query->server, 16);
}

/* Seldom, and a function of its own for the sake of the stack. */
__noinline int count_evicted(__u64 cookie, __u32 id, __u32 way)
{
	struct dns_bucket *bucket = bucket_of(cookie, id);
	struct dns_server *server;
	struct dns_key key;

	if (!bucket)
		return 0;
	server_of(&bucket->ways[way & (DNS_WAYS - 1)], &key);
	server = bpf_map_lookup_elem(&servers, &key);
	if (!server)
		server = other_server();
	if (server)
		add(&server->evicted);
	return 0;
}

/* sent_ns last: user space must not take a new query for an old one. */
static __always_inline void put(struct dns_pending *place, const struct dns_row_key *who,
	__u64 cookie, __u64 read, enum dns_transport transport, __u64 now)
{
	*(volatile __u64 *)&place->sent_ns = 0;
	place->cookie = cookie;
	place->cgroup = who->cgroup;
	place->question = dns_read_question(read);
	place->id = read;
	place->family = who->server.family == AF_INET ? 4 : 6;
	place->has_source = who->source_family != 0;
	place->transport = transport;
	place->type = who->type;
	place->suffix = who->suffix;
	__builtin_memcpy(place->server, who->server.address, 16);
	__builtin_memcpy(place->source, who->source, 16);
	barrier();
	*(volatile __u64 *)&place->sent_ns = now;
}

/*
 * Notes that the query waits for its answer. True when it does already: it was sent again. Two
 * processors may take the same place at once: a few answers in a million are late then.
 */
static __always_inline bool remember(const struct dns_row_key *who, __u64 cookie, __u64 read,
	enum dns_transport transport, __u64 now)
{
	struct dns_bucket *bucket = bucket_of(cookie, read);
	struct dns_pending *place;

	if (!bucket)
		return false;
	/* Each begins elsewhere, so that two of them seldom want the same. */
	place = &bucket->ways[(cookie ^ read) & (DNS_WAYS - 1)];
	for (int i = 0; i < DNS_WAYS; i++) {
		struct dns_pending *way = &bucket->ways[i];

		if (way->sent_ns && way->cookie == cookie && way->id == (__u16)read &&
			way->question == dns_read_question(read) && is_server(way, &who->server))
			return true;
		/* A free one, or the oldest. */
		if (way->sent_ns < place->sent_ns)
			place = way;
	}
	if (place->sent_ns)
		count_evicted(cookie, read & 0xffff, place - bucket->ways);
	put(place, who, cookie, read, transport, now);
	return false;
}

/*
 * The query that an answer belongs to: the server is another than the one asked where addresses are
 * translated, and one socket may ask several servers with one id.
 */
static __always_inline struct dns_pending *recall(
	const struct dns_key *server, __u64 cookie, __u64 read)
{
	struct dns_bucket *bucket = bucket_of(cookie, read);
	__u32 question = dns_read_question(read);
	struct dns_pending *found = NULL;

	if (!bucket)
		return NULL;
	for (int i = 0; i < DNS_WAYS; i++) {
		struct dns_pending *way = &bucket->ways[i];

		if (!way->sent_ns || way->cookie != cookie || way->id != (__u16)read)
			continue;
		if (question && way->question && question != way->question)
			continue;
		found = way;
		if (is_server(way, server))
			break;
	}
	return found;
}

#endif
