/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_KERNEL_TYPES_H
#define BPF_KERNEL_TYPES_H

/*
 * The few kernel structures that the programs look into, with only the fields they read: CO-RE
 * finds the offsets on the running kernel. Source, where none is named: include/net/neighbour.h.
 */

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct neigh_table {
	int family;
	atomic_t gc_entries; /* collectable entries: what gc_thresh3 is compared with; since 5.0 */
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

struct net_device {
	struct in_device *ip_ptr;
	struct inet6_dev *ip6_ptr;
};

struct net {
	struct net_device *loopback_dev;
};

struct nsproxy {
	struct net *net_ns;
};

struct task_struct {
	struct nsproxy *nsproxy;
};

struct neighbour;

#pragma clang attribute pop

#endif
