// SPDX-License-Identifier: Apache-2.0
/*
 * The peers of the agent's BPF programs. tap_*: ships the first bytes of every packet of port 53 to
 * user space and wakes the reader, as tools do that inspect DNS packet by packet. empty_*: does
 * nothing at the same hook, and shows the cost of the kernel's own statistics.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PAYLOAD 256
#define PORT    53

#define UDP_HEADER 8
#define TCP_HEADER 20 /* options are shipped with the rest */

struct packet {
	__u64 time;
	__u64 cgroup;
	__u32 length;
	__u8 egress;
	__u8 data[PAYLOAD];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} packets SEC(".maps");

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline int ship(struct __sk_buff *skb, int egress)
{
	struct iphdr ip;
	__be16 ports[2];
	struct packet *packet;
	__u32 start, n;

	if (skb->protocol != bpf_htons(ETH_P_IP) ||
		bpf_skb_load_bytes(skb, 0, &ip, sizeof(ip)) < 0 ||
		(ip.protocol != IPPROTO_UDP && ip.protocol != IPPROTO_TCP))
		return 1;
	start = ip.ihl * 4u;
	if (bpf_skb_load_bytes(skb, start, ports, sizeof(ports)) < 0 ||
		ports[egress ? 1 : 0] != bpf_htons(PORT))
		return 1;
	start += ip.protocol == IPPROTO_UDP ? UDP_HEADER : TCP_HEADER;
	packet = bpf_ringbuf_reserve(&packets, sizeof(*packet), 0);
	if (!packet)
		return 1;
	n = skb->len > start ? skb->len - start : 0;
	packet->time = bpf_ktime_get_ns();
	packet->cgroup = bpf_skb_cgroup_id(skb);
	packet->length = n;
	packet->egress = (__u8)egress;
	n = n < PAYLOAD ? n : PAYLOAD;
	if (n > 0)
		bpf_skb_load_bytes(skb, start, packet->data, n);
	bpf_ringbuf_submit(packet, BPF_RB_FORCE_WAKEUP);
	return 1;
}

SEC("cgroup_skb/egress")
int tap_egress(struct __sk_buff *skb)
{
	return ship(skb, 1);
}

SEC("cgroup_skb/ingress")
int tap_ingress(struct __sk_buff *skb)
{
	return ship(skb, 0);
}

SEC("cgroup_skb/egress")
int empty_egress(struct __sk_buff *skb)
{
	return 1;
}

SEC("cgroup_skb/ingress")
int empty_ingress(struct __sk_buff *skb)
{
	return 1;
}
