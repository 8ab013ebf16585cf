/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_PENDING_H
#define BPF_DNS_PENDING_H

/* Queries and the matching of answers. */

#include "dns_slots.h"
#include "kernel_types.h"

#include <bpf/bpf_core_read.h>

#define SOCK_RAW    3
#define ESTABLISHED 1 /* the state of a socket that is connected */

/* The port of a raw socket is its protocol number. */
#define RAW_PORTS 256

static __always_inline struct bpf_sock *socket_of(struct __sk_buff *skb)
{
	struct bpf_sock *socket = skb->sk;

	return socket ? bpf_sk_fullsock(socket) : NULL;
}

/* These programs only run for full sockets. The helper is called only where the type is needed. */
static __always_inline bool is_raw(struct bpf_sock *socket)
{
	if (socket->src_port >= RAW_PORTS)
		return false;
	socket = bpf_sk_fullsock(socket);
	return !socket || socket->type == SOCK_RAW;
}

/* The parts that a query shares with its answer. */
struct ask {
	__u64 cookie; /* of the socket */
	__u64 index;  /* the UDP port, or the cookie, with the id */
	__u32 question, answerer;
	__u16 id, port;
	bool connected; /* the kernel drops answers from other addresses */
};

/*
 * The cookie differs between sockets with the same port in several namespaces. Sockets with
 * SO_REUSEPORT share the port and receive each other's answers. False for a raw socket, which
 * receives copies of the packets of other sockets.
 */
static __always_inline bool ask_of(struct __sk_buff *skb, bool tcp, struct ask *ask)
{
	struct bpf_sock *socket = skb->sk;

	if (!socket || is_raw(socket))
		return false;
	ask->cookie = bpf_get_socket_cookie(skb);
	ask->connected = tcp || socket->state == ESTABLISHED;
	ask->port = 0;
	if (!tcp) /* BPF_PROG_TEST_RUN uses a socket without a port. */
		ask->port = socket->src_port ? socket->src_port : 1;
	ask->index = ((ask->port ? ask->port : ask->cookie) << 16 ^ ask->id) * DNS_HASH_FACTOR;
	return true;
}

static __always_inline bool is_from_port_53(struct __sk_buff *skb)
{
	const struct bpf_sock *socket = socket_of(skb);

	return socket && socket->src_port == 53;
}

static __always_inline __u32 hash_address(const __u8 *address)
{
	return mix_address(address) >> 32 & ~DNS_CERTAIN;
}

/*
 * The packet's entry in connection tracking and three bits, or all bits set if a helper must read
 * them, which takes 24 ns. Where the kernel has bpf_cast_to_kern_ctx(), from Linux 6.2 on, user
 * space puts a call of it in the place of the second instruction.
 */
static __always_inline __u64 tracking_of(struct __sk_buff *skb)
{
	const struct sk_buff *packet;

	asm volatile("r1 = %[skb]; r0 = %[cast]; %[packet] = r0"
		: [packet] "=r"(packet)
		: [skb] "r"(skb), [cast] "i"(DNS_CAST)
		: "r0", "r1", "r2", "r3", "r4", "r5");
	if (packet == (void *)DNS_CAST || !bpf_core_field_exists(packet->_nfct))
		return ~0ULL;
	return packet->_nfct;
}

/*
 * The address that answers a query of a socket that is not connected: that of the packet, unless
 * connection tracking has translated it. Then the answer comes from the original one.
 */
__noinline __u32 answerer_of(struct __sk_buff *skb, __u32 packet)
{
	unsigned long tracked = 0;
	const struct nf_conn *connection;
	__u8 original[16];

	if (bpf_core_field_exists(((struct sk_buff *)0)->_nfct))
		bpf_probe_read_kernel(&tracked, sizeof(tracked),
			(void *)skb + bpf_core_field_offset(((struct sk_buff *)0)->_nfct));
	connection = (void *)(tracked & ~7UL);
	if (!connection)
		return packet | DNS_CERTAIN;
	if (!bpf_core_type_exists(struct nf_conn) ||
		bpf_probe_read_kernel(
			original, sizeof(original), &connection->tuplehash[0].tuple.dst.u3) < 0)
		return packet;
	return hash_address(original) | DNS_CERTAIN;
}

/* The highest bits keep successive ids apart. */
#define PRIMARY_PAIR(ask_index) ((ask_index) >> 55 & (DNS_PRIMARY * DNS_WAYS / 2 - 1))

/* The first of two ways, which share a cache line. */
static __always_inline struct dns_pending *primary_of(__u64 ask_index)
{
	__u32 index = PRIMARY_PAIR(ask_index) / (DNS_WAYS / 2);
	struct dns_bucket *bucket = bpf_map_lookup_elem(&pending, &index);

	return bucket ? &bucket->ways[PRIMARY_PAIR(ask_index) % (DNS_WAYS / 2) * 2] : NULL;
}

#define OVERFLOW_NS 1000000 /* control.overflow_ns is this much behind at most */

#define OVERFLOW_INDEX(ask_index) ((ask_index) >> 40 & (DNS_OVERFLOW - 1))

static __always_inline struct dns_bucket *overflow_of(__u64 ask_index)
{
	__u32 index = DNS_PRIMARY + OVERFLOW_INDEX(ask_index);

	return bpf_map_lookup_elem(&pending, &index);
}

/* The maximum of two numbers below 2^63, without a branch. */
static __always_inline __u64 larger(__u64 a, __u64 b)
{
	__u64 less = a - b;

	asm volatile("%0 s>>= 63" : "+r"(less));
	return a ^ ((a ^ b) & less);
}

/* Another CPU may have written a later time than now. */
static __always_inline __u64 age_of(__u64 sent, __u64 now)
{
	return larger(sent, now) - sent;
}

static __always_inline bool is_overflow_used(__u64 now)
{
	return age_of(*(volatile __u64 *)&control.overflow_ns, now) < DNS_KEPT_NS + OVERFLOW_NS;
}

static __always_inline bool is_waiting(__u64 sent)
{
	return sent && !(sent & DNS_FATE_MASK);
}

/* Writes sent_ns last: user space reads the other fields only of a complete query. */
static __always_inline void put(struct dns_pending *way, const struct dns_row_key *client,
	__u64 slots, const struct ask *ask, __u64 now)
{
	__u32 row = ROW_SLOT(slots);

	*(volatile __u64 *)&way->sent_ns = 0;
	way->cookie = ask->cookie;
	way->question = ask->question;
	way->answerer = ask->answerer;
	way->id = ask->id;
	way->port = ask->port;
	way->row = row < DNS_ROWS_MAX ? row : DNS_NO_ROW;
	way->server = SERVER_SLOT(slots) & 0x3fff;
	way->suffix = client->suffix;
	barrier();
	*(volatile __u64 *)&way->sent_ns = now & ~(__u64)DNS_FATE_MASK;
}

/* A repetition, which begins no new query. */
static __always_inline bool is_again(
	const struct dns_pending *query, const struct ask *ask, __u64 slots, __u64 now)
{
	__u64 sent = *(volatile __u64 *)&query->sent_ns;

	return query->cookie == ask->cookie && query->id == ask->id &&
	       query->question == ask->question && is_waiting(sent) &&
	       age_of(sent, now) <= DNS_TIMEOUT_NS && query->answerer == ask->answerer &&
	       query->server == (SERVER_SLOT(slots) & 0x3fff);
}

static __always_inline bool is_free(const struct dns_pending *way, __u64 now)
{
	__u64 sent = *(volatile __u64 *)&way->sent_ns;

	return !is_waiting(sent) || age_of(sent, now) > DNS_TIMEOUT_NS;
}

/* Counts a query whose way a newer one gets. */
static __always_inline void displace(const struct dns_pending *query, __u64 now)
{
	__u64 sent = *(volatile __u64 *)&query->sent_ns;
	struct dns_server *server;

	if (!is_waiting(sent))
		return;
	server = server_at(query->server);
	if (server)
		add(age_of(sent, now) > DNS_TIMEOUT_NS ? &server->totals.expired
						       : &server->totals.displaced);
}

/* Frees a way of the overflow bucket and returns its number: a free one or the oldest. */
__noinline __u32 make_room(__u64 index, __u64 now)
{
	struct dns_bucket *bucket = overflow_of(index);
	__u64 oldest = 0;
	__u32 found;

	if (!bucket)
		return 0;
	/* The age of the oldest in units of 16 ns, and its number. */
	for (__u32 i = 0; i < DNS_WAYS; i++) {
		__u64 sent = *(volatile __u64 *)&bucket->ways[i].sent_ns;
		__u64 waiting = 1 - dns_nonzero(sent & DNS_FATE_MASK);

		oldest = larger(oldest, age_of(sent * waiting, now) >> 4 << 3 | i);
	}
	found = oldest;
	barrier_var(found);
	displace(&bucket->ways[found & (DNS_WAYS - 1)], now);
	return found;
}

/* Looks for a repetition in the overflow bucket, which is not looked at again while it is empty. */
static __always_inline bool is_in_overflow(const struct ask *ask, __u64 slots, __u64 now)
{
	volatile __u8 *used = &control.overflow_used[OVERFLOW_INDEX(ask->index)];
	const struct dns_bucket *bucket;
	bool waiting = false;

	if (!*used)
		return false;
	bucket = overflow_of(ask->index);
	for (int i = 0; bucket && i < DNS_WAYS; i++) {
		if (is_again(&bucket->ways[i], ask, slots, now))
			return true;
		waiting |= is_waiting(bucket->ways[i].sent_ns);
	}
	if (!waiting)
		*used = 0;
	return false;
}

/* Every packet reads these cache lines: they are written only if they change. */
static __always_inline void use_overflow(const struct ask *ask, __u64 now)
{
	volatile __u8 *used = &control.overflow_used[OVERFLOW_INDEX(ask->index)];
	volatile __u64 *last = &control.overflow_ns;

	if (!*used)
		*used = 1;
	if (age_of(*last, now) >= OVERFLOW_NS)
		*last = now;
}

/*
 * Stores a query. True for a retransmission. Two CPUs may write the same way at once: then a few
 * answers in a million match no query.
 */
static __always_inline bool remember(
	const struct dns_row_key *client, __u64 slots, const struct ask *ask, __u64 now)
{
	struct dns_pending *primary = primary_of(ask->index);
	struct dns_bucket *bucket;
	__u32 way;

	if (!primary)
		return false;
	if (is_again(primary, ask, slots, now) || is_again(primary + 1, ask, slots, now) ||
		is_in_overflow(ask, slots, now))
		return true;
	if (!is_free(primary, now))
		primary++;
	if (is_free(primary, now)) {
		displace(primary, now);
		put(primary, client, slots, ask, now);
		return false;
	}
	way = make_room(ask->index, now);
	bucket = overflow_of(ask->index);
	if (!bucket)
		return false;
	barrier_var(way);
	put(&bucket->ways[way & (DNS_WAYS - 1)], client, slots, ask, now);
	use_overflow(ask, now);
	return false;
}

#define MATCH_BEST 8

/*
 * Returns how well the answer matches the query. NAT may translate an uncertain address: then an
 * answer from any address matches, unless another query matches better. The function has no
 * branches, because the verifier would follow them all.
 */
static __always_inline __u32 match(
	const struct dns_pending *query, const struct ask *ask, __u64 now)
{
	__u64 sent = *(volatile __u64 *)&query->sent_ns, age = now - sent;
	__u64 other_socket = dns_nonzero(query->cookie ^ ask->cookie);
	__u64 other_address = dns_nonzero((query->answerer ^ ask->answerer) & ~DNS_CERTAIN);
	__u64 done = dns_nonzero(sent & DNS_FATE_MASK);
	__u64 wrong = (query->id ^ ask->id) | (query->port ^ ask->port);

	wrong |= other_socket & (1 - dns_nonzero(ask->port));
	wrong |= dns_nonzero(query->question) & dns_nonzero(ask->question) &
		 dns_nonzero(query->question ^ ask->question);
	wrong |= other_address & !ask->connected & query->answerer & DNS_CERTAIN;
	wrong |= (1 - dns_nonzero(sent)) | (DNS_KEPT_NS - age) >> 63;
	return (8 - done * 4 - other_socket * 2 - other_address) & (dns_nonzero(wrong) - 1);
}

/* The way of a number: the primary ways have 1 and 2, those of the overflow bucket follow. */
static __always_inline struct dns_pending *way_of(__u64 ask_index, __u32 number)
{
	__u32 way = number > 2 ? number - 3 : PRIMARY_PAIR(ask_index) * 2 + number - 1;
	__u32 index = number > 2 ? DNS_PRIMARY + OVERFLOW_INDEX(ask_index)
				 : PRIMARY_PAIR(ask_index) / (DNS_WAYS / 2);
	struct dns_bucket *bucket = bpf_map_lookup_elem(&pending, &index);

	if (!bucket)
		return NULL;
	barrier_var(way);
	return &bucket->ways[way & (DNS_WAYS - 1)];
}

/* The number of the best way for an answer, or 0. ids: id, port and whether it is connected. */
__noinline __u32 find_query(__u64 cookie, __u64 index, __u64 hashes, __u64 ids, __u64 now)
{
	const struct ask ask = {.cookie = cookie,
		.question = hashes,
		.answerer = hashes >> 32,
		.id = ids,
		.port = ids >> 16,
		.connected = ids >> 32};
	const struct dns_pending *primary = primary_of(index);
	__u64 best = primary ? larger(match(primary, &ask, now) << 4 | 1,
				       match(primary + 1, &ask, now) << 4 | 2)
			     : 0;
	const struct dns_bucket *bucket;

	if (best >> 4 != MATCH_BEST && is_overflow_used(now)) {
		bucket = overflow_of(index);
#pragma clang loop unroll(disable)
		for (__u32 i = 0; bucket && i < DNS_WAYS; i++)
			best = larger(best, match(&bucket->ways[i], &ask, now) << 4 | (i + 3));
	}
	return best >> 4 ? best & 15 : 0;
}

static __always_inline __u32 find(const struct ask *ask, bool any, __u64 now)
{
	return find_query(ask->cookie, ask->index,
		any ? 0 : ask->question | (__u64)ask->answerer << 32,
		ask->id | (__u64)ask->port << 16 | (__u64)(any || ask->connected) << 32, now);
}

static __always_inline bool is_of_socket(const struct dns_pending *query, const struct ask *ask)
{
	return query->cookie == ask->cookie && query->id == ask->id && query->port == ask->port;
}

/* Whether a query can have this answer. The question is not known yet. */
static __always_inline bool expect(const struct ask *ask, __u64 now)
{
	const struct dns_pending *primary = primary_of(ask->index);

	return (primary && (is_of_socket(primary, ask) || is_of_socket(primary + 1, ask))) ||
	       find(ask, true, now);
}

static __always_inline bool is_answered_by(const struct dns_pending *query, const struct ask *ask)
{
	return is_of_socket(query, ask) && query->question == ask->question &&
	       query->answerer >> 1 == ask->answerer >> 1 && is_waiting(query->sent_ns);
}

/* Finds the query of an answer. */
static __always_inline struct dns_pending *recall(const struct ask *ask, __u64 now)
{
	struct dns_pending *primary = primary_of(ask->index);
	__u32 number;

	if (primary && is_answered_by(primary, ask))
		return primary;
	if (primary && is_answered_by(primary + 1, ask))
		return primary + 1;
	number = find(ask, false, now);
	return number ? way_of(ask->index, number) : NULL;
}

#endif
