/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_COUNT_H
#define BPF_DNS_COUNT_H

/* What a message adds to the counters. */

#include "dns_pending.h"

/* Hands over one name in so many; the clock's low bits are as good as chance. */
static __always_inline void sample(
	struct __sk_buff *skb, const struct dns_row_key *who, __u32 offset, __u32 length, __u64 now)
{
	struct dns_sample *sample;

	if ((__u32)(now * DNS_HASH_FACTOR >> 32) >= control.sample_share || length <= DNS_HEADER)
		return;
	if (control.samples >= control.samples_most)
		return;
	add(&control.samples);
	sample = bpf_ringbuf_reserve(&samples, sizeof(*sample), 0);
	if (!sample) {
		add(&control.lost_samples);
		return;
	}
	length -= DNS_HEADER;
	if (length > DNS_SAMPLE_NAME)
		length = DNS_SAMPLE_NAME;
	length -= 1;
	barrier_var(length);
	length &= DNS_SAMPLE_NAME - 1;
	length += 1;
	sample->server = who->server;
	sample->type = 0;
	sample->length = length;
	sample->cgroup = who->cgroup;
	if (bpf_skb_load_bytes(skb, offset + DNS_HEADER, sample->name, length) < 0)
		sample->length = 0;
	bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
}

static __always_inline void count_row(__u32 place, bool again)
{
	struct dns_row *row = bpf_map_lookup_elem(&row_counts, &place);

	if (!row) {
		add(&control.lost_rows);
		return;
	}
	add(&row->queries);
	if (again)
		add(&row->retransmissions);
}

/* What goes to a server besides queries over UDP; place is its, or none. */
static __always_inline void count_packet(__u32 place, __u32 n, bool encrypted)
{
	struct dns_server *server;

	if (place == NO_PLACE) {
		add(&control.lost_servers);
		place = 0;
	}
	server = server_at(place);
	if (!server)
		return;
	if (encrypted) {
		add_many(&server->dot_packets, n);
		return;
	}
	add_many(&server->other_packets, n);
	add_many(&server->bins[bin_of(bpf_ktime_get_ns())], n * DNS_BIN_PACKET);
}

/* Without a header it is no query. */
static __always_inline void count_unreadable(struct __sk_buff *skb, __u32 transport)
{
	__u32 place = place_of_receiver(skb);
	struct dns_server *server = server_at(place == NO_PLACE ? 0 : place);

	if (server)
		add(&server->malformed);
	if (transport == DNS_UDP)
		count_packet(place, 1, false);
}

/* A message to a port 53, which lies at offset. */
static __always_inline int count_query(
	struct __sk_buff *skb, __u64 read, __u32 offset, __u32 length, __u32 transport)
{
	struct dns_row_key who = {.type = dns_read_class(read), .suffix = dns_read_suffix(read)};
	__u64 now = bpf_ktime_get_ns(), places;
	struct dns_server *server;

	if (!(read & DNS_READ_HEADER)) {
		count_unreadable(skb, transport);
		return 0;
	}
	who.server.family = address_of(skb, EGRESS, who.server.address);
	if (!who.server.family)
		return 0;
	who.cgroup = bpf_skb_cgroup_id(skb);
	if (who.cgroup == control.root_cgroup)
		who.source_family = address_of(skb, INGRESS, who.source);
	places = places_of(&who);
	server = server_at(SERVER_PLACE(places));
	if (!server)
		return 0;
	add(&server->queries[transport & 1]);
	add_many(&server->bins[bin_of(now)],
		transport == DNS_UDP ? DNS_BIN_QUERY + DNS_BIN_PACKET : DNS_BIN_QUERY);
	if (read & DNS_READ_MALFORMED)
		add(&server->malformed);
	if (read & DNS_READ_EDNS)
		add(&server->edns);
	if (remember(&who, places, bpf_get_socket_cookie(skb), read, now)) {
		add(&server->retransmissions);
		count_row(ROW_PLACE(places), true);
	} else {
		count_row(ROW_PLACE(places), false);
	}
	if (control.sample_share)
		sample(skb, &who, offset, length, now);
	return 0;
}

static __always_inline __u32 latency_bucket(__u64 ns)
{
	__u64 left = ns >> DNS_LATENCY_SHIFT;
	__u32 bucket = left != 0;

	if (left >> (DNS_LATENCY_BUCKETS - 2))
		return DNS_LATENCY_BUCKETS - 1;
	for (int bits = 8; bits; bits /= 2)
		if (left >> bits) {
			left >>= bits;
			bucket += bits;
		}
	return bucket;
}

static __always_inline void count_nxdomain(const struct dns_pending *query)
{
	__u32 place = ROW_PLACE(query->places);
	struct dns_row *row = bpf_map_lookup_elem(&row_counts, &place);

	if (row)
		add(&row->nxdomain);
}

static __always_inline void count_answered(
	struct dns_server *server, const struct dns_pending *query, __u64 rcode)
{
	__u64 now = bpf_ktime_get_ns(), sent = *(volatile __u64 *)&query->sent_ns;
	/* Taken away by the sweep at this moment, it is as old as can be. */
	__u64 latency = !sent ? DNS_TIMEOUT_NS : now > sent ? now - sent : 0;
	__u32 bucket = latency_bucket(latency);

	add_many(&server->latency_ns, latency);
	barrier_var(bucket);
	add(&server->latency[bucket & (DNS_LATENCY_BUCKETS - 1)]);
	if (rcode == DNS_NXDOMAIN)
		count_nxdomain(query);
	if (rcode == DNS_NOERROR && query->suffix == DNS_SUFFIX_CLUSTER)
		add(&server->cluster_answers);
}

/* Who sent an answer that nobody waits for, which makes no element. */
static __always_inline struct dns_server *sender_of(const struct dns_key *key)
{
	const __u32 *place = bpf_map_lookup_elem(&servers, key);

	return server_at(place ? *place : 0);
}

/* A message from a port 53. */
static __always_inline int count_answer(struct __sk_buff *skb, __u64 read)
{
	struct dns_pending *query = NULL;
	struct dns_server *server;
	struct dns_key key = {0};
	__u64 rcode = dns_read_rcode(read);
	bool far = false;

	key.family = address_of(skb, INGRESS, key.address);
	if (!key.family)
		return 0;
	if (read & DNS_READ_HEADER)
		query = recall(&key, bpf_get_socket_cookie(skb), read, &far);
	server = query ? server_at(SERVER_PLACE(query->places)) : sender_of(&key);
	if (!server)
		return 0;
	if (!(read & DNS_READ_HEADER) || read & DNS_READ_MALFORMED)
		add(&server->malformed);
	if (!(read & DNS_READ_HEADER))
		return 0;
	add(&server->responses[rcode]);
	if (read & DNS_READ_TRUNCATED)
		add(&server->truncated);
	if (query) {
		count_answered(server, query, rcode);
		clear(query, far);
	} else {
		add(&server->late);
	}
	return 0;
}

/* The rest of what is told of a message: five arguments are all there are. */
#define ABOUT_LENGTH 0xffff
#define ABOUT_TCP    0x10000

/*
 * A message at offset, all of it or as much as is visible of its length; head are the first four
 * bytes of a message of TCP. What is no answer, or no query, is a server's business.
 */
static __always_inline void count_message(struct __sk_buff *skb, __u32 offset, __u32 visible,
	__u32 about, __u32 head, enum direction direction)
{
	struct dns_frame frame = {.visible = visible, .length = about & ABOUT_LENGTH, .head = head};
	__u64 read = 0, noise = skb->len;

	if (visible >= DNS_HEADER)
		read = read_message(skb, offset, visible);
	read = dns_frame_read(&frame, read);
	/* The verifier is to forget how read came about, and not to follow each way on. */
	asm volatile("%0 ^= %1\n%0 ^= %1" : "+r"(read) : "r"(noise));
	if (direction == EGRESS && !(read & DNS_READ_ANSWER))
		count_query(skb, read, offset, visible, about & ABOUT_TCP ? DNS_TCP : DNS_UDP);
	else if (direction == INGRESS && (read & DNS_READ_ANSWER || !(read & DNS_READ_HEADER)))
		count_answer(skb, read);
}

/* One of each for either program, which so has only what it needs to be verified. */
__noinline int count_sent(
	struct __sk_buff *skb, __u32 offset, __u32 visible, __u32 about, __u32 head)
{
	count_message(skb, offset, visible, about, head, EGRESS);
	return 0;
}

__noinline int count_received(
	struct __sk_buff *skb, __u32 offset, __u32 visible, __u32 about, __u32 head)
{
	count_message(skb, offset, visible, about, head, INGRESS);
	return 0;
}

#endif
