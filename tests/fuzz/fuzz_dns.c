/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all as a DNS message, and as a TCP stream of them: the code that BPF runs. What is
 * said of a message holds together, both ways to read it agree, and a stream has the same messages
 * however it is cut into segments. The first byte chooses the cuts.
 */

#include "../unit/dns_packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static __u64 read_one(const uint8_t *data, size_t size)
{
	struct packet packet = {.data = data, .size = size};
	__u64 fast = dns_read(&packet, 0, (__u32)size);

	packet.in_pieces = true;
	check(fast == dns_read(&packet, 0, (__u32)size));
	check((fast == 0) == (size < DNS_HEADER));
	check(dns_read_rcode(fast) < DNS_RCODES && dns_read_class(fast) < DNS_TYPES);
	check(dns_read_suffix(fast) == DNS_SUFFIX_NONE);
	/* A question is there whole, or not at all. */
	if (fast & DNS_READ_MALFORMED)
		check(!dns_read_question(fast) && !(fast & DNS_READ_EDNS));
	if (fast & DNS_READ_EDNS)
		check(!(fast & DNS_READ_ANSWER) && size >= DNS_HEADER + 1 + 4 + 3);
	return fast;
}

/* What a stream turned out to be. */
struct told {
	size_t messages, bytes;
	uint64_t hash; /* of lengths and heads, in their order */
};

static struct told walk(const uint8_t *data, size_t size, unsigned cuts)
{
	struct dns_way way;
	struct told told = {0};

	dns_way_open(&way, UINT32_MAX - 40);
	for (size_t from = 0, piece; from < size; from += piece) {
		struct packet packet = {.data = data + from};
		int64_t skip = dns_way_skip(&way, UINT32_MAX - 39 + (uint32_t)from);
		uint32_t at;

		piece = cuts ? 1 + (from * 2654435761U + cuts) % cuts : size;
		piece = MIN(piece, size - from);
		check(skip >= 0);
		packet.size = piece;
		for (at = (uint32_t)MIN(skip, (int64_t)piece); at < piece;) {
			struct dns_frame frame = {0};
			uint32_t next = dns_side_frame(&way.sides[DNS_NEXT], dns_word(&packet, at),
				at, (uint32_t)piece, &frame);

			check(next > at);
			at = next;
			told.messages += frame.lost != 0;
			if (frame.lost)
				return told;
			if (!frame.whole)
				break;
			check(frame.visible <= frame.length);
			check(frame.visible == 0 || frame.offset + frame.visible <= piece);
			told.messages++;
			told.bytes += 2 + frame.length;
			told.hash = dns_mix(told.hash, frame.length);
			if (frame.length >= DNS_HEADER)
				told.hash = dns_mix(told.hash, frame.head);
			if (frame.visible >= DNS_HEADER)
				(void)dns_frame_read(
					&frame, dns_read(&packet, frame.offset, frame.visible));
		}
	}
	return told;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct told whole, cut;

	if (size < 2 || size > 65536)
		return 0;
	read_one(data + 1, size - 1);
	whole = walk(data + 1, size - 1, 0);
	cut = walk(data + 1, size - 1, data[0]);
	check(whole.messages == cut.messages && whole.bytes == cut.bytes && whole.hash == cut.hash);
	return 0;
}
