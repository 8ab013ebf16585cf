/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* sense.c reads the tables, decide.c turns what it found into a proposal; tuner.c joins them. */

#include "workload/netns.h"

#include <headroom/bpf/neighbor.h>
#include <headroom/tuner.h>

#define NEIGHBOR_LEVELS 3

/*
 * Statistics of one of the kernel's tables: sums over all CPUs since boot (struct neigh_statistics
 * of the kernel), and entries now. Procfs is asked and not RTM_GETNEIGHTBL: that answers with a
 * message for every device and waits for the lock that creating a namespace holds.
 */
struct neighbor_stats {
	uint64_t entries;
	uint64_t allocs;      /* entries made */
	uint64_t forced_gc;   /* forced_gc_runs: collections above gc_thresh2 */
	uint64_t table_fulls; /* entries refused; since 5.0 */
};

/* One table as it was found. */
struct neighbor_table_seen {
	char threshold[NEIGHBOR_LEVELS][SETTING_VALUE_MAX];
	int threshold_error[NEIGHBOR_LEVELS]; /* 0 or -errno of reading it */
	struct neighbor_stats stats;
	int stats_error; /* 0 or -errno */
	bool exact;      /* collectable was read from the table itself */
	uint64_t collectable;
	uint64_t created; /* since boot as the kernel counts, or since start as BPF does */
	uint64_t refused;
	struct neighbor_refusal last; /* all zero without BPF, or when nothing was refused */
	struct workload last_owner;   /* whose namespace that was */
	struct limit_user top[LIMIT_TOP_MAX];
	unsigned n_top;
};

struct neighbor_config {
	struct neighbor_family_config {
		bool keep;
		uint64_t threshold[NEIGHBOR_LEVELS];
		bool requested[NEIGHBOR_LEVELS]; /* a file says it */
	} families[NEIGHBOR_FAMILIES];
	bool lower;
	bool grow;
	uint64_t ceiling; /* 0: by memory */
};

struct neighbor_bpf_object;
struct ring_buffer;

/*
 * Who uses the neighbour tables. BPF counts what is created and removed by network namespace and
 * device from the moment it is attached; what was there before is counted once by walking the
 * kernel's table, and again whenever the sum does not match the kernel's own.
 */
struct neighbor_users {
	struct neighbor_bpf_object *object;
	struct netns_owners *owners;
	/* What each namespace has, largest first. */
	struct neighbor_row {
		struct neighbor_key key;
		int64_t used;
	} * rows;
	size_t n, allocated;
	uint64_t started_at_us, counted_at_us, next_walk_us;
	bool wrong;      /* the last sum did not match */
	uint64_t events; /* created, removed and refused at the last count */
	struct netns_event refusals[NEIGHBOR_FAMILIES]; /* the last of each family */
};

/* A table that once was large keeps its buckets: walking it can take a quarter of a second, which
 * waits until the agent has started. */
#define NEIGHBOR_START_US (200 * USEC_PER_MSEC)

struct neighbor {
	const struct host *host;
	struct neighbor_config config;
	struct neighbor_table_seen tables[NEIGHBOR_FAMILIES]; /* at the last poll */
	uint64_t memory_bytes;                                /* of the node */
	size_t stats_max;                /* bytes of a statistics file: a line for each CPU */
	bool once;                       /* a command polls only once, without BPF */
	struct neighbor_bpf_object *bpf; /* NULL without; the two below go with it */
	struct ring_buffer *ring;        /* of wake-ups */
	struct neighbor_users users;
	bool woken;                    /* since the last poll */
	char bpf_why[TUNER_WHY_MAX];   /* empty when BPF runs or was not asked for */
	char write_why[TUNER_WHY_MAX]; /* empty when thresholds can be written */
};

/* What decide() remembers from one poll to the next. Zeroed at the start. */
struct neighbor_memory {
	struct neighbor_family_memory {
		bool seen;
		bool pressure;           /* hysteresis of NeighborTablePressure */
		uint64_t refused;        /* table_fulls at the last poll */
		uint64_t refused_at_us;  /* when it last rose; 0 for never */
		uint64_t refused_lately; /* how much it rose within the window */
		uint64_t used;           /* collectable at the last poll */
		uint64_t used_at_us;
		double rate;      /* entries a second between the last two polls */
		bool at_ceiling;  /* growth was needed and there is none left */
		uint64_t wake_at; /* collectable entries at which to poll again at once; 0: never */
		bool refusing;    /* entries were refused since the poll before */
	} families[NEIGHBOR_FAMILIES];
};

extern const struct neighbor_family_row {
	int af;
	const char *name;
	const char *statistics; /* a file below the host's root */
} neighbor_families[NEIGHBOR_FAMILIES];

/* "net.ipv4.neigh.default.gc_thresh3"; i counts from 0. */
void neighbor_threshold_name(
	const struct neighbor_family_row *row, int i, char name[static SETTING_NAME_MAX]);

/* Of a statistics file's text, which is consumed. 0, or -EBADMSG for an unknown form. */
int neighbor_parse_stats(char *text, struct neighbor_stats *stats);

/* Members of struct tuner_ops. */
void *neighbor_open(const struct host *host, bool watch);
void neighbor_sense(void *self);
void neighbor_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);
void neighbor_arm(void *self, const void *memory);
int neighbor_event_fd(const void *self);
void neighbor_drain(void *self);
uint64_t neighbor_next_poll_us(const void *self, const void *memory);
void neighbor_close(void *self);

/* gc_thresh3 as a number; 0 when it was not read. */
uint64_t neighbor_table_max(const struct neighbor_table_seen *table);

/* The largest gc_thresh3 that growth may reach. */
uint64_t neighbor_ceiling(const struct neighbor_config *config, uint64_t memory_bytes);

/*
 * gc_thresh3 as it should be now: from, or more, up to the ceiling, when the table fills so fast
 * that it could be full before the next poll. memory is brought up to date.
 */
uint64_t neighbor_grow(const struct neighbor_table_seen *table, uint64_t from, uint64_t ceiling,
	struct neighbor_family_memory *memory, uint64_t now_us);

extern const struct condition_type neighbor_conditions[];

enum { NEIGHBOR_TABLE_PRESSURE, NEIGHBOR_TABLE_OVERFLOW };
