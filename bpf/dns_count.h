/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_COUNT_H
#define BPF_DNS_COUNT_H

/* Adds a message to the counters. */

#include "dns_pending.h"

/* Samples a share of the names. The low bits of the clock are random enough. */
static __always_inline void sample(
	struct __sk_buff *skb, const struct dns_row_key *client, __u32 offset, __u64 now)
{
	__u32 name = offset + DNS_HEADER, length = skb->len - name;
	struct dns_sample *sample;

	if ((__u32)(now * DNS_HASH_FACTOR >> 32) >= control.sample_share || name >= skb->len)
		return;
	if (control.samples >= control.samples_most)
		return;
	add(&control.samples);
	sample = bpf_ringbuf_reserve(&samples, sizeof(*sample), 0);
	if (!sample)
		return;
	if (length > DNS_SAMPLE_NAME)
		length = DNS_SAMPLE_NAME;
	length -= 1;
	barrier_var(length);
	length &= DNS_SAMPLE_NAME - 1;
	length += 1;
	sample->server = client->server;
	sample->length = length;
	if (bpf_skb_load_bytes(skb, name, sample->name, length) < 0)
		sample->length = 0;
	bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
}

static __always_inline struct dns_row *count_row(__u32 slot)
{
	struct dns_row *row = bpf_map_lookup_elem(&row_counts, &slot);

	add(row ? &row->queries : &control.lost_rows);
	return row;
}

/* Counts packets to a server that are not UDP queries. */
static __always_inline void count_packet(__u32 slot, __u32 n, bool encrypted, __u64 now)
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
	add_many(&server->bins[bin_of(now)], n * DNS_BIN_PACKET);
}

/* Counts a message without a DNS header. */
static __always_inline void count_unreadable(struct __sk_buff *skb, __u32 transport, __u64 now)
{
	__u32 slot = slot_of_receiver(skb);
	struct dns_server *server = server_at(slot == NO_SLOT ? 0 : slot);

	if (server)
		add(&server->totals.malformed);
	if (transport == DNS_UDP)
		count_packet(slot, 1, false, now);
}

static __always_inline bool is_repeated(struct __sk_buff *skb, const struct dns_row_key *client,
	__u64 slots, struct ask *ask, __u64 tracked, __u64 now)
{
	if (!ask->connected)
		ask->answerer = tracked & ~7ULL ? answerer_of(skb, ask->answerer)
						: ask->answerer | DNS_CERTAIN;
	return remember(client, slots, ask, now);
}

/* A query over TCP that is a packet of its own, which count_query() counts too. */
#define DNS_TCP_PACKET (DNS_TCP | 2)

/* Counts a query at offset. tracked: see tracking_of(). */
static __always_inline int count_query(
	struct __sk_buff *skb, __u64 read, __u32 offset, __u32 transport, __u64 now, __u64 tracked)
{
	struct dns_row_key client = {.type = dns_read_class(read), .suffix = dns_read_suffix(read)};
	struct ask ask = {.question = dns_read_question(read), .id = read};
	struct dns_server *server;
	struct dns_row *row;
	__u64 slots;

	if (!(read & DNS_READ_HEADER)) {
		count_unreadable(skb, transport, now);
		return 0;
	}
	client.server.family = address_of(skb, EGRESS, client.server.address);
	if (!client.server.family)
		return 0;
	client.cgroup = bpf_skb_cgroup_id(skb);
	if (client.cgroup == control.root_cgroup)
		client.source_family = address_of(skb, INGRESS, client.source);
	ask.answerer = hash_address(client.server.address);
	slots = slots_of(&client);
	server = server_at(SERVER_SLOT(slots));
	if (!server)
		return 0;
	add(&server->totals.queries[transport & 1]);
	add_many(&server->bins[bin_of(now)],
		transport == DNS_TCP ? DNS_BIN_QUERY : DNS_BIN_QUERY + DNS_BIN_PACKET);
	if (transport == DNS_TCP_PACKET)
		add(&server->totals.other_packets);
	if (read & DNS_READ_MALFORMED)
		add(&server->totals.malformed);
	if (read & DNS_READ_EDNS)
		add(&server->totals.edns);
	/* Before the query is stored: an atomic operation waits for the stores before it. */
	row = count_row(ROW_SLOT(slots));
	/* Answers to raw sockets do not count. A message of RFC 8490 with id 0 has no answer. */
	if (!(read & DNS_READ_ONE_WAY) && ask_of(skb, transport != DNS_UDP, &ask) &&
		is_repeated(skb, &client, slots, &ask, tracked, now)) {
		add(&server->totals.retransmissions);
		if (row)
			add(&row->retransmissions);
	}
	if (control.sample_share)
		sample(skb, &client, offset, now);
	return 0;
}

static __always_inline void count_error(const struct dns_pending *query, __u64 rcode)
{
	__u32 slot = query->row;
	struct dns_row *row = bpf_map_lookup_elem(&row_counts, &slot);

	if (row)
		add(rcode == DNS_NXDOMAIN ? &row->nxdomain : &row->failures);
}

static __always_inline void count_answered(
	struct dns_server *server, const struct dns_pending *query, __u64 rcode, __u64 latency)
{
	__u32 bucket = dns_latency_bucket(latency);

	add_many(&server->totals.latency_ns, latency);
	barrier_var(bucket);
	add(&server->totals.latency[bucket & (DNS_LATENCY_BUCKETS - 1)]);
	if (rcode != DNS_NOERROR && rcode != DNS_RCODE_OTHER)
		count_error(query, rcode);
	if (rcode == DNS_NOERROR && query->suffix == DNS_SUFFIX_CLUSTER)
		add(&server->totals.cluster_answers);
}

/* Counts an answer that can belong to a query. True if it is the first one. */
static __always_inline int count_answer(
	struct __sk_buff *skb, __u64 read, struct ask *ask, __u64 now)
{
	struct dns_server *server = NULL;
	struct dns_pending *query;
	struct dns_key key = {0};
	__u64 rcode = dns_read_rcode(read), sent, latency;

	key.family = address_of(skb, INGRESS, key.address);
	ask->answerer = hash_address(key.address);
	ask->question = dns_read_question(read);
	query = read & DNS_READ_HEADER ? recall(ask, now) : NULL;
	if (query)
		server = server_at(query->server);
	if (!server) {
		add(&control.unmatched);
		return 0;
	}
	sent = *(volatile __u64 *)&query->sent_ns;
	/* A transfer of a zone is an answer in many messages: RFC 5936. */
	if (!ask->port && (sent & DNS_FATE_MASK) == DNS_FATE_ANSWERED)
		return 0;
	if (read & DNS_READ_MALFORMED)
		add(&server->totals.malformed);
	add(&server->totals.responses[rcode]);
	if (read & DNS_READ_TRUNCATED)
		add(&server->totals.truncated);
	latency = now > sent ? now - sent : 0;
	if (!is_waiting(sent) || latency > DNS_TIMEOUT_NS) {
		add(&server->totals.late);
		return 0;
	}
	count_answered(server, query, rcode, latency);
	*(volatile __u64 *)&query->sent_ns = sent | DNS_FATE_ANSWERED;
	return 1;
}

/*
 * Parses a message with any name. The programs call the steps one after the other: nested
 * calls would need too much stack.
 */
__noinline __u64 parse_slowly(struct __sk_buff *skb, __u32 offset, __u32 visible, __u32 length)
{
	struct dns_frame frame = {.visible = visible, .length = length};

	return dns_frame_read(&frame, dns_read_by_words(skb, offset, visible));
}

/*
 * Counts a sent message. Answers belong to a server on this host and do not count, except the
 * packet of an answer to port 53.
 */
static __always_inline int count_sent_read(
	struct __sk_buff *skb, __u64 read, __u32 offset, __u32 transport, __u64 now, __u64 tracked)
{
	if (!(read & DNS_READ_ANSWER))
		count_query(skb, read, offset, transport, now, tracked);
	else if (transport == DNS_UDP && !is_from_port_53(skb))
		count_packet(slot_of_receiver(skb), 1, false, now);
	return 0;
}

__noinline int count_sent(
	struct __sk_buff *skb, __u64 read, __u32 offset, __u32 transport, __u64 now)
{
	return count_sent_read(skb, read, offset, transport, now, ~0ULL);
}

/* Whether a received message can be the answer to a query. */
__noinline int is_wanted(struct __sk_buff *skb, __u32 offset, __u32 transport, __u64 now)
{
	struct ask ask = {.id = __builtin_bswap64(dns_word(skb, offset)) >> 48};

	if (ask_of(skb, transport == DNS_TCP, &ask) && expect(&ask, now))
		return 1;
	add(&control.unmatched);
	return 0;
}

/* Counts a received answer. True if it is the first one to a query. */
static __always_inline int count_received_read(
	struct __sk_buff *skb, __u64 read, __u32 transport, __u64 now)
{
	struct ask ask = {.id = read};

	if (read & DNS_READ_HEADER && !(read & DNS_READ_ANSWER))
		return 0;
	if (!ask_of(skb, transport == DNS_TCP, &ask))
		return 0;
	return count_answer(skb, read, &ask, now);
}

__noinline int count_received(struct __sk_buff *skb, __u64 read, __u32 transport, __u64 now)
{
	return count_received_read(skb, read, transport, now);
}

/*
 * Counts a message that was parsed from a copy; read is 0 if that failed. True for the first answer
 * to a query.
 */
static __always_inline int count_message(struct __sk_buff *skb, const struct dns_frame *frame,
	__u64 read, __u32 transport, enum direction direction, __u64 now)
{
	if (!read && frame->visible >= DNS_HEADER) {
		/* A remote host must not choose this work. */
		if (direction == INGRESS && !is_wanted(skb, frame->offset, transport, now))
			return 0;
		read = parse_slowly(skb, frame->offset, frame->visible, frame->length);
	}
	if (direction == INGRESS)
		return count_received(skb, read, transport, now);
	return count_sent(skb, read, frame->offset, transport, now);
}

#endif
