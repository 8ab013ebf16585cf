/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_OWNER_H
#define KERNEL_OWNER_H

/*
 * Who owns a network namespace: the workload of a process in it. What was found is kept; what was
 * not is looked for again, all at once and at most every few seconds.
 */

#include <stdint.h>

#include "base/cleanup.h"
#include "kernel/host.h"

#include <headroom/workload.h>

struct owner_book;

/* Loads what it needs. NULL without memory; without BPF only names of /run/netns are known. */
struct owner_book *owner_book_open(const struct host *host);
void owner_book_close(struct owner_book *book);
DEFINE_CLEANUP(struct owner_book, owner_book_close)

/* Looks for all of these that are not known yet, if it is time to. netns are inodes. */
void owner_book_learn(struct owner_book *book, const uint32_t *netns, size_t n, uint64_t now_us);

/* The owner of a namespace; for one nobody is known of, kind netns and its inode. */
struct workload owner_book_find(const struct owner_book *book, uint32_t netns);

/* Forgets everyone but these: a namespace that died may come back as another's. */
void owner_book_keep_only(struct owner_book *book, const uint32_t *netns, size_t n);

#endif
