/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEADROOM_LIMIT_H
#define HEADROOM_LIMIT_H

/* A limit is something finite on this node: how much of it is used, and how long it will last. */

#include <stdbool.h>
#include <stdint.h>

#include <headroom/workload.h>

#define LIMIT_TOP_MAX  10
#define LIMIT_NAME_MAX 64

struct limit_user {
	struct workload workload;
	uint64_t used;
};

/* What a tuner read just now. Counts are in unit. */
struct limit_reading {
	char name[LIMIT_NAME_MAX]; /* "neighbor/ipv4" */
	const char *unit;          /* "entries"; static */
	uint64_t used;
	uint64_t max;
	uint64_t peak;    /* the most since the last reading, where it may be above used */
	uint64_t hits;    /* times the limit was struck since boot */
	bool flow;        /* used is a rate, such as queries a second: it never fills up */
	bool upper_bound; /* used may be less: the exact count needs something this node lacks */
	struct limit_user top[LIMIT_TOP_MAX]; /* who uses most, largest first */
	unsigned n_top;
};

/* A limit over time. */
struct limit {
	struct limit_reading now;
	uint64_t peak;       /* largest used since the agent started */
	double rate;         /* smoothed growth of used, per second */
	uint64_t seen_at_us; /* CLOCK_MONOTONIC of the last reading; 0 before the first */
};

/* Takes a new reading, made at now_us (CLOCK_MONOTONIC, microseconds). */
void limit_observe(struct limit *limit, const struct limit_reading *reading, uint64_t now_us);

/* The unused part, 0..1; 0 when max is 0. */
double limit_headroom(const struct limit *limit);

/* Seconds until used reaches max at the recent rate; a negative number when it is not filling. */
double limit_full_in_seconds(const struct limit *limit);

#endif
