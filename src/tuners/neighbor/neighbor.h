/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_NEIGHBOR_NEIGHBOR_H
#define TUNERS_NEIGHBOR_NEIGHBOR_H

/* What the parts of this tuner share: sense.c fills neighbor_seen, decide.c judges it. */

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
};

struct neighbor_seen {
	struct neighbor_table_seen tables[NEIGHBOR_FAMILIES];
};

struct neighbor_config {
	struct {
		bool keep;
		uint64_t threshold[NEIGHBOR_LEVELS];
	} families[NEIGHBOR_FAMILIES];
	bool lower;
};

/* What decide() remembers from one look to the next. Zeroed at the start. */
struct neighbor_memory {
	struct {
		bool seen;
		bool pressure;           /* hysteresis of NeighborTablePressure */
		uint64_t refused;        /* table_fulls at the last look */
		uint64_t refused_at_us;  /* when it last rose; 0 for never */
		uint64_t refused_lately; /* how much it rose within the window */
	} families[NEIGHBOR_FAMILIES];
};

/* AF_INET for NEIGHBOR_IPV4, AF_INET6 for NEIGHBOR_IPV6. */
int neighbor_address_family(enum neighbor_family family);
const char *neighbor_family_name(enum neighbor_family family); /* "ipv4" */

/* Pure. 0 or -ENOMEM. */
int neighbor_decide(const struct neighbor_seen *seen, const struct neighbor_config *config,
	struct neighbor_memory *memory, const struct past *past, struct outlook *outlook);

extern const struct explanation neighbor_explanations[];

/* The BPF side: counters in a page shared with the kernel. */
struct neighbor_bpf;

/* NULL with why filled when BPF cannot be had on this node. */
struct neighbor_bpf *neighbor_bpf_open(char why[static TUNER_WHY_MAX]);

/* Has the kernel refresh the collectable counts and returns the records; NULL when it will not. */
const struct neighbor_record *neighbor_bpf_read(struct neighbor_bpf *bpf);
void neighbor_bpf_close(struct neighbor_bpf *bpf);

/* The descriptors that sensing keeps. */
struct neighbor_sensor {
	const struct host *host;
	struct kept_file thresholds[NEIGHBOR_FAMILIES][NEIGHBOR_LEVELS];
	struct kept_file stats[NEIGHBOR_FAMILIES];
	char *scratch; /* for a statistics file: a line for each CPU */
	size_t scratch_size;
	struct neighbor_bpf *bpf; /* NULL without */
};

int neighbor_sensor_open(struct neighbor_sensor *sensor, const struct host *host);
void neighbor_sensor_close(struct neighbor_sensor *sensor);
void neighbor_sense(struct neighbor_sensor *sensor, struct neighbor_seen *seen);

#endif
