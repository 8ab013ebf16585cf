/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_KERNEL_TYPES_H
#define BPF_KERNEL_TYPES_H

/*
 * The kernel structures that the programs read, with only the fields they read: CO-RE finds the
 * offsets on the running kernel. Structures without a source are in include/net/neighbour.h.
 */

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct list_head {
	struct list_head *next;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct neighbour;

struct neigh_hash_table {
	struct hlist_head *hash_heads;   /* from 6.13 */
	struct neighbour **hash_buckets; /* before */
	unsigned int hash_shift;
};

struct neigh_table {
	int family;
	atomic_t gc_entries; /* collectable entries: what gc_thresh3 is compared with; from 5.0 */
	struct neigh_hash_table *nht;
};

struct net_device;

struct neighbour {
	struct hlist_node hash; /* from 6.13 */
	struct neighbour *next; /* before */
	struct neigh_table *tbl;
	__u8 nud_state;
	__u32 flags;              /* __u8 before 5.16: the load is adapted */
	struct list_head gc_list; /* linked while the entry is collectable */
	struct net_device *dev;
};

struct neigh_parms {
	struct neigh_table *tbl;
};

struct in_device { /* include/linux/inetdevice.h */
	struct neigh_parms *arp_parms;
};

struct inet6_dev { /* include/net/if_inet6.h */
	struct neigh_parms *nd_parms;
};

struct ns_common { /* include/linux/ns_common.h */
	unsigned int inum;
};

struct net;

typedef struct { /* include/net/net_namespace.h */
	struct net *net;
} possible_net_t;

struct net_device { /* include/linux/netdevice.h */
	char name[16];
	possible_net_t nd_net;
	struct in_device *ip_ptr;
	struct inet6_dev *ip6_ptr;
};

struct net {
	struct ns_common ns;
	struct net_device *loopback_dev;
};

struct nsproxy {
	struct net *net_ns;
};

struct task_struct {
	int pid; /* of the thread, in the first pid namespace */
	int tgid;
	struct nsproxy *nsproxy;
};

#pragma clang attribute pop

#endif
