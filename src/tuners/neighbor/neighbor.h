/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_NEIGHBOR_NEIGHBOR_H
#define TUNERS_NEIGHBOR_NEIGHBOR_H

/* sense.c reads the tables, decide.c turns what it found into a proposal; tuner.c joins them. */

#include <stdbool.h>
#include <stdint.h>

#include "kernel/host.h"
#include "kernel/neightbl.h"

#include <headroom/bpf/neighbor.h>
#include <headroom/tuner.h>

#define NEIGHBOR_LEVELS 3

/* One table as it was found. */
struct neighbor_table_seen {
	char threshold[NEIGHBOR_LEVELS][SETTING_VALUE_MAX];
	int threshold_error[NEIGHBOR_LEVELS]; /* 0 or -errno of reading it */
	struct neightbl_stats stats;
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
	struct {
		bool keep;
		uint64_t threshold[NEIGHBOR_LEVELS];
	} families[NEIGHBOR_FAMILIES];
	bool lower;
	bool grow;
	uint64_t ceiling; /* 0: by memory */
};

struct neighbor_bpf_object;
struct neighbor_users;
struct ring_buffer;

struct neighbor {
	const struct host *host;
	struct neighbor_config config;
	struct neighbor_table_seen tables[NEIGHBOR_FAMILIES]; /* at the last poll */
	uint64_t memory_bytes;                                /* of the node */
	bool once; /* a command polls only once, without BPF */
	struct kept_file thresholds[NEIGHBOR_FAMILIES][NEIGHBOR_LEVELS];
	struct kept_file stats[NEIGHBOR_FAMILIES];
	char *scratch; /* for a statistics file: a line for each CPU */
	size_t scratch_size;
	struct neighbor_bpf_object *bpf; /* NULL without; the two below go with it */
	struct ring_buffer *ring;        /* of wake-ups */
	struct neighbor_users *users;
	bool woken;                    /* since the last poll */
	char bpf_why[TUNER_WHY_MAX];   /* empty when BPF runs or was not asked for */
	char write_why[TUNER_WHY_MAX]; /* empty when thresholds can be written */
};

/* What decide() remembers of one family from one poll to the next. Zeroed at the start. */
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
};

struct neighbor_memory {
	struct neighbor_family_memory families[NEIGHBOR_FAMILIES];
};

/* AF_INET for NEIGHBOR_IPV4, AF_INET6 for NEIGHBOR_IPV6. */
int neighbor_address_family(enum neighbor_family family);
const char *neighbor_family_name(enum neighbor_family family); /* "ipv4" */

/* Members of struct tuner_ops. */
int neighbor_open(const struct host *host, bool watch, void **self);
void neighbor_sense(void *self);
int neighbor_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);
void neighbor_arm(void *self, const void *memory);
int neighbor_event_fd(const void *self);
void neighbor_drain(void *self);
uint64_t neighbor_next_poll_us(const void *self, const void *memory);
void neighbor_close(void *self);

/* The conditions of both families, from what neighbor_decide has just remembered. 0 or -ENOMEM. */
int neighbor_decide_conditions(const struct neighbor *neighbor,
	const struct neighbor_memory *memory, struct proposal *proposal);

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

extern const struct limit_row neighbor_limits[];
extern const struct explanation neighbor_explanations[];
extern const struct condition_type neighbor_conditions[];
extern const struct reason neighbor_reasons[];
extern const struct metric_row neighbor_metric_rows[];
extern const struct capability_row neighbor_capabilities[];

enum { NEIGHBOR_TABLE_PRESSURE, NEIGHBOR_TABLE_OVERFLOW };

#endif
