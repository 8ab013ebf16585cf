/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The switches of transparent huge pages (Documentation/admin-guide/mm/transhuge.rst). From 6.8
 * each page size has switches of its own, which can override the global ones: enabled=never is not
 * off.
 */

#include "kernel/host.h"

#include <headroom/tuner.h>

#define THP_DIRECTORY    "/sys/kernel/mm/transparent_hugepage"
#define THP_SWITCHES_MAX 48 /* 4 global ones and 2 for each size; an arm64 kernel has 15 sizes */

enum thp_switch_kind {
	THP_ENABLED,
	THP_DEFRAG,
	THP_SHMEM_ENABLED,
	THP_KHUGEPAGED_DEFRAG,
	THP_SIZE_ENABLED,       /* hugepages-64kB/enabled */
	THP_SIZE_SHMEM_ENABLED, /* hugepages-64kB/shmem_enabled */
	THP_SWITCH_KINDS,
};

struct thp_switch {
	enum thp_switch_kind kind;
	struct want want; /* with what was found: thp.hugepages-64kB.enabled */
};

/* What memory is backed by huge pages, in kB, from /proc/meminfo. */
struct thp_usage {
	uint64_t anon;  /* AnonHugePages */
	uint64_t shmem; /* ShmemHugePages */
	uint64_t file;  /* FileHugePages: the file systems' own large folios, without a switch */
};

struct thp {
	const struct host *host;
	char wanted[THP_SWITCH_KINDS][16]; /* the value for each kind; empty for keep */
	bool requested[THP_SWITCH_KINDS];  /* a file says it */
	struct thp_switch switches[THP_SWITCHES_MAX];
	unsigned n_switches;
	struct thp_usage usage;
	int usage_error;     /* 0 or -errno */
	char boot_line[128]; /* the parameters that set a switch at boot; empty for none */
	bool at_boot[THP_SWITCH_KINDS]; /* which switches they set */
	char write_why[TUNER_WHY_MAX];  /* empty when the switches can be written */
};

/* How much of what should not be huge was, at the last poll, and when that last grew. */
struct thp_memory {
	bool seen;
	struct thp_usage usage; /* of the last poll */
	uint64_t grown_at_us;
};

/* Takes the parameters of interest from a boot line; also for tests. */
void thp_parse_boot_line(const char *line, struct thp *thp);
