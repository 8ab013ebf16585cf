/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_TCP_H
#define BPF_DNS_TCP_H

/*
 * Counts the messages of a TCP connection. The packets of the other side come as the network
 * delivers them: with gaps, which later segments fill.
 */

#include "dns_count.h"

#include <linux/tcp.h>

#include <bpf/bpf_endian.h>

/* Messages in one segment: 64 KiB of headers. */
#define MESSAGES_MAX 4704

static __always_inline struct stream *stream_of(struct __sk_buff *skb)
{
	struct bpf_sock *socket = socket_of(skb);

	if (!socket || (socket->src_port < RAW_PORTS && socket->type == SOCK_RAW))
		return NULL;
	return bpf_sk_storage_get(&streams, socket, NULL, BPF_SK_STORAGE_GET_F_CREATE);
}

/* Direction and number of a region in one argument. */
#define WHICH(direction, region) ((direction) << 8 | (region))

static __always_inline struct dns_region *region_of(struct stream *stream, __u32 which)
{
	return &stream->flows[which >> 8 & 1].way.regions[which & (DNS_REGIONS - 1)];
}

/* Queries without an answer, roughly. */
static __always_inline bool is_answer_owed(const struct stream *stream)
{
	return (__s64)(stream->flows[EGRESS].counted - stream->flows[INGRESS].counted) > 0;
}

/* Whether pending queries of this connection are answered is unknown from now on. */
static __always_inline void lose(struct __sk_buff *skb, const struct stream *stream, __u32 which)
{
	__u64 cookie = bpf_get_socket_cookie(skb);

	/* Nothing is lost of a server that owes no answer. */
	if (which >> 8 & 1 && !is_answer_owed(stream))
		return;
	add(&control.resyncs);
	control.lossy_ns[DNS_LOSSY_INDEX(cookie)] = bpf_ktime_get_ns();
}

static __always_inline bool spend(struct stream *stream)
{
	struct flow *flow = &stream->flows[INGRESS];

	if (flow->allowance > 0)
		flow->allowance--;
	else if (flow->spent != (__u32)stream->flows[EGRESS].counted)
		flow->spent++;
	else
		return false;
	return true;
}

/* first: see count_message(). */
static __always_inline void account(
	struct stream *stream, const struct dns_frame *frame, int first, enum direction direction)
{
	if (direction == EGRESS ? !(frame->head & DNS_HEAD_ANSWER) : first)
		stream->flows[direction].counted++;
}

/*
 * Counts the frame at a position: its offset, and in the upper half the offset where this CPU's
 * copy begins. Returns the position of the next frame.
 */
static __always_inline __u64 count_frame(struct __sk_buff *skb, __u64 position, __u32 end,
	__u32 which, enum direction direction, __u64 now)
{
	struct stream *stream = stream_of(skb);
	__u32 offset = position, base = position >> 32, next;
	struct dns_frame frame = {0};
	const struct copy *copy;
	struct dns_side *side;
	__u64 word, read = 0, at;

	if (!stream || offset >= end)
		return end;
	side = &region_of(stream, which)->side;
	if (direction == INGRESS && !spend(stream)) {
		side->state = DNS_SIDE_LOST;
		return end;
	}
	copy = this_copy();
	if (!copy)
		return end;
	if (!base || !is_frame_copied(copy, skb, offset - base)) {
		base = offset;
		if (!copy_of(skb, offset, end - offset))
			return end;
	}
	at = offset - base;
	barrier_var(at);
	if (at > COPY_MAX - 8)
		return end;
	word = word_of_copy(copy, at);
	if (end - offset < 8 || !is_copy_of(copy, skb))
		word = dns_word(skb, offset);
	next = dns_side_frame(side, word, offset, end, &frame);
	if (!frame.whole)
		return next;
	if (frame.visible >= DNS_HEADER)
		read = read_copied(skb, frame.offset - base, frame.visible);
	if (read || frame.visible < DNS_HEADER)
		read = dns_frame_read(&frame, read);
	account(stream, &frame, count_message(skb, &frame, read, DNS_TCP, direction, now),
		direction);
	return (__u64)base << 32 | next;
}

/* Functions of their own: the verifier checks a frame once, and not in each turn of the loop. */
__noinline __u64 count_frame_sent(
	struct __sk_buff *skb, __u64 position, __u32 end, __u32 which, __u64 now)
{
	return count_frame(skb, position, end, which & (DNS_REGIONS - 1), EGRESS, now);
}

__noinline __u64 count_frame_received(
	struct __sk_buff *skb, __u64 position, __u32 end, __u32 which, __u64 now)
{
	return count_frame(skb, position, end, (which & (DNS_REGIONS - 1)) | 1 << 8, INGRESS, now);
}

/* Counts the frames from offset to end. last is the sequence number at end. */
static __always_inline int follow(struct __sk_buff *skb, struct stream *stream, __u32 offset,
	__u32 end, __u32 which, __u32 last, __u64 now)
{
	struct dns_side *side = &region_of(stream, which)->side;
	__u64 position = offset;

	for (int i = 0; i < MESSAGES_MAX && (__u32)position < end; i++)
		position = which >> 8 & 1 ? count_frame_received(skb, position, end, which, now)
					  : count_frame_sent(skb, position, end, which, now);
	if ((__u32)position < end)
		side->state = DNS_SIDE_LOST;
	if (side->state != DNS_SIDE_LOST)
		return 1;
	side->next = last;
	side->have = 0;
	side->carry = 0;
	add(&control.uninspected);
	lose(skb, stream, which);
	return 0;
}

/* Finds a frame by its form. Returns end if the first bytes have no frame. */
__noinline __u32 find_frame(struct __sk_buff *skb, __u32 offset, __u32 end, __u32 answer)
{
	__u32 n = end - offset;
	const struct copy *copy = offset >= end || n < 8 ? NULL : copy_of(skb, offset, n);

	if (!copy)
		return end;
	for (__u32 i = 0; i < COPY_MAX - 8; i++) {
		if (i + 8 > n)
			break;
		if (dns_is_frame(__builtin_bswap64(word_of_copy(copy, i)), answer))
			return offset + i;
	}
	return end;
}

/* Looks for a frame in a segment. Sets the region's side, and returns the frame's offset or end. */
__noinline __u32 begin_region(
	struct __sk_buff *skb, __u32 offset, __u32 end, __u32 which, __u32 sequence)
{
	struct stream *stream = stream_of(skb);
	__u32 answer = which >> 8 & 1, found = end;
	struct dns_side *side;

	if (!stream)
		return end;
	side = &region_of(stream, which)->side;
	/* An answer that no query waits for is not looked for. */
	if (!answer || (is_answer_owed(stream) && spend(stream)))
		found = find_frame(skb, offset, end, answer);
	side->state = found < end ? DNS_SIDE_GUESSED : DNS_SIDE_LOST;
	side->next = sequence + (found - offset);
	side->have = 0;
	side->carry = 0;
	if (found >= end) {
		add(&control.uninspected);
		lose(skb, stream, which);
	}
	return found;
}

/* The number of a free region, whose side and end the caller sets; 0 if none is free. */
static __always_inline __u32 free_region(const struct dns_way *way)
{
	for (__u32 i = 1; i < DNS_REGIONS; i++)
		if (!(way->used >> i & 1))
			return i;
	return 0;
}

/*
 * Data before the segment is missing. The lower part of the region gets a new number, and the
 * region continues in the segment.
 */
static __always_inline void split(struct __sk_buff *skb, struct stream *stream, __u32 sequence,
	__u32 offset, __u32 end, __u32 which)
{
	struct dns_way *way = &stream->flows[which >> 8 & 1].way;
	struct dns_region *lower;
	__u32 i = free_region(way);

	if (i == 0) {
		lose(skb, stream, which);
		return;
	}
	barrier_var(i);
	lower = &way->regions[i & (DNS_REGIONS - 1)];
	lower->side = region_of(stream, which)->side;
	lower->end = sequence;
	lower->head = dns_word(skb, offset);
	lower->head_bytes = end - offset;
	way->used |= 1 << (i & (DNS_REGIONS - 1));
}

/* All data of the region has come. The last frame may begin in it and end behind it. */
static __always_inline void close_region(struct __sk_buff *skb, struct stream *stream, __u32 which,
	enum direction direction, __u64 now)
{
	struct dns_way *way = &stream->flows[direction].way;
	struct dns_region *region = region_of(stream, which);
	struct dns_side *newest = &way->regions[0].side;
	struct dns_frame frame = {0};
	__u64 read;
	int first = 0;

	way->used &= ~(1ULL << (which & (DNS_REGIONS - 1)));
	if (region->side.have > 0) {
		__u32 bytes = region->head_bytes < 8 ? region->head_bytes : 8;

		(void)dns_side_frame(&region->side, region->head, 0, bytes, &frame);
		if (!frame.whole)
			return;
		frame.visible = 0;
		read = dns_frame_read(&frame, 0);
		if (direction == EGRESS)
			first = count_sent(skb, read, skb->len, DNS_TCP, now);
		else if (spend(stream))
			first = count_received(skb, read, DNS_TCP, now);
		account(stream, &frame, first, direction);
	}
	/* The position behind the data in which no frame was found. */
	if (newest->state == DNS_SIDE_LOST && region->side.state != DNS_SIDE_LOST &&
		(__s32)(region->side.next - newest->next) >= 0)
		*newest = region->side;
}

/* Counts the part of a segment that belongs to a region. */
static __always_inline int fill(struct __sk_buff *skb, struct stream *stream, __u32 sequence,
	__u32 offset, __u32 which, enum direction direction, __u64 now)
{
	__u32 end = skb->len, last = sequence + (end - offset), need, number;
	struct dns_region *region;

	which = (which & (DNS_REGIONS - 1)) | direction << 8;
	number = which & (DNS_REGIONS - 1);
	region = region_of(stream, which);
	need = region->side.next + region->side.have;
	if (region->side.state != DNS_SIDE_NEW && (__s32)(last - need) <= 0)
		return 0;
	if (number) {
		if ((__s32)(sequence - region->end) >= 0)
			return 0;
		if ((__s32)(last - region->end) > 0) {
			last = region->end;
			end = offset + (last - sequence);
		}
	}
	if (region->side.state <= DNS_SIDE_LOST) {
		offset = begin_region(skb, offset, end, which, sequence);
	} else if ((__s32)(sequence - need) > 0) {
		if (sequence - need >= DNS_WINDOW)
			return 0;
		split(skb, stream, sequence, offset, end, which);
		offset = begin_region(skb, offset, end, which, sequence);
	} else {
		offset += need - sequence;
	}
	if (offset >= end || !follow(skb, stream, offset, end, which, last, now)) {
		if (region->side.state == DNS_SIDE_LOST)
			stream->flows[direction].way.used &= ~(1ULL << number);
		return 0;
	}
	if (number && (__s32)(region->side.next + region->side.have - region->end) >= 0)
		close_region(skb, stream, which, direction, now);
	return 0;
}

__noinline int fill_sent(
	struct __sk_buff *skb, __u32 sequence, __u32 offset, __u32 which, __u64 now)
{
	struct stream *stream = stream_of(skb);

	return stream ? fill(skb, stream, sequence, offset, which, EGRESS, now) : 0;
}

__noinline int fill_received(
	struct __sk_buff *skb, __u32 sequence, __u32 offset, __u32 which, __u64 now)
{
	struct stream *stream = stream_of(skb);

	return stream ? fill(skb, stream, sequence, offset, which, INGRESS, now) : 0;
}

/* Whether data begins where all data so far ends, as nearly always. */
static __always_inline bool is_in_order(const struct dns_way *way, __u32 sequence)
{
	const struct dns_side *newest = &way->regions[0].side;

	return !way->used && newest->state > DNS_SIDE_LOST &&
	       sequence == newest->next + newest->have;
}

/* Counts the data of a segment: first the parts that fill gaps, then the new part. */
static __always_inline void count_data(struct __sk_buff *skb, struct stream *stream, __u32 sequence,
	__u32 offset, enum direction direction, __u64 now)
{
	const struct dns_way *way = &stream->flows[direction].way;

	if (direction == INGRESS)
		stream->flows[INGRESS].allowance = 1 + ((skb->len - offset) >> 10);
	if (is_in_order(way, sequence)) { /* fill() would do the same */
		follow(skb, stream, offset, skb->len, WHICH(direction, 0),
			sequence + (skb->len - offset), now);
		return;
	}
	for (__u32 i = way->used ? DNS_REGIONS : 1; i-- > 0;) {
		if (i > 0 && !(way->used >> i & 1))
			continue;
		if (direction == EGRESS)
			fill_sent(skb, sequence, offset, i, now);
		else
			fill_received(skb, sequence, offset, i, now);
	}
}

static __always_inline __u32 packets_in(const struct __sk_buff *skb)
{
	return skb->gso_segs ? skb->gso_segs : 1;
}

/*
 * Counts handshakes and acknowledgements too. A socket can connect again, to another server.
 */
static __noinline void count_segments(struct __sk_buff *skb, struct stream *stream, __u64 now)
{
	__u64 generation = *(const volatile __u64 *)&control.generation, hash;
	struct dns_key key = {0};
	__u32 slot;

	key.family = address_of(skb, EGRESS, key.address);
	if (!key.family)
		return;
	hash = mix_address(key.address) ^ key.family;
	slot = *(const volatile __u64 *)&stream->server;
	if (stream->tag != tag_of(hash, slot, generation)) {
		slot = slot_of(&servers, &free_servers, &key);
		stream->server = slot;
		stream->tag = slot == NO_SLOT ? 0 : tag_of(hash, slot, generation);
	}
	count_packet(slot, packets_in(skb), false, now);
}

/* Counts a segment that is one usual message, as most are. False for any other. */
static __always_inline bool count_single(struct __sk_buff *skb, struct stream *stream,
	__u32 sequence, __u32 offset, enum direction direction, __u64 now)
{
	struct flow *flow = &stream->flows[direction];
	struct dns_side *newest = &flow->way.regions[0].side;
	__u32 n = skb->len - offset;
	const struct copy *copy;
	__u64 read;

	if (!is_in_order(&flow->way, sequence) || newest->have || n > COPY_MAX || skb->gso_segs > 1)
		return false;
	copy = copy_of(skb, offset, n);
	if (!copy || 2 + (__builtin_bswap64(word_of_copy(copy, 0)) >> 48) != n)
		return false;
	read = read_copied(skb, 2, n - 2);
	if (!read || read & DNS_READ_MALFORMED || (direction == EGRESS && read & DNS_READ_ANSWER))
		return false;
	newest->next += n;
	if (direction == INGRESS) {
		flow->counted += count_received(skb, read, DNS_TCP, now);
	} else {
		flow->counted++;
		count_sent(skb, read, offset + 2, DNS_TCP_PACKET, now);
	}
	return true;
}

static __always_inline void count_tcp(struct __sk_buff *skb, __u32 at, enum direction direction)
{
	const struct tcphdr *tcp = (void *)(long)skb->data + (at & 0x7ff);
	__u32 offset = skb->len, sequence = 0;
	struct stream *stream;
	bool syn = false;
	__u64 now;

	if ((void *)(tcp + 1) <= (void *)(long)skb->data_end) {
		offset = at + tcp->doff * 4;
		sequence = bpf_ntohl(tcp->seq);
		syn = tcp->syn;
	}
	/* Only sent packets without data count. */
	if (direction == INGRESS && !syn && offset >= skb->len)
		return;
	now = bpf_ktime_get_ns();
	stream = stream_of(skb);
	if (!stream) {
		/* The kernel answers for closed connections. */
		if (direction == EGRESS)
			count_packet(slot_of_receiver(skb), packets_in(skb), false, now);
		return;
	}
	if (syn)
		dns_way_open(&stream->flows[direction].way, sequence++);
	if (offset < skb->len && count_single(skb, stream, sequence, offset, direction, now))
		return;
	if (direction == EGRESS)
		count_segments(skb, stream, now);
	if (offset < skb->len)
		count_data(skb, stream, sequence, offset, direction, now);
}

__noinline int count_tcp_sent(struct __sk_buff *skb, __u32 at)
{
	count_tcp(skb, at, EGRESS);
	return 0;
}

__noinline int count_tcp_received(struct __sk_buff *skb, __u32 at)
{
	count_tcp(skb, at, INGRESS);
	return 0;
}

#endif
