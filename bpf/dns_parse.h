/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_PARSE_H
#define BPF_DNS_PARSE_H

/*
 * Parses DNS messages (RFC 1035 4.1) in BPF and, for tests, in user space. A program defines before
 * the inclusion:
 *
 *   DNS_SOURCE                                type of the packet
 *   __u64 dns_word(DNS_SOURCE *, __u32 at)    reads eight bytes, zeros behind the packet's end
 *   DNS_VIEW                                  type of a view of the packet with fast access
 *   int dns_pair(DNS_VIEW *, __u32 at, __u64 words[2])
 *       reads two such words. 0 outside of the view; bytes behind the packet's end are undefined
 *   DNS_SUFFIXES                              the table, a const struct dns_suffixes *
 *
 * Words are little-endian, like all supported machines.
 */

#include <headroom/bpf/dns_hash.h>

#define DNS_HEADER      12 /* bytes */
#define DNS_NAME_MAX    255
#define DNS_OPT         41         /* RFC 6891 6.1.2 */
#define DNS_HEAD_ANSWER 0x00008000 /* QR and TC in the first four bytes */
#define DNS_HEAD_CUT    0x00000200

/* A parsed message in one word: the id in the lowest 16 bits, these bits, the question's hash. */
#define DNS_READ_HEADER    (1ULL << 16) /* 0: the message is too short, and nothing else is set */
#define DNS_READ_ANSWER    (1ULL << 17)
#define DNS_READ_TRUNCATED (1ULL << 18)
#define DNS_READ_EDNS      (1ULL << 19) /* a query with an OPT record behind the question */
#define DNS_READ_MALFORMED (1ULL << 20) /* the question has an error */
#define DNS_READ_ONE_WAY   (1ULL << 21) /* RFC 8490 5.4: opcode 6 and id 0, without an answer */
#define DNS_READ_RCODE     24           /* three bits: enum dns_rcode_class */
#define DNS_READ_TYPE      27           /* three bits: enum dns_type_class */
#define DNS_READ_SUFFIX    30           /* two bits: enum dns_suffix_class; of a query */
#define DNS_READ_QUESTION  32           /* 0 without a question */

/* 0 or 1, without a branch. */
DNS_INLINE __u64 dns_nonzero(__u64 value)
{
	value |= -value;
	DNS_HIDE(value);
	return value >> 63;
}

DNS_INLINE __u64 dns_read_rcode(__u64 read)
{
	return read >> DNS_READ_RCODE & 7;
}

DNS_INLINE __u64 dns_read_class(__u64 read)
{
	return read >> DNS_READ_TYPE & 7;
}

DNS_INLINE __u64 dns_read_suffix(__u64 read)
{
	return read >> DNS_READ_SUFFIX & 3;
}

DNS_INLINE __u32 dns_read_question(__u64 read)
{
	return read >> DNS_READ_QUESTION;
}

/* Parses the first four bytes of a message in network order. */
DNS_INLINE __u64 dns_read_head(__u32 head)
{
	__u64 rcode = head & 15, over = DNS_REFUSED - rcode;

	DNS_HIDE(over);
	over = over >> 63; /* 1: DNS_RCODE_OTHER */
	rcode = (rcode & (over - 1)) | DNS_RCODE_OTHER * over;
	return DNS_READ_HEADER | head >> 16 | (head & DNS_HEAD_ANSWER ? DNS_READ_ANSWER : 0) |
	       (head & DNS_HEAD_CUT ? DNS_READ_TRUNCATED : 0) |
	       ((head & 0xfffff800) == 0x3000 ? DNS_READ_ONE_WAY : 0) | rcode << DNS_READ_RCODE;
}

DNS_INLINE __u64 dns_type_class(__u32 type)
{
	switch (type) { /* RFC 1035 3.2.2, RFC 3596 2.1, RFC 2782 */
	case 1:
		return DNS_TYPE_A;
	case 28:
		return DNS_TYPE_AAAA;
	case 12:
		return DNS_TYPE_PTR;
	case 33:
		return DNS_TYPE_SRV;
	default:
		return DNS_TYPE_OTHER;
	}
}

#define DNS_SHORT_LABELS 36 /* an IPv6 address below ip6.arpa has 34 labels */

/* Mask of the first word for a label of this size, at least one byte. */
DNS_INLINE __u64 dns_first_mask(__u64 size)
{
	__s64 beyond = 8 - (__s64)size;

	/* No branch: 0 when the label fills the word. */
	beyond &= ~(beyond >> 63);
	return ~0ULL >> (8 * beyond & 63);
}

/* Returns the mask of the second word. It shifts in two steps, because C does not define a shift by
 * 64 bits. */
DNS_INLINE __u64 dns_second_mask(__u64 size)
{
	__u64 half = 4 * (DNS_SHORT - size) & 63;

	return ~0ULL >> half >> half;
}

/* Hashes of all labels of a name, and of those before its last label, last two labels and so on. */
struct dns_name {
	__u64 all;
	__u64 before[DNS_SUFFIX_LABELS];
};

DNS_INLINE void dns_name_add(struct dns_name *name, __u64 label)
{
	/* A loop would be slower to verify. */
	name->before[5] = name->before[4];
	name->before[4] = name->before[3];
	name->before[3] = name->before[2];
	name->before[2] = name->before[1];
	name->before[1] = name->before[0];
	name->before[0] = name->all;
	name->all = dns_labels_add(name->all, label);
}

_Static_assert(DNS_SUFFIX_LABELS == 6, "as many as dns_name_add() has lines");

/* No branches: the verifier would follow them all. */
DNS_INLINE __u64 dns_suffix_among(const struct dns_suffix *slots, __u64 hash)
{
	__u64 class = 0;

#ifdef __bpf__
#pragma clang loop unroll(full)
#endif
	for (int i = 0; i < DNS_SUFFIX_SLOTS; i++) {
		/* The mask has all bits set when the hashes are equal. */
		class |= slots[i].class & (dns_nonzero(slots[i].hash ^ hash) - 1);
	}
	return class;
}

/* The longest matching suffix counts. */
DNS_INLINE __u64 dns_suffix_class(const struct dns_name *name, const struct dns_suffixes *table)
{
	__u64 class = DNS_SUFFIX_NONE, used = table->used, power = 1;

#ifdef __bpf__
#pragma clang loop unroll(full)
#endif
	for (int labels = 0; labels < DNS_SUFFIX_LABELS; labels++) {
		power *= DNS_HASH_FACTOR;
		if (used >> labels & 1) {
			__u64 longer = dns_suffix_among(
				table->slots[labels], name->all - name->before[labels] * power);

			class = longer ? longer : class;
		}
	}
	return class;
}

/* Hashes the label at an offset. DNS_ROOT at the end of the name, 0 for an invalid label. */
DNS_PART __u64 dns_label(DNS_SOURCE *source, __u32 at)
{
	__u64 word = dns_word(source, at), hash = DNS_HASH_SEED;
	__u32 size = (word & 0xff) + 1, left = size;

	if (size == DNS_ROOT)
		return DNS_ROOT;
	if (size > DNS_LABEL_MAX + 1)
		return 0;
#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (int i = 0; i < (DNS_LABEL_MAX + 1) / 8 && left > 8; i++) {
		hash = dns_label_word(hash, word, ~0ULL);
		left -= 8;
		at += 8;
		word = dns_word(source, at);
	}
	hash = dns_label_word(hash, word, ~0ULL >> (64 - 8 * left));
	if (size <= 8)
		hash = dns_label_word(hash, 0, 0);
	return dns_label_end(hash, size);
}

/*
 * Adds the type of the question, whose word is at "at" behind the name, to the parsed header.
 * DNS_READ_EDNS stays set when an OPT record follows the question.
 */
DNS_INLINE __u64 dns_read_type(
	__u64 word, __u32 at, __u32 end, const struct dns_name *name, __u64 read)
{
	/* Type and class, then the root and the type of a record. */
	__u64 tail = __builtin_bswap64(word) >> 8;

	if (at + 4 > end)
		return (read & ~DNS_READ_EDNS) | DNS_READ_MALFORMED;
	if (at + 7 > end || (tail & 0xffffff) != DNS_OPT)
		read &= ~DNS_READ_EDNS;
	tail >>= 40;
	if (!(read & DNS_READ_ANSWER)) /* nobody asks for that of an answer */
		read |= dns_suffix_class(name, DNS_SUFFIXES) << DNS_READ_SUFFIX;
	read |= dns_type_class(tail) << DNS_READ_TYPE;
	/* Never 0. */
	return read | (dns_mix(name->all, tail) >> 32 | 1) << DNS_READ_QUESTION;
}

/* Parses any question before end. */
DNS_PART __u64 dns_read_slowly(DNS_SOURCE *source, __u32 at, __u32 end, __u64 read)
{
	struct dns_name name = {0};
	__u32 most = at + DNS_NAME_MAX;

	if (most > end)
		most = end;
#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (int i = 0; i < DNS_NAME_MAX / 2 + 1 && at < most; i++) {
		__u64 label = dns_label(source, at);

		if (label == DNS_ROOT)
			return dns_read_type(dns_word(source, at + 1), at + 1, end, &name, read);
		if (label == 0)
			break;
		at += label & DNS_LABEL_SIZE;
		dns_name_add(&name, label);
	}
	return (read & ~DNS_READ_EDNS) | DNS_READ_MALFORMED;
}

/* Parses the header. 1 when the message has exactly one question. */
DNS_INLINE int dns_read_header(const __u64 words[2], __u64 *read)
{
	/* QD, AN, NS, AR. */
	__u64 counts = __builtin_bswap64(words[0] >> 32 | words[1] << 32);

	*read = dns_read_head(__builtin_bswap64(words[0]) >> 32);
	/* Errors and cookies (RFC 7873 5.4) lack a question. RFC 9619 forbids several. */
	if (counts >> 48 > 1)
		*read |= DNS_READ_MALFORMED;
	if (counts >> 48 != 1)
		return 0;
	/* A query with only additional records may have an OPT record. */
	*read |= DNS_READ_EDNS * (dns_nonzero(counts & 0xffff) & ~dns_nonzero(counts << 16 >> 32) &
					 ~dns_nonzero(*read & DNS_READ_ANSWER));
	return 1;
}

/* Parses any message of at least DNS_HEADER bytes. */
DNS_INLINE __u64 dns_read_by_words(DNS_SOURCE *source, __u32 offset, __u32 length)
{
	const __u64 words[2] = {dns_word(source, offset), dns_word(source, offset + 8)};
	__u64 read;

	if (!dns_read_header(words, &read))
		return read;
	return dns_read_slowly(source, offset + DNS_HEADER, offset + length, read);
}

/*
 * Parses a message inside the view whose name has at most DNS_SHORT_LABELS labels of at most two
 * words, as nearly every name has. 0 for other messages. Every exit leaves the loop for good, so
 * that the verifier follows it once.
 */
DNS_INLINE __u64 dns_read_quickly(DNS_VIEW *view, __u32 offset, __u32 length)
{
	__u32 from = offset + DNS_HEADER, end = offset + length, at = from, size = 0;
	struct dns_name name = {0};
	__u64 words[2], label, read;

	if (!dns_pair(view, offset, words))
		return 0;
	if (!dns_read_header(words, &read))
		return read;
#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (int i = 0; i < DNS_SHORT_LABELS && at < end; i++) {
		if (!dns_pair(view, at, words))
			return 0;
		size = (words[0] & 0xff) + 1;
		if (size - 2 > DNS_SHORT - 2)
			break;
		label = dns_label_word(DNS_HASH_SEED, words[0], dns_first_mask(size));
		label = dns_label_word(label, words[1], dns_second_mask(size));
		dns_name_add(&name, dns_label_end(label, size));
		at += size;
	}
	if (size != DNS_ROOT || at - from >= DNS_NAME_MAX || !dns_pair(view, at + 1, words))
		return 0;
	return dns_read_type(words[0], at + 1, end, &name, read);
}

#endif
