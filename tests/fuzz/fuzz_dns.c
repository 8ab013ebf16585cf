/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads any bytes as a DNS message and as a TCP stream of messages, with the code of the BPF
 * programs. The result is consistent, and both ways to read agree. The cuts of a stream, which the
 * first byte chooses, do not change its messages.
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
	/* The result never has part of a question. */
	if (fast & DNS_READ_MALFORMED)
		check(!dns_read_question(fast) && !(fast & DNS_READ_EDNS));
	if (fast & DNS_READ_EDNS)
		check(!(fast & DNS_READ_ANSWER) && size >= DNS_HEADER + 1 + 4 + 3);
	return fast;
}

/* A summary of a stream. */
struct summary {
	size_t messages, bytes;
	uint64_t hash; /* of lengths and heads, in their order */
};

static struct summary walk(const uint8_t *data, size_t size, unsigned cuts)
{
	struct dns_side side = {.state = DNS_SIDE_EXACT};
	struct summary summary = {0};
	uint32_t skip = 0; /* bytes of a frame that began in an earlier piece */

	for (size_t from = 0, piece; from < size; from += piece) {
		struct packet packet = {.data = data + from};
		uint32_t at;

		piece = cuts ? 1 + (from * 2654435761U + cuts) % cuts : size;
		piece = MIN(piece, size - from);
		packet.size = piece;
		for (at = MIN(skip, (uint32_t)piece); at < piece;) {
			struct dns_frame frame = {0};
			uint32_t next = dns_side_frame(
				&side, dns_word(&packet, at), at, (uint32_t)piece, &frame);

			check(next > at);
			at = next;
			if (!frame.whole)
				break;
			check(frame.visible <= frame.length);
			check(frame.visible == 0 || frame.offset + frame.visible <= piece);
			summary.messages++;
			summary.bytes += 2 + frame.length;
			summary.hash = dns_mix(summary.hash, frame.length);
			if (frame.length >= DNS_HEADER)
				summary.hash = dns_mix(summary.hash, frame.head);
			if (frame.visible >= DNS_HEADER)
				(void)dns_frame_read(
					&frame, dns_read(&packet, frame.offset, frame.visible));
		}
		skip = side.next + side.have - (uint32_t)(from + piece);
		skip = (int32_t)skip > 0 ? skip : 0;
	}
	check(side.next == summary.bytes);
	return summary;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct summary whole, cut;

	if (size < 2 || size > 65536)
		return 0;
	read_one(data + 1, size - 1);
	whole = walk(data + 1, size - 1, 0);
	cut = walk(data + 1, size - 1, data[0]);
	check(whole.messages == cut.messages && whole.bytes == cut.bytes && whole.hash == cut.hash);
	return 0;
}
