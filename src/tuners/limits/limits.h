/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * rows.c has the table of limits, read.c reads them, census.c counts what processes and open files
 * use, decide.c decides, tuner.c has the options and the ops.
 */

#include "workload/facts.h"

#include <headroom/tuner.h>

struct limit_reader;

/* The sources that a limit is read from. */
struct limit_source {
	const struct host *host;
	const struct node_disks *disks;
	const struct limit_reader *reader; /* the row's */
};

/*
 * Reads a limit if numbers in files are not enough. A function sets used and max of a zeroed
 * reading, and may set hits and add users. It returns 0 or -errno: -ENOENT where this node lacks
 * the limit.
 */
typedef int limit_read(const struct limit_source *source, struct limit_reading *reading);

/* A row counts this of each process. */
enum census_count {
	COUNT_NOTHING,
	COUNT_INOTIFY_INSTANCES,
	COUNT_INOTIFY_WATCHES,
	COUNT_THREADS,
	COUNT_OPEN_FILES,
	COUNT_PIDS, /* in the fullest cgroup with a limit */
	COUNT_MOUNTS,
	COUNT_MAPS,
	COUNT_PROCESS_FILES,
};

/* A row counts this of each open file. */
enum census_count_file {
	COUNT_NO_FILES,
	COUNT_FILE_INSTANCES,
	COUNT_FILE_WATCHES,
	COUNT_FILE_PTYS,
	COUNT_FILE_LISTENERS,
	COUNT_FILE_PORTS,
};

/* File systems in the order of their rows. */
enum limits_filesystem {
	LIMITS_ROOT,
	LIMITS_IMAGES,
	LIMITS_KUBELET,
	LIMITS_LOG,
	LIMITS_RUN,
	LIMITS_STORAGE,
};

/* How a row is read. A row without a file, read and sample has the use of its fullest user. */
struct limit_reader {
	limit_read *read;   /* every second; never blocks */
	limit_read *sample; /* in a task */
	enum census_count count;
	enum census_count_file count_file;
	limit_read *add_users; /* in a task, when more than half is used: adds users */
	bool in_namespaces;    /* see limits_sample_namespaces() */
	bool counts_hits;      /* it sets hits; otherwise they are the seconds at the maximum */
	unsigned begins;       /* LimitPressure, in percent; 0: LIMITS_PRESSURE_BEGINS */
	enum limits_filesystem filesystem; /* limits_sample_filesystem(): which */
	bool inodes;                       /* limits_sample_filesystem(): not bytes */
	bool key_bytes;                    /* limits_read_keys(): not keys */
	const char *counter;               /* limits_sample_allowance(): of ethtool -S */
};

limit_read limits_read_conntrack, limits_read_pids, limits_read_memory_cgroups, limits_read_ptys,
	limits_read_keys, limits_read_softnet;
limit_read limits_sample_filesystem, limits_sample_databases, limits_sample_bridges,
	limits_sample_addresses, limits_sample_allowance, limits_conntrack_users;

/* Reads the row if used.path is set. */
int limits_read_numbers(
	const struct host *host, const struct limit_row *row, struct limit_reading *reading);

enum { OF_PROCESSES, OF_FILES, PASSES };

/* A row as last read. */
struct limit_seen {
	const struct limit_row *row;
	int error; /* 0 or -errno */
	struct limit_reading reading;
	struct limit_reading users[PASSES];  /* the users that each pass found */
	bool from_sample, from_pass[PASSES]; /* in a sample: which of them it has */
};

#define NO_CENSUS (struct census){{-1, -1}, -1}

/* The programs of the passes. */
struct census {
	int passes[PASSES], connections; /* links of iterators, or -1 */
};

struct limits {
	const struct host *host;
	const struct facts *facts;
	struct limit_seen *rows; /* in the order of limits_rows */
	size_t n;
	struct census census;
	char census_why[TUNER_WHY_MAX];              /* why it is not loaded, or empty */
	uint64_t next_sample_us, next_namespaces_us; /* CLOCK_MONOTONIC of parts of a sample */
	struct limits_pass {
		uint64_t next_us, at_us; /* CLOCK_MONOTONIC: the next one and the last one */
		uint64_t cost_us;        /* CPU time of the last one, at first a prediction */
	} passes[PASSES];
	int pass_error; /* the last pass ended with it: 0 or -errno */
	bool counted;   /* by a census */
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

extern const struct limit_row limits_rows[];
extern const struct condition_type limits_conditions[];

enum { LIMITS_PRESSURE, LIMITS_REACHED };

/* Returns whether its use comes from a pass over processes or files only. */
bool limits_needs_bpf(const struct limit_row *row);

/* Reads the number of a row with only a maximum. */
int limits_read_max(const struct host *host, const struct limit_row *row, uint64_t *max);

/* Frees the users of a row. */
void limits_seen_clear(struct limit_seen *seen);

/* census.c: the BPF programs and the sample. */
extern const struct bpf_ops limits_census;
void census_close(struct census *census);
void *limits_sample_request(void *self, const void *memory, bool now);
void limits_sample_run(void *request, const struct wait *wait);
void limits_sample_adopt(void *self, void *request);

void limits_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);
