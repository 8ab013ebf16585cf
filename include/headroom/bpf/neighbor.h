/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/* The maps and records that bpf/neighbor.bpf.c shares with user space. */

#include <linux/types.h>

/* The maximum number of pairs of a network namespace and a family with a count. */
#define NEIGHBOR_COUNTS_MAX 16384

/* Buckets of the kernel's hash table that one run of walk() reads. */
#define NEIGHBOR_WALK_BUCKETS 64

enum neighbor_family {
	NEIGHBOR_IPV4,
	NEIGHBOR_IPV6,
	NEIGHBOR_FAMILIES,
};

/* The last entry that the kernel refused. */
struct neighbor_refusal {
	__u32 netns; /* inode of the network namespace */
	char device[16];
	__u8 address[16]; /* network order; IPv4 in the first four */
};

/* One for each family, in a page that user space reads and writes without a system call. */
struct neighbor_record {
	__u32 sampled; /* 1 once collectable has been read from the table */
	/* Entries of all network namespaces since the program was attached. */
	__u64 created, removed;
	__u64 refused;     /* because the table was full */
	__u64 collectable; /* the table's gc_entries when last sampled */
	/* Wake user space at this many collectable entries (0: never), and at a refusal. The
	 * program clears a mark when it wakes. */
	__u64 wake_at;
	__u32 wake_refused;
	struct neighbor_refusal last;
};

/* Key of the maps counts and walked; the value is the number of collectable entries, a __s64. */
struct neighbor_key {
	__u32 netns;
	__u32 family; /* enum neighbor_family */
};

/* The maximum number of addresses with a conflict: user space removes old ones. */
#define NEIGHBOR_CONFLICTS_MAX 256

#define NEIGHBOR_MAC 6 /* the length of the link addresses that are compared */

/* What the kernel does with another link address of an entry that has one. */
enum neighbor_verdict {
	NEIGHBOR_REFUSED, /* it keeps its own */
	NEIGHBOR_WEAK,    /* it keeps its own, but will ask soon: the entry is stale */
	NEIGHBOR_VERDICTS,
};

/* Key of the map conflicts: an address on a device. */
struct neighbor_address {
	__u32 netns; /* inode of the network namespace */
	__u32 ifindex;
	__u32 family;     /* enum neighbor_family */
	__u8 address[16]; /* network order; IPv4 in the first four */
};

/* Its value: another link address was seen so many times, and the last one. */
struct neighbor_conflict {
	__u64 counts[NEIGHBOR_VERDICTS];
	__u64 at_ns; /* CLOCK_MONOTONIC */
	char device[16];
	__u8 known[NEIGHBOR_MAC]; /* the entry's */
	__u8 other[NEIGHBOR_MAC];
};

/* The bits of nud_state, and the bounds of the ages, in seconds: the last age is open. */
#define NEIGHBOR_STATES      8
#define NEIGHBOR_AGES        4
#define NEIGHBOR_AGE_SECONDS {60, 600, 3600}

/* Entries of a table by state and by the time since their last use or confirmation. */
struct neighbor_census {
	__u64 entries[NEIGHBOR_STATES][NEIGHBOR_AGES];
};

/* list_owners() writes one for each process. */
struct owner_record {
	__u32 pid;   /* in the first pid namespace */
	__u32 netns; /* inode of its network namespace */
};
