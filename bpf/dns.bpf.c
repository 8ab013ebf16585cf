// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts the DNS queries that sockets of this host send to port 53, and their answers. The programs
 * never change or drop a packet.
 *
 *   parse   inspect() finds the transport and the ports, read_question() the name of a query
 *   who     pair_of() finds the client and the server
 *   match   expect_answer() keeps a query, and take_query() finds it when the answer comes
 *   count   count_query() and count_answer() add to the counts of the pair
 *
 * Of an answer only the first four bytes are read: the id, and the flags with the response code. So
 * a remote host cannot choose the work.
 *
 * The verifier checks a function that is not static once for all callers; on Linux 5.10 its
 * arguments must be numbers or the context, and it may return only a number.
 */
#include "kernel_types.h"

#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "map.h"

#include <headroom/bpf/dns.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define PASS 1 /* 0 would drop the packet */

#define PORT_DNS bpf_htons(53)
#define PORT_DOT bpf_htons(853)

enum direction { EGRESS, INGRESS, DIRECTIONS };

struct dns_control control;

MAP(headroom_pairs, HASH, BPF_F_NO_PREALLOC, DNS_PAIRS_MAX, struct dns_pair, struct dns_counts);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8192);
} samples SEC(".maps");

static const struct dns_counts no_counts;
static const struct dns_pair other;

static __always_inline void add(__u64 *counter, __u64 n)
{
	__sync_fetch_and_add(counter, n);
}

#define FACTOR 0x9e3779b97f4a7c15ULL

static __always_inline __u64 mix(__u64 hash, __u64 value)
{
	hash = (hash ^ value) * FACTOR;
	return hash ^ hash >> 32;
}

/* Parse. */

#define HEADER   12 /* bytes of a message before the question: RFC 1035 4.1.1 */
#define NAME_MAX 255
#define TYPE_OPT 41 /* RFC 6891 6.1.2 */

#define FLAG_ANSWER    0x8000
#define FLAG_TRUNCATED 0x0200
#define OPCODE(head)   ((head) >> 11 & 15)
#define OPCODE_DSO     6 /* RFC 8490: an id of 0 asks for no answer */

#define MESSAGE_MAX 512 /* bytes that are read: a name needs fewer. A power of two */

/*
 * The first bytes of a query. Maps allow a variable offset, the stack does not. Another packet can
 * interrupt this one on the same CPU: owner, the address of its packet, changes then.
 */
struct message {
	__u64 owner;
	__u8 bytes[MESSAGE_MAX + 8 * DNS_SUFFIX_WORDS + 8];
};

MAP(messages, PERCPU_ARRAY, 0, 1, __u32, struct message);

static __always_inline struct message *this_message(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&messages, &first);
}

/* The compiler must not remove the bound, which the verifier needs. */
static __always_inline const void *byte_at(const struct message *message, __u32 at)
{
	barrier_var(at);
	return message->bytes + (at & (MESSAGE_MAX - 1));
}

static __always_inline __u64 word_at(const struct message *message, __u32 at)
{
	return *(const volatile __u64 *)byte_at(message, at);
}

static __always_inline __u32 short_at(const struct message *message, __u32 at)
{
	return bpf_ntohs(*(const volatile __u16 *)byte_at(message, at));
}

/* Converts the letters A to Z in eight bytes to lower case. The length of a label is never a
 * letter. */
static __always_inline __u64 lower(__u64 word)
{
	const __u64 each = 0x0101010101010101ULL;
	__u64 low = word & each * 0x7f;
	__u64 letters = (low + each * (0x80 - 'A')) & ~(low + each * (0x7f - 'Z')) & ~word;

	return word | (letters & each * 0x80) >> 2;
}

/* The size of the name, with the last zero. 0 if the first n bytes of the message lack its end. */
__noinline __u32 read_name(__u32 n)
{
	const struct message *message = this_message();
	__u32 at = HEADER;

	for (int i = 0; message && i <= NAME_MAX / 2; i++) {
		__u32 size = *(const __u8 *)byte_at(message, at);

		if (at >= n || size > 63 || at >= HEADER + NAME_MAX)
			return 0;
		at++;
		if (size == 0)
			return at - HEADER;
		at += size;
	}
	return 0;
}

/* Never 0. */
__noinline __u32 hash_question(__u32 size)
{
	const struct message *message = this_message();
	__u64 hash = 0;

	for (__u32 at = 0; message && at < size && at < NAME_MAX + 8; at += 8) {
		__u64 word = word_at(message, HEADER + at);

		if (size - at < 8)
			word <<= 8 * (8 - (size - at));
		hash = mix(hash, lower(word));
	}
	return hash | 1;
}

/* The enum dns_suffix_class of a name with this size. */
__noinline __u32 classify_suffix(__u32 size)
{
	const struct message *message = this_message();

	for (int i = 0; message && i < DNS_SUFFIXES; i++) {
		const struct dns_suffix *suffix = &control.suffixes[i];
		__u32 at = HEADER + size - suffix->size;
		int word = 0;

		if (suffix->size == 0)
			break;
		if (suffix->size > size)
			continue;
		while (word < DNS_SUFFIX_WORDS && suffix->words[word].mask &&
			(lower(word_at(message, at + 8 * word)) & suffix->words[word].mask) ==
				suffix->words[word].bytes)
			word++;
		if (word == DNS_SUFFIX_WORDS || !suffix->words[word].mask)
			return suffix->class;
	}
	return DNS_SUFFIX_NONE;
}

struct question {
	__u32 head; /* the id, and in the lower half the flags */
	__u32 hash; /* 0: not seen */
	__u32 suffix;
	bool malformed, edns;
};

/* Reads the query at offset. The packet has n bytes of it, at least HEADER. */
static __always_inline void read_question(
	struct __sk_buff *skb, __u32 offset, __u32 n, struct question *question)
{
	struct message *message = this_message();
	__u32 questions, records, size, end;

	if (!message)
		return;
	if (n > MESSAGE_MAX)
		n = MESSAGE_MAX;
	message->owner = (unsigned long)skb;
	n -= 1; /* the verifier of 5.10 must see that n is at least 1 */
	barrier_var(n);
	n &= MESSAGE_MAX - 1;
	n += 1;
	if (bpf_skb_load_bytes(skb, offset, message->bytes, n) < 0)
		return;
	question->head = short_at(message, 0) << 16 | short_at(message, 2);
	questions = short_at(message, 4);
	records = short_at(message, 6) | short_at(message, 8);
	question->malformed =
		questions > 1; /* RFC 9619; a message with a cookie (RFC 7873) may have 0 */
	if (questions != 1)
		return;
	size = read_name(n);
	end = HEADER + size + 4; /* of type and class */
	question->malformed = size == 0 || end > n;
	if (question->malformed)
		return;
	question->edns = records == 0 && short_at(message, 10) && end + 3 <= n &&
			 word_at(message, end) << 40 == (__u64)bpf_htons(TYPE_OPT) << 48;
	question->hash = hash_question(size + 4);
	question->suffix = classify_suffix(size);
	if (message->owner != (unsigned long)skb)
		question->hash = question->suffix = 0;
}

/* Who. */

#define ESTABLISHED 1 /* the state of a socket that is connected */
#define SOCK_RAW    3
#define ETH_P_IP    0x0800

/* Copies the packet's destination or source. False without one. */
static __always_inline bool read_address(
	struct __sk_buff *skb, bool destination, struct dns_address *address)
{
	const struct ipv6hdr *six = (void *)(long)skb->data;
	const struct iphdr *four = (void *)(long)skb->data;
	const void *end = (void *)(long)skb->data_end;
	__u32 *words = (__u32 *)address;

	if ((void *)(four + 1) > end)
		return false;
	if (four->version == 4) {
		words[2] = bpf_htonl(0xffff);
		words[3] = destination ? four->daddr : four->saddr;
		return true;
	}
	if ((void *)(six + 1) > end)
		return false;
	__builtin_memcpy(address, destination ? &six->daddr : &six->saddr, 16);
	return true;
}

/* Finds the pair of a sent packet. */
static __always_inline bool pair_of(struct __sk_buff *skb, struct dns_pair *pair)
{
	pair->cgroup = bpf_skb_cgroup_id(skb);
	return read_address(skb, false, &pair->source) && read_address(skb, true, &pair->server);
}

/* Finds or adds the counts of the pair. Without room, other counts take its place: struct dns_pair.
 */
static __always_inline struct dns_counts *counts_of(struct dns_pair *pair)
{
	struct dns_counts *counts = element_of(&headroom_pairs, pair, &no_counts);

	if (counts)
		return counts;
	add(&control.lost_pairs, 1);
	__builtin_memset(&pair->source, 0, sizeof(pair->source));
	pair->cgroup = 0;
	counts = bpf_map_lookup_elem(&headroom_pairs, pair);
	if (counts)
		return counts;
	*pair = other;
	return bpf_map_lookup_elem(&headroom_pairs, pair);
}

/* The destination of a connection's first packet, before any translation. */
struct original {
	__u32 address[4];
	__u16 port;
	__u8 protocol;
	__u8 direction; /* 0 in the tuple of the first packet */
};

/* In this struct nf_conn's place on Linux 5.10 to 7.x: its type can be missing, in a module. */
#define ORIGINAL_OFFSET 52

/*
 * Reads the destination that connection tracking has kept. False without one, and for an answer:
 * the program runs behind the translation, in the namespace that translates.
 */
static __always_inline bool read_original(struct __sk_buff *skb, struct original *original)
{
	__u32 offset = bpf_core_type_exists(struct nf_conn)
			       ? bpf_core_field_offset(struct nf_conn, tuplehash[0].tuple.dst)
			       : ORIGINAL_OFFSET;
	unsigned long tracked = 0;

	if (!bpf_core_field_exists(((struct sk_buff *)0)->_nfct))
		return false;
	bpf_probe_read_kernel(&tracked, sizeof(tracked),
		(void *)skb + bpf_core_field_offset(((struct sk_buff *)0)->_nfct));
	/* The lowest bits are an enum ip_conntrack_info: answers are the third and above. */
	if ((tracked & ~7UL) == 0 || (tracked & 7) >= 3)
		return false;
	return bpf_probe_read_kernel(
		       original, sizeof(*original), (void *)(tracked & ~7UL) + offset) == 0 &&
	       original->direction == 0;
}

/*
 * Whether a packet to another port was sent to port 53 and translated, as in the networks of Docker
 * (127.0.0.11). A connected socket knows the port.
 */
static __always_inline bool was_sent_to_dns(struct __sk_buff *skb, __u32 protocol)
{
	const volatile struct bpf_sock *socket = skb->sk;
	struct original original;
	__u32 port;

	if (!socket)
		return false;
	port = *(const volatile __u32 *)&socket->dst_port; /* Linux 5.10 wants four bytes */
	if (port || protocol != IPPROTO_UDP)
		return (__u16)port == PORT_DNS;
	return read_original(skb, &original) && original.port == PORT_DNS &&
	       original.protocol == IPPROTO_UDP;
}

static __always_inline bool is_raw(struct bpf_sock *socket)
{
	return socket->type == SOCK_RAW;
}

static __always_inline struct bpf_sock *socket_of(struct __sk_buff *skb)
{
	return skb->sk ? bpf_sk_fullsock(skb->sk) : NULL;
}

/* Match: the pending queries. */

#define ROOM 16 /* queries in a bucket; a power of two */

struct query {
	__u64 sent_ns; /* of the first transmission */
	struct dns_pair pair;
	__u32 question; /* hash of name, type and class; 0: not seen */
	__u32 suffix;   /* enum dns_suffix_class */
	__u64 superseded;
};

/* Queries by their key. It is small: a table that fits the cache costs half as much. */
struct bucket {
	__u64 keys[ROOM]; /* see key_of(); free if the lower half is 0 */
	struct query queries[ROOM];
};

/*
 * The key of free room whose query had a good answer. A fast server can answer before the client
 * has sent the question to its other servers.
 */
#define ANSWERED(key) ((key) & ~0ULL << 32)
#define TWINS_NS      DNS_BIN_NS /* a client asks all its servers within this time */

static __always_inline bool is_free(__u64 key)
{
	return (__u32)key == 0;
}

MAP(buckets, ARRAY, 0, DNS_BUCKETS, __u32, struct bucket);

/* Queries with the same id of a socket share a bucket, whatever their server. */
static __always_inline struct bucket *bucket_of(__u64 key)
{
	__u32 index = key >> 56 & (DNS_BUCKETS - 1);

	return bpf_map_lookup_elem(&buckets, &index);
}

/* The address that a connected socket knows: before translation. The verifier wants plain loads. */
static __always_inline void read_peer(
	struct __sk_buff *skb, const volatile struct bpf_sock *socket, __u32 *address)
{
	__u32 four = socket->dst_ip4, six[4] = {socket->dst_ip6[0], socket->dst_ip6[1],
					      socket->dst_ip6[2], socket->dst_ip6[3]};

	if (skb->protocol == bpf_htons(ETH_P_IP))
		address[3] = four;
	else
		__builtin_memcpy(address, six, sizeof(six));
}

/* The address that the answer to this query of an unconnected socket comes from. */
static __always_inline void read_answerer(struct __sk_buff *skb, __u32 *address)
{
	struct original original;

	read_address(skb, true, (struct dns_address *)address);
	if (!read_original(skb, &original))
		return;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		address[3] = original.address[0];
	else
		__builtin_memcpy(address, original.address, sizeof(original.address));
}

/*
 * A hash of what a query and its answer have in common: in the upper half, the socket's port and
 * cgroup and the id; in the lower half also the address that the answer comes from. 0 for a raw
 * socket, which receives copies of the answers to other sockets.
 */
static __always_inline __u64 key_of(
	struct __sk_buff *skb, enum direction direction, __u32 transport, __u32 id)
{
	struct bpf_sock *socket = socket_of(skb);
	__u32 peer[4] = {0, 0, bpf_htonl(0xffff)};
	__u64 asked, key;

	if (!socket || is_raw(socket))
		return 0;
	if (transport == DNS_TCP || socket->state == ESTABLISHED)
		read_peer(skb, socket, peer);
	else if (direction == EGRESS)
		read_answerer(skb, peer);
	else
		read_address(skb, false, (struct dns_address *)peer);
	asked = mix(control.seed, bpf_skb_cgroup_id(skb));
	asked = mix(asked, (__u64)transport << 32 | socket->src_port << 16 | id);
	key = ((__u64)peer[0] << 32 | peer[1]) * FACTOR;
	key = mix(asked, key + ((__u64)peer[2] << 32 | peer[3]));
	return ANSWERED(asked) | (__u32)key | 1;
}

static __always_inline bool is_old(const struct query *query, __u64 now)
{
	return now - query->sent_ns > DNS_TIMEOUT_NS;
}

/* Frees the old queries of a full bucket, or a pending one, whose answer is then not recognised. */
__noinline __u32 make_room(__u64 key, __u64 now)
{
	__u32 victim = key >> 1 & (ROOM - 1), free = ROOM;
	struct bucket *bucket = bucket_of(key);
	struct dns_counts *counts;

	for (__u32 i = 0; bucket && i < ROOM; i++) {
		if (is_old(&bucket->queries[i], now)) {
			bucket->keys[i] = 0;
			free = i;
		}
	}
	if (!bucket || free < ROOM)
		return free;
	barrier_var(victim);
	victim &= ROOM - 1;
	counts = bpf_map_lookup_elem(&headroom_pairs, &bucket->queries[victim].pair);
	if (counts && !bucket->queries[victim].superseded)
		add(&counts->counters.not_followed, 1);
	return victim;
}

/*
 * Returns whether another server has just answered the question, or a twin, which can have taken
 * the room of the answered one, is superseded. server: both halves of its address. Not static: the
 * verifier checks it once.
 */
__noinline int was_answered(__u64 key, __u32 question, __u64 now, __u64 server, __u64 server_end)
{
	struct bucket *bucket = bucket_of(key);

	for (__u32 i = 0; bucket && i < ROOM; i++) {
		struct query *query = &bucket->queries[i];
		const __u64 *other = (const void *)&query->pair.server;

		if (ANSWERED(bucket->keys[i]) == ANSWERED(key) &&
			(is_free(bucket->keys[i]) || query->superseded) &&
			query->question == question && now - query->sent_ns < TWINS_NS &&
			(other[0] != server || other[1] != server_end))
			return 1;
	}
	return 0;
}

/*
 * Makes a query pending, or superseded if another server was first. NULL if it repeats a pending
 * one. Two CPUs may take the same room at once: then one of the answers is unmatched.
 */
static __always_inline struct query *expect_answer(
	__u64 key, __u64 now, const struct dns_pair *pair, const struct question *question)
{
	const __u64 *server = (const void *)&pair->server;
	struct bucket *bucket = bucket_of(key);
	struct query *query;
	__u32 room = ROOM;
	bool superseded =
		question->hash && was_answered(key, question->hash, now, server[0], server[1]);

	for (__u32 i = 0; bucket && i < ROOM; i++) {
		query = &bucket->queries[i];
		if (is_free(bucket->keys[i]) || (bucket->keys[i] == key && is_old(query, now)))
			room = room == ROOM ? i : room;
		else if (bucket->keys[i] == key && query->question == question->hash)
			return NULL;
	}
	if (room == ROOM)
		room = make_room(key, now);
	barrier_var(room);
	if (!bucket || room >= ROOM)
		return NULL;
	query = &bucket->queries[room];
	query->sent_ns = now;
	query->pair = *pair;
	query->question = question->hash;
	query->suffix = question->suffix;
	query->superseded = superseded;
	barrier();
	bucket->keys[room] = key;
	return query;
}

/* Takes the query with this key out of the table. rest: its key after that. */
static __always_inline bool take_query(__u64 key, __u64 rest, struct query *query)
{
	struct bucket *bucket = bucket_of(key);

	for (__u32 i = 0; bucket && i < ROOM; i++) {
		if (bucket->keys[i] != key)
			continue;
		*query = bucket->queries[i];
		bucket->keys[i] = rest;
		return true;
	}
	return false;
}

/* Count. */

static __always_inline __u32 packets_in(const struct __sk_buff *skb)
{
	return skb->gso_segs ? skb->gso_segs : 1;
}

static __always_inline struct dns_quarter *quarter_of(struct dns_counts *counts, __u64 sent)
{
	return &counts->quarters[sent / DNS_QUARTER_NS % DNS_QUARTERS];
}

/* Counts a query that began to wait for its answer, or (-1) that does not wait any more. */
static __always_inline void count_waiting(
	struct dns_counts *counts, __u64 sent, __u64 now, __s32 change)
{
	__sync_fetch_and_add(&quarter_of(counts, sent)->waiting, change);
	__sync_fetch_and_add(&counts->pending[now / DNS_BIN_NS % DNS_BINS], change);
}

/* Other servers were asked the question that one has answered: the client waits no longer. */
__noinline int supersede_twins(__u64 key, __u32 question, __u64 now)
{
	struct bucket *bucket = bucket_of(key);

	for (__u32 i = 0; bucket && i < ROOM; i++) {
		struct query *query = &bucket->queries[i];
		struct dns_counts *counts;

		if (ANSWERED(bucket->keys[i]) != ANSWERED(key) || is_free(bucket->keys[i]) ||
			query->question != question || query->superseded || is_old(query, now))
			continue;
		counts = bpf_map_lookup_elem(&headroom_pairs, &query->pair);
		if (!counts)
			continue;
		query->superseded = 1;
		count_waiting(counts, query->sent_ns, now, -1);
		__sync_fetch_and_add(&quarter_of(counts, query->sent_ns)->superseded, 1);
	}
	return 0;
}

static __always_inline void count_packets(struct dns_counts *counts, __u32 n, __u64 now)
{
	add(&counts->counters.other_packets, n);
	add(&counts->bins[now / DNS_BIN_NS % DNS_BINS], n * DNS_BIN_PACKET);
}

/* Counts packets that are not queries over UDP. */
__noinline int count_other(struct __sk_buff *skb, __u32 encrypted)
{
	struct dns_pair pair = {};
	struct dns_counts *counts = pair_of(skb, &pair) ? counts_of(&pair) : NULL;

	if (counts && encrypted)
		add(&counts->counters.dot_packets, packets_in(skb));
	else if (counts)
		count_packets(counts, packets_in(skb), bpf_ktime_get_ns());
	return 0;
}

/* Counts a later fragment, a packet without ports, if its client has queried this server. */
__noinline int count_fragment(struct __sk_buff *skb)
{
	struct dns_pair pair = {};
	struct dns_counts *counts =
		pair_of(skb, &pair) ? bpf_map_lookup_elem(&headroom_pairs, &pair) : NULL;

	if (!counts)
		return 0;
	count_packets(counts, 1, bpf_ktime_get_ns());
	return 1;
}

static __always_inline void sample_name(
	struct __sk_buff *skb, const struct dns_address *server, __u32 name)
{
	__u32 n = skb->len - name;
	struct dns_sample *sample;

	if (name >= skb->len || bpf_get_prandom_u32() >= control.sample_share)
		return;
	sample = bpf_ringbuf_reserve(&samples, sizeof(*sample), 0);
	if (!sample)
		return;
	__builtin_memset(sample, 0, sizeof(*sample));
	sample->server = *server;
	if (n > DNS_SAMPLE_NAME)
		n = DNS_SAMPLE_NAME;
	n -= 1;
	barrier_var(n);
	n &= DNS_SAMPLE_NAME - 1;
	n += 1;
	bpf_skb_load_bytes(skb, name, sample->name, n);
	bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
}

#define CUT 2 /* the packet has only the first bytes of the message */

/*
 * Counts the query at offset. The packet has n bytes of it. how: a transport and CUT. head: see
 * struct question; it is used when n is too small. Returns 1 if an answer is expected.
 */
__noinline int count_query(struct __sk_buff *skb, __u32 offset, __u32 n, __u32 head, __u32 how)
{
	struct question question = {.head = head, .malformed = true};
	__u64 now = bpf_ktime_get_ns(), key;
	__u32 transport = how & 1;
	struct dns_counts *counts;
	struct dns_pair pair = {};
	struct query *query;

	if (n >= HEADER)
		read_question(skb, offset, n, &question);
	counts = pair_of(skb, &pair) ? counts_of(&pair) : NULL;
	if (!counts)
		return 0;
	/* A server on this host sends answers to port 53, too. */
	if (question.head & FLAG_ANSWER || (n < HEADER && !(how & CUT))) {
		if (transport == DNS_UDP)
			count_packets(counts, 1, now);
		if (!(question.head & FLAG_ANSWER))
			add(&counts->counters.malformed, 1);
		return 0;
	}
	if (question.malformed && !(how & CUT))
		add(&counts->counters.malformed, 1);
	add(&counts->counters.queries[transport], 1);
	add(&counts->bins[now / DNS_BIN_NS % DNS_BINS],
		transport == DNS_UDP ? DNS_BIN_QUERY + DNS_BIN_PACKET : DNS_BIN_QUERY);
	if (question.edns)
		add(&counts->counters.edns, 1);
	if (question.suffix)
		add(&counts->counters.expanded, 1);
	if (control.sample_share && question.hash)
		sample_name(skb, &pair.server, offset + HEADER);
	if (OPCODE(question.head) == OPCODE_DSO && question.head >> 16 == 0)
		return 0;
	key = key_of(skb, EGRESS, transport, question.head >> 16);
	if (!key)
		return 0;
	query = expect_answer(key, now, &pair, &question);
	if (!query)
		add(&counts->counters.repeated, 1);
	else if (query->superseded)
		__sync_fetch_and_add(&quarter_of(counts, now)->superseded, 1);
	else
		count_waiting(counts, now, now, 1);
	return query != NULL;
}

static __always_inline __u32 latency_bucket(__u64 ns)
{
	__u32 bucket = 0;

	for (int i = 0; i < DNS_LATENCY_BUCKETS - 1; i++)
		bucket += ns > dns_latency_bounds[i];
	return bucket;
}

/* Counts an answer. Returns 1 if a pending query has waited for it. */
__noinline int count_answer(struct __sk_buff *skb, __u32 head, __u32 transport)
{
	__u64 key = key_of(skb, INGRESS, transport & 1, head >> 16), now;
	struct dns_counters *counters;
	struct dns_counts *counts;
	__u32 rcode = head & 15;
	/* With any other code, a resolver waits for the other servers. */
	bool good = !transport && (rcode == DNS_NOERROR || rcode == DNS_NXDOMAIN);
	struct query query;

	if (!key || !take_query(key, good ? ANSWERED(key) : 0, &query)) {
		add(&control.unmatched, 1);
		return 0;
	}
	counts = bpf_map_lookup_elem(&headroom_pairs, &query.pair);
	if (!counts)
		return 0;
	counters = &counts->counters;
	now = bpf_ktime_get_ns();
	if (rcode > DNS_RCODE_OTHER)
		rcode = DNS_RCODE_OTHER;
	add(&counters->responses[rcode], 1);
	if (head & FLAG_TRUNCATED)
		add(&counters->truncated, 1);
	if (is_old(&query, now)) {
		add(&counters->late, 1);
		return 0;
	}
	if (query.superseded)
		__sync_fetch_and_add(&quarter_of(counts, query.sent_ns)->superseded, -1);
	else
		count_waiting(counts, query.sent_ns, now, -1);
	add(&counters->latency_ns, now - query.sent_ns);
	add(&counters->latency[latency_bucket(now - query.sent_ns) & (DNS_LATENCY_BUCKETS - 1)], 1);
	if (query.suffix && rcode == DNS_NXDOMAIN)
		add(&counters->expanded_nxdomain, 1);
	if (query.suffix == DNS_SUFFIX_CLUSTER && rcode == DNS_NOERROR)
		add(&counters->cluster_answers, 1);
	if (good && query.question)
		supersede_twins(key, query.question, now);
	return 1;
}

/*
 * TCP: a stream of frames, each a length of two bytes and a message (RFC 1035 4.2.2). The stream is
 * followed while its bytes come in order. After a gap it is given up until a segment begins with a
 * message.
 */

#define HEAD       6    /* bytes of a frame that must be known: length, id, flags */
#define FRAMES_MAX 4096 /* in a segment of 64 KiB */

enum stream_state { STREAM_LOST, STREAM_FOLLOWED };

/* One direction of a connection. */
struct flow {
	__u32 state; /* enum stream_state */
	__u32 next;  /* sequence number of the next byte */
	__u32 skip;  /* bytes until the next frame */
	__u32 have;  /* bytes in head */
	__u8 head[16];
};

struct stream {
	struct flow flows[DIRECTIONS];
	/* Queries without an answer. A server may send as many messages and some more. */
	__u32 open;
	__u32 allowed;
	struct dns_pair pair;
};

MAP(streams, SK_STORAGE, BPF_F_NO_PREALLOC, 0, int, struct stream);

static __always_inline struct stream *stream_of(struct __sk_buff *skb)
{
	struct bpf_sock *socket = socket_of(skb);

	if (!socket || is_raw(socket))
		return NULL;
	return bpf_sk_storage_get(&streams, socket, NULL, BPF_SK_STORAGE_GET_F_CREATE);
}

/*
 * Does not read the rest of the segment. It is then unknown whether the open queries of the
 * connection get an answer.
 */
static __always_inline void give_up(struct stream *stream, enum direction direction, bool skipped)
{
	struct flow *flow = &stream->flows[direction & 1];
	struct dns_counts *counts;

	if (flow->state == STREAM_FOLLOWED || flow->next == 0)
		add(&control.resyncs, 1);
	if (skipped)
		add(&control.uninspected, 1);
	flow->state = STREAM_LOST;
	if (direction == EGRESS || stream->open == 0)
		return;
	counts = bpf_map_lookup_elem(&headroom_pairs, &stream->pair);
	if (counts)
		add(&counts->counters.not_followed, stream->open);
	stream->open = 0;
}

/* Whether a segment begins with a message: its first bytes look like it, and it ends in time. */
__noinline int begins_message(struct __sk_buff *skb, __u32 offset, __u32 direction)
{
	__u8 head[8];
	__u32 length, answer;

	if (bpf_skb_load_bytes(skb, offset, head, sizeof(head)) < 0)
		return 0;
	length = head[0] << 8 | head[1];
	answer = head[4] >> 7;
	return answer == (direction == INGRESS) && !(head[4] & 0x78) && !(head[5] & 0x40) &&
	       head[6] == 0 && head[7] == 1 && length >= HEADER + 5 && length <= 4096;
}

/*
 * Counts the frame at offset, or the rest of one whose head began in the segment before. Returns
 * the offset behind it, which may be behind the packet; 0 when the stream is given up.
 */
__noinline __u32 count_frame(struct __sk_buff *skb, __u32 offset, __u32 direction)
{
	struct stream *stream = stream_of(skb);
	__u32 end = skb->len, length, head, begin, have, n;
	struct flow *flow;
	int counted;

	if (!stream || offset >= end)
		return 0;
	flow = &stream->flows[direction & 1];
	have = flow->have;
	if (have >= HEAD)
		return 0;
	n = HEAD - have;
	if (n > end - offset)
		n = end - offset;
	n -= 1; /* see read_question() */
	barrier_var(n);
	n &= 7;
	n += 1;
	if (bpf_skb_load_bytes(skb, offset, &flow->head[have], n) < 0)
		return 0;
	flow->have = have + n;
	if (flow->have < HEAD)
		return end;
	flow->have = 0;
	length = flow->head[0] << 8 | flow->head[1];
	head = (__u32)flow->head[2] << 24 | flow->head[3] << 16 | flow->head[4] << 8 |
	       flow->head[5];
	begin = offset + 2 - have; /* in the packet, unless part of the head came earlier */
	n = have > 2 ? 0 : end - begin;
	if (length < HEADER) {
		if (direction == EGRESS)
			count_query(skb, begin, 0, 0, DNS_TCP);
		return begin + length;
	}
	if (direction == EGRESS) {
		counted = count_query(skb, begin, n < length ? n : length, head,
			n < length ? DNS_TCP | CUT : DNS_TCP);
		stream->open += counted;
		stream->allowed += 2 * counted;
	} else {
		if (stream->allowed == 0)
			return 0;
		stream->allowed--;
		if (head & FLAG_ANSWER && count_answer(skb, head, DNS_TCP) && stream->open)
			stream->open--;
	}
	return begin + length;
}

/* Counts the messages of a segment. at: the offset of the TCP header. */
__noinline int count_segment(struct __sk_buff *skb, __u32 at, __u32 direction)
{
	__u32 offset, end = skb->len, sequence, repeated;
	struct stream *stream;
	struct tcphdr tcp;
	struct flow *flow;

	if (bpf_skb_load_bytes(skb, at, &tcp, sizeof(tcp)) < 0)
		return 0;
	offset = at + tcp.doff * 4;
	sequence = bpf_ntohl(tcp.seq);
	if (!tcp.syn && offset >= end)
		return 0;
	stream = stream_of(skb);
	if (!stream)
		return 0;
	flow = &stream->flows[direction & 1];
	if (tcp.syn) {
		*flow = (struct flow){.state = STREAM_FOLLOWED, .next = ++sequence};
		if (direction == EGRESS)
			pair_of(skb, &stream->pair);
	}
	if (offset >= end)
		return 0;
	repeated = flow->next - sequence;
	if (flow->state == STREAM_FOLLOWED && repeated < 1u << 30) {
		if (repeated >= end - offset)
			return 0;
		offset += repeated;
	} else {
		if (flow->state == STREAM_FOLLOWED)
			give_up(stream, direction, false);
		flow->skip = 0;
		flow->have = 0;
		if ((direction == INGRESS && stream->allowed == 0) ||
			!begins_message(skb, offset, direction)) {
			give_up(stream, direction, true);
			flow->next = sequence + 1;
			return 0;
		}
		flow->state = STREAM_FOLLOWED;
		if (direction == EGRESS) /* the programs may not have seen the first segment */
			pair_of(skb, &stream->pair);
	}
	flow->next = sequence + (end - at - tcp.doff * 4);
	offset += flow->skip;
	for (int i = 0; i < FRAMES_MAX && offset < end; i++) {
		__u32 next = count_frame(skb, offset, direction);

		if (next <= offset) {
			give_up(stream, direction, true);
			return 0;
		}
		offset = next;
	}
	flow->skip = offset - end;
	return 0;
}

/* UDP. */

#define DATAGRAMS_MAX 128 /* UDP_MAX_SEGMENTS of include/linux/udp.h */

/* Reads the id and the flags. Returns 0, which no answer has, if it cannot. */
static __always_inline __u32 read_head(struct __sk_buff *skb, __u32 offset)
{
	const __u32 *bytes = (void *)(long)skb->data + (offset & 0xfff);
	__u32 head = 0;

	if (offset <= 0xfff && (void *)(bytes + 1) <= (void *)(long)skb->data_end)
		return bpf_ntohl(*bytes);
	bpf_skb_load_bytes(skb, offset, &head, sizeof(head));
	return bpf_ntohl(head);
}

static __always_inline void count_datagram(
	struct __sk_buff *skb, __u32 offset, __u32 n, enum direction direction)
{
	__u32 head;

	if (direction == EGRESS) {
		count_query(skb, offset, n, 0, DNS_UDP);
		return;
	}
	head = n >= HEADER ? read_head(skb, offset) : 0;
	if (head & FLAG_ANSWER)
		count_answer(skb, head, DNS_UDP);
}

/* A packet has several datagrams if the device splits it, or has joined them. */
__noinline int count_datagrams(struct __sk_buff *skb, __u32 offset, __u32 direction)
{
	__u32 size = skb->gso_size;

	if (!size) {
		if (offset <= skb->len)
			count_datagram(skb, offset, skb->len - offset, direction);
		return 0;
	}
	for (int i = 0; i < DATAGRAMS_MAX && offset < skb->len; i++) {
		__u32 n = skb->len - offset;

		count_datagram(skb, offset, n < size ? n : size, direction);
		offset += size;
	}
	return 0;
}

/* The entry. */

#define FRAGMENT_OFFSET bpf_htons(0x1fff) /* of iphdr.frag_off */
#define EXTENSIONS_MAX  16                /* headers between IPv6 and the transport */

/*
 * Finds the transport behind IPv6 extension headers (RFC 8200 4): the protocol is in the upper half
 * of the result, the offset in the lower half. 0 for any other than TCP, UDP and later fragments.
 */
__noinline __u32 find_transport(struct __sk_buff *skb, __u32 protocol)
{
	__u32 at = sizeof(struct ipv6hdr);

	for (int i = 0; i < EXTENSIONS_MAX && at <= 0x7ff; i++) {
		__u8 head[4];

		if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP)
			return protocol << 16 | at;
		if (protocol != IPPROTO_HOPOPTS && protocol != IPPROTO_ROUTING &&
			protocol != IPPROTO_DSTOPTS && protocol != IPPROTO_FRAGMENT &&
			protocol != IPPROTO_AH)
			return 0;
		if (bpf_skb_load_bytes(skb, at, head, sizeof(head)) < 0)
			return 0;
		if (protocol == IPPROTO_FRAGMENT && (head[2] || head[3] & 0xf8))
			return IPPROTO_FRAGMENT << 16;
		if (protocol == IPPROTO_FRAGMENT)
			at += 8;
		else if (protocol == IPPROTO_AH)
			at += (head[1] + 2) * 4;
		else
			at += (head[1] + 1) * 8;
		protocol = head[0];
	}
	add(&control.uninspected, 1);
	return 0;
}

/* Whether packets of any protocol to the receiver share a budget with its queries. */
__noinline int is_watched(struct __sk_buff *skb)
{
	struct dns_address address = {};
	__u64 *to = (__u64 *)&address;

	if (!read_address(skb, true, &address))
		return 0;
	for (__u32 i = 0; i < DNS_WATCHED && i < control.n_watched; i++) {
		const __u64 *watched = (const void *)&control.watched[i];

		if (watched[0] == to[0] && watched[1] == to[1])
			return 1;
	}
	return 0;
}

/* Returns true if it has counted the packet to a server. */
static __always_inline bool inspect(struct __sk_buff *skb, enum direction direction)
{
	const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const struct ipv6hdr *six = data;
	const struct iphdr *four = data;
	__u32 protocol, at;
	const __u16 *ports;
	__u16 port;

	if ((void *)(four + 1) > end)
		return false;
	if (four->version == 4) {
		protocol = four->protocol;
		at = four->ihl * 4;
		if (protocol != IPPROTO_UDP && protocol != IPPROTO_TCP)
			return false;
		if (four->frag_off & FRAGMENT_OFFSET)
			protocol = IPPROTO_FRAGMENT;
	} else {
		if ((void *)(six + 1) > end)
			return false;
		protocol = six->nexthdr;
		at = sizeof(*six);
		if (protocol != IPPROTO_UDP && protocol != IPPROTO_TCP) {
			__u32 found = find_transport(skb, protocol);

			protocol = found >> 16;
			at = found & 0x7ff;
			if (!protocol)
				return false;
			/* The call invalidated the pointers. */
			data = (void *)(long)skb->data;
			end = (void *)(long)skb->data_end;
		}
	}
	if (protocol == IPPROTO_FRAGMENT) {
		add(&control.fragments, 1);
		return direction == EGRESS && count_fragment(skb);
	}
	ports = data + at;
	if ((void *)(ports + 2) > end)
		return false;
	port = direction == EGRESS ? ports[1] : ports[0];
	if (port != PORT_DNS && direction == EGRESS && was_sent_to_dns(skb, protocol))
		port = PORT_DNS;
	if (port == PORT_DNS && protocol == IPPROTO_UDP) {
		count_datagrams(skb, at + sizeof(struct udphdr), direction);
		return true;
	}
	if (port == PORT_DNS) {
		if (direction == EGRESS)
			count_other(skb, false);
		count_segment(skb, at, direction);
		return true;
	}
	if (direction == EGRESS && port == PORT_DOT && protocol == IPPROTO_TCP)
		count_other(skb, true);
	return false;
}

SEC("cgroup_skb/egress")
int dns_egress(struct __sk_buff *skb)
{
	if (!inspect(skb, EGRESS) && control.n_watched && is_watched(skb))
		count_other(skb, false);
	return PASS;
}

SEC("cgroup_skb/ingress")
int dns_ingress(struct __sk_buff *skb)
{
	inspect(skb, INGRESS);
	return PASS;
}
