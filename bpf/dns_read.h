/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_DNS_READ_H
#define BPF_DNS_READ_H

/* Access to the packet for the parser. */

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define UINT64_C(c) c##ULL

#include <headroom/bpf/dns.h>

struct dns_control control __attribute__((aligned(64)));

#define DNS_SOURCE   struct __sk_buff
#define DNS_VIEW     const struct view
#define DNS_SUFFIXES (&control.suffixes)

/* Reads eight bytes of the packet, zeros behind its end. */
static __always_inline __u64 dns_word(struct __sk_buff *skb, __u32 offset)
{
	__u32 n = skb->len - offset;
	__u64 word = 0;

	if (offset >= skb->len)
		return 0;
	if (n > 8)
		n = 8;
	/* The verifiers of 5.10 and 6.1 must see that n is 1 to 8. */
	n -= 1;
	barrier_var(n);
	n &= 7;
	n += 1;
	bpf_skb_load_bytes(skb, offset, &word, n);
	return word;
}

/* Moves the offset of a word back to last at most; beyond is the number of bytes moved. */
static __always_inline __u64 back_off(__u64 offset, __u64 last, __u64 *beyond)
{
	__u64 more = offset - last, negative = more;

	/* No branch: the verifier would follow it with every label. */
	asm volatile("%0 s>>= 63" : "+r"(negative));
	*beyond = more & ~negative;
	return offset - *beyond;
}

/* Adds zero, and hides the bits of the number from the verifier, which follows the rest once. */
static __always_inline __u64 forget(struct __sk_buff *skb, __u64 number)
{
	const volatile __u32 *length = &skb->len;
	__u64 zero = *length;

	zero -= *length;
	return number + (zero << 32 | zero);
}

#define COPY_MAX 256 /* bytes of a message; a power of two */

/*
 * A copy of a message that is not contiguous, as most TCP messages. Another program on this CPU may
 * overwrite it: owner, the address of the packet, changes then.
 */
struct copy {
	__u64 owner;
	__u8 bytes[COPY_MAX + 16]; /* dns_pair() reads behind the end */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct copy);
} copies SEC(".maps");

/* The packet, or a copy of a part of it. */
struct view {
	struct __sk_buff *skb;
	const struct copy *copy;
};

static __always_inline struct copy *this_copy(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&copies, &first);
}

/* The compiler would load single bytes from an array of bytes. */
static __always_inline __u64 word_of_copy(const struct copy *copy, __u64 at)
{
	const void *bytes = copy->bytes;

	return *(volatile const __u64 *)(bytes + at);
}

static __always_inline int pair_of_copy(const struct view *view, __u32 offset, __u64 words[2])
{
	__u64 at = offset;

	barrier_var(at); /* a comparison of 32 bits tells the verifier of 5.10 nothing */
	if (at > COPY_MAX)
		return 0;
	words[0] = word_of_copy(view->copy, at);
	words[1] = word_of_copy(view->copy, at + 8);
	return 1;
}

static __always_inline int pair_of_packet(struct __sk_buff *skb, __u32 offset, __u64 words[2])
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

static __always_inline int dns_pair(const struct view *view, __u32 offset, __u64 words[2])
{
	return view->copy ? pair_of_copy(view, offset, words)
			  : pair_of_packet(view->skb, offset, words);
}

#include "dns_stream.h"

/* Copies the first of these n bytes, at least one. */
static __always_inline struct copy *copy_of(struct __sk_buff *skb, __u32 offset, __u32 n)
{
	struct copy *copy = this_copy();

	if (!copy)
		return NULL;
	if (n > COPY_MAX)
		n = COPY_MAX;
	n -= 1;
	barrier_var(n);
	n &= COPY_MAX - 1;
	n += 1;
	*(volatile __u64 *)&copy->owner = (unsigned long)skb;
	return bpf_skb_load_bytes(skb, offset, copy->bytes, n) < 0 ? NULL : copy;
}

static __always_inline bool is_copy_of(const struct copy *copy, const struct __sk_buff *skb)
{
	return *(volatile const __u64 *)&copy->owner == (unsigned long)skb;
}

/* Whether a frame of at most COPY_MAX bytes is in the copy, if the packet has all of it. */
static __always_inline bool is_frame_copied(
	const struct copy *copy, const struct __sk_buff *skb, __u64 at)
{
	barrier_var(at);
	return at <= COPY_MAX - 8 && is_copy_of(copy, skb) &&
	       at + 2 + (__builtin_bswap64(word_of_copy(copy, at)) >> 48) <= COPY_MAX;
}

/* Parses a message in this CPU's copy. 0 for messages that dns_read_quickly() cannot parse. */
__noinline __u64 read_copied(struct __sk_buff *skb, __u32 at, __u32 length)
{
	const struct copy *copy = this_copy();
	__u64 read;

	if (!copy || length < DNS_HEADER)
		return 0;
	read = dns_read_quickly(&(struct view){skb, copy}, at, length);
	return is_copy_of(copy, skb) ? read : 0;
}

#endif
