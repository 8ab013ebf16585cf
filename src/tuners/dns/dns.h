/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts of this tuner share: sense.c brings the table of servers up to date, decide.c
 * judges it, report.c reports it.
 */

#include "kernel/host.h"

#include <headroom/bpf/dns.h>
#include <headroom/tuner.h>

#define DNS_LABELS     20 /* servers with series of their own in metrics and documents */
#define DNS_PINNED_MAX 16 /* servers that are watched before the first query to them */
#define DNS_TOP        20 /* workloads reported of one server */
#define DNS_FORWARDERS 16
#define DNS_SLOTS      6 /* of ten seconds: what is judged over a minute */
#define DNS_SLOT_US    UINT64_C(10000000)

#define DNS_ADDRESS_TEXT 46 /* INET6_ADDRSTRLEN */

/*
 * address.c: addresses as BPF has them, all zero for none. False, and nothing written, for a text
 * that is no address. A zone ("%eth0") is left off.
 */
bool dns_address_parse(const char *text, struct dns_key *address);
/* As inet_ntop(3) prints it; "other" for none. */
void dns_address_text(const struct dns_key *address, char text[static DNS_ADDRESS_TEXT]);
bool dns_address_equal(const struct dns_key *a, const struct dns_key *b);
bool dns_address_within(const struct dns_key *address, const char *network, unsigned bits);
bool dns_address_in(const struct dns_key *list, size_t n, const struct dns_key *address);
bool dns_address_is_loopback(const struct dns_key *address);
/*
 * False for one that dns_suffix_hash() refuses, or more than DNS_SUFFIX_SLOTS with as many labels.
 * Of the same name the first class counts.
 */
bool dns_suffix_add(struct dns_suffixes *table, const char *domain, enum dns_suffix_class class);
/* Has the packets to this address counted by source, if there is room for it. */
void dns_watch_add(struct dns_control *control, const struct dns_key *address);

/* tables.c: what a cloud allows one machine to send to its resolver, as it publishes it. */

#define DNS_CLOUD_MAX       16
#define DNS_BUDGET_NETWORKS 12

enum dns_number {
	DNS_QUERIES, /* in any second, or over a minute */
	DNS_PACKETS, /* in any second */
	DNS_PENDING, /* queries without an answer yet */
	DNS_NUMBERS,
};

extern const struct dns_number_row {
	const char *key;  /* in the configuration and in documents */
	const char *unit; /* of the limit */
	const char *of;   /* after the number, in a sentence */
} dns_numbers[DNS_NUMBERS];

struct dns_budget {
	uint64_t max[DNS_NUMBERS];  /* 0: none of this kind */
	bool sustained;             /* queries are meant over a minute: bursts are let through */
	bool link_local;            /* packets are shared with other link-local services */
	char source[DNS_CLOUD_MAX]; /* "azure", "config": as `explain` knows it below budget/ */
};

/* One published budget. The table is ended by a row without a cloud. */
extern const struct dns_budget_row {
	const char *cloud;                         /* what `explain` knows below budget/ */
	const char *networks[DNS_BUDGET_NETWORKS]; /* resolvers, or networks they are in */
	unsigned bits;                             /* of each network */
	bool anywhere;                             /* the address tells the cloud: DMI need not */
	bool listed;             /* only for a server that the node's resolv.conf names */
	struct dns_budget value; /* but for its source */
} dns_budget_rows[];

bool dns_budget_is_set(const struct dns_budget *budget);

/*
 * seconds.c: seconds out of bins. The kernel counts into 64 bins of a sixteenth of a second, by the
 * clock and without end: bin number (time / 62.5 ms) mod 64. A poll within four seconds knows what
 * each bin got since, and so every second that there was, wherever it began.
 *
 * A second that begins within a bin ends within the seventeenth. Sixteen bins would miss up to half
 * a bin of it, 3 %; seventeen would add as much to a steady load. So the two outer ones both count
 * when they have, together, little more than one of those between: then they were not busy all
 * along.
 */

#define DNS_PEAKS         62 /* seconds: a minute, and what a poll and a scrape may come late */
#define DNS_SECOND_BOUNDS 6

struct dns_seconds {
	uint32_t seen[DNS_BINS];                  /* the kernel's counters at the last poll */
	uint32_t window[DNS_BINS_PER_SECOND + 1]; /* the bins of the last full second, and one */
	uint32_t peaks[DNS_PEAKS];                /* busiest, of each second of the clock; a ring */
	uint64_t next;       /* the first bin that is not over yet; 0 before the first poll */
	uint64_t over_until; /* up to this bin one second is counted as over budget already */
	uint64_t over;       /* seconds over budget since the last poll */
	uint64_t counts[DNS_SECOND_BOUNDS + 1]; /* of seconds, by dns_second_bounds */
	double sum;                             /* of all that was counted there */
	uint32_t last;                          /* what the last full second got */
	uint32_t poll_peak;                     /* the busiest that ended since the last poll */
	uint32_t current;                       /* the busiest that ended in this second so far */
};

extern const double dns_second_bounds[DNS_SECOND_BOUNDS]; /* upper, of the histogram's buckets */

/*
 * Takes the bins as they are, read after now_ns (CLOCK_MONOTONIC, nanoseconds). A second with more
 * than budget (0: none) is over it; two of them never share a moment. Each second of the clock is
 * an observation of the histogram: the busiest 16 bins that ended in it, so that a burst across its
 * edge is reported in full. False when the last poll is so long ago that bins went round: what they
 * got is spread over the time, and after a minute left out.
 */
bool dns_seconds_update(struct dns_seconds *seconds, const uint32_t bins[static DNS_BINS],
	uint64_t now_ns, uint64_t budget);
uint32_t dns_seconds_peak(const struct dns_seconds *seconds); /* of the last minute */

/*
 * names.c: the names in most queries just now, out of a sample of all: the space-saving sketch of
 * Metwally, Agrawal and El Abbadi (2005), whose counts fade, so that it shows the last minutes. Its
 * size is fixed, however many names there are.
 */

#define DNS_NAMES_KEPT 48
#define DNS_NAMES_TOP  10
#define DNS_NAME_TEXT  128 /* a longer name is cut at its front, where it tells least */

struct dns_names {
	struct dns_name_count {
		char text[DNS_NAME_TEXT];
		uint32_t type;   /* as the sample has it */
		uint32_t count;  /* at least count - excess, at most count */
		uint32_t excess; /* taken over from a name that was dropped for it, at most */
	} names[DNS_NAMES_KEPT];
	size_t n;
	uint64_t faded_at_us;
};

void dns_names_add(struct dns_names *names, const char *text, uint32_t type);
/* Halves all counts every half minute, and sorts: the largest certain counts come first. */
void dns_names_fade(struct dns_names *names, uint64_t now_us);
/*
 * The name as text, lower case, without the last dot, unprintable bytes as \DDD (RFC 4343 2.1), and
 * its type, 0 when that was not sampled. True when all of the name was there and fits.
 */
bool dns_sample_name(const struct dns_sample *sample, char *text, size_t size, uint32_t *type);

/*
 * bpf.c: the kernel's side of the counters: loading (NULL when that fails), attaching to the host's
 * root of cgroup2 (0 or -errno; -EPERM may pass), reading maps. The reason of a failure, with its
 * cure, is in why. The programs go when this process does.
 */
struct dns_bpf;
struct dns_bpf *dns_bpf_load(char why[static TUNER_WHY_MAX]);
int dns_bpf_attach(struct dns_bpf *bpf, const struct host *host, char why[static TUNER_WHY_MAX]);
void dns_bpf_close(struct dns_bpf *bpf); /* NULL is fine */
struct dns_control *dns_bpf_control(struct dns_bpf *bpf);

enum dns_map {
	DNS_MAP_SERVERS, /* dns_key, dns_server */
	DNS_MAP_ROWS,    /* dns_row_key, dns_row */
	DNS_MAP_SOURCES, /* dns_key, dns_source */
};

/*
 * Calls take for every element, in no order. Key and counts live until it returns; counts may
 * change at any time. An element that comes or goes meanwhile may be left out. 0, or -errno when
 * the map cannot be read; what was taken until then was right.
 */
typedef void dns_visit(void *userdata, const void *key, const void *counts);
int dns_bpf_each(struct dns_bpf *bpf, enum dns_map map, dns_visit *visit, void *userdata);

/* Reserves a slot, if there is one, before the first query. */
void dns_bpf_expect_server(struct dns_bpf *bpf, const struct dns_key *server);

/*
 * Removes an idle key with its counts, for room; the zero key stays. Not from within take. False
 * when it could not be removed. The room of a server or row is used again after dns_bpf_reuse(), a
 * second later or more: no program counts there any more.
 */
bool dns_bpf_forget(struct dns_bpf *bpf, enum dns_map map, const void *key, uint64_t now_us);
void dns_bpf_reuse(struct dns_bpf *bpf, uint64_t now_us);

/*
 * Calls take for every query without an answer, and removes those that are older than
 * DNS_TIMEOUT_NS: for them unanswered is true, once. now_ns is CLOCK_MONOTONIC.
 */
typedef void dns_visit_pending(void *userdata, const struct dns_pending *query, bool unanswered);
void dns_bpf_sweep(struct dns_bpf *bpf, uint64_t now_ns, dns_visit_pending *visit, void *userdata);

/* Calls take for every name sampled since the last time. */
typedef void dns_visit_sample(void *userdata, const struct dns_sample *sample);
void dns_bpf_drain_samples(struct dns_bpf *bpf, dns_visit_sample *visit, void *userdata);

/* What a DNS server is to this node. Only an upstream has a budget. */
enum dns_role {
	DNS_LOCAL,   /* on this node: a stub, a node's cache. A first hop, no upstream */
	DNS_CLUSTER, /* the cluster's own DNS, wherever it runs */
	DNS_UPSTREAM,
	DNS_ROLES,
	DNS_NO_ROLE = DNS_ROLES, /* of those that found no room, which are counted as one */
};

extern const char *const dns_role_names[DNS_ROLES + 1];

/* Who queries one server. */
struct dns_user {
	struct workload workload;
	uint64_t queries;  /* since it was first seen */
	double per_second; /* in the last seconds */
	double smooth;     /* the same over about a minute */
	bool serves;       /* it answers queries of others, too */
};

/* What is judged over a minute, of a part of it. */
struct dns_slot {
	uint64_t queries, unanswered;
	uint64_t pending; /* the most of any poll */
};

/* Series in metrics and documents: counters that begin when a server gets them, and only rise. */
struct dns_label {
	struct dns_totals reported;
	struct dns_user users[DNS_TOP]; /* the busiest first */
	unsigned n_users;
	struct dns_names names;
	struct history history; /* of the busiest sliding seconds */
};

/* A server as it is known here. */
struct dns_server_state {
	struct dns_key key; /* first: by_key() */
	char name[DNS_ADDRESS_TEXT];
	enum dns_role role;
	struct dns_budget budget;
	bool pinned;             /* stays without queries */
	struct dns_label *label; /* NULL: it is counted among the others */
	struct dns_totals totals;
	uint64_t pending;
	uint64_t changed_at_us;                               /* when a counter last rose */
	uint32_t query_bins[DNS_BINS], packet_bins[DNS_BINS]; /* as the kernel last had them */
	struct dns_seconds queries, packets;
	uint64_t slot; /* the current ten seconds: time / DNS_SLOT_US */
	struct dns_slot slots[DNS_SLOTS];
};

/* server_table.c: all servers. The pointers stay valid as long as their servers are in it. */
struct dns_server_table {
	struct dns_server_state **servers, *labelled[DNS_LABELS]; /* all; those with a label */
	size_t n, allocated, n_labels;
	void *tree;                  /* all by key: tsearch(3) */
	struct dns_totals others;    /* of servers without a label */
	uint64_t evicted, malformed; /* of all servers since the start */
};

struct dns_server_state *dns_server_find(
	const struct dns_server_table *table, const struct dns_key *key);
/* The server of that key, made when there is none. NULL without room. */
struct dns_server_state *dns_server_get(struct dns_server_table *table, const struct dns_key *key);
/* The i-th, which has no label. */
void dns_server_remove(struct dns_server_table *table, size_t i);
void dns_server_table_clear(struct dns_server_table *table);
/*
 * Takes what the kernel counted: what rose is added to the server's label, or to the others. An
 * evicted query got no answer in time. How many queries there were.
 */
uint64_t dns_server_update(struct dns_server_table *table, struct dns_server_state *server,
	const struct dns_server *counts, uint64_t now_us);
/* n more of its queries got no answer in time. */
void dns_server_add_unanswered(
	struct dns_server_table *table, struct dns_server_state *server, uint64_t n);
/* Gives a free label, if there is one: before anything is counted, so that all is reported. */
void dns_label_offer(struct dns_server_table *table, struct dns_server_state *server);
/* Gives free labels to servers without, and those of idle servers to much busier ones. */
void dns_label_assign(struct dns_server_table *table, uint64_t now_us);
/* Begins new slots of ten seconds as time goes, and notes what was pending until now. */
void dns_minute_pass(struct dns_server_state *server, uint64_t now_us);
struct dns_slot dns_minute(const struct dns_server_state *server); /* of the last minute */
uint64_t dns_queries(const struct dns_totals *totals);

/* clients.c. Appends a user to the list of at most max, or adds it to the same workload there. */
void dns_user_add(struct dns_user *list, unsigned *n, unsigned max, const struct dns_user *user);

/* What was sensed: all that decide() knows. */
struct dns_seen {
	bool watched; /* the counters are there: BPF runs */
	struct dns_server_table table;
	/* Names with a suffix of a search list: queries, and answers NXDOMAIN to them. */
	struct dns_search {
		uint64_t queries, failed;
		double queries_per_second, failed_per_second;
	} search[DNS_ROLES];
	struct dns_seconds link_local; /* packets that share the budget of a cloud's services */
	/* The addresses of this node that sent them, the busiest first. */
	struct dns_sender {
		struct dns_key source;
		uint64_t packets, last_ns;
		struct dns_seconds seconds; /* over: in which it alone overran the budget */
	} senders[DNS_SOURCES_MAX];
	unsigned n_senders;
};

/* decide.c. Pure. */

/* What it remembers of a server. Zeroed at its start. */
struct dns_server_memory {
	struct dns_key key;
	/* Of the budget's numbers, at the last poll. */
	struct dns_uses {
		double last[DNS_NUMBERS], poll_peak[DNS_NUMBERS], minute_peak[DNS_NUMBERS];
	} uses;
	double used;                /* the largest share of them in the last minute; 1: all */
	bool upper_bound;           /* packets are those of several network devices */
	bool pressure, unanswered;  /* their hysteresis */
	uint64_t hits[DNS_NUMBERS]; /* seconds over each of the numbers; only rises */
	uint64_t over;              /* seconds over any of them */
	uint64_t over_at_us;        /* when that last rose; 0: never */
	uint64_t over_lately;       /* how much it rose within the window */
	double worst[DNS_NUMBERS];  /* in a poll over the budget, of the window */
	struct dns_user user;       /* who sent most when the budget was exceeded; 0/s: no one */
	uint64_t polled_at_us;      /* 0: never */
	double peak;                /* share of the budget in the busiest poll of a minute */
	uint64_t peak_at_us;
	struct dns_user peak_user; /* who sent most then */
};

struct dns_memory {
	struct dns_server_memory *servers; /* in the order of the table */
	size_t n, allocated;
	struct dns_user forwarders[DNS_FORWARDERS]; /* to upstreams; the largest smooth first */
	unsigned n_forwarders;
	bool crowded;
	uint64_t crowded_at_us;            /* when it last was */
	char crowd[CONDITION_MESSAGE_MAX]; /* who it was then */
};

/* Members of struct tuner_ops; sensor is a struct dns_sensor. */
void dns_decide(const void *sensor, const struct decide_input *input, void *memory,
	struct proposal *proposal);
void dns_memory_clear(void *memory);
/* A cluster runs one on every node. */
bool dns_is_node_cache(const struct workload *workload);
/* Who sends most a second, as the users of a limit. */
void dns_add_users(struct limit_reading *limit, const struct dns_label *label, unsigned most);

/* tables.c */
extern const struct explanation dns_explanations[];
extern const struct condition_type dns_conditions[];
extern const struct metric_row dns_metric_rows[];
extern const struct table_view dns_view;
extern const struct capability_row dns_capabilities[];

enum {
	DNS_BUDGET_PRESSURE,
	DNS_BUDGET_EXCEEDED,
	DNS_UNANSWERED,
	DNS_FORWARDER_CROWDING,
	DNS_CONDITIONS
};
