/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_STREAM_H
#define BPF_DNS_STREAM_H

#include "dns_parse.h"

/* A position in a stream of frames: a length of two bytes and a message, RFC 1035 4.2.2. */
struct dns_side {
	__u64 carry; /* the first bytes of the next frame */
	__u32 next;  /* sequence number of the next frame */
	__u32 have;  /* bytes in carry, at most 7; or a state below, in which next is unknown */
};

#define DNS_SIDE_NEW  254 /* the start of the connection was not seen */
#define DNS_SIDE_LOST 255 /* the last frame was invalid, which is counted */

struct dns_frame {
	__u32 offset;
	__u32 visible; /* bytes of the message in this packet */
	__u32 length;
	__u32 head; /* the first four bytes of the message */
	int whole;  /* the other fields are set */
	int lost;   /* not a message with one question: the position of the next is unknown */
};

/*
 * One direction of a connection: the position of new data, and the position in a gap before it. The
 * gap ends at gap_end.
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

/* Sets the position behind a SYN with this sequence number. */
DNS_INLINE void dns_way_open(struct dns_way *way, __u32 sequence)
{
	way->sides[DNS_NEXT].carry = 0;
	way->sides[DNS_NEXT].next = sequence + 1;
	way->sides[DNS_NEXT].have = 0;
	way->sides[DNS_GAP].have = DNS_SIDE_NEW;
}

/*
 * The number of bytes of a segment up to the gap's end; the first *skip bytes were seen before. 0
 * when the segment is outside of the gap, -1 when bytes before it are still missing.
 */
DNS_INLINE __s32 dns_way_gap(const struct dns_way *way, __u32 sequence, __u32 *skip)
{
	const struct dns_side *gap = &way->sides[DNS_GAP];
	__s32 seen = gap->next + gap->have - sequence, end = way->gap_end - sequence;

	if (gap->have >= DNS_SIDE_NEW || seen >= end || end <= 0)
		return 0;
	*skip = seen;
	return seen < 0 ? -1 : end;
}

/*
 * The number of bytes of a segment to skip because they were seen or belong to a counted message.
 * If the position is unknown, it is set to the start of the segment: -1 when messages may be lost.
 */
DNS_INLINE __s64 dns_way_skip(struct dns_way *way, __u32 sequence)
{
	struct dns_side *side = &way->sides[DNS_NEXT], *gap = &way->sides[DNS_GAP];
	__s32 seen = side->next + side->have - sequence;
	__s64 skip = 0;

	if (side->have < DNS_SIDE_NEW && seen >= 0)
		return seen;
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
 * Parses the frame that begins or continues at offset; word is dns_word() there. Returns the offset
 * of the next frame, which may be beyond end. An incomplete header stays in the carry, and
 * frame->whole is 0.
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

/* Corrects the result of the parser for a message that is only partly visible. */
DNS_INLINE __u64 dns_frame_read(const struct dns_frame *frame, __u64 read)
{
	if (frame->length < DNS_HEADER)
		return 0;
	if (frame->visible < DNS_HEADER)
		return dns_read_head(frame->head);
	return frame->visible < frame->length ? read & ~DNS_READ_MALFORMED : read;
}

#endif
