/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs the DNS parser of the BPF programs on bytes in memory instead of a packet. */

#include "base/util.h"
#include "headroom/bpf/dns.h"

struct packet {
	const uint8_t *data;
	size_t size;
	bool in_pieces; /* pairs of words are not available */
};

static struct dns_suffixes suffixes;

#define DNS_SOURCE   const struct packet
#define DNS_VIEW     const struct packet
#define DNS_SUFFIXES (&suffixes)

static __u64 dns_word(const struct packet *packet, __u32 at)
{
	__u64 word = 0;

	if (at < packet->size)
		memcpy(&word, packet->data + at, MIN(packet->size - at, sizeof(word)));
	return word;
}

static int dns_pair(const struct packet *packet, __u32 at, __u64 words[2])
{
	if (packet->in_pieces)
		return 0;
	words[0] = dns_word(packet, at);
	words[1] = dns_word(packet, at + 8);
	return 1;
}

#include "../../bpf/dns_stream.h"

/* Parses a message as the BPF programs do: quickly if possible. */
static __u64 dns_read(const struct packet *packet, __u32 offset, __u32 length)
{
	__u64 read = length < DNS_HEADER ? 0 : dns_read_quickly(packet, offset, length);

	return read || length < DNS_HEADER ? read : dns_read_by_words(packet, offset, length);
}
