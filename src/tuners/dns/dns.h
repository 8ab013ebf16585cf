/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_DNS_H
#define TUNERS_DNS_DNS_H

/*
 * What the parts of this tuner share: sense.c brings the book of servers up to date, decide.c
 * judges it, metrics.c and document.c tell of it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tuners/dns/address.h"
#include "tuners/dns/budgets.h"
#include "tuners/dns/names.h"
#include "tuners/dns/roles.h"
#include "tuners/dns/seconds.h"

#include <headroom/bpf/dns.h>
#include <headroom/tuner.h>

struct cJSON;
struct metric_sink;

#define DNS_LABELS      20 /* servers that metrics and documents tell apart */
#define DNS_PINNED_MAX  16 /* servers that are watched before anybody asks them */
#define DNS_TOP         20 /* workloads told of one server */
#define DNS_FORWARDERS  16
#define DNS_SENDERS     16
#define DNS_SLOTS       6 /* of ten seconds: what is judged over a minute */
#define DNS_SLOT_US     UINT64_C(10000000)
#define DNS_DOMAINS_MAX 16

/* All that is counted of a server, without its bins. Nothing but uint64_t. */
struct dns_totals {
	uint64_t queries[DNS_TRANSPORTS];
	uint64_t retransmissions, edns, malformed, packets, dot_packets, evicted;
	uint64_t responses[DNS_RCODES];
	uint64_t answered, late, truncated, cluster_answers;
	uint64_t latency_ns, latency[DNS_LATENCY_BUCKETS];
	uint64_t unanswered; /* by the sweep, or evicted */
};

/* A workload that asks one server. */
struct dns_user {
	struct workload workload;
	uint64_t queries;  /* since it was first seen */
	double per_second; /* in the last seconds */
	double smooth;     /* the same over about a minute */
	bool serves;       /* it answers queries of others, too */
};

/* The ways in which a budget can be overrun. */
enum dns_overrun {
	DNS_OVER_QUERIES,
	DNS_OVER_PACKETS,
	DNS_OVER_PENDING,
	DNS_OVER_SUSTAINED,
	DNS_OVERRUNS,
};

/* What decide() remembers of a server. Zeroed at the start. */
struct dns_server_memory {
	bool pressure, unanswered;      /* their hysteresis */
	uint64_t over;                  /* seconds over budget so far */
	uint64_t counted[DNS_OVERRUNS]; /* that are in it already */
	uint64_t hits[DNS_OVERRUNS];    /* seconds over each of the numbers; only rises */
	uint64_t over_at_us;            /* when that last rose; 0: never */
	uint64_t over_lately;           /* how much it rose within the window */
	uint64_t worst_queries, worst_packets, worst_pending; /* in a second over, of the window */
	uint64_t pending_over; /* looks that found more pending than the budget has */
	uint64_t looked_at_us; /* 0: never */
	double sustained_over; /* seconds with a minute behind them over a sustained budget */
};

/* A server as it is known here. */
struct dns_server_state {
	struct dns_key key;
	char name[DNS_ADDRESS_TEXT];
	enum dns_role role;
	struct dns_budget budget;
	bool pinned; /* stays, whether it is asked or not */
	bool seen;   /* at the last look */
	int label;   /* its place among the labels, or -1 */
	struct dns_totals totals;
	uint64_t pending;
	uint64_t changed_at_us; /* when a counter last rose */
	struct dns_seconds queries;
	struct dns_seconds *packets; /* NULL without a label */
	uint64_t slot;               /* the ten seconds under way: time / DNS_SLOT_US */
	struct {
		uint64_t queries, unanswered;
		uint64_t pending; /* the most that a look found */
	} slots[DNS_SLOTS];
	struct dns_server_memory memory;
};

/*
 * A place in metrics and documents: counters that begin when a server got it, and only rise; who
 * asks it, and for what.
 */
struct dns_label {
	struct dns_server_state *server; /* NULL: free */
	struct dns_totals told;
	struct dns_user users[DNS_TOP]; /* the busiest first */
	unsigned n_users;
	struct dns_user worst; /* who asked most when the budget was overrun; 0 a second: nobody */
	struct dns_names *names; /* NULL until one was sampled */
};

/* Names with a suffix of a search list: queries, and answers NXDOMAIN to them: made up in vain. */
struct dns_search {
	uint64_t queries, failed;
	double queries_per_second, failed_per_second;
};

struct dns_forwarder {
	struct workload workload;
	double per_second; /* to upstreams, over about a minute */
	bool expected;     /* a node's cache: one is meant to be on every node */
};

/* All servers. The pointers stay as long as their servers do. */
struct dns_book {
	struct dns_server_state **servers;
	size_t n, allocated;
	uint16_t index[4096]; /* by hash of the key: 1 + the place in servers, 0: free */
	struct dns_label labels[DNS_LABELS];
	struct dns_totals others[DNS_ROLES]; /* what has no label, by role */
	uint64_t evicted, malformed;         /* of all that there ever were */
};

/* An address of this node that sent packets to the link-local services that share a budget. */
struct dns_sender {
	struct dns_key source;
	uint64_t packets;
	struct dns_seconds seconds; /* over: those in which it alone overran the budget */
};

/* What was seen: all that decide() knows. */
struct dns_seen {
	bool watched; /* the counters are there: BPF runs */
	struct dns_book *book;
	struct dns_search search[DNS_ROLES];
	struct dns_forwarder forwarders[DNS_FORWARDERS]; /* that ask an upstream, busiest first */
	unsigned n_forwarders;
	struct dns_seconds
		*link_local; /* of all packets that share the budget; NULL: none watched */
	struct dns_sender senders[DNS_SENDERS]; /* of them, the busiest, in no order */
	unsigned n_senders;
	unsigned uplinks; /* network devices of the machine, each with its own such budget */
	uint64_t coarse;  /* looks that came too late to tell seconds apart */
};

struct dns_memory {
	bool crowded;
	uint64_t crowded_at_us;            /* when it last was */
	char crowd[CONDITION_MESSAGE_MAX]; /* who it was then */
};

/* book.c */
struct dns_server_state *dns_book_find(const struct dns_book *book, const struct dns_key *key);
/* The server of that key, made when there is none. NULL without memory or room. */
struct dns_server_state *dns_book_get(struct dns_book *book, const struct dns_key *key);
void dns_book_remove(struct dns_book *book, struct dns_server_state *server);
void dns_book_clear(struct dns_book *book);
/* Takes new totals: what rose goes to the server's label, or to the rest. True when any did. */
bool dns_book_take(struct dns_book *book, struct dns_server_state *server,
	const struct dns_totals *totals, uint64_t now_us);
/* So many more of its queries got no answer in time. */
void dns_book_take_unanswered(struct dns_book *book, struct dns_server_state *server, uint64_t n);
/* Gives a free label, if there is one: before anything is counted, so that all of it is told. */
void dns_book_offer(struct dns_book *book, struct dns_server_state *server);
/* Gives free labels to those without, and those of the idle to who is much busier. */
void dns_book_label(struct dns_book *book, uint64_t now_us);
/* Over the last minute. */
uint64_t dns_minute_queries(const struct dns_server_state *server);
uint64_t dns_minute_unanswered(const struct dns_server_state *server);
uint64_t dns_minute_pending(const struct dns_server_state *server); /* the most */
/* Begins new slots of ten seconds as time goes. */
void dns_minute_pass(struct dns_server_state *server, uint64_t now_us);
uint64_t dns_queries(const struct dns_totals *totals);

/* The label's place in seen->book: what tells of it, or NULL. */
static inline const struct dns_label *dns_label_of(
	const struct dns_book *book, const struct dns_server_state *server)
{
	return server->label < 0 ? NULL : &book->labels[server->label];
}

/* decide.c. Pure. 0 or -ENOMEM. */
int dns_decide(const struct dns_seen *seen, struct dns_memory *memory,
	const struct decide_input *input, struct proposal *proposal);

/* What a limit of this server's packets is counted by; NULL: by nothing. */
const struct dns_seconds *dns_packets_of(
	const struct dns_seen *seen, const struct dns_server_state *server);
bool dns_is_upper_bound(const struct dns_seen *seen, const struct dns_server_state *server);

bool dns_has_budget(const struct dns_server_state *server); /* an upstream with one */
/* The largest share of one of the budget's numbers that was used in the last minute; 1: all. */
double dns_budget_used(const struct dns_seen *seen, const struct dns_server_state *server);

/* Who forwards at least that many queries a second, in words. conditions.c */
void dns_describe_crowd(const struct dns_seen *seen, double least, char *text, size_t size);

/* conditions.c. What dns_decide has remembered, put in words. 0 or -ENOMEM. */
int dns_decide_conditions(
	const struct dns_seen *seen, const struct dns_memory *memory, struct proposal *proposal);

extern const struct limit_row dns_limits[];
extern const struct explanation dns_explanations[];
extern const struct condition_type dns_conditions[];
extern const struct metric_row dns_metric_rows[];
extern const struct capability_row dns_capabilities[];

enum { DNS_BUDGET_PRESSURE, DNS_BUDGET_EXCEEDED, DNS_UNANSWERED, DNS_FORWARDER_CROWDING };

#endif
