/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The switches of transparent huge pages (Documentation/admin-guide/mm/transhuge.rst). Since 6.8
 * each page size has its own switches, which can override the global ones: enabled=never alone does
 * not switch huge pages off.
 */

#include "workload/facts.h"

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
	struct want want; /* actual as read; named like thp.hugepages-64kB.enabled */
};

/* Memory backed by huge pages, in kB, from /proc/meminfo. */
struct thp_usage {
	uint64_t anon;  /* AnonHugePages */
	uint64_t shmem; /* ShmemHugePages */
	uint64_t file;  /* FileHugePages: large folios of file systems, without a switch */
};

/* The workloads with the most huge pages; used is in bytes. */
struct thp_users {
	struct limit_user users[FINDING_USERS_MAX];
	size_t n;
};

struct thp {
	const struct host *host;
	const struct names *names;
	char wanted[THP_SWITCH_KINDS][16]; /* empty: keep */
	bool requested[THP_SWITCH_KINDS];  /* a configuration file sets the option */
	bool chosen[THP_SWITCH_KINDS];     /* or names the profile that sets it */
	enum reason reason[THP_SWITCH_KINDS];
	struct thp_switch switches[THP_SWITCHES_MAX];
	unsigned n_switches;
	struct thp_usage usage;
	int usage_error;                /* 0 or -errno */
	struct thp_users users;         /* as long as the default takes their huge pages */
	uint64_t users_at_us;           /* when they were found; 0: never */
	char boot_line[128];            /* the kernel parameters that set switches; may be empty */
	bool at_boot[THP_SWITCH_KINDS]; /* the switches that they set */
	char tuned[SETTING_WHY_MAX];    /* the administrator's profile of TuneD that sets
					   thp.enabled; or empty */
	char write_why[TUNER_WHY_MAX];  /* empty when the switches can be written */
};

/* Huge pages that the default took from programs that had asked for them. */
struct thp_loss {
	struct thp_usage usage; /* all 0: none */
	struct thp_users users;
};

/* The memory of decide(). */
struct thp_memory {
	struct thp_loss loss;   /* kept: once the switch is off, nothing shows it any more */
	char cost[512];         /* what the change takes away; pointed to by a want */
	bool off;               /* at the last poll the kernel gave out no unwanted huge pages */
	struct thp_usage usage; /* at the last poll */
	uint64_t grown_at_us;   /* when unwanted huge pages last grew, CLOCK_MONOTONIC; 0: never */
	/* Since when the advice lasts, CLOCK_MONOTONIC; 0: it does not. */
	uint64_t on_since_us, mapped_since_us, asked_since_us;
};

/* Finds the workloads whose memory has huge pages, with one file for each cgroup that has some. */
void thp_find_users(const struct host *host, struct thp_users *users);
