// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts the DNS queries that sockets of this host send to port 53, and the answers from port 53.
 * Queries that a server on this host receives, and its answers, are not counted: nothing counts
 * twice. User space reads the maps at any time. The programs never change or drop a packet.
 *
 * Linux 5.10 lacks atomics that return a value, and its verifier rejects a variable offset into the
 * stack: the parser reads messages in words, from the packet or from a copy in a map. The verifier
 * checks a function that is not static once for all callers; on 5.10 its arguments must be numbers
 * or the context.
 */
#include "dns_tcp.h"

#include <linux/in.h>
#include <linux/udp.h>

#define PASS 1 /* 0 would drop the packet */

#define PORT_DNS bpf_htons(53)
#define PORT_DOT bpf_htons(853)

#define FRAGMENT_OFFSET bpf_htons(0x1fff) /* of iphdr.frag_off */

#define EXTENSIONS_MAX 16 /* headers between IPv6 and the transport */

/* UDP_MAX_SEGMENTS of include/linux/udp.h. */
#define DATAGRAMS_MAX 128

char LICENSE[] SEC("license") = "Dual BSD/GPL";

__noinline int count_encrypted(struct __sk_buff *skb)
{
	count_packet(slot_of_receiver(skb), packets_in(skb), true, 0);
	return 0;
}

/* Counts a datagram with a usual message. False for any other, so that its steps need less stack.
 */
static __always_inline bool count_quickly(
	struct __sk_buff *skb, __u32 offset, __u32 length, __u64 tracked, enum direction direction)
{
	__u64 read = 0;

	if (length >= DNS_HEADER && skb->data_end - skb->data >= offset + length)
		read = forget(skb, dns_read_quickly(&(struct view){.skb = skb}, offset, length));
	if (!read)
		return false;
	if (direction == EGRESS)
		count_sent_read(skb, read, offset, DNS_UDP, bpf_ktime_get_ns(), tracked);
	else
		count_received_read(skb, read, DNS_UDP, bpf_ktime_get_ns());
	return true;
}

/* Functions of their own: the verifier checks a message once, and not in each turn of the loop. */
__noinline int count_sent_quickly(struct __sk_buff *skb, __u32 offset, __u32 length, __u64 tracked)
{
	return count_quickly(skb, offset, length, tracked, EGRESS);
}

__noinline int count_received_quickly(struct __sk_buff *skb, __u32 offset, __u32 length)
{
	return count_quickly(skb, offset, length, 0, INGRESS);
}

__noinline int count_slowly(struct __sk_buff *skb, __u32 offset, __u32 length, __u32 direction)
{
	struct dns_frame frame = {.offset = offset, .visible = length, .length = length};
	__u64 now = bpf_ktime_get_ns(), read = 0;

	if (length >= DNS_HEADER && copy_of(skb, offset, length))
		read = read_copied(skb, 0, length);

	return direction == EGRESS ? count_message(skb, &frame, read, DNS_UDP, EGRESS, now)
				   : count_message(skb, &frame, read, DNS_UDP, INGRESS, now);
}

static __always_inline void count_datagram(
	struct __sk_buff *skb, __u32 offset, __u32 length, __u64 tracked, enum direction direction)
{
	if (!(direction == EGRESS ? count_sent_quickly(skb, offset, length, tracked)
				  : count_received_quickly(skb, offset, length)))
		count_slowly(skb, offset, length, direction);
}

/* The device splits a large packet into several datagrams, or it has joined them. */
static __always_inline void count_datagrams(
	struct __sk_buff *skb, __u32 offset, enum direction direction)
{
	__u32 size = skb->gso_size;

	for (int i = 0; i < DATAGRAMS_MAX && offset < skb->len; i++) {
		__u32 length = skb->len - offset;

		if (length > size)
			length = size;
		count_datagram(skb, offset, length, ~0ULL, direction);
		offset += length;
	}
}

__noinline int count_datagrams_sent(struct __sk_buff *skb, __u32 offset)
{
	count_datagrams(skb, offset, EGRESS);
	return 0;
}

__noinline int count_datagrams_received(struct __sk_buff *skb, __u32 offset)
{
	count_datagrams(skb, offset, INGRESS);
	return 0;
}

static __always_inline void count_udp(struct __sk_buff *skb, __u32 at, enum direction direction)
{
	__u32 offset = at + sizeof(struct udphdr);

	if (offset > skb->len)
		return;
	if (!skb->gso_size)
		count_datagram(skb, offset, skb->len - offset,
			direction == EGRESS ? tracking_of(skb) : 0, direction);
	else if (direction == EGRESS)
		count_datagrams_sent(skb, offset);
	else
		count_datagrams_received(skb, offset);
}

/*
 * Finds the transport behind IPv6 extension headers (RFC 8200 4): the protocol is in the upper half
 * of the result, the offset in the lower half. 0 for any other than TCP and UDP.
 */
__noinline __u32 find_transport(struct __sk_buff *skb, __u32 protocol)
{
	__u32 at = sizeof(struct ipv6hdr);

	for (int i = 0; i < EXTENSIONS_MAX; i++) {
		__u8 head[4];

		if (at > 0x7ff)
			break;
		if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP)
			return protocol << 16 | at;
		if (protocol != IPPROTO_HOPOPTS && protocol != IPPROTO_ROUTING &&
			protocol != IPPROTO_DSTOPTS && protocol != IPPROTO_FRAGMENT &&
			protocol != IPPROTO_AH)
			return 0;
		if (bpf_skb_load_bytes(skb, at, head, sizeof(head)) < 0)
			return 0;
		if (protocol == IPPROTO_FRAGMENT && (head[2] || head[3] & 0xf8)) {
			add(&control.fragments);
			return 0;
		}
		if (protocol == IPPROTO_FRAGMENT)
			at += 8;
		else if (protocol == IPPROTO_AH)
			at += (head[1] + 2) * 4;
		else
			at += (head[1] + 1) * 8;
		protocol = head[0];
	}
	add(&control.uninspected);
	return 0;
}

static __always_inline bool is_watched(const struct dns_key *to)
{
	const __u32 *words = (const void *)to->address;

	if (to->family == AF_INET) {
		for (int i = 0; i < DNS_WATCH_IPV4; i++)
			if (words[0] == control.watch.ipv4[i])
				return true;
		return false;
	}
	for (int i = 0; i < DNS_WATCH_IPV6; i++) {
		const __u32 *want = (const void *)control.watch.ipv6[i];

		if (want[0] == words[0] && want[1] == words[1] && want[2] == words[2] &&
			want[3] == words[3])
			return true;
	}
	return false;
}

/* Counts the packets of any protocol that share a budget, by source address. */
__noinline int watch(struct __sk_buff *skb)
{
	struct dns_key to = {0}, from = {0};
	struct dns_source *source;
	__u32 n = packets_in(skb);
	__u64 now;

	to.family = address_of(skb, EGRESS, to.address);
	if (!to.family || !is_watched(&to))
		return 0;
	from.family = address_of(skb, INGRESS, from.address);
	source = element_of(&sources, &from, &no_source);
	if (!source) {
		/* User space added the zero key: these packets use the budget too. */
		add(&control.lost_sources);
		source = bpf_map_lookup_elem(&sources, &no_key);
		if (!source)
			return 0;
	}
	now = bpf_ktime_get_ns();
	*(volatile __u64 *)&source->last_ns = now;
	add_many(&source->packets, n);
	__sync_fetch_and_add(&source->bins[bin_of(now)], n);
	return 0;
}

static __always_inline int inspect(struct __sk_buff *skb, enum direction direction)
{
	const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const struct ipv6hdr *six = data;
	const struct iphdr *four = data;
	__u32 protocol, at;
	const __u16 *ports;
	__u16 port;

	if ((void *)(four + 1) > end)
		return PASS;
	if (four->version == 4) {
		protocol = four->protocol;
		if (protocol != IPPROTO_UDP && protocol != IPPROTO_TCP)
			return PASS;
		if (four->frag_off & FRAGMENT_OFFSET) {
			add(&control.fragments);
			return PASS;
		}
		at = four->ihl * 4;
	} else {
		if ((void *)(six + 1) > end)
			return PASS;
		protocol = six->nexthdr;
		at = sizeof(*six);
		if (protocol != IPPROTO_UDP && protocol != IPPROTO_TCP) {
			__u32 found = find_transport(skb, protocol);

			protocol = found >> 16;
			at = found & 0x7ff;
			if (!protocol)
				return PASS;
			/* The call invalidated the pointers. */
			data = (void *)(long)skb->data;
			end = (void *)(long)skb->data_end;
		}
	}
	ports = data + at;
	if ((void *)(ports + 2) > end)
		return PASS;
	port = direction == EGRESS ? ports[1] : ports[0];
	if (port == PORT_DNS) {
		if (protocol == IPPROTO_UDP)
			count_udp(skb, at, direction);
		else if (direction == EGRESS)
			count_tcp_sent(skb, at);
		else
			count_tcp_received(skb, at);
	} else if (direction == EGRESS && port == PORT_DOT && protocol == IPPROTO_TCP) {
		count_encrypted(skb);
	}
	return PASS;
}

SEC("cgroup_skb/egress")
int dns_egress(struct __sk_buff *skb)
{
	if (control.watching)
		watch(skb);
	return inspect(skb, EGRESS);
}

SEC("cgroup_skb/ingress")
int dns_ingress(struct __sk_buff *skb)
{
	return inspect(skb, INGRESS);
}

/* A client can end before user space has found its name. The kernel's caller holds a mutex. */
SEC("raw_tp/cgroup_rmdir")
int dns_cgroup_rmdir(struct bpf_raw_tracepoint_args *context)
{
	const struct cgroup *cgroup = (void *)context->args[0];
	struct dns_ended *ended;

	if (BPF_CORE_READ(cgroup, root, hierarchy_id) != 0)
		return 0;
	ended = &control.ended[control.n_ended++ & (DNS_ENDED - 1)];
	ended->cgroup = BPF_CORE_READ(cgroup, kn, id);
	bpf_probe_read_kernel_str(ended->path, sizeof(ended->path), (const void *)context->args[1]);
	return 0;
}
