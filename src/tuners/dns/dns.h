/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_DNS_H
#define TUNERS_DNS_DNS_H

/*
 * What the parts of this tuner share: sense.c brings the table of servers up to date, decide.c
 * judges it, metrics.c and document.c report it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/host.h"

#include <headroom/bpf/dns.h>
#include <headroom/tuner.h>

struct cJSON;
struct metric_sink;

#define DNS_LABELS      20 /* servers that metrics and documents tell apart */
#define DNS_PINNED_MAX  16 /* servers that are watched before the first query to them */
#define DNS_TOP         20 /* workloads reported of one server */
#define DNS_FORWARDERS  16
#define DNS_SENDERS     16
#define DNS_SLOTS       6 /* of ten seconds: what is judged over a minute */
#define DNS_SLOT_US     UINT64_C(10000000)
#define DNS_DOMAINS_MAX 16

/* address.c */

/* Addresses as the maps of BPF have them: struct dns_key, all zero for none. */

#define DNS_ADDRESS_TEXT 46 /* INET6_ADDRSTRLEN */

/* False, and nothing written, for a text that is no address. A zone ("%eth0") is left off. */
bool dns_address_parse(const char *text, struct dns_key *address);

/* As inet_ntop(3) prints it; "other" for none. */
void dns_address_text(const struct dns_key *address, char text[static DNS_ADDRESS_TEXT]);

bool dns_address_equal(const struct dns_key *a, const struct dns_key *b);

/* True when the first bits of both agree. */
bool dns_address_within(const struct dns_key *address, const char *network, unsigned bits);

bool dns_address_in(const struct dns_key *list, size_t n, const struct dns_key *address);
bool dns_address_is_loopback(const struct dns_key *address);

/* budgets.c */

/* What a cloud allows one machine to send to its resolver, as it publishes it. */

#define DNS_CLOUD_MAX       16
#define DNS_BUDGET_NETWORKS 12

struct dns_budget {
	uint64_t qps;               /* queries in any second; 0: none of this kind */
	uint64_t pps;               /* packets in any second */
	uint64_t pending;           /* queries without an answer yet */
	bool sustained;             /* qps is meant over a minute: bursts are let through */
	bool link_local;            /* pps is shared with the cloud's other link-local services */
	char source[DNS_CLOUD_MAX]; /* "azure", as `explain` knows it below budget/; "config";
				       empty: none */
};

/* One published budget. */
struct dns_budget_row {
	const char *cloud;                         /* what `explain` knows below budget/ */
	const char *networks[DNS_BUDGET_NETWORKS]; /* resolvers, or networks they are in */
	unsigned bits;                             /* of each network */
	bool anywhere;                             /* the address tells the cloud: DMI need not */
	bool listed;             /* only for a server that the node's resolv.conf names */
	struct dns_budget value; /* but for its source */
};

extern const struct dns_budget_row dns_budget_rows[]; /* ended by a row without a cloud */

/* "aws", by what the firmware says in /sys/class/dmi/id; "" for none that is known. */
const char *dns_cloud_detect(const struct host *host);

/*
 * The published budget for this server. listed: the node's own resolv.conf names it. False, and
 * nothing written, when there is none.
 */
bool dns_budget_builtin(
	const char *cloud, const struct dns_key *server, bool listed, struct dns_budget *budget);

bool dns_budget_is_set(const struct dns_budget *budget);

/* seconds.c */

/*
 * Seconds out of bins. The kernel counts into 64 bins of a sixteenth of a second, by the clock and
 * without end: bin number (time / 62.5 ms) mod 64. A poll within four seconds knows what each bin
 * got since, and so every second that there was, wherever it began.
 *
 * A second that begins within a bin ends within the seventeenth. Sixteen bins would miss up to half
 * a bin of it, 3 %; seventeen would add as much to a steady load. So the two outer ones both count
 * when they have, together, little more than one of those between: then they were not busy all
 * along.
 */

#define DNS_PEAKS         62 /* seconds: a minute, and what a poll and a scrape may come late */
#define DNS_SECOND_BOUNDS 9

struct dns_seconds {
	uint32_t seen[DNS_BINS];                  /* the kernel's counters at the last poll */
	uint32_t window[DNS_BINS_PER_SECOND + 1]; /* the bins of the last full second, and one */
	uint32_t peaks[DNS_PEAKS];                /* busiest, of each second of the clock; a ring */
	uint64_t next;       /* the first bin that is not over yet; 0 before the first poll */
	uint64_t over_until; /* up to this bin one second is counted as over budget already */
	uint64_t over;       /* seconds over budget */
	uint64_t counts[DNS_SECOND_BOUNDS + 1]; /* of seconds, by dns_second_bounds */
	double sum;                             /* of all that was counted there */
	uint32_t last;                          /* what the last full second got */
	uint32_t poll_peak;                     /* the busiest that ended since the last poll */
	uint32_t current;                       /* the busiest that ended in this second so far */
};

/* Upper bounds of the histogram's buckets. */
extern const double dns_second_bounds[DNS_SECOND_BOUNDS];

/*
 * Takes the bins as they are, read after now_ns (CLOCK_MONOTONIC, nanoseconds). A second with more
 * than budget (0: none) is over it; two of them never share a moment. Each second of the clock is
 * an observation of the histogram: the busiest 16 bins that ended in it, so that a burst across its
 * edge is reported in full. False when the last poll is so long ago that bins went round: what they
 * got is spread over the time, and after a minute left out.
 */
bool dns_seconds_take(struct dns_seconds *seconds, const uint32_t bins[static DNS_BINS],
	uint64_t now_ns, uint64_t budget);

/* The busiest second that ended within the last minute. */
uint32_t dns_seconds_peak(const struct dns_seconds *seconds);

/* names.c */

/*
 * The names in most queries just now, out of a sample of all: the space-saving sketch of
 * Metwally, Agrawal and El Abbadi (2005), whose counts fade, so that it tells of the last minutes.
 * Its size is fixed, however many names there are.
 */

#define DNS_NAMES_KEPT 48
#define DNS_NAMES_TOP  10
#define DNS_NAME_TEXT  128 /* a longer name is cut at its front, where it tells least */

struct dns_name {
	char text[DNS_NAME_TEXT];
	uint32_t type;   /* as the sample has it */
	uint32_t count;  /* at least count - excess, at most count */
	uint32_t excess; /* what it may have taken over from a name that was dropped for it */
};

struct dns_names {
	struct dns_name names[DNS_NAMES_KEPT];
	size_t n;
	uint64_t faded_at_us;
};

void dns_names_add(struct dns_names *names, const char *text, uint32_t type);

/* Halves all counts every half minute; what was seen once is forgotten then. */
void dns_names_fade(struct dns_names *names, uint64_t now_us);

/* Those with the largest certain counts, largest first; how many. */
size_t dns_names_top(const struct dns_names *names, const struct dns_name *top[DNS_NAMES_TOP]);

/* What a DNS server is to this node. Only an upstream has a budget. */
enum dns_role {
	DNS_LOCAL,   /* on this node: a stub, a node's cache. A first hop, no upstream */
	DNS_CLUSTER, /* the cluster's own DNS, wherever it runs */
	DNS_UPSTREAM,
	DNS_ROLES,
};

/* All that is counted of a server: as struct dns_server begins, without bins. Only uint64_t. */
struct dns_totals {
	uint64_t queries[DNS_TRANSPORTS];
	uint64_t retransmissions, edns, other_packets, dot_packets, malformed, evicted;
	uint64_t responses[DNS_RCODES];
	uint64_t latency_ns, latency[DNS_LATENCY_BUCKETS];
	uint64_t late, truncated, cluster_answers;
	uint64_t answered, packets; /* sums of the above */
	uint64_t unanswered;        /* by the sweep, or evicted */
};

/* All servers without a label. */
struct dns_others {
	struct dns_totals totals;
	uint64_t pending;
	size_t servers;
};

/* A workload that queries one server. */
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

/* A server as it is known here. */
struct dns_server_state {
	struct dns_key key;
	char name[DNS_ADDRESS_TEXT];
	enum dns_role role;
	struct dns_budget budget;
	bool pinned; /* stays without queries */
	bool seen;   /* by the last poll */
	int label;   /* index of its label, or -1 */
	struct dns_totals totals;
	uint64_t pending;
	uint64_t changed_at_us; /* when a counter last rose */
	struct dns_seconds queries;
	struct dns_seconds *packets; /* NULL without a label */
	uint64_t slot;               /* the current ten seconds: time / DNS_SLOT_US */
	struct dns_slot slots[DNS_SLOTS];
};

/* A series in metrics and documents: counters that begin when a server gets it, and only rise. */
struct dns_label {
	struct dns_server_state *server; /* NULL: free */
	struct dns_totals reported;
	struct dns_user users[DNS_TOP]; /* the busiest first */
	unsigned n_users;
	struct dns_names *names; /* NULL until one was sampled */
};

/* All servers. The pointers stay valid as long as their servers are in it. */
struct dns_server_table {
	struct dns_server_state **servers;
	size_t n, allocated;
	uint16_t index[4096]; /* by hash of the key: 1 + the index in servers, 0: free */
	struct dns_label labels[DNS_LABELS];
	struct dns_totals others[DNS_ROLES]; /* of servers without a label, by role */
	uint64_t evicted, malformed;         /* of all servers since the start */
};

/* Names with a suffix of a search list: queries, and answers NXDOMAIN to them. */
struct dns_search {
	uint64_t queries, failed;
	double queries_per_second, failed_per_second;
};

struct dns_forwarder {
	struct workload workload;
	double per_second; /* to upstreams, over about a minute */
	bool expected;     /* a node's cache: one is meant to be on every node */
};

/* An address of this node that sent packets to the link-local services that share a budget. */
struct dns_sender {
	struct dns_key source;
	uint64_t packets;
	struct dns_seconds seconds; /* over: those in which it alone overran the budget */
};

/* What was sensed: all that decide() knows. */
struct dns_seen {
	bool watched; /* the counters are there: BPF runs */
	const struct dns_server_table *table;
	struct dns_search search[DNS_ROLES];
	struct dns_forwarder forwarders[DNS_FORWARDERS]; /* to upstreams, busiest first */
	unsigned n_forwarders;
	const struct dns_seconds *link_local; /* packets that share the budget; NULL: not watched */
	struct dns_sender senders[DNS_SENDERS]; /* the busiest of them, in no order */
	unsigned n_senders;
	unsigned uplinks; /* network devices of the machine, each with its own such budget */
};

/* The ways in which a budget can be exceeded. */
enum dns_excess {
	DNS_OVER_QUERIES,
	DNS_OVER_PACKETS,
	DNS_OVER_PENDING,
	DNS_OVER_SUSTAINED,
	DNS_EXCESSES,
};

/* What decide() remembers of a server. Zeroed at its start. */
struct dns_server_memory {
	struct dns_key key;
	bool pressure, unanswered;      /* their hysteresis */
	uint64_t over;                  /* seconds over budget so far */
	uint64_t counted[DNS_EXCESSES]; /* that are in it already */
	uint64_t hits[DNS_EXCESSES];    /* seconds over each of the numbers; only rises */
	uint64_t over_at_us;            /* when that last rose; 0: never */
	uint64_t over_lately;           /* how much it rose within the window */
	uint64_t worst_queries, worst_packets, worst_pending; /* in a second over, of the window */
	uint64_t pending_over; /* polls that found more pending than the budget has */
	uint64_t polled_at_us; /* 0: never */
	double sustained_over; /* seconds with a minute behind them over a sustained budget */
};

struct dns_memory {
	struct dns_server_memory *servers; /* in the order of the table */
	size_t n, allocated;
	struct {
		struct dns_key server;
		struct dns_user user; /* who sent most when the budget was exceeded; 0/s: nobody */
	} worst[DNS_LABELS];
	bool crowded;
	uint64_t crowded_at_us;            /* when it last was */
	char crowd[CONDITION_MESSAGE_MAX]; /* who it was then */
};

/* server_table.c. What the kernel counted: totals, and the two halves of the bins. */
struct dns_totals dns_totals_of(const struct dns_server *counts);
void dns_split_bins(const struct dns_server *counts, uint32_t queries[static DNS_BINS],
	uint32_t packets[static DNS_BINS]);
struct dns_key dns_server_of(const struct dns_pending *query); /* its key in the other maps */
struct dns_server_state *dns_server_find(
	const struct dns_server_table *table, const struct dns_key *key);
/* The server of that key, made when there is none. NULL without memory or room. */
struct dns_server_state *dns_server_get(struct dns_server_table *table, const struct dns_key *key);
void dns_server_remove(struct dns_server_table *table, struct dns_server_state *server);
void dns_server_table_clear(struct dns_server_table *table);
/*
 * Takes new totals: what rose is added to the server's label, or to the others. An evicted query
 * got no answer in time. How many queries there were.
 */
uint64_t dns_server_take(struct dns_server_table *table, struct dns_server_state *server,
	const struct dns_totals *totals, uint64_t now_us);
/* n more of its queries got no answer in time. */
void dns_server_take_unanswered(
	struct dns_server_table *table, struct dns_server_state *server, uint64_t n);
void dns_server_take_pending(struct dns_server_state *server, uint64_t n);
/* Gives a free label, if there is one: before anything is counted, so that all is reported. */
void dns_label_offer(struct dns_server_table *table, struct dns_server_state *server);
/* Gives free labels to servers without, and those of idle servers to much busier ones. */
void dns_label_assign(struct dns_server_table *table, uint64_t now_us);
struct dns_slot dns_minute(const struct dns_server_state *server); /* of the last minute */
struct dns_others dns_sum_others(const struct dns_server_table *table);
/* Begins new slots of ten seconds as time goes. */
void dns_minute_pass(struct dns_server_state *server, uint64_t now_us);
uint64_t dns_queries(const struct dns_totals *totals);
extern const char *const dns_role_names[DNS_ROLES];

static inline const struct dns_label *dns_label_of(
	const struct dns_server_table *table, const struct dns_server_state *server)
{
	return server->label < 0 ? NULL : &table->labels[server->label];
}

/* decide.c. Pure. 0 or -ENOMEM. */
int dns_decide(const struct dns_seen *seen, struct dns_memory *memory,
	const struct decide_input *input, struct proposal *proposal);
void dns_memory_clear(void *memory);
/* Seconds over its budget so far; 0 before the first decision. */
uint64_t dns_over_budget_seconds(
	const struct dns_memory *memory, const struct dns_server_state *server);

/* The packets that count against this server's budget; NULL: they are not counted. */
const struct dns_seconds *dns_packets_of(
	const struct dns_seen *seen, const struct dns_server_state *server);
bool dns_is_upper_bound(const struct dns_seen *seen, const struct dns_server_state *server);

/* The largest share of one of the budget's numbers that was used in the last minute; 1: all. */
double dns_budget_used(const struct dns_seen *seen, const struct dns_server_state *server);

/* conditions.c. Who forwards at least that many queries a second, as text. */
void dns_describe_crowd(const struct dns_seen *seen, double least, char *text, size_t size);
/* The conditions for what dns_decide() has remembered. 0 or -ENOMEM. */
int dns_decide_conditions(
	const struct dns_seen *seen, const struct dns_memory *memory, struct proposal *proposal);

extern const struct limit_row dns_limits[];
/* document.c and metrics.c */

#define DNS_LOSSES 8

struct dns_report {
	const struct dns_seen *seen;
	const struct dns_memory *memory;
	struct {
		const char *name;
		uint64_t count;
	} losses[DNS_LOSSES]; /* what could not be counted in full, since the start */
	const char *cloud;    /* "aws"; empty: none known */
	bool names;           /* they are sampled */
	bool trusted;         /* the reader may see them */
};

extern const char *const dns_rcode_names[DNS_RCODES];

void dns_put_metrics(struct metric_sink *sink, const struct dns_report *report);

/* The caller's: null when nothing is counted; NULL without memory. */
struct cJSON *dns_make_document(const struct dns_report *report);

extern const struct explanation dns_explanations[];
extern const struct condition_type dns_conditions[];
extern const struct metric_row dns_metric_rows[];
extern const struct table_view dns_view;
extern const struct capability_row dns_capabilities[];

enum { DNS_BUDGET_PRESSURE, DNS_BUDGET_EXCEEDED, DNS_UNANSWERED, DNS_FORWARDER_CROWDING };

#endif
