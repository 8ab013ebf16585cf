/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kernel's neighbour tables as procfs shows them in the first network namespace. One table
 * serves all namespaces. Procfs is asked and not RTM_GETNEIGHTBL: that answers with a message for
 * every device and waits for the lock that creating a namespace holds.
 */

#include "kernel/host.h"

/* Sums over all CPUs since boot (struct neigh_statistics of the kernel), and entries now. */
struct neightbl_stats {
	uint64_t entries;
	uint64_t allocs;      /* entries made */
	uint64_t forced_gc;   /* forced_gc_runs: collections above gc_thresh2 */
	uint64_t table_fulls; /* entries refused; since 5.0 */
};

/* "/proc/net/stat/arp_cache" or "/proc/net/stat/ndisc_cache". */
const char *neightbl_stat_path(int family);

/* The table's name for RTM_SETNEIGHTBL: "arp_cache", "ndisc_cache". */
const char *neightbl_name(int family);

/* "net.ipv4.neigh.default.gc_thresh3". */
void neightbl_threshold_name(int family, int level, char name[static SETTING_NAME_MAX]);

/*
 * Reads a statistics file. scratch is the caller's memory of the given size: a line for each CPU of
 * at most 200 bytes. 0; -errno; -EBADMSG for text of an unknown form; -EFBIG when it does not fit.
 */
int neightbl_read_stats(const struct host *host, struct kept_file *file, char *scratch, size_t size,
	struct neightbl_stats *stats);

/* The parser behind it, for tests: text is consumed. */
int neightbl_parse_stats(char *text, struct neightbl_stats *stats);
