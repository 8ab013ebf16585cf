/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* rows.c has the table of limits, read.c and sample.c read them, decide.c decides. */

#include "kernel/host.h"

#include <headroom/tuner.h>

/*
 * How a limit is read if numbers in files are not enough. A function sets used and max of a zeroed
 * reading, and may set hits and add users. It returns 0 or -errno: -ENOENT where this node lacks
 * the limit.
 */
typedef int limit_read(
	const struct host *host, const struct limit_reader *reader, struct limit_reading *reading);

struct limit_reader {
	limit_read *read;   /* every second; never blocks */
	limit_read *sample; /* on the worker */
	bool counts_hits;   /* it sets hits; otherwise they are the seconds at the maximum */
	unsigned begins;    /* LimitPressure, in percent; 0: LIMITS_PRESSURE_BEGINS */
	int which;          /* for the function */
	const char *text;   /* for the function */
};

/* File systems in the order of their rows. */
enum { LIMITS_ROOT, LIMITS_IMAGES, LIMITS_KUBELET, LIMITS_LOG, LIMITS_RUN };

limit_read limits_read_conntrack, limits_read_pids, limits_read_memory_cgroups, limits_read_ptys,
	limits_read_keys, limits_read_key_bytes, limits_read_softnet;
limit_read limits_sample_bytes, limits_sample_inodes, limits_sample_bridges,
	limits_sample_addresses, limits_sample_allowance;

/* Reads the row if used.path is set. */
int limits_read_numbers(
	const struct host *host, const struct explanation *row, struct limit_reading *reading);

/* A row as last read. */
struct limit_seen {
	const struct explanation *row;
	int error; /* 0 or -errno */
	struct limit_reading reading;
};

struct limits {
	const struct host *host;
	struct limit_seen *rows; /* in the order of limits_rows */
	size_t n;
	uint64_t next_sample_us;
};

/* The memory of decide(). */
struct limits_memory {
	struct limit_memory {
		bool seen;
		bool pressure;          /* hysteresis of LimitPressure */
		uint64_t hits;          /* counted by the kernel, at the last poll */
		double full_seconds;    /* at the maximum, if the kernel does not count hits */
		uint64_t reached_at_us; /* the last time; 0: never */
		uint64_t lately;        /* hits since the first of them within the window */
		struct limit_user user; /* the largest one when the limit was reached */
	} *rows;
	uint64_t polled_at_us;
};

extern const struct explanation limits_rows[];
extern const struct condition_type limits_conditions[];

enum { LIMITS_PRESSURE, LIMITS_REACHED };

bool limits_counts_hits(const struct explanation *row);
void limits_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);
