/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/* What list_owners() of bpf/neighbor.bpf.c writes for each process. */

#include <linux/types.h>

struct owner_record {
	__u32 pid;   /* in the first pid namespace */
	__u32 netns; /* inode of its network namespace */
};

_Static_assert(sizeof(struct owner_record) == 8, "shared with the BPF object");
