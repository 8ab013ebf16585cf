/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* sense.c updates the table of servers, decide.c judges it, report.c reports it. */

#include "kernel/host.h"

#include <headroom/bpf/dns.h>
#include <headroom/tuner.h>

#define DNS_LABELS     20 /* servers with series of their own in metrics and documents */
#define DNS_PINNED_MAX 16 /* servers that are counted before the first query to them */
#define DNS_TOP        20 /* reported workloads of one server */
#define DNS_FORWARDERS 16
#define DNS_SLOTS      6 /* a minute in slots of ten seconds */
#define DNS_SLOT_US    UINT64_C(10000000)

#define DNS_ADDRESS_TEXT 46 /* INET6_ADDRSTRLEN */

/*
 * address.c: addresses in the format of the BPF maps; a zero key is not an address. Parsing ignores
 * a zone ("%eth0"). False, and nothing written, when the text is not an address.
 */
bool dns_address_parse(const char *text, struct dns_key *address);
/* Formats as inet_ntop(3), or "other" for the zero key. */
void dns_address_text(const struct dns_key *address, char text[static DNS_ADDRESS_TEXT]);
bool dns_address_equal(const struct dns_key *a, const struct dns_key *b);
bool dns_address_within(const struct dns_key *address, const char *network, unsigned bits);
bool dns_address_in(const struct dns_key *list, size_t n, const struct dns_key *address);
bool dns_address_is_loopback(const struct dns_key *address);
/*
 * Adds a domain. A known domain keeps its class. Returns false if dns_suffix_hash() refuses the
 * domain, or if DNS_SUFFIX_SLOTS domains have the same number of labels.
 */
bool dns_suffix_add(struct dns_suffixes *table, const char *domain, enum dns_suffix_class class);
/* Counts the packets to this address by source, if a slot is free. */
void dns_watch_add(struct dns_control *control, const struct dns_key *address);

/* tables.c: the published limits of cloud resolvers for one machine. */

#define DNS_CLOUD_MAX       16
#define DNS_BUDGET_NETWORKS 12

enum dns_number {
	DNS_QUERIES, /* in any second, or the mean of a minute */
	DNS_PACKETS, /* in any second */
	DNS_PENDING, /* queries that wait for an answer */
	DNS_NUMBERS,
};

extern const struct dns_number_row {
	const char *key;  /* in the configuration and in documents */
	const char *unit; /* of the limit */
	const char *of;   /* the words after the number in a message */
} dns_numbers[DNS_NUMBERS];

struct dns_budget {
	uint64_t max[DNS_NUMBERS];  /* 0: no limit */
	bool sustained;             /* the mean of a minute counts for queries, not a burst */
	bool link_local;            /* other link-local services share the limit of packets */
	char source[DNS_CLOUD_MAX]; /* "azure" or "config": budget/SOURCE of `explain` */
};

/* One published budget. A row without a cloud ends the table. */
extern const struct dns_budget_row {
	const char *cloud;                         /* budget/CLOUD of `explain` */
	const char *networks[DNS_BUDGET_NETWORKS]; /* addresses or networks of resolvers */
	unsigned bits;                             /* of each network */
	bool anywhere;           /* the address identifies the cloud without DMI */
	bool listed;             /* only for servers in the node's resolv.conf */
	struct dns_budget value; /* without its source */
} dns_budget_rows[];

bool dns_budget_is_set(const struct dns_budget *budget);

/*
 * seconds.c: the busiest second from bins. The kernel counts into 64 bins of 1/16 second each: bin
 * number (time / 62.5 ms) mod 64. A poll every four seconds or less sees the increase of each bin,
 * and so the busiest second, whenever it begins.
 *
 * A second that begins within a bin ends within the seventeenth. Sixteen bins miss up to 3 % of it;
 * seventeen add as much to a steady load. So both outer bins count only if together they have
 * little more than one bin between them.
 */

#define DNS_PEAKS         62 /* seconds: a minute, a late poll and a late scrape */
#define DNS_SECOND_BOUNDS 6

struct dns_seconds {
	uint32_t seen[DNS_BINS];                  /* the kernel's counters at the last poll */
	uint32_t window[DNS_BINS_PER_SECOND + 1]; /* the last 17 bins */
	uint32_t peaks[DNS_PEAKS]; /* a ring: the busiest in each second of the clock */
	uint64_t next;             /* the current bin; 0 before the first poll */
	uint64_t over_until;       /* the counted second over budget ends at this bin */
	uint64_t over;             /* seconds over budget since the last poll */
	uint64_t counts[DNS_SECOND_BOUNDS + 1]; /* the histogram: see dns_second_bounds */
	double sum;                             /* of the histogram's observations */
	uint32_t last;                          /* the last full second */
	uint32_t poll_peak;                     /* the busiest second since the last poll */
	uint32_t current;                       /* the busiest so far in this second of the clock */
	/* The second of poll_peak: its bins, the oldest first, and the first bin after it. */
	uint32_t busiest[DNS_BINS_PER_SECOND + 1];
	uint64_t busiest_end;
};

extern const double dns_second_bounds[DNS_SECOND_BOUNDS]; /* upper bounds of the buckets */

/*
 * Adds the increase of the bins, which were read after now_ns (CLOCK_MONOTONIC). Counts the seconds
 * that exceed the budget (0: none); they never overlap. Each second of the clock is one observation
 * of the histogram: the busiest second that ended in it. False when a bin was used twice since the
 * last poll: the increase is then spread evenly, and ignored after more than a minute.
 */
bool dns_seconds_update(struct dns_seconds *seconds, const uint32_t bins[static DNS_BINS],
	uint64_t now_ns, uint64_t budget);
uint32_t dns_seconds_peak(const struct dns_seconds *seconds); /* of the last minute */

/*
 * names.c: the most frequent names in a sample of the queries of the last minutes. It is the
 * space-saving sketch of Metwally, Agrawal and El Abbadi (2005), with counts that decay.
 */

#define DNS_NAMES_KEPT 48
#define DNS_NAMES_TOP  10
#define DNS_NAME_TEXT  128 /* only the end of a longer name is kept */

struct dns_names {
	struct dns_name_count {
		char text[DNS_NAME_TEXT];
		uint32_t type;   /* of the sample */
		uint32_t count;  /* an upper bound; count - excess is the lower bound */
		uint32_t excess; /* count of the name that this one replaced */
	} names[DNS_NAMES_KEPT];
	size_t n;
	uint64_t faded_at_us;
};

void dns_names_add(struct dns_names *names, const char *text, uint32_t type);
/* Halves all counts every 30 seconds and sorts by count - excess, the largest first. */
void dns_names_fade(struct dns_names *names, uint64_t now_us);
/*
 * Writes the name as lower-case text without the last dot, unprintable bytes as \DDD (RFC 4343
 * 2.1), and its type, 0 if the sample lacks it. True when the text has the whole name.
 */
bool dns_sample_name(const struct dns_sample *sample, char *text, size_t size, uint32_t *type);

/*
 * bpf.c loads the programs (NULL on failure), attaches them to the host's root of cgroup2 (0 or
 * -errno; -EPERM can be temporary) and reads the maps. why has the reason of a failure and the
 * cure. The kernel detaches the programs when the process ends.
 */
struct dns_bpf;
struct dns_bpf *dns_bpf_load(char why[static TUNER_WHY_MAX]);
int dns_bpf_attach(struct dns_bpf *bpf, const struct host *host, char why[static TUNER_WHY_MAX]);
void dns_bpf_detach(struct dns_bpf *bpf); /* the counters stay, pending queries are forgotten */
void dns_bpf_close(struct dns_bpf *bpf);  /* NULL is fine */
struct dns_control *dns_bpf_control(struct dns_bpf *bpf);

enum dns_map {
	DNS_MAP_SERVERS, /* dns_key to dns_server */
	DNS_MAP_ROWS,    /* dns_row_key to dns_row */
	DNS_MAP_SOURCES, /* dns_key to dns_source */
};

/*
 * Calls visit for every element, in any order. key and counts are valid during the call; the kernel
 * may change counts at any time. Elements that are added or removed meanwhile may be missing.
 * 0, or -errno when reading the map fails.
 */
typedef void dns_visit(void *userdata, const void *key, const void *counts);
int dns_bpf_each(struct dns_bpf *bpf, enum dns_map map, dns_visit *visit, void *userdata);

/* Reserves a slot for the server before its first query, if one is free. */
void dns_bpf_expect_server(struct dns_bpf *bpf, const struct dns_key *server);

/*
 * Removes an idle key, but never the zero key, and moves its counts to last, which may be NULL. Do
 * not call it from visit. False on failure. A program may still count into the slot of a server or
 * row: dns_bpf_reuse() frees it when it was removed at least a second ago, and calls visit, with no
 * key, for counts that a server's slot got meanwhile.
 */
bool dns_bpf_forget(
	struct dns_bpf *bpf, enum dns_map map, const void *key, uint64_t now_us, void *last);
void dns_bpf_reuse(struct dns_bpf *bpf, uint64_t now_us, dns_visit *visit, void *userdata);

/*
 * Calls visit for every query that waits for an answer, and once for each that has waited longer
 * than DNS_TIMEOUT_NS. server may be NULL. now_ns is CLOCK_MONOTONIC.
 */
enum dns_end {
	DNS_END_NONE, /* it still waits */
	DNS_END_UNANSWERED,
	DNS_END_UNKNOWN, /* its connection has messages that were not seen */
};
typedef void dns_visit_pending(void *userdata, const struct dns_key *server,
	const struct dns_pending *query, enum dns_end end);
void dns_bpf_sweep(struct dns_bpf *bpf, uint64_t now_ns, dns_visit_pending *visit, void *userdata);

typedef void dns_visit_sample(void *userdata, const struct dns_sample *sample);
void dns_bpf_drain_samples(struct dns_bpf *bpf, dns_visit_sample *visit, void *userdata);

/* The role of a DNS server for this node. Only an upstream has a budget. */
enum dns_role {
	DNS_LOCAL,   /* on this node: a stub or a node-local cache */
	DNS_CLUSTER, /* the cluster's DNS, on any node */
	DNS_UPSTREAM,
	DNS_ROLES,
	DNS_NO_ROLE = DNS_ROLES, /* the servers without a slot, counted together */
};

extern const char *const dns_role_names[DNS_ROLES + 1];

/* A workload that queries one server. */
struct dns_user {
	struct workload workload;
	uint64_t queries;  /* since the workload was first seen */
	double per_second; /* in the last seconds; of a struct dns_second: in this second */
	double smooth;     /* in about the last minute */
	double failures;   /* failed answers a second, in about the last minute */
	bool serves;       /* it is a DNS server itself */
	/* Its busiest client, by which its name is found again: the runtime may name it later. */
	uint64_t cgroup;
	struct dns_key source;
};

/* Ten seconds of a server. */
struct dns_slot {
	uint64_t queries;
	uint64_t unanswered; /* of the queries sent in these seconds */
	uint64_t unknown;    /* queries: neither an answer nor its absence was seen */
	uint64_t pending;    /* the largest of all polls */
	uint32_t responses[DNS_RCODES];
};

/*
 * blame.c: a busy second of a server, and the clients that sent its queries. The counters of a
 * client are known only at the readings (clients.c). A second lies within one reading or more, and
 * the server's bins tell how many of the queries of each reading belong to the second.
 */
struct dns_second {
	double share;      /* of the budget; of a server without a budget: queries */
	uint64_t found_us; /* the poll that found it, CLOCK_MONOTONIC; 0: none */
	uint32_t queries, packets;
	uint32_t bins[DNS_BINS_PER_SECOND + 1];
	uint64_t end;     /* the first bin after it */
	bool known;       /* the users are known */
	bool of_packets;  /* the users' numbers are packets to link-local addresses */
	unsigned n_users; /* the busiest first */
	struct dns_user users[LIMIT_TOP_MAX]; /* the rest of the queries is of others */
};

#define DNS_READINGS       4 /* of the clients; a second ends within the last ones */
#define DNS_SECONDS        4
#define DNS_SECOND_SLOT_US (20 * USEC_PER_SEC)
/* The busiest second of the last minute is at most this old: see DNS_PEAKS. */
#define DNS_SECOND_AGE_US (DNS_PEAKS * USEC_PER_SEC)

struct dns_reading {
	uint64_t begin_us, end_us; /* CLOCK_MONOTONIC */
};

/*
 * A server with series of its own in metrics and documents. Its counters start at 0 with the label:
 * the others keep what was counted before. When a server loses its label, the others get its
 * counters.
 */
struct dns_label {
	struct dns_totals reported;
	uint64_t since_us;              /* CLOCK_MONOTONIC */
	struct dns_user users[DNS_TOP]; /* the busiest first */
	unsigned n_users;
	struct dns_user failing; /* it gets most of the failed answers; 0/s: nobody */
	struct dns_second seconds[DNS_SECONDS]; /* the busiest of each slot of time */
	struct dns_names names;
	struct history history; /* of the busiest sliding seconds */
};

struct dns_server_state {
	struct dns_key key; /* first: by_key() */
	char name[DNS_ADDRESS_TEXT];
	enum dns_role role;
	struct dns_budget budget;
	bool pinned;             /* it stays in the table without queries */
	bool listed;             /* the node's resolv.conf names it, or named it */
	struct dns_label *label; /* NULL: it is counted under "other" */
	struct dns_totals totals;
	uint64_t pending;
	uint64_t changed_at_us;                               /* when a counter last rose */
	uint32_t query_bins[DNS_BINS], packet_bins[DNS_BINS]; /* at the last reading */
	struct dns_seconds queries, packets;
	uint64_t slot; /* the current ten seconds: time / DNS_SLOT_US */
	struct dns_slot slots[DNS_SLOTS];
};

/* server_table.c. A pointer to a server is valid until the server is removed. */
struct dns_server_table {
	struct dns_server_state **servers, *labelled[DNS_LABELS];
	size_t n, allocated, n_labels;
	void *tree;                  /* the servers by key: tsearch(3) */
	struct dns_totals others;    /* of servers without a label */
	uint64_t unknown, malformed; /* of all servers since the start */
};

struct dns_server_state *dns_server_find(
	const struct dns_server_table *table, const struct dns_key *key);
/* Finds or adds the server with this key. NULL when the table is full. */
struct dns_server_state *dns_server_get(struct dns_server_table *table, const struct dns_key *key);
/* Removes the server at index i, whose label is NULL. */
void dns_server_remove(struct dns_server_table *table, size_t i);
void dns_server_table_clear(struct dns_server_table *table);
/*
 * Adds the increase of the kernel's counters to the server and to its label, or to the others.
 * Returns the number of new queries.
 */
uint64_t dns_server_update(struct dns_server_table *table, struct dns_server_state *server,
	const struct dns_server *counts, uint64_t now_us);
/* The queries were sent at sent_us, CLOCK_MONOTONIC. */
void dns_server_add_unanswered(struct dns_server_table *table, struct dns_server_state *server,
	uint64_t n, uint64_t sent_us);
void dns_server_add_unknown(
	struct dns_server_table *table, struct dns_server_state *server, uint64_t n);
/* Adds the last increase of a server that is removed, or all counts without one, to the others. */
void dns_server_add_others(struct dns_server_table *table, const struct dns_server_state *server,
	const struct dns_server *counts);
/* Gives the server a label: a free one, or that of a much less busy server. */
void dns_label_claim(
	struct dns_server_table *table, struct dns_server_state *server, uint64_t now_us);
/* Records the pending queries and begins a new slot every ten seconds. */
void dns_minute_pass(struct dns_server_state *server, uint64_t now_us);
struct dns_slot dns_minute(const struct dns_server_state *server); /* the sum of all slots */
uint64_t dns_queries(const struct dns_totals *totals);

/* The failed answers of a minute: SERVFAIL, REFUSED, FORMERR, NOTIMP. All answers. */
uint64_t dns_failures(const struct dns_slot *minute);
uint64_t dns_answers(const struct dns_slot *minute);

/* users.c */
const struct dns_user *dns_user_find(
	const struct dns_user *list, unsigned n, const struct workload *workload);
/* Appends a user to the list of at most max, or adds it to the same workload there. */
void dns_user_add(struct dns_user *list, unsigned *n, unsigned max, const struct dns_user *user);
/* Compares the rates of two users for qsort(3): the busiest first. */
int dns_user_by_rate(const void *a, const void *b);

struct dns_seen {
	bool watched; /* the BPF programs count */
	struct dns_server_table table;
	/* Queries for names that end in a search domain; failed: the answer was NXDOMAIN. */
	struct dns_search {
		uint64_t queries, failed;
		double queries_per_second, failed_per_second;
	} search[DNS_ROLES];
	struct dns_seconds link_local; /* packets that share the link-local budget */
	/* The addresses of this node that send them, the busiest first. */
	struct dns_sender {
		struct dns_key source;
		uint64_t packets, last_ns;
		struct dns_seconds
			seconds; /* over: seconds in which it alone exceeded the budget */
	} senders[DNS_SOURCES_MAX];
	unsigned n_senders;
};

/* blame.c. Use of each number of the budget: now, and in the busiest second since the last poll. */
struct dns_uses {
	double last[DNS_NUMBERS], poll_peak[DNS_NUMBERS], minute_peak[DNS_NUMBERS];
};
struct dns_uses dns_uses_of(const struct dns_seen *seen, const struct dns_server_state *server);
/* The largest share of a number; without a budget, the queries. */
double dns_share(const struct dns_budget *budget, const double used[static DNS_NUMBERS]);
/* Keeps the busiest second since the last poll if it is the busiest of its slot. */
void dns_second_observe(
	const struct dns_seen *seen, struct dns_server_state *server, uint64_t now_us);
/* All queries of the second, or packets. */
double dns_second_total(const struct dns_second *second);
/* The queries of the second in a reading. Queries in a bin count as evenly spread. */
double dns_second_within(const struct dns_second *second, const struct dns_reading *reading);
/* Whether they have a time in common, give or take a bin: clients are read after the bins. */
bool dns_second_meets(const struct dns_second *second, const struct dns_reading *reading);
/* The busiest second of the last minute; NULL: none. */
const struct dns_second *dns_busiest_second(const struct dns_label *label, uint64_t now_us);

/* decide.c. Pure. */

struct dns_server_memory {
	struct dns_key key;
	struct dns_uses uses; /* at the last poll */
	double used;          /* the largest share of the last minute; 1 is the budget */
	bool upper_bound;     /* packets are the sum of several network devices */
	bool pressure, unanswered, failing; /* hysteresis of the conditions */
	uint64_t hits[DNS_NUMBERS];         /* seconds over each number; never falls */
	uint64_t over;                      /* seconds over any number */
	uint64_t over_at_us;                /* when that last rose; 0: never */
	uint64_t over_lately;               /* its increase within the window */
	double worst[DNS_NUMBERS];          /* the largest use over the budget within the window */
	struct dns_second *over_second;     /* the worst second over the budget within the window */
	uint64_t polled_at_us;              /* 0: never */
};

struct dns_memory {
	struct dns_server_memory *servers; /* in the order of the table */
	size_t n, allocated;
	struct dns_user forwarders[DNS_FORWARDERS]; /* the busiest first */
	unsigned n_forwarders;
	bool crowded;
	uint64_t crowded_at_us;            /* when it was last crowded */
	char crowd[CONDITION_MESSAGE_MAX]; /* the message of that time */
};

/* Members of struct tuner_ops; sensor is a struct dns_sensor. */
void dns_decide(const void *sensor, const struct decide_input *input, void *memory,
	struct proposal *proposal);
void dns_memory_clear(void *memory);
/*
 * The second that matters: the worst one over the budget of the last five minutes, else the busiest
 * one of the last minute; NULL: none. All views name its users.
 */
const struct dns_second *dns_second_that_matters(const struct dns_server_state *server,
	const struct dns_server_memory *memory, uint64_t now_us);
/* The condition that is True for the server; the worst first. DNS_CONDITIONS: none. */
int dns_verdict(const struct dns_server_memory *memory);
/* A node-local cache: a cluster runs one on every node. */
bool dns_is_node_cache(const struct workload *workload);
/* Appends the first users to the users of a limit, up to most. */
void dns_add_users(
	struct limit_reading *limit, unsigned most, const struct dns_user *users, unsigned n);

/* tables.c */
extern const struct limit_row dns_limits[];
extern const struct help_entry dns_entries[];
extern const struct condition_type dns_conditions[];
extern const struct metric_row dns_metric_rows[];
extern const struct table_view dns_view;
extern const struct capability_row dns_capabilities[];

/* The worst first. */
enum {
	DNS_BUDGET_EXCEEDED,
	DNS_FAILING,
	DNS_UNANSWERED,
	DNS_BUDGET_PRESSURE,
	DNS_FORWARDER_CROWDING,
	DNS_CONDITIONS
};
