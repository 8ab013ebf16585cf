// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts the DNS messages that sockets of this host send to a port 53 and get from one. All
 * counting is done here; user space reads the maps when it likes and is never woken. No packet is
 * changed or dropped.
 *
 * What leaves for port 53 and is a query, and what comes from port 53 and is an answer, is counted;
 * what a server on this host gets and sends is not, so that nothing counts twice.
 *
 * 5.10 has no atomics that return a value, and its verifier takes no variable offset into the
 * stack: messages are read in words by way of the packet. Functions that are not static are
 * verified once, whatever calls them; on 5.10 they take numbers and the context only.
 */
#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define UINT64_C(c) c##ULL

#define DNS_SOURCE struct __sk_buff

static __always_inline __u64 dns_word(struct __sk_buff *skb, __u32 offset);

#include <headroom/bpf/dns_parse.h>

#define AF_INET  2
#define AF_INET6 10

#define PASS 1 /* whatever happens: 0 would drop the packet */

#define PORT_DNS bpf_htons(53)
#define PORT_DOT bpf_htons(853)

#define FRAGMENT_OFFSET bpf_htons(0x1fff) /* of iphdr.frag_off */

#define EXTENSIONS_MAX 8 /* headers between IPv6 and the transport */

/* Messages of one segment: 64 KiB of small ones. */
#define MESSAGES_MAX 2048

/* A UDP packet that the device is to cut up: UDP_MAX_SEGMENTS of include/linux/udp.h. */
#define DATAGRAMS_MAX 128

enum direction {
	EGRESS,
	INGRESS,
	DIRECTIONS,
};

/* A TCP connection. */
struct stream {
	__u64 cookie;
	struct dns_side sides[DIRECTIONS];
};

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct dns_control control;

/* The last bin that was counted into: most packets fall into it, which saves a division. */
__u64 current_bin;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DNS_SERVERS_MAX);
	__type(key, struct dns_key);
	__type(value, struct dns_server);
} servers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DNS_ROWS_MAX);
	__type(key, struct dns_row_key);
	__type(value, struct dns_row);
} rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DNS_SOURCES_MAX);
	__type(key, struct dns_key);
	__type(value, struct dns_source);
} sources SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DNS_BUCKETS);
	__type(key, __u32);
	__type(value, struct dns_bucket);
} pending SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DNS_STREAMS);
	__type(key, __u32);
	__type(value, struct stream);
} streams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} samples SEC(".maps");

static const struct dns_server no_server;
static const struct dns_row no_row;
static const struct dns_source no_source;

static __always_inline void add(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

static __always_inline void add_to_bin(__u32 *bins, __u32 n, __u64 now)
{
	__u64 bin = *(volatile __u64 *)&current_bin;

	if (now - bin * DNS_BIN_NS >= DNS_BIN_NS) {
		bin = now / DNS_BIN_NS;
		*(volatile __u64 *)&current_bin = bin;
	}
	__sync_fetch_and_add(&bins[bin & (DNS_BINS - 1)], n);
}

/*
 * The element of a key, made if need be: several processors may try at once. NULL when there is no
 * room.
 */
static __always_inline void *element_of(void *map, const void *key, const void *zero)
{
	void *element = bpf_map_lookup_elem(map, key);

	if (element)
		return element;
	bpf_map_update_elem(map, key, zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

/* Where everything is counted whose server has no element: user space made it. */
static __always_inline struct dns_server *other_server(void)
{
	struct dns_key key = {0};

	add(&control.lost_servers);
	return bpf_map_lookup_elem(&servers, &key);
}

/* At the end of the packet, beyond it, or not in one piece with its head. */
__noinline __u64 far_word(struct __sk_buff *skb, __u32 offset)
{
	__u32 n = skb->len - offset;
	__u64 word = 0;

	if (offset >= skb->len)
		return 0;
	if (n > 8)
		n = 8;
	/* The verifiers of 5.10 and 6.1 must see that it is 1 to 8. */
	n -= 1;
	barrier_var(n);
	n &= 7;
	n += 1;
	bpf_skb_load_bytes(skb, offset, &word, n);
	return word;
}

/* Eight bytes of the packet, zeros where it has ended. */
static __always_inline __u64 dns_word(struct __sk_buff *skb, __u32 offset)
{
	__u32 from = offset, last = skb->len - 8, beyond = 0;

	/* No packet is that short: its last eight bytes may begin with some that are not wanted. */
	if (from > last) {
		beyond = from - last;
		from = last;
	}
	/* As far as the verifier lets a pointer into the packet be moved. */
	if (from <= 0x7fff) {
		const __u64 *at = (void *)(long)skb->data + from;

		if ((void *)(at + 1) <= (void *)(long)skb->data_end)
			return *at >> (8 * beyond & 63);
	}
	return far_word(skb, offset);
}

__noinline __u64 read_message(struct __sk_buff *skb, __u32 offset, __u32 length)
{
	return dns_read(skb, offset, length, &control.suffixes);
}

/* The packet's source or destination into a key that is all zero. */
static __always_inline bool address_of(
	struct __sk_buff *skb, enum direction direction, struct dns_key *key)
{
	const struct ipv6hdr *six = (void *)(long)skb->data;
	const struct iphdr *four = (void *)(long)skb->data;
	const void *end = (void *)(long)skb->data_end;

	if ((void *)(four + 1) > end)
		return false;
	if (four->version == 4) {
		key->family = AF_INET;
		*(__u32 *)key->address = direction == EGRESS ? four->daddr : four->saddr;
		return true;
	}
	if ((void *)(six + 1) > end)
		return false;
	key->family = AF_INET6;
	__builtin_memcpy(key->address, direction == EGRESS ? &six->daddr : &six->saddr, 16);
	return true;
}

/* A query that waits, but for when it was sent. */
static __always_inline void describe(
	struct dns_pending *query, const struct dns_row_key *who, __u64 read, __u64 cookie)
{
	query->cookie = cookie;
	query->cgroup = who->cgroup;
	query->question = dns_read_question(read);
	query->id = read;
	query->family = who->server.family == AF_INET ? 4 : 6;
	query->has_source = who->source_family != 0;
	query->type = who->type;
	query->suffix = who->suffix;
	__builtin_memcpy(query->server, who->server.address, 16);
	__builtin_memcpy(query->source, who->source, 16);
}

static __always_inline struct dns_bucket *bucket_of(__u64 cookie, __u16 id)
{
	__u32 index = ((cookie << 16 ^ id) * DNS_HASH_FACTOR) >> 40 & (DNS_BUCKETS - 1);

	return bpf_map_lookup_elem(&pending, &index);
}

static __always_inline bool same_server(const struct dns_pending *a, const struct dns_pending *b)
{
	const __u64 *one = (const void *)a->server, *other = (const void *)b->server;

	return one[0] == other[0] && one[1] == other[1] && a->family == b->family;
}

/* sent_ns last: user space must not take a new query for an old one. */
static __always_inline void put(
	struct dns_pending *place, const struct dns_pending *query, __u64 now)
{
	*(volatile __u64 *)&place->sent_ns = 0;
	__builtin_memcpy(&place->cookie, &query->cookie, sizeof(*place) - sizeof(place->sent_ns));
	barrier();
	*(volatile __u64 *)&place->sent_ns = now;
}

static __always_inline void count_evicted(const struct dns_pending *query)
{
	struct dns_key key = {.family = query->family == 4 ? AF_INET : AF_INET6};
	struct dns_server *server;

	__builtin_memcpy(key.address, query->server, 16);
	server = bpf_map_lookup_elem(&servers, &key);
	if (!server)
		server = other_server();
	if (server)
		add(&server->evicted);
}

/*
 * Notes that the query waits for its answer. True when it does already: it was sent again. Two
 * processors may take the same place at once: one answer in a million is late then.
 */
static __always_inline bool remember(const struct dns_pending *query, __u64 now)
{
	struct dns_bucket *bucket = bucket_of(query->cookie, query->id);
	struct dns_pending *place;

	if (!bucket)
		return false;
	place = &bucket->ways[0];
	for (int i = 0; i < DNS_WAYS; i++) {
		struct dns_pending *way = &bucket->ways[i];

		if (way->sent_ns && way->cookie == query->cookie && way->id == query->id &&
			way->question == query->question && same_server(way, query))
			return true;
		/* A free one, or the oldest. */
		if (way->sent_ns < place->sent_ns)
			place = way;
	}
	if (place->sent_ns)
		count_evicted(place);
	put(place, query, now);
	return false;
}

/*
 * The query that an answer belongs to: the server is another than the one asked where addresses are
 * translated, and one socket may ask several servers with one id.
 */
static __always_inline struct dns_pending *recall(const struct dns_pending *answer)
{
	struct dns_bucket *bucket = bucket_of(answer->cookie, answer->id);
	struct dns_pending *found = NULL;

	if (!bucket)
		return NULL;
	for (int i = 0; i < DNS_WAYS; i++) {
		struct dns_pending *way = &bucket->ways[i];

		if (!way->sent_ns || way->cookie != answer->cookie || way->id != answer->id)
			continue;
		if (answer->question && way->question && answer->question != way->question)
			continue;
		found = way;
		if (same_server(way, answer))
			break;
	}
	return found;
}

/* Hands over one name in so many; the clock's low bits are as good as chance. */
static __always_inline void sample(
	struct __sk_buff *skb, const struct dns_row_key *who, __u32 offset, __u32 length, __u64 now)
{
	struct dns_sample *sample;

	if ((__u32)(now * DNS_HASH_FACTOR >> 32) >= control.sample_share || length <= DNS_HEADER)
		return;
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

static __always_inline void count_row(const struct dns_row_key *who, bool again)
{
	struct dns_row *row = element_of(&rows, who, &no_row);

	if (!row) {
		add(&control.lost_rows);
		return;
	}
	add(&row->queries);
	if (again)
		add(&row->retransmissions);
}

/* A message to a port 53, which lies at offset. */
__noinline int count_query(
	struct __sk_buff *skb, __u64 read, __u32 offset, __u32 length, __u32 transport)
{
	struct dns_row_key who = {.type = dns_read_type(read), .suffix = dns_read_suffix(read)};
	struct dns_pending query = {.transport = transport & 1};
	__u64 now = bpf_ktime_get_ns();
	struct dns_server *server;
	bool again;

	if (!address_of(skb, EGRESS, &who.server))
		return 0;
	server = element_of(&servers, &who.server, &no_server);
	if (!server) {
		server = other_server();
		if (!server)
			return 0;
	}
	if (transport == DNS_UDP) {
		add(&server->packets);
		add_to_bin(server->packet_bins, 1, now);
	}
	if (!(read & DNS_READ_HEADER) || read & DNS_READ_MALFORMED)
		add(&server->malformed);
	if (!(read & DNS_READ_HEADER))
		return 0;
	add(&server->queries[transport & 1]);
	add_to_bin(server->query_bins, 1, now);
	if (read & DNS_READ_EDNS)
		add(&server->edns);
	who.cgroup = bpf_skb_cgroup_id(skb);
	if (who.cgroup == control.root_cgroup) {
		struct dns_key source = {0};

		address_of(skb, INGRESS, &source);
		who.source_family = source.family;
		__builtin_memcpy(who.source, source.address, 16);
	}
	describe(&query, &who, read, bpf_get_socket_cookie(skb));
	again = remember(&query, now);
	if (again)
		add(&server->retransmissions);
	count_row(&who, again);
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
	struct dns_row_key who = {
		.server = {.family = query->family == 4 ? AF_INET : AF_INET6},
		.type = query->type,
		.suffix = query->suffix,
		.cgroup = query->cgroup,
	};
	struct dns_row *row;

	if (query->has_source)
		who.source_family = who.server.family;
	__builtin_memcpy(who.server.address, query->server, 16);
	__builtin_memcpy(who.source, query->source, 16);
	row = bpf_map_lookup_elem(&rows, &who);
	if (row)
		add(&row->nxdomain);
}

static __always_inline void count_answered(
	struct dns_server *server, struct dns_pending *query, __u64 rcode)
{
	__u64 now = bpf_ktime_get_ns(), sent = *(volatile __u64 *)&query->sent_ns;
	/* Taken away by the sweep at this moment, it is as old as can be. */
	__u64 latency = sent && now > sent ? now - sent : 0;
	__u32 bucket = latency_bucket(latency);

	add(&server->answered);
	__sync_fetch_and_add(&server->latency_ns, latency);
	barrier_var(bucket);
	add(&server->latency[bucket & (DNS_LATENCY_BUCKETS - 1)]);
	if (rcode == DNS_NXDOMAIN)
		count_nxdomain(query);
	if (rcode == DNS_NOERROR && query->suffix == DNS_SUFFIX_CLUSTER)
		add(&server->cluster_answers);
	*(volatile __u64 *)&query->sent_ns = 0;
}

/* A message from a port 53. */
__noinline int count_answer(struct __sk_buff *skb, __u64 read)
{
	struct dns_pending answer = {
		.cookie = bpf_get_socket_cookie(skb),
		.question = dns_read_question(read),
		.id = read,
	};
	struct dns_pending *query = NULL;
	struct dns_server *server;
	struct dns_key key = {0};
	__u64 rcode = dns_read_rcode(read);

	if (!address_of(skb, INGRESS, &key))
		return 0;
	answer.family = key.family == AF_INET ? 4 : 6;
	__builtin_memcpy(answer.server, key.address, 16);
	if (read & DNS_READ_HEADER)
		query = recall(&answer);
	if (query) {
		key.family = query->family == 4 ? AF_INET : AF_INET6;
		__builtin_memcpy(key.address, query->server, 16);
	}
	/* What nobody asked makes no element. */
	server = bpf_map_lookup_elem(&servers, &key);
	if (!server) {
		server = other_server();
		if (!server)
			return 0;
	}
	if (!(read & DNS_READ_HEADER) || read & DNS_READ_MALFORMED)
		add(&server->malformed);
	if (!(read & DNS_READ_HEADER))
		return 0;
	add(&server->responses[rcode]);
	if (read & DNS_READ_TRUNCATED)
		add(&server->truncated);
	if (query)
		count_answered(server, query, rcode);
	else
		add(&server->late);
	return 0;
}

/* What is no answer, or no query, is a server's business. */
static __always_inline void count_message(struct __sk_buff *skb, __u64 read, __u32 offset,
	__u32 length, enum direction direction, enum dns_transport transport)
{
	bool answer = read & DNS_READ_ANSWER;

	if (direction == EGRESS && !answer)
		count_query(skb, read, offset, length, transport);
	else if (direction == INGRESS && (answer || !(read & DNS_READ_HEADER)))
		count_answer(skb, read);
}

static __always_inline void count_datagrams(
	struct __sk_buff *skb, __u32 offset, enum direction direction)
{
	__u32 size = skb->gso_size;

	for (int i = 0; i < DATAGRAMS_MAX && offset <= skb->len; i++) {
		__u32 length = skb->len - offset;

		if (size && length > size)
			length = size;
		count_message(
			skb, read_message(skb, offset, length), offset, length, direction, DNS_UDP);
		offset += length;
		if (!size || offset == skb->len)
			return;
	}
}

static __always_inline struct stream *stream_of(__u64 cookie)
{
	/* Cookies are given out one after the other. */
	__u32 index = cookie & (DNS_STREAMS - 1);

	return bpf_map_lookup_elem(&streams, &index);
}

/* The frame at offset; returns where the next one is. */
__noinline __u32 count_frame(struct __sk_buff *skb, __u32 offset, __u32 direction)
{
	struct stream *stream = stream_of(bpf_get_socket_cookie(skb));
	struct dns_frame frame = {0};
	__u64 read = 0;
	__u32 next;

	if (!stream || offset >= skb->len)
		return skb->len;
	next = dns_side_frame(skb, &stream->sides[direction & 1], offset, skb->len, &frame);
	if (!frame.whole)
		return next;
	if (frame.visible >= DNS_HEADER)
		read = read_message(skb, frame.offset, frame.visible);
	read = dns_frame_read(&frame, read);
	count_message(skb, read, frame.offset, frame.visible, direction & 1, DNS_TCP);
	return next;
}

/* A segment with its data from offset on. */
static __always_inline void count_segment(
	struct __sk_buff *skb, __u32 sequence, bool syn, __u32 offset, enum direction direction)
{
	__u64 cookie = bpf_get_socket_cookie(skb);
	struct stream *stream = stream_of(cookie);
	__s64 skip;

	if (!stream || (!syn && offset >= skb->len))
		return;
	if (stream->cookie != cookie) {
		stream->cookie = cookie;
		stream->sides[EGRESS].have = DNS_SIDE_LOST;
		stream->sides[INGRESS].have = DNS_SIDE_LOST;
	}
	if (syn)
		dns_side_open(&stream->sides[direction], sequence++);
	if (offset >= skb->len)
		return;
	skip = dns_side_skip(&stream->sides[direction], sequence);
	if (skip < 0) {
		add(&control.resyncs);
		skip = 0;
	}
	if (skip >= skb->len - offset)
		return;
	offset += skip;
	for (int i = 0; i < MESSAGES_MAX; i++) {
		offset = count_frame(skb, offset, direction);
		if (offset >= skb->len)
			return;
	}
	add(&control.cut);
}

/* What goes to a server besides messages: handshakes, acknowledgements, what is encrypted. */
__noinline int count_packet(struct __sk_buff *skb, __u32 encrypted)
{
	struct dns_key key = {0};
	struct dns_server *server;
	__u32 n = skb->gso_segs ? skb->gso_segs : 1;

	if (!address_of(skb, EGRESS, &key))
		return 0;
	server = element_of(&servers, &key, &no_server);
	if (!server) {
		server = other_server();
		if (!server)
			return 0;
	}
	if (encrypted) {
		__sync_fetch_and_add(&server->dot_packets, n);
		return 0;
	}
	__sync_fetch_and_add(&server->packets, n);
	add_to_bin(server->packet_bins, n, bpf_ktime_get_ns());
	return 0;
}

__noinline int count_tcp(struct __sk_buff *skb, __u32 at, __u32 direction)
{
	const struct tcphdr *tcp;
	__u32 offset, sequence;
	bool syn;

	if (direction == EGRESS)
		count_packet(skb, 0);
	at &= 0x7ff;
	tcp = (void *)(long)skb->data + at;
	if ((void *)(tcp + 1) > (void *)(long)skb->data_end)
		return 0;
	offset = at + tcp->doff * 4;
	sequence = bpf_ntohl(tcp->seq);
	syn = tcp->syn;
	count_segment(skb, sequence, syn, offset, direction & 1);
	return 0;
}

__noinline int count_udp(struct __sk_buff *skb, __u32 at, __u32 direction)
{
	count_datagrams(skb, at + sizeof(struct udphdr), direction & 1);
	return 0;
}

/*
 * The transport of an IPv6 packet with extension headers (RFC 8200 4): its protocol in the upper
 * half, where it begins in the lower. 0 when there is none with ports.
 */
__noinline __u32 find_transport(struct __sk_buff *skb, __u32 protocol)
{
	__u32 at = sizeof(struct ipv6hdr);

	for (int i = 0; i < EXTENSIONS_MAX; i++) {
		__u8 head[4];

		if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP)
			return protocol << 16 | at;
		if (protocol != IPPROTO_HOPOPTS && protocol != IPPROTO_ROUTING &&
			protocol != IPPROTO_DSTOPTS && protocol != IPPROTO_FRAGMENT &&
			protocol != IPPROTO_AH)
			return 0;
		if (bpf_skb_load_bytes(skb, at, head, sizeof(head)) < 0)
			return 0;
		if (protocol == IPPROTO_FRAGMENT && (head[2] || head[3] & 0xf8)) {
			add(&control.fragments);
			return 0;
		}
		if (protocol == IPPROTO_FRAGMENT)
			at += 8;
		else if (protocol == IPPROTO_AH)
			at += (head[1] + 2) * 4;
		else
			at += (head[1] + 1) * 8;
		protocol = head[0];
	}
	return 0;
}

static __always_inline bool is_watched(const struct dns_key *to)
{
	const __u32 *words = (const void *)to->address;

	if (to->family == AF_INET) {
		for (int i = 0; i < DNS_WATCH_IPV4; i++)
			if (words[0] == control.watch.ipv4[i])
				return true;
		return false;
	}
	for (int i = 0; i < DNS_WATCH_IPV6; i++) {
		const __u32 *want = (const void *)control.watch.ipv6[i];

		if (want[0] == words[0] && want[1] == words[1] && want[2] == words[2] &&
			want[3] == words[3])
			return true;
	}
	return false;
}

/* The packets of every protocol that share a budget, by the address that sends. */
__noinline int watch(struct __sk_buff *skb)
{
	struct dns_key to = {0}, from = {0};
	struct dns_source *source;
	__u32 n = skb->gso_segs ? skb->gso_segs : 1;

	if (!address_of(skb, EGRESS, &to) || !is_watched(&to) || !address_of(skb, INGRESS, &from))
		return 0;
	source = element_of(&sources, &from, &no_source);
	if (!source) {
		add(&control.lost_sources);
		return 0;
	}
	__sync_fetch_and_add(&source->packets, n);
	add_to_bin(source->bins, n, bpf_ktime_get_ns());
	return 0;
}

static __always_inline int look(struct __sk_buff *skb, enum direction direction)
{
	const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const struct ipv6hdr *six = data;
	const struct iphdr *four = data;
	__u32 protocol, at;
	const __u16 *ports;
	__u16 port;

	if ((void *)(four + 1) > end)
		return PASS;
	if (four->version == 4) {
		protocol = four->protocol;
		if (protocol != IPPROTO_UDP && protocol != IPPROTO_TCP)
			return PASS;
		if (four->frag_off & FRAGMENT_OFFSET) {
			add(&control.fragments);
			return PASS;
		}
		at = four->ihl * 4;
	} else {
		if ((void *)(six + 1) > end)
			return PASS;
		protocol = six->nexthdr;
		at = sizeof(*six);
		if (protocol != IPPROTO_UDP && protocol != IPPROTO_TCP) {
			__u32 found = find_transport(skb, protocol);

			protocol = found >> 16;
			at = found & 0x7ff;
			if (!protocol)
				return PASS;
			/* The call took the pointers away. */
			data = (void *)(long)skb->data;
			end = (void *)(long)skb->data_end;
		}
	}
	ports = data + at;
	if ((void *)(ports + 2) > end)
		return PASS;
	port = direction == EGRESS ? ports[1] : ports[0];
	if (port == PORT_DNS) {
		if (protocol == IPPROTO_UDP)
			count_udp(skb, at, direction);
		else
			count_tcp(skb, at, direction);
	} else if (direction == EGRESS && port == PORT_DOT && protocol == IPPROTO_TCP) {
		count_packet(skb, 1);
	}
	return PASS;
}

SEC("cgroup_skb/egress")
int dns_egress(struct __sk_buff *skb)
{
	if (control.watch.on)
		watch(skb);
	return look(skb, EGRESS);
}

SEC("cgroup_skb/ingress")
int dns_ingress(struct __sk_buff *skb)
{
	return look(skb, INGRESS);
}
