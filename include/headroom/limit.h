/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A limit is a finite resource of the node: its size, its use and the expected time until full. */

#include <headroom/condition.h>
#include <headroom/workload.h>

#define LIMIT_TOP_MAX  10
#define LIMIT_NAME_MAX 64
#define LIMIT_PEAK_TOP 3

#define LIMIT_DETAIL_MAX 64

struct limit_user {
	struct workload workload;
	uint64_t used;
	uint64_t max; /* of its own; 0: the limit's */
	uint64_t id;  /* key of its cgroup, by which it may be named later; 0: none */
	char detail[LIMIT_DETAIL_MAX]; /* what of the workload: "process 12 (java)"; or empty */
};

/* A limit at one moment. Counts are in unit. */
struct limit_reading {
	char name[LIMIT_NAME_MAX]; /* "neighbor/ipv4" */
	const char *unit;          /* "entries"; static */
	uint64_t used;
	uint64_t max;     /* 0: not known */
	uint64_t peak;    /* largest use since the last reading, if above used; else 0 */
	uint64_t hits;    /* times the limit was reached since boot */
	bool own_hits;    /* the agent counts them: none are from before */
	bool flow;        /* used is a rate, such as queries per second: it does not fill up */
	bool idle;        /* little is used, so its users are not exported as metrics */
	bool is_quiet;    /* it is unused and without a finding: it is not exported */
	bool upper_bound; /* used may be too large: this node lacks a way to count exactly */
	/* The largest users first, at most LIMIT_TOP_MAX, and then n_busiest others; owned */
	struct limit_user *top;
	unsigned n_top;
	/*
	 * A flow: its largest users in the busiest second, which used this much, at most
	 * LIMIT_PEAK_TOP. The users of a later reading may be others. 0: not known.
	 */
	uint64_t busiest;
	unsigned n_busiest;
};

/*
 * Appends a zeroed user to top and returns it, which is valid until the next call. All users of the
 * busiest second come after the others.
 */
struct limit_user *limit_add_user(struct limit_reading *reading);
struct limit_user *limit_add_busiest(struct limit_reading *reading);

/*
 * Adds a user to a top of the LIMIT_TOP_MAX largest ones, the largest first, by the share of their
 * own maximum if they have such.
 */
void limit_keep_user(struct limit_reading *reading, const struct limit_user *user);

/* The largest value of each of the last 60 minutes, in a ring buffer. */

#define HISTORY_MINUTES 60

struct history {
	uint64_t minute;                /* the newest slot's: CLOCK_MONOTONIC / 60 s; 0: empty */
	uint64_t slot[HISTORY_MINUTES]; /* value + 1 at minute % HISTORY_MINUTES; 0: unknown */
};

/* The largest use since boot, as far as an agent was running. */
struct limit_peak {
	char name[LIMIT_NAME_MAX]; /* the limit's */
	uint64_t used;
	uint64_t at_us;                        /* CLOCK_MONOTONIC; 0: no reading yet */
	uint64_t wall_us;                      /* CLOCK_REALTIME then: for people */
	struct limit_user top[LIMIT_PEAK_TOP]; /* largest users at that time */
	unsigned n_top;
};

/* A limit over time. */
struct limit {
	struct limit_reading now;
	struct limit_peak peak;
	uint64_t counted;     /* the use when now.top was counted */
	uint64_t hits_before; /* hits from boot to the first reading */
	double rate;          /* smoothed growth of used, per second */
	/* CLOCK_MONOTONIC; 0: never. */
	uint64_t seen_at_us;   /* the last reading */
	uint64_t steady_at_us; /* the last reading that did not grow */
	struct history history;
};

/* Copies a reading made at now_us (CLOCK_MONOTONIC). */
void limit_observe(struct limit *limit, const struct limit_reading *reading, uint64_t now_us);

/* Frees what a limit owns. */
void limit_release(struct limit *limit);

/* Returns the unused share, 0..1; 0 when max is 0. */
double limit_headroom(const struct limit *limit);

/*
 * Seconds until used reaches max at the recent rate. Negative when the limit is not filling: it is
 * at most half full, or has grown for less than a minute.
 */
double limit_full_in_seconds(const struct limit *limit);

/* Returns the minute that a time of CLOCK_MONOTONIC is in. */
uint64_t history_minute(uint64_t now_us);

/* Adds a value at now_us (CLOCK_MONOTONIC). */
void history_observe(struct history *history, uint64_t now_us, uint64_t value);

/* Adds the minutes of another: the larger values count. */
void history_merge(struct history *history, const struct history *other);

struct cJSON;

struct metric_sink;

/*
 * Writes a sample for each of top, with the labels limit, kind, namespace and name, and one for the
 * rest of used. The id is not a label, so the use of workloads that differ only in their id is
 * summed: Prometheus rejects a scrape with duplicate series.
 */
void metric_users(struct metric_sink *sink, const struct limit_reading *reading);

/* Adds "history": 60 numbers, oldest first, null for a minute without a value. */
void history_json(struct cJSON *parent, const struct history *history);
