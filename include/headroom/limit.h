/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A limit is something finite on this node: how much of it is used, and how long it will last. */

#include <headroom/condition.h>
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
	const struct condition_type *condition; /* that is True of it; or NULL */
	struct limit_user top[LIMIT_TOP_MAX];   /* who uses most, largest first */
	unsigned n_top;
};

/* The busiest moment of each of the last 60 minutes, in a ring of fixed size. */

#define HISTORY_MINUTES 60

struct history {
	uint64_t minute; /* of the newest slot: CLOCK_MONOTONIC / 60 s; 0: none yet */
	uint64_t slot[HISTORY_MINUTES]; /* value + 1 at minute % HISTORY_MINUTES; 0: not known */
};

/* A limit over time. */
struct limit {
	struct limit_reading now;
	uint64_t peak;        /* largest used since the agent started */
	uint64_t hits_before; /* of the hits since boot: before the first reading */
	double rate;          /* smoothed growth of used, per second */
	uint64_t peak_at_us,
		seen_at_us;    /* CLOCK_MONOTONIC, of the last reading; 0 before the first */
	uint64_t steady_at_us; /* CLOCK_MONOTONIC: it did not grow then, and has grown since */
	struct history history;
};

/* Takes a new reading, made at now_us (CLOCK_MONOTONIC, microseconds). */
void limit_observe(struct limit *limit, const struct limit_reading *reading, uint64_t now_us);

/* The unused part, 0..1; 0 when max is 0. */
double limit_headroom(const struct limit *limit);

/*
 * Seconds until used reaches max at the recent rate; a negative number when it is not filling: it
 * is half full at most, or has grown for less than a minute.
 */
double limit_full_in_seconds(const struct limit *limit);

/* Takes a value at now_us (CLOCK_MONOTONIC): the minute keeps the largest. */
void history_observe(struct history *history, uint64_t now_us, uint64_t value);

struct cJSON;

struct metric_sink;

/*
 * A sample for each of top, labelled name, kind, namespace and name, and one for the rest of used.
 * Two workloads may differ in nothing but their id, which is no label: their use is summed, as a
 * duplicate series would void the scrape.
 */
void metric_users(struct metric_sink *sink, const struct limit_reading *reading);

/* "history": 60 numbers, the oldest first, null where nothing is known. */
void history_json(struct cJSON *parent, const struct history *history);
