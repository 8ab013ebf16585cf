/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

const struct explanation neighbor_explanations[] = {
	{"neighbor/ipv4", "limit",
		"Collectable entries of the IPv4 neighbour (ARP) table, one table for all network "
		"namespaces of the kernel. When it is full, packets to new addresses are dropped.",
		"entries", "gc_thresh3 is 1024", "neighbor.ipv4",
		"net/core/neighbour.c, neigh_alloc(): gc_entries against gc_thresh3"},
	{"neighbor/ipv6", "limit",
		"Collectable entries of the IPv6 neighbour (NDISC) table, one table for all "
		"network namespaces of the kernel. When it is full, packets to new addresses are "
		"dropped.",
		"entries", "gc_thresh3 is 1024", "neighbor.ipv6",
		"net/core/neighbour.c, neigh_alloc(): gc_entries against gc_thresh3"},
	{"net.ipv[46].neigh.default.gc_thresh1", "setting",
		"Below this many entries the table is left alone: nothing is collected.", "entries",
		"128", "neighbor.ipv4.gc_thresh1, neighbor.ipv6.gc_thresh1",
		"Documentation/networking/ip-sysctl.rst"},
	{"net.ipv[46].neigh.default.gc_thresh2", "setting",
		"Above this many collectable entries a new one forces a collection, at most every "
		"five seconds.",
		"entries", "512", "neighbor.ipv4.gc_thresh2, neighbor.ipv6.gc_thresh2",
		"net/core/neighbour.c, neigh_alloc()"},
	{"net.ipv[46].neigh.default.gc_thresh3", "setting",
		"With this many collectable entries, and nothing to collect, a new one is refused.",
		"entries", "1024", "neighbor.ipv4.gc_thresh3, neighbor.ipv6.gc_thresh3",
		"net/core/neighbour.c, neigh_alloc()"},
	{0},
};
