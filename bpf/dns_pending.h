/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_PENDING_H
#define BPF_DNS_PENDING_H

/* The queries that wait for their answers. */

#include "dns_places.h"

static __always_inline __u64 hash_of(__u64 cookie, __u16 id)
{
	return (cookie << 16 ^ id) * DNS_HASH_FACTOR;
}

static __always_inline struct dns_pending *near_of(__u64 cookie, __u16 id)
{
	__u64 hash = hash_of(cookie, id);
	__u32 index = hash >> 56 & (DNS_NEAR - 1);
	struct dns_bucket *bucket = bpf_map_lookup_elem(&pending, &index);

	return bucket ? &bucket->ways[hash >> 54 & (DNS_WAYS - 1)] : NULL;
}

static __always_inline struct dns_bucket *far_of(__u64 cookie, __u16 id)
{
	__u32 index = DNS_NEAR + (hash_of(cookie, id) >> 40 & (DNS_FAR - 1));

	return bpf_map_lookup_elem(&pending, &index);
}

static __always_inline bool is_far_used(void)
{
	return *(volatile __u64 *)&control.far != 0;
}

static __always_inline bool is_server(const struct dns_pending *query, const struct dns_key *key)
{
	const __u32 *one = (const void *)query->server, *other = (const void *)key->address;

	return one[0] == other[0] && one[1] == other[1] && one[2] == other[2] &&
	       one[3] == other[3] && query->family == (key->family == AF_INET ? 4 : 6);
}

/* sent_ns last: user space must not take a new query for an old one. */
static __always_inline void put(struct dns_pending *place, const struct dns_row_key *who,
	__u64 places, __u64 cookie, __u64 read, __u64 now)
{
	*(volatile __u64 *)&place->sent_ns = 0;
	place->cookie = cookie;
	place->places = places;
	place->question = dns_read_question(read);
	place->id = read;
	place->family = who->server.family == AF_INET ? 4 : 6;
	place->suffix = who->suffix;
	__builtin_memcpy(place->server, who->server.address, 16);
	barrier();
	*(volatile __u64 *)&place->sent_ns = now;
}

/* It is free again. In a far bucket, which the hash tells, that is counted. */
static __always_inline void clear(struct dns_pending *place, bool far)
{
	*(volatile __u64 *)&place->sent_ns = 0;
	if (far)
		add_many(&control.far, -1);
}

static __always_inline bool is_again(
	const struct dns_pending *sent, const struct dns_row_key *who, __u64 cookie, __u64 read)
{
	return sent->sent_ns && sent->cookie == cookie && sent->id == (__u16)read &&
	       sent->question == dns_read_question(read) && is_server(sent, &who->server);
}

/* A far way that is free, or the oldest; each begins elsewhere, so that two seldom want the same.
 */
static __always_inline struct dns_pending *find_place(
	struct dns_bucket *bucket, __u64 cookie, __u64 read)
{
	struct dns_pending *place = &bucket->ways[(cookie ^ read) & (DNS_WAYS - 1)];

	for (int i = 0; i < DNS_WAYS; i++)
		if (bucket->ways[i].sent_ns < place->sent_ns)
			place = &bucket->ways[i];
	return place;
}

/* A function of its own for the sake of the stack: the oldest makes room in a far bucket. */
__noinline int evict(__u64 cookie, __u32 id)
{
	struct dns_bucket *bucket = far_of(cookie, id);
	struct dns_pending *oldest;
	struct dns_server *server;

	if (!bucket)
		return 0;
	oldest = find_place(bucket, cookie, id);
	if (!oldest->sent_ns)
		return 0;
	server = server_at(SERVER_PLACE(oldest->places));
	clear(oldest, true);
	if (server)
		add(&server->evicted);
	return 0;
}

/*
 * Notes that the query waits for its answer. True when it does already: it was sent again. Two
 * processors may take the same place at once: a few answers in a million are late then.
 */
static __always_inline bool remember(
	const struct dns_row_key *who, __u64 places, __u64 cookie, __u64 read, __u64 now)
{
	struct dns_pending *near = near_of(cookie, read);
	struct dns_bucket *bucket;

	if (!near)
		return false;
	if (is_again(near, who, cookie, read))
		return true;
	if (is_far_used()) {
		bucket = far_of(cookie, read);
		for (int i = 0; bucket && i < DNS_WAYS; i++)
			if (is_again(&bucket->ways[i], who, cookie, read))
				return true;
	}
	if (!near->sent_ns) {
		put(near, who, places, cookie, read, now);
		return false;
	}
	evict(cookie, read & 0xffff);
	bucket = far_of(cookie, read);
	if (!bucket)
		return false;
	put(find_place(bucket, cookie, read), who, places, cookie, read, now);
	add(&control.far);
	return false;
}

static __always_inline bool may_be_asked(const struct dns_pending *query, __u64 cookie, __u64 read)
{
	__u32 question = dns_read_question(read);

	return query->sent_ns && query->cookie == cookie && query->id == (__u16)read &&
	       (!question || !query->question || question == query->question);
}

/*
 * The query that an answer belongs to, or NULL: the server is another than the one asked where
 * addresses are translated, and one socket may ask several servers with one id.
 */
static __always_inline struct dns_pending *recall(
	const struct dns_key *server, __u64 cookie, __u64 read, bool *far)
{
	struct dns_pending *found = near_of(cookie, read);
	struct dns_bucket *bucket;

	*far = false;
	if (found && !may_be_asked(found, cookie, read))
		found = NULL;
	if (!is_far_used() || (found && is_server(found, server)))
		return found;
	bucket = far_of(cookie, read);
	for (int i = 0; bucket && i < DNS_WAYS; i++) {
		struct dns_pending *way = &bucket->ways[i];

		if (!may_be_asked(way, cookie, read) || (found && !is_server(way, server)))
			continue;
		found = way;
		*far = true;
		if (is_server(way, server))
			break;
	}
	return found;
}

#endif
