/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef HEADROOM_BPF_NEIGHBOR_H
#define HEADROOM_BPF_NEIGHBOR_H

/* What bpf/neighbor.bpf.c shares with user space: one record for each address family. */

#include <linux/types.h>

#define NEIGHBOR_RECORD_VERSION 1

enum neighbor_family {
	NEIGHBOR_IPV4,
	NEIGHBOR_IPV6,
	NEIGHBOR_FAMILIES,
};

struct neighbor_record {
	__u32 version; /* NEIGHBOR_RECORD_VERSION */
	__u32 sampled; /* 1 once collectable has been read from the table */
	__u64 created; /* entries made since the program was attached, in every network namespace */
	__u64 refused; /* entries that the kernel would not make: the table was full */
	__u64 collectable; /* the table's gc_entries when last sampled */
};

_Static_assert(sizeof(struct neighbor_record) == 32, "shared with the BPF object");

#endif
