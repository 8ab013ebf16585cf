/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* sense.c reads the tables and has the BPF programs, decide.c decides, tuner.c has rows and ops. */

#include "workload/facts.h"
#include "workload/netns.h"

#include <headroom/bpf/neighbor.h>
#include <headroom/tuner.h>

#define NEIGHBOR_LEVELS 3

/* The kernel's default: net/ipv4/arp.c and net/ipv6/ndisc.c. */
#define NEIGHBOR_KERNEL_THRESH1 "128"

/*
 * Statistics of a neighbour table, from procfs: the kernel's struct neigh_statistics, summed over
 * all CPUs since boot. RTM_GETNEIGHTBL would have them too, but it sends a message for each device
 * and waits for a lock that is held while a network namespace is created.
 */
struct neighbor_stats {
	uint64_t entries;     /* in the table now */
	uint64_t allocs;      /* entries created */
	uint64_t forced_gc;   /* forced_gc_runs: collections above gc_thresh2 */
	uint64_t table_fulls; /* entries refused; Linux 5.0 and later */
};

/* A neighbour table as sensed. */
struct neighbor_table_seen {
	char threshold[NEIGHBOR_LEVELS][SETTING_VALUE_MAX];
	int threshold_error[NEIGHBOR_LEVELS]; /* 0 or -errno of reading it */
	struct neighbor_stats stats;
	int stats_error; /* 0 or -errno */
	bool exact;      /* collectable is the kernel's own count, read by BPF */
	uint64_t collectable;
	struct neighbor_refusal last; /* zero without BPF and before the first refusal */
	struct workload last_owner;   /* owner of the network namespace of last */
	struct limit_user top[LIMIT_TOP_MAX];
	unsigned n_top;
};

struct neighbor_config {
	struct neighbor_family_config {
		bool keep;
		uint64_t threshold[NEIGHBOR_LEVELS];
		bool requested[NEIGHBOR_LEVELS]; /* a configuration file sets it */
		bool chosen[NEIGHBOR_LEVELS];    /* or names the profile that sets it */
		enum reason reason[NEIGHBOR_LEVELS];
	} families[NEIGHBOR_FAMILIES];
	bool lower;
	bool grow;
	uint64_t ceiling; /* 0: derived from memory */
};

struct neighbor_bpf_object;
struct ring_buffer;

/*
 * The users of the neighbour tables. BPF counts the entries that are created and removed in each
 * network namespace. A walk of the kernel's table counts the entries from before BPF was attached;
 * it is repeated when the sum does not match the kernel's own count.
 */
struct neighbor_users {
	struct neighbor_bpf_object *object;
	struct netns_owners *owners;
	/* Entries of each namespace, largest first. */
	struct neighbor_row {
		struct neighbor_key key;
		int64_t used;
	} *rows;
	size_t n, allocated;
	uint64_t started_at_us, counted_at_us, next_walk_us;
	bool wrong;      /* the last sum did not match */
	uint64_t events; /* created, removed and refused at the last count */
	struct netns_event refusals[NEIGHBOR_FAMILIES]; /* the last of each family */
};

/* The first walk waits until the agent has started: the buckets of a table never shrink, so walking
 * a table that was once large can take 250 ms. */
#define NEIGHBOR_START_US (200 * USEC_PER_MSEC)

struct neighbor {
	const struct host *host;
	const struct names *names;
	struct neighbor_config config;
	struct neighbor_table_seen tables[NEIGHBOR_FAMILIES]; /* at the last poll */
	/* A gc_thresh1 below the kernel's, and the file that sets it. */
	struct neighbor_choice {
		char value[SETTING_VALUE_MAX];
		char why[SETTING_WHY_MAX];
	} choices[NEIGHBOR_FAMILIES];
	uint64_t memory_bytes;           /* the node's memory */
	size_t stats_max;                /* size bound of a statistics file, a line per CPU */
	bool once;                       /* a command, which polls once */
	struct neighbor_bpf_object *bpf; /* NULL: not loaded; then ring and users are unused */
	struct ring_buffer *ring;        /* brings wake-ups */
	struct neighbor_users users;
	uint64_t woken_us;             /* now of the last poll that a wake-up asked for */
	char bpf_why[TUNER_WHY_MAX];   /* why BPF does not run; may be empty */
	char write_why[TUNER_WHY_MAX]; /* why thresholds cannot be written; may be empty */
};

/* The memory of decide(). */
struct neighbor_memory {
	struct neighbor_family_memory {
		bool seen;
		uint64_t refused;       /* table_fulls at the last poll */
		uint64_t refused_at_us; /* when it last rose; 0: never */
		uint64_t refused_now;   /* entries refused since the last poll */
		uint64_t used_then;     /* collectable then */
		uint64_t holder_used;   /* what the largest user had then */
		uint64_t used;          /* collectable at the last poll */
		uint64_t used_at_us;
		double rate;      /* entries per second between the last two polls */
		bool at_ceiling;  /* the table should grow but has reached the ceiling */
		uint64_t wake_at; /* collectable entries at which BPF requests a poll; 0: never */
	} families[NEIGHBOR_FAMILIES];
};

extern const struct neighbor_family_row {
	int af;
	const char *name;
	const char *statistics; /* a file below the host's root */
} neighbor_families[NEIGHBOR_FAMILIES];

/* Writes "net.ipv4.neigh.default.gc_thresh3"; i counts from 0. */
void neighbor_threshold_name(
	const struct neighbor_family_row *row, int i, char name[static SETTING_NAME_MAX]);

/* Members of struct tuner_ops. */
void *neighbor_open(const struct host *host, struct facts *facts, struct sd_event *event);
void neighbor_sense(void *self, uint64_t now_us);
void neighbor_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);
void neighbor_count_states(char *text, size_t size);
void neighbor_arm(void *self, const void *memory);
void neighbor_close(void *self, void *memory);
extern const struct bpf_ops neighbor_bpf;

extern const struct tuner_tables neighbor_tables;
extern const struct condition_type neighbor_conditions[];

enum { NEIGHBOR_TABLE_PRESSURE, NEIGHBOR_TABLE_OVERFLOW };
