/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_WORDS_H
#define BPF_DNS_WORDS_H

/* How the parser gets at a packet, and what it finds in one. */

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define UINT64_C(c) c##ULL

#include <headroom/bpf/dns.h>

struct dns_control control;

#define DNS_SOURCE   struct __sk_buff
#define DNS_SUFFIXES (&control.suffixes)

/* Eight bytes of the packet, zeros where it has ended. */
__noinline __u64 dns_word(struct __sk_buff *skb, __u32 offset)
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

/* From where a word is taken that is wanted from offset on, and how many bytes of it are not. */
static __always_inline __u64 back_off(__u64 offset, __u64 last, __u64 *beyond)
{
	__u64 more = offset - last, negative = more;

	/* No branch, that the verifier would follow with every label. */
	asm volatile("%0 s>>= 63" : "+r"(negative));
	*beyond = more & ~negative;
	return offset - *beyond;
}

static __always_inline int dns_pair(struct __sk_buff *skb, __u32 offset, __u64 words[2])
{
	const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u64 last = skb->len - 8, beyond, after;
	__u64 one = back_off(offset, last, &beyond), other = back_off(offset + 8, last, &after);
	const __u64 *first, *second;

	if (one > 0x7fff || other > 0x7fff)
		return 0;
	first = data + one;
	second = data + other;
	if ((void *)(first + 1) > end || (void *)(second + 1) > end)
		return 0;
	words[0] = *first >> (8 * beyond & 63);
	words[1] = *second >> (8 * after & 63);
	return 1;
}

#include <headroom/bpf/dns_parse.h>

#endif
