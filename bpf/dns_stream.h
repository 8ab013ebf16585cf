/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_STREAM_H
#define BPF_DNS_STREAM_H

/* Finds the DNS messages of TCP connections in segments as they are sent, or come. */

#include "dns_parse.h"

/* One direction of a TCP connection, RFC 1035 4.2.2: a length of two bytes before each message. */
struct dns_side {
	__u64 carry; /* the first bytes of the next message's frame, seen already */
	__u32 next;  /* sequence number at which that frame begins */
	__u32 have;  /* bytes in carry, at most 7; or one of these, when next is not known */
};

#define DNS_SIDE_NEW  254 /* its beginning was not seen */
#define DNS_SIDE_LOST 255 /* what was taken for a frame was none: counted already */

/* A message of a stream. */
struct dns_frame {
	__u32 offset;
	__u32 visible; /* bytes of it in this packet, from offset */
	__u32 length;
	__u32 head; /* its first four bytes */
	int whole;  /* its frame has been seen so far that the rest of this is filled in */
	int lost;   /* it is no message with one question: where the next begins is not known */
};

/*
 * One direction of a connection: what comes next, and the hole that segments out of order left
 * behind, from where its own side is to gap_end.
 */
struct dns_way {
	struct dns_side sides[2]; /* DNS_NEXT, DNS_GAP */
	__u32 gap_end;
	__u32 reserved;
};

#define DNS_NEXT 0
#define DNS_GAP  1

DNS_INLINE void dns_way_reset(struct dns_way *way)
{
	way->sides[DNS_NEXT].have = DNS_SIDE_NEW;
	way->sides[DNS_GAP].have = DNS_SIDE_NEW;
}

/* What the data after a SYN with this sequence number begins with. */
DNS_INLINE void dns_way_open(struct dns_way *way, __u32 sequence)
{
	way->sides[DNS_NEXT].carry = 0;
	way->sides[DNS_NEXT].next = sequence + 1;
	way->sides[DNS_NEXT].have = 0;
	way->sides[DNS_GAP].have = DNS_SIDE_NEW;
}

/*
 * How many bytes of a segment fill the hole, the first *skip of them not anew; 0 for none, -1 for
 * some that cannot be read, as there are still others missing before them.
 */
DNS_INLINE __s32 dns_way_gap(const struct dns_way *way, __u32 sequence, __u32 *skip)
{
	const struct dns_side *gap = &way->sides[DNS_GAP];
	__s32 ahead = gap->next + gap->have - sequence, end = way->gap_end - sequence;

	if (gap->have >= DNS_SIDE_NEW || ahead >= end || end <= 0)
		return 0;
	*skip = ahead;
	return ahead < 0 ? -1 : end;
}

/*
 * How many bytes of a segment to pass over: those seen before, or of a message counted before; all
 * of them, perhaps. When it is not known where a message begins the best guess is at the start of
 * the segment, and the side is set to that: -1 where something is lost by that.
 */
DNS_INLINE __s64 dns_way_skip(struct dns_way *way, __u32 sequence)
{
	struct dns_side *side = &way->sides[DNS_NEXT], *gap = &way->sides[DNS_GAP];
	__s32 ahead = side->next + side->have - sequence;
	__s64 skip = 0;

	if (side->have < DNS_SIDE_NEW && ahead >= 0)
		return ahead;
	if (side->have < DNS_SIDE_NEW) {
		if (gap->have < DNS_SIDE_NEW && (__s32)(way->gap_end - gap->next - gap->have) > 0)
			skip = -1;
		*gap = *side;
		way->gap_end = sequence;
	} else if (side->have == DNS_SIDE_NEW) {
		skip = -1;
	}
	side->carry = 0;
	side->next = sequence;
	side->have = 0;
	return skip;
}

/*
 * Takes the frame that begins or goes on at offset, less than end, with this dns_word(). Returns
 * where the next one begins: maybe beyond end. When there is not enough of it yet to tell what it
 * is, frame->whole is 0: what there is is kept for the next segment.
 */
DNS_INLINE __u32 dns_side_frame(
	struct dns_side *side, __u64 word, __u32 offset, __u32 end, struct dns_frame *frame)
{
	__u32 have = side->have & 7, known = have + (end - offset);
	/* Length, id, flags and the number of questions. */
	__u64 head = side->carry << (-8 * have & 63) | __builtin_bswap64(word) >> 8 * have;

	if (known > 8)
		known = 8;
	frame->length = head >> 48;
	frame->whole = known == 8;
	frame->lost =
		known >= 2 && (frame->length < DNS_HEADER || (known == 8 && (head & 0xffff) != 1));
	if (frame->lost) {
		side->have = DNS_SIDE_LOST;
		frame->whole = 0;
		return end;
	}
	if (!frame->whole) {
		side->carry = head >> (-8 * known & 63);
		side->have = known;
		return end;
	}
	side->carry = 0;
	side->have = 0;
	side->next += 2 + frame->length;
	frame->head = head >> 16;
	frame->offset = offset + 2 - have;
	frame->visible = have <= 2 ? end - frame->offset : 0;
	if (frame->visible > frame->length)
		frame->visible = frame->length;
	return frame->offset + frame->length;
}

/* What to make of it when read is what could be read: of a message that is cut, what is there. */
DNS_INLINE __u64 dns_frame_read(const struct dns_frame *frame, __u64 read)
{
	if (frame->length < DNS_HEADER)
		return 0;
	if (frame->visible < DNS_HEADER)
		return dns_read_head(frame->head);
	return frame->visible < frame->length ? read & ~DNS_READ_MALFORMED : read;
}

#endif
