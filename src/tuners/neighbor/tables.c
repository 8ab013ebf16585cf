/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include <linux/capability.h>

const struct limit_row neighbor_limits[] = {
	{
		.name = "neighbor/ipv4",
		.unit = "entries",
		.help = "Collectable entries of the IPv4 neighbour (ARP) table, one table for all network "
			"namespaces of the kernel. When it is full, packets to new addresses are dropped.",
		.def = "gc_thresh3 is 1024",
		.option = "neighbor.ipv4",
		.source = "net/core/neighbour.c, neigh_alloc(): gc_entries against gc_thresh3",
	},
	{
		.name = "neighbor/ipv6",
		.unit = "entries",
		.help = "Collectable entries of the IPv6 neighbour (NDISC) table, one table for all "
			"network namespaces of the kernel. When it is full, packets to new addresses are "
			"dropped.",
		.def = "gc_thresh3 is 1024",
		.option = "neighbor.ipv6",
		.source = "net/core/neighbour.c, neigh_alloc(): gc_entries against gc_thresh3",
	},
	{0},
};

const struct explanation neighbor_explanations[] = {
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

static const struct reason condition_reasons[] = {
	{"near-full", "More than 80 % of the table is in use."},
	{"at-ceiling", "The table is filling, and growth has reached neighbor.ceiling."},
	{"entries-refused", "The kernel refused new entries because the table was full."},
	{"counters-unavailable", "The table's counters could not be read."},
	{0},
};

const struct condition_type neighbor_conditions[] = {
	[NEIGHBOR_TABLE_PRESSURE] = {"NeighborTablePressure", SEVERITY_WARNING,
		"A neighbour table is more than 80 % full; it stays so until it is below 70 %. "
		"Raise neighbor.ipv4 or neighbor.ipv6 gc_thresh3, or find who uses it.",
		condition_reasons},
	[NEIGHBOR_TABLE_OVERFLOW] = {"NeighborTableOverflow", SEVERITY_CRITICAL,
		"The kernel refused neighbour entries within the last five minutes: packets to new "
		"addresses were dropped, for every network namespace. Raise gc_thresh3.",
		condition_reasons},
	{0},
};

const struct reason neighbor_reasons[] = {
	{"growing", "The table is filling: raised ahead of need, before an entry is refused."},
	{0},
};

const struct metric_row neighbor_metric_rows[] = {
	{"headroom_neighbor_entries", METRIC_GAUGE, "entries",
		"Entries in the kernel's neighbour table, of all network namespaces.", {"family"}},
	{"headroom_neighbor_collectable_entries", METRIC_GAUGE, "entries",
		"Entries that gc_thresh3 counts; without BPF all entries, an upper bound.",
		{"family"}},
	{"headroom_neighbor_gc_threshold", METRIC_GAUGE, "entries",
		"The table's gc_thresh1, 2 and 3 as read back.", {"family", "level"}},
	{"headroom_neighbor_created_total", METRIC_COUNTER, "entries",
		"Entries created in all network namespaces.", {"family"}},
	{"headroom_neighbor_refused_total", METRIC_COUNTER, "entries",
		"Entries refused because the table was full.", {"family"}},
	{"headroom_neighbor_forced_gc_total", METRIC_COUNTER, NULL,
		"Collections that a new entry forced above gc_thresh2.", {"family"}},
	{0},
};

const struct capability_row neighbor_capabilities[] = {
	{CAPABILITY(CAP_BPF), CAPABILITY_TO_RUN, NULL,
		"loads the programs that count the entries of each workload, and reads their counters"},
	{CAPABILITY(CAP_PERFMON), CAPABILITY_TO_OPEN, NULL,
		"attaches these programs to the kernel"},
	{CAPABILITY(CAP_NET_ADMIN), CAPABILITY_TO_RUN, NULL, "sets the thresholds by netlink"},
	{CAPABILITY(CAP_SYS_NICE), CAPABILITY_TO_RUN, NULL,
		"gives growth a real-time priority, so that a busy node does not delay it"},
	{0},
};
