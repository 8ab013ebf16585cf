/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sense.c reads the tables and has the BPF programs, decide.c decides, tuner.c has rows and ops.
 * conflicts.c is about two link addresses for one address, and refresh.c asks entries whether they
 * are stale.
 */

#include "kernel/neighbors.h"
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
	enum neighbor_stale { STALE_OFF, STALE_OBSERVE, STALE_REFRESH } stale;
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
	int64_t sums[NEIGHBOR_FAMILIES]; /* of the rows */
	uint64_t started_at_us, counted_at_us, next_walk_us;
	bool wrong;      /* the last sum did not match */
	uint64_t events; /* created, removed and refused at the last count */
	struct netns_event refusals[NEIGHBOR_FAMILIES]; /* the last of each family */
};

/* ---- two link addresses for one address ---- */

#define CONFLICT_DEVICES   16
#define CONFLICT_RECENT_US (60 * USEC_PER_SEC)

struct neighbor_conflict_row {
	struct neighbor_address key;
	struct neighbor_conflict last; /* as the map has it */
};

/* A device with conflicts. */
struct neighbor_conflict_device {
	uint32_t netns, ifindex;
	char name[16];
	uint64_t counts[NEIGHBOR_VERDICTS];
	struct netns_event event; /* the last one, with the owner of the namespace at that time */
};

struct neighbor_conflicts {
	struct bpf_link *link;              /* NULL: not counted */
	uint64_t read[NEIGHBOR_VERDICTS];   /* the kernel's sums at the last read */
	uint64_t counts[NEIGHBOR_VERDICTS]; /* of all devices and others */
	uint64_t others[NEIGHBOR_VERDICTS]; /* of devices that are not listed */
	uint64_t fresh_us;                  /* when there was a new one */
	struct neighbor_conflict_device devices[CONFLICT_DEVICES];
	unsigned n_devices;
	struct neighbor_conflict_row *rows; /* the last one first */
	size_t n, allocated;
};

/* ---- refreshing entries that may be stale ---- */

#define REFRESH_AT_ONCE   10 /* entries that a job probes; it lasts a second at least */
#define REFRESH_LOOKS     32
#define REFRESH_FOUND     2048
#define REFRESH_ROWS      1024
#define REFRESH_STALE_MAX 8

/* How a job leaves an entry. Metrics and documents have the first ones. */
#define REFRESH_RESULTS(X)                                                                      \
	X(ANSWERED, "answered") /* the link address has answered */                             \
	X(SAME, "same")         /* it was removed, and has resolved to the same link address */ \
	X(STALE, "stale")       /* it was removed, and has resolved to another one */           \
	X(SILENT, "silent")     /* it was removed, nobody has answered, and it is back */       \
	X(CHANGED, "changed")   /* it changed before it could be judged */

#define REFRESH_RESULT(name, text) REFRESH_##name,
enum refresh_result {
	REFRESH_RESULTS(REFRESH_RESULT) REFRESH_COUNTED,
	REFRESH_REMOVED = REFRESH_COUNTED, /* it is removed, and is to be looked at again */
	REFRESH_SKIPPED,                   /* it must not be asked, or failed */
	REFRESH_ASKED,                     /* within a job */
};
#undef REFRESH_RESULT

extern const char *const refresh_result_names[REFRESH_COUNTED];

/* An entry with a link address, and how often it may be asked. */
struct refresh_entry {
	struct neighbor_id id;
	uint8_t mac[NEIGHBOR_MAC];
	bool is_router;
	bool by_age; /* only traffic has confirmed it for a long time; else an update was refused */
};

struct refresh_item {
	struct refresh_entry entry;
	bool is_look; /* it was removed: how has it resolved? */
	enum refresh_result result;
	uint8_t other[NEIGHBOR_MAC]; /* STALE: the new link address */
	char device[16];
};

/* The work of a task, in this order: looks, the scan, probes. */
struct refresh_job {
	struct refresh_item items[REFRESH_LOOKS + REFRESH_AT_ONCE];
	unsigned n;
	bool scan;
	int error;                   /* 0 or -errno of the first failure */
	struct refresh_entry *found; /* of the scan, at most REFRESH_FOUND; owned */
	size_t n_found, found_allocated;
};

/* The jobs, as sense() knows them. */
struct neighbor_refresh {
	bool under_way;
	struct refresh_job *arrived; /* ended since the last poll; NULL: none */
	struct refresh_job *seen;    /* at this poll; NULL: none has ended */
	struct refresh_entry *found; /* of the last scan */
	size_t n_found;
	uint64_t scans;
};

/* The part of decide()'s memory. */
struct refresh_memory {
	/* Entries that must not be asked before a time, or looked at then. */
	struct refresh_row {
		struct refresh_entry entry;
		uint64_t until_us; /* UINT64_MAX: never */
		bool is_removed;
	} rows[REFRESH_ROWS];
	unsigned n_rows;
	struct refresh_stale {
		struct refresh_item item;
		uint64_t at_us;
	} stale[REFRESH_STALE_MAX]; /* the last ones, the newest first */
	unsigned n_stale;
	uint64_t counts[REFRESH_COUNTED];
	uint64_t scanned_us;     /* when the last scan was asked for */
	uint64_t scans;          /* of the list found that is being asked */
	size_t asked;            /* so far the entries of this list have rows */
	int error;               /* of the last job */
	bool wakes;              /* a conflict wakes the agent */
	struct refresh_job next; /* nothing to do: n is 0 and scan is false */
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
	uint32_t own_netns;              /* inode of the agent's network namespace; 0: unknown */
	struct neighbor_bpf_object *bpf; /* NULL: not loaded; then ring and users are unused */
	struct ring_buffer *ring;        /* brings wake-ups */
	struct neighbor_users users;
	struct neighbor_conflicts conflicts;
	struct neighbor_refresh refresh;
	uint64_t woken_us;             /* now of the last poll that a wake-up asked for */
	char bpf_why[TUNER_WHY_MAX];   /* why BPF does not run; may be empty */
	char write_why[TUNER_WHY_MAX]; /* why thresholds cannot be written; may be empty */
	enum lack_kind write_lack;     /* of write_why */
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
		uint32_t holder_netns;  /* its namespace, if the owner was not known; else 0 */
		uint64_t used;          /* collectable at the last poll */
		uint64_t used_at_us;
		double rate;      /* entries per second between the last two polls */
		bool at_ceiling;  /* the table should grow but has reached the ceiling */
		uint64_t wake_at; /* collectable entries at which BPF requests a poll; 0: never */
	} families[NEIGHBOR_FAMILIES];
	struct refresh_memory refresh;
};

extern const struct neighbor_family_row {
	int af;
	const char *name;
	const char *statistics; /* a file below the host's root */
} neighbor_families[NEIGHBOR_FAMILIES];

/* Writes "net.ipv4.neigh.default.gc_thresh3"; i counts from 0. */
void neighbor_threshold_name(
	const struct neighbor_family_row *row, int i, char name[static SETTING_NAME_MAX]);

extern const char *const neighbor_stale_choices[]; /* by enum neighbor_stale */

/* conflicts.c. Attaches or detaches the program that counts them, as it is configured. */
void conflicts_watch(struct neighbor *neighbor);
void conflicts_sense(struct neighbor *neighbor, uint64_t now_us);
void conflicts_clear(struct neighbor *neighbor);
/* Writes the namespaces whose owners are to be learned, at most CONFLICT_DEVICES. */
size_t conflicts_netns(
	const struct neighbor_conflicts *conflicts, uint32_t *netns, uint64_t now_us);
struct cJSON *neighbor_document(const void *self, const void *memory, bool trusted);
void conflicts_metrics(
	const struct neighbor *neighbor, const void *memory, struct metric_sink *sink);
extern const struct table_view neighbor_view;

/* refresh.c */
#define MAC_TEXT 18
void neighbor_mac_text(const uint8_t *mac, char text[static MAC_TEXT]);
void refresh_sense(struct neighbor *neighbor);
void refresh_decide(const struct neighbor *neighbor, const struct decide_input *input,
	struct refresh_memory *memory, struct proposal *proposal);
void refresh_clear(struct neighbor *neighbor);
void *refresh_request(void *self, const void *memory, bool now);
void refresh_run(void *request, const struct wait *wait);
void refresh_adopt(void *self, void *request);

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

enum { NEIGHBOR_TABLE_PRESSURE, NEIGHBOR_TABLE_OVERFLOW, NEIGHBOR_STALE };
