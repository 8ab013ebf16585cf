/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts DNS by server and client. A poll goes through these files in order:
 *
 *   kernel    loads the programs, and reads the counts of all pairs
 *   pairs     the increments of a pair since the last poll: queries, bins, unanswered queries
 *   servers   the sum of a server's pairs, its label in metrics, its last minute
 *   seconds   the busiest second of a server
 *   who       the workloads of the pairs, now and in that second
 *   judge     conditions and limits; a pure function
 *   show      the document, metrics, and what the page and `top` show
 *
 * facts, config, tables and names have what the others need; tuner polls. bpf/dns.h has the words.
 */

#include "config/config.h"
#include "kernel/host.h"
#include "runtime/kubelet.h"
#include "workload/facts.h"

#include <headroom/bpf/dns.h>
#include <headroom/tuner.h>

#define DNS_LABELS     20 /* servers with series of their own in metrics and documents */
#define DNS_PINNED_MAX 16 /* servers that are counted before the first query to them */
#define DNS_TOP        20 /* reported workloads of one server */
#define DNS_SERVERS    1024
#define DNS_SENDERS    256
#define DNS_FORWARDERS 16
#define DNS_SLOTS      6 /* a minute in slots of ten seconds */
#define DNS_SLOT_US    UINT64_C(10000000)

#define DNS_ADDRESS_TEXT 46 /* INET6_ADDRSTRLEN */
#define DNS_DOMAIN_MAX   256

/* ---- facts.c: addresses, and the node's files and devices ---- */

/* Parsing ignores a zone ("%eth0"). Writes the address only if it returns true. */
bool dns_address_parse(const char *text, struct dns_address *address);
/* Formats as inet_ntop(3), an IPv4 address as such, or "other" for zeros. */
void dns_address_text(const struct dns_address *address, char text[static DNS_ADDRESS_TEXT]);
bool dns_address_equal(const struct dns_address *a, const struct dns_address *b);
bool dns_address_is_set(const struct dns_address *address);
bool dns_address_is_ipv4(const struct dns_address *address);
bool dns_address_within(const struct dns_address *address, const char *network, unsigned bits);
bool dns_address_in(const struct dns_address *list, size_t n, const struct dns_address *address);
bool dns_address_is_loopback(const struct dns_address *address);
/* Adds a domain. A known one keeps its class. False for a faulty one, and when the table is full.
 */
bool dns_suffix_add(struct dns_suffix table[static DNS_SUFFIXES], const char *domain,
	enum dns_suffix_class class);
void dns_watch_add(struct dns_control *control, const struct dns_address *address);
bool dns_is_watched(const struct dns_control *control, const struct dns_address *address);

#define DNS_CLOUD_MAX          16
#define DNS_RESOLV_SERVERS     8
#define DNS_RESOLV_SEARCH      8
#define DNS_NODE_ADDRESSES_MAX 1024

struct dns_facts {
	char cloud[DNS_CLOUD_MAX]; /* empty: unknown */
	unsigned uplinks;          /* network devices, each with a link-local budget */
	struct dns_address servers[DNS_RESOLV_SERVERS]; /* of the node's resolv.conf(5) */
	size_t n_servers;
	char search[DNS_RESOLV_SEARCH][DNS_DOMAIN_MAX];
	size_t n_search;
	struct dns_address node[DNS_NODE_ADDRESSES_MAX]; /* the node's addresses */
	size_t n_node;
	struct dns_address kubelet[KUBELET_SERVERS_MAX]; /* its clusterDNS */
	size_t n_kubelet;
};

/* Facts that cannot be read are empty; the kubelet's servers stay. */
void dns_facts_read(struct dns_facts *facts, const struct host *host);

/* ---- tables.c: the published limits of cloud resolvers for one machine ---- */

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
	const char *noun; /* the words after the number in a message */
	const char *name; /* of the counted things, in documents */
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

/* The worst first. */
enum {
	DNS_BUDGET_EXCEEDED,
	DNS_FAILING,
	DNS_UNANSWERED,
	DNS_BUDGET_PRESSURE,
	DNS_FORWARDER_CROWDING,
	DNS_CONDITIONS
};

extern const struct limit_row dns_limits[];
extern const struct help_entry dns_entries[];
extern const struct condition_type dns_conditions[];
extern const struct metric_row dns_metric_rows[];
extern const struct table_view dns_view;
extern const struct capability_row dns_capabilities[];

/* ---- config.c ---- */

#define DNS_DOMAINS_MAX         16
#define DNS_CLUSTER_SERVERS_MAX 16

struct dns_config {
	char domains[DNS_DOMAINS_MAX][DNS_DOMAIN_MAX];
	size_t n_domains;
	bool cluster_auto;
	struct dns_address cluster[DNS_CLUSTER_SERVERS_MAX];
	size_t n_cluster;
	bool names;
	bool budget_auto;
	struct dns_budget own; /* the numbers of "server: auto" replace the cloud's */
	struct {
		struct dns_address server;
		struct dns_budget budget;
		bool reported; /* the log has a warning that it has no effect */
	} budgets[DNS_PINNED_MAX];
	size_t n_budgets;
};

void dns_config_validate(const struct config *config, struct config_fault_list *faults);
void dns_config_read(
	struct dns_config *into, const struct config *config, struct config_fault_list *faults);
/* Returns the budget of a server; zero without one. listed: resolv.conf names it, or named it. */
struct dns_budget dns_config_budget(const struct dns_config *config, const struct dns_facts *facts,
	const struct dns_address *server, bool listed);
bool dns_budget_is_set(const struct dns_budget *budget);

/* ---- kernel.c ---- */

/* NULL, or -errno (-EPERM can be temporary), and why has the reason and the cure. */
struct dns_kernel;
struct dns_kernel *dns_kernel_load(char why[static TUNER_WHY_MAX]);
int dns_kernel_attach(
	struct dns_kernel *kernel, const struct host *host, char why[static TUNER_WHY_MAX]);
void dns_kernel_detach(struct dns_kernel *kernel); /* the counts stay, pending queries do not */
void dns_kernel_close(struct dns_kernel *kernel);  /* NULL is fine */
struct dns_control *dns_kernel_control(struct dns_kernel *kernel);
/* Visits each struct dns_pair with its struct dns_counts: see bpf_each(). */
typedef void dns_visit_pair(void *userdata, const void *pair, const void *counts);
int dns_kernel_each_pair(struct dns_kernel *kernel, dns_visit_pair *visit, void *userdata);
/* Adds the pair that counts a server without its clients: see struct dns_pair. */
void dns_kernel_add_server(struct dns_kernel *kernel, const struct dns_address *server);
/* The pair must be idle: a query of the same microsecond can be lost. */
bool dns_kernel_remove_pair(struct dns_kernel *kernel, const struct dns_pair *pair);
typedef void dns_visit_sample(void *userdata, const struct dns_sample *sample);
void dns_kernel_each_sample(struct dns_kernel *kernel, dns_visit_sample *visit, void *userdata);

/* ---- names.c: the most frequent names in a sample of the queries of the last minutes ---- */

/* It is the space-saving sketch of Metwally, Agrawal and El Abbadi (2005), with decaying counts. */
#define DNS_NAMES_KEPT 48
#define DNS_NAMES_TOP  10
#define DNS_NAME_TEXT  128 /* only the end of a longer name is kept */

struct dns_name_count {
	char text[DNS_NAME_TEXT];
	uint32_t type;   /* of the sample; of a suffix 0 */
	uint32_t count;  /* an upper bound; count - excess is the lower bound */
	uint32_t excess; /* count of the name that this one replaced */
};

struct dns_names {
	struct dns_name_sketch {
		struct dns_name_count names[DNS_NAMES_KEPT];
		size_t n;
	} whole, suffixes; /* a suffix is "*." and what follows the first label */
	uint64_t faded_at_us;
};

void dns_names_add(struct dns_names *names, const char *text, uint32_t type);
/* Halves all counts every 30 seconds and sorts them. */
void dns_names_fade(struct dns_names *names, uint64_t now_us);
/* Returns the number of entries. Many rare names with the same suffix are one entry. */
size_t dns_names_top(const struct dns_names *names, struct dns_name_count top[static DNS_NAMES_TOP],
	uint64_t *samples);
/* Writes the name as text, unprintable bytes as \DDD (RFC 4343 2.1). True if it is whole. */
bool dns_sample_name(const struct dns_sample *sample, char *text, size_t size, uint32_t *type);

/* ---- seconds.c: the busiest second ---- */

/*
 * A second that begins within a bin ends within the seventeenth. Sixteen bins can miss a part of
 * two bursts just below a second apart; seventeen add a sixteenth to a steady load. So both outer
 * bins count if they have little, or if they are bursts.
 */
#define DNS_WINDOW        (DNS_BINS_PER_SECOND + 1)
#define DNS_PEAKS         62 /* seconds: a minute, a late poll and a late scrape */
#define DNS_SECOND_BOUNDS 6

struct dns_seconds {
	uint32_t fresh[DNS_BINS];    /* the increase of the bins since the last poll */
	uint32_t window[DNS_WINDOW]; /* the last bins */
	uint32_t peaks[DNS_PEAKS];   /* a ring: the busiest in each second of the clock */
	uint64_t next;               /* the current bin; 0 before the first poll */
	uint64_t over_next; /* bins before this one belong to a counted second over the budget */
	uint64_t over;      /* seconds over budget since the last poll; they never overlap */
	uint64_t counts[DNS_SECOND_BOUNDS + 1]; /* the histogram: see dns_second_bounds */
	double sum;                             /* of the histogram's observations */
	uint32_t last;                          /* the last full second */
	uint32_t poll_peak;                     /* the busiest second since the last poll */
	uint32_t current;                       /* the busiest so far in this second of the clock */
	uint64_t begin, end;                    /* bins of the second of poll_peak */
};

extern const double dns_second_bounds[DNS_SECOND_BOUNDS]; /* upper bounds of the buckets */

/*
 * Takes the increase of the bins that ended before now_ns, and counts the seconds that exceed the
 * budget (0: none). False when a bin was used twice since the last poll: the increase is then
 * spread evenly, and ignored after more than a minute.
 */
bool dns_seconds_update(struct dns_seconds *seconds, uint64_t now_ns, uint64_t budget);
uint32_t dns_seconds_peak(const struct dns_seconds *seconds); /* of the last minute */

/* A workload that queries one server. */
struct dns_user {
	struct workload workload;
	uint64_t queries;  /* since the workload was first seen */
	double per_second; /* in the last seconds; of a struct dns_second: in it, in its unit */
	double packets;    /* a second, in the last seconds */
	double smooth;     /* in about the last minute */
	double failures;   /* failed answers a second, in about the last minute */
	double unanswered; /* queries a second, in about the last minute */
	bool serves;       /* it is a DNS server itself */
	/* Its busiest client, by which its name is found again: the runtime may name it later. */
	struct dns_pair pair;
};

/* A busy second of a server and its workloads. */
struct dns_second {
	double share;           /* of the budget; of a server without a budget: queries */
	enum dns_number number; /* the number with this share */
	uint64_t found_us;      /* the poll that found it, CLOCK_MONOTONIC; 0: none */
	double used[DNS_NUMBERS];
	double not_dns;      /* of a budget of link-local packets: packets without DNS */
	uint64_t begin, end; /* its bins */
	bool known;          /* the users are known */
	unsigned n_users;    /* the busiest first, in the unit of number */
	struct dns_user users[LIMIT_TOP_MAX]; /* the rest is of others */
};

#define DNS_SECONDS        4
#define DNS_SECOND_SLOT_US (20 * USEC_PER_SEC)
/* The busiest second of the last minute is at most this old: see DNS_PEAKS. */
#define DNS_SECOND_AGE_US (DNS_PEAKS * USEC_PER_SEC)

/* ---- servers.c ---- */

/* The role of a DNS server for this node. Only an upstream has a budget. */
enum dns_role {
	DNS_LOCAL,   /* on this node: a stub or a node-local cache */
	DNS_CLUSTER, /* the cluster's DNS, on any node */
	DNS_UPSTREAM,
	DNS_ROLES,
	DNS_NO_ROLE = DNS_ROLES, /* the servers without room, counted together */
};

extern const char *const dns_role_names[DNS_ROLES + 1];

/* Queries without an answer of their own. */
struct dns_ends {
	__u64 unanswered;   /* timed out */
	__u64 not_followed; /* neither an answer nor its absence was seen */
	__u64 superseded;   /* another server has answered the same question */
};

struct dns_totals {
	struct dns_counters counters;
	__u64 answered, packets; /* sums */
	struct dns_ends ends;
};

/* Ten seconds of a server. */
struct dns_slot {
	uint64_t queries;
	struct dns_ends ends; /* of the queries sent in these seconds */
	uint64_t pending;     /* the largest */
	__u64 responses[DNS_RCODES];
};

/* A server with series of its own, whose counters begin and end with the label. */
struct dns_label {
	struct dns_totals reported;
	uint64_t since_us;              /* CLOCK_MONOTONIC */
	struct dns_user users[DNS_TOP]; /* the busiest first */
	unsigned n_users;
	struct dns_user failing, waiting;       /* who gets most failed answers, and no answers */
	struct dns_second seconds[DNS_SECONDS]; /* the busiest of each slot of time */
	struct dns_names names;
	struct history history; /* of the busiest sliding seconds */
	struct dns_seconds queries, packets;
	uint32_t pending_bins[DNS_BINS]; /* the sum of the pairs */
	uint64_t pending_end; /* the bin before this one ended with most pending queries */
};

/* Services beside DNS that share a cloud's link-local budget of packets. */
enum dns_service { DNS_METADATA, DNS_TIME, DNS_SERVICES, DNS_NO_SERVICE = DNS_SERVICES };

extern const char *const dns_service_names[DNS_SERVICES];

struct dns_server_state {
	struct dns_address address; /* first: by_address() */
	char name[DNS_ADDRESS_TEXT];
	enum dns_role role;
	struct dns_budget budget;
	bool pinned;  /* it stays in the table without queries */
	bool listed;  /* the node's resolv.conf names it, or named it */
	bool watched; /* all packets to its address count */
	enum dns_service service;
	struct dns_label *label; /* NULL: it is counted under "other" */
	struct dns_totals totals;
	size_t pairs;
	uint64_t pending, pending_peak;
	uint64_t changed_at_us; /* when a counter last rose */
	uint64_t slot;          /* the current ten seconds: time / DNS_SLOT_US */
	struct dns_slot slots[DNS_SLOTS];
};

struct dns_server_table {
	struct dns_server_state **servers, *labelled[DNS_LABELS];
	size_t n, allocated, n_labels;
	void *tree;                       /* the servers by address: tsearch(3) */
	struct dns_totals others;         /* of servers without a label */
	uint64_t not_followed, malformed; /* of all servers since the start */
	uint64_t lost;                    /* queries to servers without room */
};

struct dns_server_state *dns_server_find(
	const struct dns_server_table *table, const struct dns_address *address);
/* Finds or adds the server with this address; when the table is full, the one for the rest. */
struct dns_server_state *dns_server_get(
	struct dns_server_table *table, const struct dns_address *address);
/* The server at index i must have neither label nor pairs. */
void dns_server_remove(struct dns_server_table *table, size_t i);
void dns_server_table_clear(struct dns_server_table *table);
/* Adds to the server and to its label, or to the others. Returns the number of queries. */
uint64_t dns_server_add(struct dns_server_table *table, struct dns_server_state *server,
	const struct dns_counters *more, uint64_t now_us);
/* The queries were sent at sent_us, CLOCK_MONOTONIC. */
void dns_server_add_ends(struct dns_server_table *table, struct dns_server_state *server,
	const struct dns_ends *ends, uint64_t sent_us);
/* Gives the server a label: a free one, or that of a much less busy server. */
void dns_label_claim(
	struct dns_server_table *table, struct dns_server_state *server, uint64_t now_us);
/* A server that answers names in a cluster domain is the cluster's, unless a budget names it. */
void dns_set_role(const struct dns_config *config, const struct dns_facts *facts,
	struct dns_server_state *server);
/* Finds the largest number of pending queries between two polls. until: the current bin. */
void dns_server_find_pending_peak(struct dns_server_state *server, uint64_t from, uint64_t until);
/* Records the pending queries and begins a new slot every ten seconds. */
void dns_minute_pass(struct dns_server_state *server, uint64_t now_us);
struct dns_slot dns_minute(const struct dns_server_state *server); /* the sum of all slots */
uint64_t dns_queries(const struct dns_counters *counters);
/* Failed answers: SERVFAIL, REFUSED, FORMERR, NOTIMP. All answers. */
uint64_t dns_failures(const __u64 responses[static DNS_RCODES]);
uint64_t dns_answers(const __u64 responses[static DNS_RCODES]);
/* Unanswered queries. Queries that were not followed count too if the server answered nothing. */
uint64_t dns_lost(const struct dns_slot *minute);

/* ---- pairs.c ---- */

/*
 * Modulo 2^16: struct dns_counts when each bin was last over, and the increase at that time, which
 * is signed for pending queries.
 */
struct dns_pair_bins {
	uint16_t seen[DNS_BINS][DNS_NUMBERS], rose[DNS_BINS][DNS_NUMBERS];
};

struct dns_pair_state {
	struct dns_pair pair; /* first: find_keyed() */
	struct dns_server_state *server;
	struct dns_pair_bins *bins; /* owned, or NULL */
	uint64_t latency_ns;        /* the counters at the last poll, modulo 2^32 except this one */
	uint32_t counters[sizeof(struct dns_counters) / sizeof(__u64)];
	struct dns_quarter settled[DNS_QUARTERS]; /* as the kernel had them when settled */
	uint32_t waiting;                         /* pending queries */
	uint32_t doubt; /* queries that were not followed, and have not timed out yet */
	float per_second, packets, smooth, failures, unanswered; /* as in struct dns_user */
	uint64_t queries;                                        /* since it was first seen */
	uint64_t packets_sent;  /* the same, to a service beside DNS */
	uint64_t changed_at_us; /* when it last sent */
	/* Pods reuse addresses: the owner of the address, and the queries of earlier owners. */
	uint64_t owner;                     /* hash of the workload; 0: unknown */
	uint64_t before_owner, until_owner; /* queries at its first and at its last poll */
	uint64_t label_since_us;            /* of the server's label */
	uint64_t before_label;              /* queries before the server got it */
	uint64_t serves_at_us;
	bool serves; /* at serves_at_us */
};

struct dns_pairs {
	struct dns_pair_state *pairs;
	size_t n, allocated;
	struct element_index index;
	uint64_t bin, quarter; /* the next ones to count; 0: before the first poll */
	uint64_t read_at_us;   /* 0: never */
	bool forget_pending;   /* the programs were detached: the answers were not seen */
};

/* An address of this node that sends packets to watched addresses. */
struct dns_sender {
	struct dns_address source;
	uint64_t packets, changed_at_us;
	struct dns_seconds seconds; /* over: seconds in which it alone exceeded the budget */
};

/* ---- tuner.c: the sensor ---- */

/* Queries for names that end in a search domain, NXDOMAIN to them, and NXDOMAIN to others. */
enum { DNS_EXPANDED, DNS_EXPANDED_FAILED, DNS_OTHER_NXDOMAIN, DNS_EXPANSIONS };

struct dns_rate {
	uint64_t n, before; /* at the last poll */
	double per_second;  /* smoothed */
};

struct dns_service_state {
	uint64_t packets;
	struct dns_seconds seconds;
	struct dns_user users[DNS_TOP]; /* queries are packets, as is per_second */
	unsigned n_users;
};

struct dns_seen {
	bool watched; /* the BPF programs count */
	struct dns_server_table table;
	struct dns_rate search[DNS_ROLES][DNS_EXPANSIONS];
	struct dns_seconds link_local; /* packets that share the link-local budget */
	bool has_services;             /* they are watched */
	struct dns_service_state services[DNS_SERVICES];
	struct dns_sender senders[DNS_SENDERS]; /* the busiest first */
	unsigned n_senders;
};

struct dns_sensor {
	const struct host *host;
	const struct names *names;
	bool watch; /* the agent, not a command */
	char why[TUNER_WHY_MAX];
	uint64_t next_load_us, next_sample_us;
	bool paused; /* switched off after it was open */
	struct dns_config config;
	struct dns_kernel *kernel, *unattached; /* at most one is not NULL */
	struct cgroups *cgroups;
	struct dns_seen seen;
	struct dns_pairs pairs;
	struct dns_facts facts;
	uint64_t since_us;        /* when counting began, CLOCK_REALTIME */
	uint64_t refreshed_at_us; /* when facts were read; 0: read them at the next poll */
	uint64_t pruned_at_us, sampled_at_us;
	uint64_t lost_pairs;   /* of struct dns_control, at the last poll */
	uint64_t lost_servers; /* of the table, at the last poll */
	uint64_t now_us;       /* of the current poll */
	uint64_t sent;         /* queries since the previous poll */
	uint64_t coarse;       /* polls that were too late for the bins of a server */
	bool unclassified;     /* a server appeared after facts were read */
};

void dns_sense(void *self, uint64_t now_us); /* a struct dns_sensor */
/* Sets role and budget, and watches the packets that share the budget. */
void dns_classify(struct dns_sensor *sensor, struct dns_server_state *server);
/* pairs.c. Adds the increments of all pairs to their servers. */
void dns_pairs_read(struct dns_sensor *sensor);
/* pairs.c. Removes idle pairs and servers when there is little room. */
void dns_pairs_prune(struct dns_sensor *sensor);
void dns_pairs_clear(struct dns_pairs *pairs);
/* seconds.c. Keeps the busiest second since the last poll. */
void dns_second_observe(
	const struct dns_seen *seen, struct dns_server_state *server, uint64_t now_us);
/* seconds.c. The busiest second of the last minute; NULL: none. */
const struct dns_second *dns_busiest_second(const struct dns_label *label, uint64_t now_us);

/* seconds.c. Use of each number of the budget: now, and in the busiest second since a poll. */
struct dns_uses {
	double last[DNS_NUMBERS], poll_peak[DNS_NUMBERS], minute_peak[DNS_NUMBERS];
};
struct dns_uses dns_uses_of(const struct dns_seen *seen, const struct dns_server_state *server);
/* The largest share of a number; without a budget, the queries. Sets the number. */
double dns_share(const struct dns_budget *budget, const double used[static DNS_NUMBERS],
	enum dns_number *number);

/* ---- who.c ---- */

void dns_name_users(struct dns_sensor *sensor);
const struct dns_user *dns_user_find(
	const struct dns_user *list, unsigned n, const struct workload *workload);
/* Appends a user, or adds it to the same workload there. */
void dns_user_add(struct dns_user *list, unsigned *n, unsigned max, const struct dns_user *user);
int dns_user_by_rate(const void *a, const void *b);

/* ---- judge.c. Pure. ---- */

struct dns_server_memory {
	struct dns_address address;
	struct dns_budget budget; /* of the last poll */
	struct dns_uses uses;     /* at the last poll */
	double used;              /* the largest share of the last minute; 1 is the budget */
	bool upper_bound;         /* packets are the sum of several network devices */
	bool pressure, unanswered, failing; /* hysteresis of the conditions */
	uint64_t hits[DNS_NUMBERS];         /* seconds over each number; never falls */
	uint64_t over;                      /* seconds over any number */
	uint64_t over_at_us;                /* when that last rose; 0: never */
	uint64_t over_lately;               /* its increase within the window */
	double worst[DNS_NUMBERS];          /* the largest use over the budget within the window */
	struct dns_second *over_second;     /* the worst second over the budget within the window */
	uint64_t polled_at_us;              /* 0: never */
	uint64_t changed_at_us;             /* when the budget became this one */
	double changed_peak[DNS_NUMBERS];   /* the largest use since then */
};

struct dns_memory {
	struct dns_server_memory *servers; /* in the order of the table */
	size_t n, allocated;
	struct dns_user forwarders[DNS_FORWARDERS]; /* the busiest first */
	unsigned n_forwarders;
	bool crowded;
	/* When it was last crowded, by how many, and their queries a second. */
	uint64_t crowded_at_us;
	unsigned n_crowding;
	double crowd_rate;
};

/* Members of struct tuner_ops; sensor is a struct dns_sensor. */
void dns_decide(const void *sensor, const struct decide_input *input, void *memory,
	struct proposal *proposal);
void dns_memory_clear(void *memory);
/* The worst second over the budget of five minutes, else the busiest of the last one, or NULL. */
const struct dns_second *dns_second_that_matters(const struct dns_server_state *server,
	const struct dns_server_memory *memory, uint64_t now_us);
/* The condition that is True for the server; the worst first. DNS_CONDITIONS: none. */
int dns_verdict(const struct dns_server_memory *memory);
/* A node-local cache: a cluster runs one on every node. */
bool dns_is_node_cache(const struct workload *workload);
void dns_add_users(struct limit_reading *limit, unsigned most, const struct dns_user *users,
	unsigned n, bool packets);

/* ---- show.c. Members of struct tuner_ops; self is a struct dns_sensor. ---- */

struct cJSON *dns_make_document(const void *self, const void *memory, bool trusted);
void dns_put_metrics(const void *self, const void *memory, struct metric_sink *sink);
