/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_STREAM_H
#define BPF_DNS_STREAM_H

#include "dns_parse.h"

enum dns_side_state {
	DNS_SIDE_NEW,     /* the start of the connection was not seen */
	DNS_SIDE_LOST,    /* the position of the next frame is unknown */
	DNS_SIDE_GUESSED, /* the first frame was found by its form */
	DNS_SIDE_EXACT,
};

/* A position in a stream of frames: a length of two bytes and a message, RFC 1035 4.2.2. */
struct dns_side {
	__u64 carry; /* the first bytes of the next frame */
	__u32 next;  /* sequence number of the next frame; of a lost side: behind all data so far */
	__u16 have;  /* bytes in carry, at most 7 */
	__u16 state; /* enum dns_side_state */
};

struct dns_frame {
	__u32 offset;
	__u32 visible; /* bytes of the message in this packet */
	__u32 length;
	__u32 head; /* the first four bytes of the message */
	int whole;  /* the other fields are set */
};

/* A region of missing data. The first region begins behind all received data and is endless. */
struct dns_region {
	struct dns_side side; /* where it begins */
	__u32 end;            /* sequence number of the data behind it, which came earlier */
	__u32 head_bytes;     /* in this data */
	__u64 head;           /* the first bytes there, as dns_word() reads them */
};

#define DNS_REGIONS 8 /* a power of two */

/* One direction of a connection. */
struct dns_way {
	__u64 used; /* bit n: regions[n], except the first */
	struct dns_region regions[DNS_REGIONS];
};

/* A segment that is farther ahead is not of this connection. */
#define DNS_WINDOW (1 << 24)

/* Sets the position behind a SYN with this sequence number. */
DNS_INLINE void dns_way_open(struct dns_way *way, __u32 sequence)
{
	way->used = 0;
	way->regions[0].side.carry = 0;
	way->regions[0].side.next = sequence + 1;
	way->regions[0].side.have = 0;
	way->regions[0].side.state = DNS_SIDE_EXACT;
}

/* Whether the eight bytes, in network order, can begin a frame with one question. */
DNS_INLINE int dns_is_frame(__u64 head, __u64 answer)
{
	__u64 flags = head >> 16 & 0xffff, length = head >> 48;
	/* QR, the opcode 0 and the reserved bit; the response code of a query is 0. */
	__u64 fixed = answer ? 0xf840 : 0xf84f;

	return (head & 0xffff) == 1 && (flags & fixed) == (answer ? 0x8000 : 0) &&
	       length >= DNS_HEADER + 5 && length < 16384;
}

/*
 * Parses the frame that begins or continues at offset; word is dns_word() there. Returns the offset
 * of the next frame, which may be beyond end. An incomplete header stays in the carry, and
 * frame->whole is 0. The length alone tells where the next frame begins.
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
	frame->whole = known == 8 || (known >= 2 && frame->length < DNS_HEADER);
	if (!frame->whole) {
		side->carry = head >> (-8 * known & 63);
		side->have = known;
		return end;
	}
	if (side->state == DNS_SIDE_GUESSED &&
		(frame->length < DNS_HEADER || (head & 0xffff) > 1)) {
		side->state = DNS_SIDE_LOST;
		frame->whole = 0;
		return end;
	}
	side->carry = 0;
	side->have = 0;
	side->next += 2 + frame->length;
	frame->head = head >> 16;
	frame->offset = offset + 2 - have;
	frame->visible = have <= 2 && frame->offset < end ? end - frame->offset : 0;
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
