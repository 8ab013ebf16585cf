/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * rows.c has the table of limits, read.c reads them, census.c counts what processes, open files and
 * BPF maps use, with the BPF programs of programs.c, maps.c estimates it on older kernels, decide.c
 * decides, cure.c has what helps, tuner.c has the options and the ops.
 */

#include "workload/facts.h"

#include <headroom/tuner.h>

struct limit_reader;
struct limits;

#define LIMIT_OTHERS_MAX 15

/* The owner of a limit, such as a cgroup or a user, and how full it is. */
struct limit_instance {
	struct instance instance;
	uint64_t used, max;             /* in the row's unit; max 0: not known */
	uint64_t hits;                  /* what the kernel refused; a total from any time */
	bool is_fresh;                  /* some of them since the last pass */
	uint64_t at_us;                 /* CLOCK_MONOTONIC when it was counted; 0: at this poll */
	pid_t pid;                      /* a process in it; 0: none */
	pid_t others[LIMIT_OTHERS_MAX]; /* of the same key, nearly as full, and with equal maxima */
	unsigned n_others;
	const char *sysctl;     /* its maximum, if not the row's; static */
	uint64_t sysctl_value;  /* of it, if max is less; 0: max */
	uint64_t beside;        /* another value for the cure: the hard limit, kernel.threads-max */
	bool of_agent;          /* in the network namespace of the agent */
	bool is_raised;         /* its maximum was, after the event */
	char *cure;             /* what the row's cure uses, such as a command; owned, or NULL */
	char what[128];         /* for the message: "/tmp is mounted 900 times"; or empty */
	struct limit_user *top; /* its users, at most LIMIT_TOP_MAX; owned */
	unsigned n_top;
	size_t first_use, n_uses; /* census.c, during a pass */
};

/* The fullest instances of a row. Zeroed: none. */
#define LIMIT_INSTANCES_MAX 8
struct limit_instances {
	struct limit_instance *list; /* owned */
	unsigned n;
	unsigned n_left_out;  /* that are nearly full, beyond LIMIT_INSTANCES_MAX */
	const uint64_t *open; /* hashes of instances whose finding is open: they stay */
	size_t n_open;
};

/* Identifies an instance, and is never 0. */
uint64_t limit_instance_hash(const struct instance *instance);

/*
 * Takes an instance and its users. It is kept if more than half of it is used, if it has hits, or
 * if it has an open finding. It replaces an emptier one with the same key.
 */
void limit_instance_add(struct limit_instances *instances, struct limit_instance *instance);

/* Appends a zeroed user and returns it; NULL: it has LIMIT_TOP_MAX of them. */
struct limit_user *limit_instance_user(struct limit_instance *instance);

void limit_instances_clear(struct limit_instances *instances);

/* The sources that a limit is read from. */
struct limit_source {
	const struct host *host;
	const struct node_disks *disks;
	const struct limit_reader *reader; /* the row's */
	struct limit_instances *instances; /* a function may add some */
};

/*
 * Reads a limit if numbers in files are not enough. A function sets used and max of a zeroed
 * reading, and may set hits and add users. With has_instances it adds them to source->instances. It
 * returns 0 or -errno: -ENOENT where this node lacks the limit.
 */
typedef int limit_read(const struct limit_source *source, struct limit_reading *reading);

/* Sets now, keep or hint of a finding, from the instance and the values in force. */
typedef void limit_cure(struct finding *finding, const struct limit_row *row,
	const struct limit_instance *instance, const struct decide_input *input,
	const struct limits *limits);

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
	COUNT_AIO,
};

/* A row counts this of each open file. */
enum census_count_file {
	COUNT_NO_FILES,
	COUNT_FILE_INSTANCES,
	COUNT_FILE_WATCHES,
	COUNT_FILE_PTYS,
	COUNT_FILE_LISTENERS,
	COUNT_FILE_PORTS,
	COUNT_FILE_TCP_PAGES,
	COUNT_FILE_UDP_PAGES,
};

/* A row counts the elements of these BPF maps. */
enum census_count_bpf {
	COUNT_NO_BPF,
	COUNT_BPF_MAPS, /* that refuse an element when they are full */
	COUNT_BPF_LRU_MAPS,
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
	enum census_count_bpf count_bpf;
	limit_read *add_users; /* in a task, when more than half is used: adds users */
	bool in_namespaces;    /* see limits_sample_namespaces() */
	bool counts_hits;      /* it sets hits; otherwise they are the seconds at the maximum */
	bool has_instances;  /* findings are about them only; otherwise about the node's reading */
	const char *happens; /* what a hit is: "refused"; NULL: "reached" */
	bool nobody;         /* it lacks users */
	bool quiet;          /* metrics only while something is used, or with a finding */
	unsigned begins;     /* LimitPressure, in percent; 0: LIMITS_PRESSURE_BEGINS */
	bool begins_at;      /* at that share already, not above it */
	bool is_advice;      /* its findings are advice */
	unsigned critical; /* LimitPressure is critical from this share on, in percent; 0: never */
	enum limits_filesystem filesystem; /* limits_sample_filesystem(): which */
	bool inodes;                       /* limits_sample_filesystem(): not bytes */
	bool key_bytes;                    /* limits_read_keys(): not keys */
	bool is_udp;                       /* limits_read_socket_memory(): not TCP */
	const char *counter;               /* limits_sample_allowance(): of ethtool -S */

	/* When a use is worth a finding. Hits always are, from hits_from on. */
	uint64_t matters_from; /* this maximum, at least */
	uint64_t near_from;    /* LimitPressure: this use, at least */
	uint64_t hits_from;    /* hits within five minutes; 0: 1 */
	unsigned hits_above;   /* hits count above this share only, in percent */
	bool only_hits;        /* its use does not count */
	bool hits_near;        /* hits are LimitPressure, not LimitReached */
	bool full_above;       /* full above the maximum, not at it */
	bool never_above;      /* a use above the maximum is harmless */
	bool twice;            /* two passes in a row find it nearly full */

	/* What helps. limits_cure_sysctl() uses the rest. */
	limit_cure *cure;
	const char *sysctl, *choice; /* the maximum; the choice of limits.raise for it, or NULL */
	uint64_t at_least, at_most;  /* of the value to set; 0: none */
};

/*
 * Proposes twice the value of the row's or the instance's sysctl, within at_least and at_most. A
 * hint says that it has the largest value.
 */
limit_cure limits_cure_sysctl;
limit_cure limits_cure_conntrack, limits_cure_pids, limits_cure_cgroup, limits_cure_files,
	limits_cure_watches, limits_cure_listener, limits_cure_ports;

/* Proposes twice the three numbers of tcp_mem or udp_mem, as long as there is memory. */
limit_cure limits_cure_socket_memory;

/* Deletes images; of other file systems a hint shows where to look. */
limit_cure limits_cure_filesystem;

/* The row's cure_help is the hint: no command helps. */
limit_cure limits_cure_hint;

limit_cure limits_cure_database, limits_cure_addresses, limits_cure_map;

/* Returns that value; 0: it has the largest one. */
uint64_t limits_raised(const struct limit_row *row, uint64_t value);

limit_read limits_read_conntrack, limits_read_pids, limits_read_memory_cgroups, limits_read_ptys,
	limits_read_keys, limits_read_softnet;
limit_read limits_read_socket_memory, limits_read_races;
limit_read limits_sample_filesystem, limits_sample_databases, limits_sample_bridges,
	limits_sample_addresses, limits_sample_allowance, limits_conntrack_users;

/* Reads the row if used.path is set. */
int limits_read_numbers(
	const struct host *host, const struct limit_row *row, struct limit_reading *reading);

/* Keeps the use with the largest share of its maximum. Returns whether it is this one. */
bool limit_keep_fuller(struct limit_reading *reading, uint64_t used, uint64_t max);

enum { OF_PROCESSES, OF_FILES, OF_BPF, PASSES, OF_READER = PASSES, SOURCES };

/* A row as last read. */
struct limit_seen {
	const struct limit_row *row;
	int error; /* 0 or -errno */
	struct limit_reading reading;
	struct limit_reading users[PASSES]; /* the users that each pass found */
	struct limit_instances instances[SOURCES];
	bool from_sample, from_pass[PASSES]; /* in a sample: which of them it has */
	uint64_t open[LIMIT_INSTANCES_MAX];  /* hashes of instances whose finding is open */
	size_t n_open;
};

#define NO_CENSUS (struct census){{-1, -1, -1}, -1, -1, 0}

/* The programs of the passes, or -1. */
struct census {
	int passes[PASSES];      /* links of iterators */
	int lister, connections; /* a program, and the map that it fills */
	int maps_error; /* why the program that counts BPF maps is not loaded; 0 or -errno */
};

/* maps.c: the maps that an older kernel does not count, as last estimated. */
struct limits_estimates {
	struct limits_estimate {
		uint32_t id, used;
		bool is_complete; /* used is a count */
		uint64_t at_us;   /* CLOCK_MONOTONIC; 0: never */
		bool is_pinned;   /* during a walk: it was found */
	} *list;
	size_t n, allocated;
};

struct census_map;

/*
 * Estimates the use of the next pinned maps among n maps, and sets the use of all whose estimate is
 * known. A map that is not pinned stays uncounted.
 */
void limits_estimate_maps(const struct host *host, struct limits_estimates *estimates,
	struct census_map *maps, size_t n);

/* The kernel's counts of refusals by instance, where its numbers cover the time before the agent.
 */
struct limits_hits {
	struct limits_hit {
		uint64_t key[2];      /* the row's number from 1, and limit_instance_hash() */
		uint64_t first, last; /* counts of the first and the last pass */
		uint64_t at_us;       /* CLOCK_MONOTONIC of the last pass with it */
	} *list;
	size_t n, allocated;
	struct element_index index;
	uint64_t *totals; /* of each row, since the first pass */
};
void limits_hits_free(struct limits_hits *hits);

struct limits {
	const struct host *host;
	const struct facts *facts;
	struct limit_seen *rows; /* in the order of limits_rows */
	size_t n;
	struct census census;
	char census_why[TUNER_WHY_MAX];              /* why it is not loaded, or empty */
	char maps_why[TUNER_WHY_MAX];                /* the same for the BPF maps alone */
	uint64_t next_sample_us, next_namespaces_us; /* CLOCK_MONOTONIC of parts of a sample */
	struct limits_pass {
		uint64_t next_us, at_us; /* CLOCK_MONOTONIC: the next one and the last one */
		uint64_t cost_us;        /* CPU time of the last one, at first a prediction */
	} passes[PASSES];
	struct limits_hits hits; /* a running sample has it, and the estimates */
	struct limits_estimates estimates;
	uint64_t nr_open, conntrack_buckets; /* sysctls in force; 0: not known */
	int pass_error;                      /* the last pass ended with it: 0 or -errno */
	bool counted;                        /* by a census */
	uint64_t overflows;                  /* of listeners, in the agent's network namespace */
	bool has_overflows;                  /* some since the last pass over files */
};

/* An instance as decide() remembers it. */
struct limit_known {
	uint64_t hash;       /* limit_instance_hash() */
	uint64_t hits;       /* as last seen */
	uint64_t lately;     /* hits since begun_us, within the window */
	uint64_t begun_us;   /* 0: none */
	uint64_t full_at_us; /* the pass that was the first of a row to find it nearly full */
	uint64_t seen_us;    /* the last poll with it */
	bool open;           /* its finding */
};

/* The memory of decide(). */
struct limits_memory {
	struct limit_memory {
		bool seen;
		double full_seconds; /* at the maximum, if the kernel does not count hits */
		struct limit_known *known;
		size_t n, allocated;
	} *rows;
	uint64_t polled_at_us;
};

extern const struct limit_row limits_rows[];
extern const struct condition_type limits_conditions[];

enum { LIMITS_PRESSURE, LIMITS_REACHED };

/* Returns whether its use comes from a pass over processes or files only. */
bool limits_needs_bpf(const struct limit_row *row);

/* Adds up a column of hexadecimal numbers. Each CPU has a line. */
uint64_t limits_sum_column(const char *text, const char *name);

/* Returns the inode of the cgroup of all pods, or 0. path, if not NULL, gets its directory. */
uint64_t limits_kubepods(const struct host *host, char path[SETTING_PATH_MAX]);

/* Returns the inode of the agent's network namespace. */
uint64_t limits_own_netns(void);

/* Finds a number in the text of a file such as /proc/net/netstat. Returns 0 or -errno. */
int limits_find_number(const char *text, const char *line, const char *name, uint64_t *number);

/* Reads the number of a row with only a maximum. */
int limits_read_max(const struct host *host, const struct limit_row *row, uint64_t *max);

/* Frees the users of a row. */
void limits_seen_clear(struct limit_seen *seen);

/* programs.c */
extern const struct bpf_ops limits_census;
void census_close(struct census *census);

/* Visits all records of an iterator, or all TCP connections of the kernel. Returns 0 or -errno. */
typedef void census_visit(void *userdata, const void *record);
int census_each(int link, size_t size, census_visit *visit, void *userdata);
int census_each_connection(const struct census *census, census_visit *visit, void *userdata);

/* census.c: the sample. */
void *limits_sample_request(void *self, const void *memory, bool now);
void limits_sample_run(void *request, const struct wait *wait);
void limits_sample_adopt(void *self, void *request);

void limits_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);
