/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/* What bpf/neighbor.bpf.c shares with user space. */

#include <linux/types.h>

/* Network namespaces times devices times families that are told apart; more are counted as lost. */
#define NEIGHBOR_COUNTS_MAX 16384

/* Buckets of the kernel's hash table that one run of the walk looks at. */
#define NEIGHBOR_WALK_BUCKETS 64

enum neighbor_family {
	NEIGHBOR_IPV4,
	NEIGHBOR_IPV6,
	NEIGHBOR_FAMILIES,
};

/* The last entry that the kernel would not make. */
struct neighbor_refusal {
	__u32 netns; /* inode of the network namespace */
	__u32 ifindex;
	char device[16];
	__u8 address[16]; /* network order; IPv4 in the first four */
};

/* One for each family, in a page that user space reads and writes without a system call. */
struct neighbor_record {
	__u32 sampled; /* 1 once collectable has been read from the table */
	__u64 created; /* entries made since the program was attached, in every network namespace */
	__u64 removed;
	__u64 refused;     /* entries that the kernel would not make: the table was full */
	__u64 collectable; /* the table's gc_entries when last sampled */
	__u64 lost;        /* events whose namespace and device found no room in the counts */
	__u64 wake_at;     /* wake user space when so many are collectable; 0: never */
	/* And when an entry is refused; both are cleared by the waking. */
	__u32 wake_refused;
	struct neighbor_refusal last;
};

/* Who: key and value of the maps counts and walked. */
struct neighbor_key {
	__u32 netns;
	__u32 ifindex;
	__u32 family; /* enum neighbor_family */
};

/* Since the program was attached. Collectable are created less exempt less removed. */
struct neighbor_count {
	__u64 created;
	__u64 exempt;  /* of those created: permanent, or externally learned */
	__u64 removed; /* of those that could be collected */
	__u64 refused;
};

/* What list_owners() writes for each process. */
struct owner_record {
	__u32 pid;   /* in the first pid namespace */
	__u32 netns; /* inode of its network namespace */
};

_Static_assert(sizeof(struct neighbor_key) == 12, "a key without padding");
