/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/* Hashes of DNS names, in packets (BPF) and in the configuration (user space). */

#include <headroom/bpf/dns.h>

#define DNS_LABEL_MAX 63

/* In BPF the verifier checks a DNS_PART once for all callers; a DNS_INLINE needs no call. */
#ifdef __bpf__
#define DNS_PART    __attribute__((noinline))
#define DNS_INLINE  static inline __attribute__((always_inline))
#define DNS_HIDE(x) asm volatile("" : "+r"(x)) /* the compiler must not add a branch */
#else
#define DNS_PART   static inline
#define DNS_INLINE static inline
#define DNS_HIDE(x)
#endif

#define DNS_HASH_SEED   0x243f6a8885a308d3ULL
#define DNS_HASH_FACTOR 0x9e3779b97f4a7c15ULL

DNS_INLINE __u64 dns_mix(__u64 hash, __u64 value)
{
	return (hash ^ value) * DNS_HASH_FACTOR;
}

/* Converts A to Z in all eight bytes to lower case. The sums never carry into the next byte. */
DNS_INLINE __u64 dns_lower(__u64 word)
{
	const __u64 each_byte = 0x0101010101010101ULL;
	__u64 low_bits = word & each_byte * 0x7f;
	__u64 from_a = low_bits + each_byte * (0x80 - 'A');
	__u64 beyond_z = low_bits + each_byte * (0x7f - 'Z');

	return word | ((from_a & ~beyond_z & ~word & each_byte * 0x80) >> 2);
}

/*
 * The hash of a label covers its length and its letters in words of eight bytes, padded with zeros
 * to at least two words. The lowest bits of the hash are the label's size with the length; 0 is
 * invalid.
 */
#define DNS_LABEL_SIZE 127
#define DNS_ROOT       1
#define DNS_SHORT      16 /* bytes in two words */

DNS_INLINE __u64 dns_label_word(__u64 hash, __u64 word, __u64 mask)
{
	return dns_mix(hash, dns_lower(word & mask));
}

DNS_INLINE __u64 dns_label_end(__u64 hash, __u32 size)
{
	return (hash & ~(__u64)DNS_LABEL_SIZE) | size;
}

/* The hash of labels and one more: the hash of the last n of them is all - before * factor^n. */
DNS_INLINE __u64 dns_labels_add(__u64 hash, __u64 label)
{
	return hash * DNS_HASH_FACTOR + label;
}

#ifndef __bpf__

/* The same hash as dns_label(). */
DNS_INLINE __u64 dns_label_hash(const char *text, __u32 length)
{
	__u64 hash = DNS_HASH_SEED, words[(DNS_LABEL_MAX + 1) / 8] = {length};
	__u32 n = length / 8 + 1;

	for (__u32 i = 0; i < length; i++)
		words[(i + 1) / 8] |= (__u64)(unsigned char)text[i] << 8 * ((i + 1) % 8);
	for (__u32 i = 0; i < n || i < DNS_SHORT / 8; i++)
		hash = dns_label_word(hash, words[i], ~0ULL);
	return dns_label_end(hash, length + 1);
}

/*
 * The hash of a domain's text ("cluster.local", with or without a last dot) and its number of
 * labels. 0, and nothing written, for an invalid domain or one with too many labels.
 */
DNS_INLINE __u64 dns_suffix_hash(const char *text, __u32 *labels)
{
	__u64 hash = 0;
	__u32 n = 0;

	while (*text) {
		__u32 length = 0;

		while (text[length] && text[length] != '.')
			length++;
		if (length == 0 || length > DNS_LABEL_MAX || ++n > DNS_SUFFIX_LABELS)
			return 0;
		hash = dns_labels_add(hash, dns_label_hash(text, length));
		text += length + (text[length] == '.');
	}
	if (n == 0)
		return 0;
	*labels = n;
	return hash;
}

#endif
