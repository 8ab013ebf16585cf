/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_COUNT_H
#define BPF_DNS_COUNT_H

/* Adds a message to the counters. */

#include "dns_pending.h"

/* Samples a share of the names. The low bits of the clock are random enough. */
static __always_inline void sample(struct __sk_buff *skb, const struct dns_row_key *client,
	__u32 offset, __u32 length, __u64 now)
{
	struct dns_sample *sample;

	if ((__u32)(now * DNS_HASH_FACTOR >> 32) >= control.sample_share || length <= DNS_HEADER)
		return;
	if (control.samples >= control.samples_most)
		return;
	add(&control.samples);
	sample = bpf_ringbuf_reserve(&samples, sizeof(*sample), 0);
	if (!sample)
		return;
	length -= DNS_HEADER;
	if (length > DNS_SAMPLE_NAME)
		length = DNS_SAMPLE_NAME;
	length -= 1;
	barrier_var(length);
	length &= DNS_SAMPLE_NAME - 1;
	length += 1;
	sample->server = client->server;
	sample->length = length;
	if (bpf_skb_load_bytes(skb, offset + DNS_HEADER, sample->name, length) < 0)
		sample->length = 0;
	bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
}

static __always_inline void count_row(__u32 slot, bool again)
{
	struct dns_row *row = bpf_map_lookup_elem(&row_counts, &slot);

	if (!row) {
		add(&control.lost_rows);
		return;
	}
	add(&row->queries);
	if (again)
		add(&row->retransmissions);
}

/* Counts packets to a server that are not UDP queries. */
static __always_inline void count_packet(__u32 slot, __u32 n, bool encrypted)
{
	struct dns_server *server;

	if (slot == NO_SLOT) {
		add(&control.lost_servers);
		slot = 0;
	}
	server = server_at(slot);
	if (!server)
		return;
	if (encrypted) {
		add_many(&server->totals.dot_packets, n);
		return;
	}
	add_many(&server->totals.other_packets, n);
	add_many(&server->bins[bin_of(bpf_ktime_get_ns())], n * DNS_BIN_PACKET);
}

/* Counts a message without a DNS header. */
static __always_inline void count_unreadable(struct __sk_buff *skb, __u32 transport)
{
	__u32 slot = slot_of_receiver(skb);
	struct dns_server *server = server_at(slot == NO_SLOT ? 0 : slot);

	if (server)
		add(&server->totals.malformed);
	if (transport == DNS_UDP)
		count_packet(slot, 1, false);
}

/* Counts a query at offset. */
static __always_inline int count_query(
	struct __sk_buff *skb, __u64 read, __u32 offset, __u32 length, __u32 transport)
{
	struct dns_row_key client = {.type = dns_read_class(read), .suffix = dns_read_suffix(read)};
	__u64 now = bpf_ktime_get_ns(), slots, endpoint = endpoint_of(skb, transport == DNS_TCP);
	struct dns_server *server;

	if (!(read & DNS_READ_HEADER)) {
		count_unreadable(skb, transport);
		return 0;
	}
	client.server.family = address_of(skb, EGRESS, client.server.address);
	if (!client.server.family)
		return 0;
	client.cgroup = bpf_skb_cgroup_id(skb);
	if (client.cgroup == control.root_cgroup)
		client.source_family = address_of(skb, INGRESS, client.source);
	slots = slots_of(&client);
	server = server_at(SERVER_SLOT(slots));
	if (!server)
		return 0;
	add(&server->totals.queries[transport & 1]);
	add_many(&server->bins[bin_of(now)],
		transport == DNS_UDP ? DNS_BIN_QUERY + DNS_BIN_PACKET : DNS_BIN_QUERY);
	if (read & DNS_READ_MALFORMED)
		add(&server->totals.malformed);
	if (read & DNS_READ_EDNS)
		add(&server->totals.edns);
	/* Answers to raw sockets do not count. */
	if (endpoint && remember(&client, slots, endpoint, read, now)) {
		add(&server->totals.retransmissions);
		count_row(ROW_SLOT(slots), true);
	} else {
		count_row(ROW_SLOT(slots), false);
	}
	if (control.sample_share)
		sample(skb, &client, offset, length, now);
	return 0;
}

static __always_inline void count_error(const struct dns_pending *query, __u64 rcode)
{
	__u32 slot = ROW_SLOT(query->slots);
	struct dns_row *row = bpf_map_lookup_elem(&row_counts, &slot);

	if (row)
		add(rcode == DNS_NXDOMAIN ? &row->nxdomain : &row->failures);
}

static __always_inline void count_answered(
	struct dns_server *server, const struct dns_pending *query, __u64 rcode)
{
	__u64 now = bpf_ktime_get_ns(), sent = *(volatile __u64 *)&query->sent_ns;
	/* The sweep of user space has just removed a query that timed out. */
	__u64 latency = !sent ? DNS_TIMEOUT_NS : now > sent ? now - sent : 0;
	__u32 bucket = dns_latency_bucket(latency);

	add_many(&server->totals.latency_ns, latency);
	barrier_var(bucket);
	add(&server->totals.latency[bucket & (DNS_LATENCY_BUCKETS - 1)]);
	if (rcode != DNS_NOERROR && rcode != DNS_RCODE_OTHER)
		count_error(query, rcode);
	if (rcode == DNS_NOERROR && query->suffix == DNS_SUFFIX_CLUSTER)
		add(&server->totals.cluster_answers);
}

/* The server of a late answer, which adds no key. */
static __always_inline struct dns_server *sender_of(const struct dns_key *key)
{
	const __u32 *slot = bpf_map_lookup_elem(&servers, key);

	return server_at(slot ? *slot : 0);
}

/* Counts an answer. */
static __always_inline int count_answer(struct __sk_buff *skb, __u64 read, bool tcp)
{
	struct dns_pending *query = NULL;
	struct dns_server *server;
	struct dns_key key = {0};
	__u64 rcode = dns_read_rcode(read), endpoint = endpoint_of(skb, tcp);
	bool overflow = false;

	key.family = address_of(skb, INGRESS, key.address);
	if (!key.family || !endpoint)
		return 0;
	if (read & DNS_READ_HEADER)
		query = recall(&key, endpoint, read, &overflow);
	server = query ? server_at(SERVER_SLOT(query->slots)) : sender_of(&key);
	if (!server)
		return 0;
	if (!(read & DNS_READ_HEADER) || read & DNS_READ_MALFORMED)
		add(&server->totals.malformed);
	if (!(read & DNS_READ_HEADER))
		return 0;
	add(&server->totals.responses[rcode]);
	if (read & DNS_READ_TRUNCATED)
		add(&server->totals.truncated);
	if (query) {
		count_answered(server, query, rcode);
		clear(query, overflow);
	} else {
		add(&server->totals.late);
	}
	return 0;
}

/* Length and transport in one argument: BPF functions have at most five. */
#define ABOUT_LENGTH 0xffff
#define ABOUT_TCP    0x10000

/*
 * Counts a message at offset. The packet has "visible" bytes of it; head is the first four bytes of
 * a TCP message. Received queries and sent answers belong to a server on this host and do not
 * count, except the packet of an answer to port 53.
 */
static __always_inline void count_message(struct __sk_buff *skb, __u32 offset, __u32 visible,
	__u32 about, __u32 head, enum direction direction)
{
	struct dns_frame frame = {.visible = visible, .length = about & ABOUT_LENGTH, .head = head};
	__u64 read = 0, noise = skb->len;

	if (visible >= DNS_HEADER)
		read = read_message(skb, offset, visible);
	read = dns_frame_read(&frame, read);
	/* The verifier must forget the value of read, or it follows every path from here. */
	asm volatile("%0 ^= %1\n%0 ^= %1" : "+r"(read) : "r"(noise));
	if (direction == EGRESS && !(read & DNS_READ_ANSWER))
		count_query(skb, read, offset, visible, about & ABOUT_TCP ? DNS_TCP : DNS_UDP);
	else if (direction == EGRESS && !(about & ABOUT_TCP) && endpoint_of(skb, false) != 53)
		count_packet(slot_of_receiver(skb), 1, false);
	else if (direction == INGRESS && (read & DNS_READ_ANSWER || !(read & DNS_READ_HEADER)))
		count_answer(skb, read, about & ABOUT_TCP);
}

/* Each program has its own function, so that the verifier checks only the code it needs. */
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
