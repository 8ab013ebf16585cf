/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* DNSBudgetPressure begins above the first share of the budget and ends below the second. */
#define PRESSURE_BEGINS 0.80
#define PRESSURE_ENDS   0.70

/* DNSBudgetExceeded stays for as long as a dashboard and an alert need to see it. */
#define EXCEEDED_WINDOW_US (300 * USEC_PER_SEC)

/* Users may be read only every ten seconds: it may take this long to see who it was. */
#define USERS_KNOWN_US (11 * USEC_PER_SEC)

/*
 * DNSUnanswered begins with this many queries, and this share, of the last minute; a few are lost
 * on any network. It ends below the second share.
 */
#define UNANSWERED_LEAST  10
#define UNANSWERED_BEGINS 0.05
#define UNANSWERED_ENDS   0.01

/* A forwarder counts from the first, and down to the second rate of queries to upstreams. */
#define FORWARDER_BEGINS 0.5
#define FORWARDER_ENDS   0.1
#define CROWD            2
#define CROWDED_FOR_US   (60 * USEC_PER_SEC)

const struct dns_seconds *dns_packets_of(
	const struct dns_seen *seen, const struct dns_server_state *server)
{
	return server->budget.link_local ? seen->link_local : server->packets;
}

bool dns_is_upper_bound(const struct dns_seen *seen, const struct dns_server_state *server)
{
	return server->budget.link_local && server->budget.pps > 0 && seen->uplinks > 1;
}

double dns_budget_used(const struct dns_seen *seen, const struct dns_server_state *server)
{
	const struct dns_budget *budget = &server->budget;
	const struct dns_seconds *packets = dns_packets_of(seen, server);
	double used = 0;

	if (budget->qps > 0 && budget->sustained)
		used = (double)dns_minute(server).queries / 60 / (double)budget->qps;
	else if (budget->qps > 0)
		used = (double)dns_seconds_peak(&server->queries) / (double)budget->qps;
	if (budget->pps > 0 && packets)
		used = MAX(used, (double)dns_seconds_peak(packets) / (double)budget->pps);
	if (budget->pending > 0)
		used = MAX(used, (double)dns_minute(server).pending / (double)budget->pending);
	return used;
}

/*
 * Packets that surely count against the budget: seconds over it, and the most in one of this poll.
 * With several network devices, each with a budget of its own, the sum of all proves nothing; the
 * packets of one address do, as an address is on one device.
 */
static void read_packets(const struct dns_seen *seen, const struct dns_server_state *server,
	uint64_t *over, uint64_t *peak)
{
	const struct dns_seconds *packets = dns_packets_of(seen, server);
	bool senders = dns_is_upper_bound(seen, server);

	*over = packets && !senders ? packets->over : 0;
	*peak = packets && !senders ? packets->poll_peak : 0;
	for (unsigned i = 0; packets && senders && i < seen->n_senders; i++) {
		*over += seen->senders[i].seconds.over;
		*peak = MAX(*peak, seen->senders[i].seconds.poll_peak);
	}
}

/* How much each of the budget's numbers was exceeded since the last poll: a second counts once. */
static uint64_t newly_over(const struct dns_server_state *server, uint64_t packets_over,
	struct dns_server_memory *memory)
{
	uint64_t counts[DNS_EXCESSES] = {
		[DNS_OVER_QUERIES] = server->queries.over,
		[DNS_OVER_PACKETS] = server->budget.pps > 0 ? packets_over : 0,
		[DNS_OVER_PENDING] = memory->pending_over,
		[DNS_OVER_SUSTAINED] = (uint64_t)memory->sustained_over,
	};
	uint64_t most = 0;

	for (int i = 0; i < DNS_EXCESSES; i++) {
		/* A sum over senders falls when one is forgotten. */
		uint64_t more = counts[i] - MIN(counts[i], memory->counted[i]);

		most = MAX(most, more);
		memory->hits[i] += more;
		memory->counted[i] = counts[i];
	}
	return most;
}

/* The busiest of the moment: an average of any time would blame a client with few, steady queries.
 */
static void remember_user(const struct dns_seen *seen, const struct dns_server_state *server,
	const struct dns_server_memory *server_memory, struct dns_memory *memory, uint64_t now)
{
	const struct dns_label *label = dns_label_of(seen->table, server);
	struct dns_user *worst;

	if (!label)
		return;
	worst = &memory->worst[server->label].user;
	if (server_memory->over_lately == 0 ||
		!dns_address_equal(&memory->worst[server->label].server, &server->key))
		*worst = (struct dns_user){0};
	memory->worst[server->label].server = server->key;
	if (server_memory->over_lately == 0 || now - server_memory->over_at_us > USERS_KNOWN_US)
		return;
	for (unsigned i = 0; i < label->n_users; i++)
		if (label->users[i].per_second > worst->per_second)
			*worst = label->users[i];
}

static void remember_over(const struct dns_seen *seen, const struct dns_server_state *server,
	struct dns_server_memory *memory, uint64_t now)
{
	const struct dns_budget *budget = &server->budget;
	uint64_t more, packets_over, packets_peak;

	if (budget->pending > 0 && server->pending > budget->pending)
		memory->pending_over++;
	if (budget->sustained && memory->polled_at_us > 0 &&
		dns_minute(server).queries > 60 * budget->qps)
		memory->sustained_over +=
			(double)(now - memory->polled_at_us) / (double)USEC_PER_SEC;
	memory->polled_at_us = now;
	read_packets(seen, server, &packets_over, &packets_peak);
	more = newly_over(server, packets_over, memory);
	memory->over += more;
	if (more > 0) {
		memory->over_lately += more;
		memory->over_at_us = now;
		memory->worst_queries = MAX(memory->worst_queries, server->queries.poll_peak);
		memory->worst_pending = MAX(memory->worst_pending, server->pending);
		memory->worst_packets = MAX(memory->worst_packets, packets_peak);
	} else if (now - memory->over_at_us > EXCEEDED_WINDOW_US) {
		memory->over_lately = 0;
		memory->worst_queries = memory->worst_packets = memory->worst_pending = 0;
	}
}

static void remember(const struct dns_seen *seen, const struct dns_server_state *server,
	struct dns_server_memory *memory, uint64_t now)
{
	double queries = (double)dns_minute(server).queries;
	double unanswered = (double)dns_minute(server).unanswered;

	if (memory->unanswered)
		memory->unanswered = unanswered > 0 && unanswered >= queries * UNANSWERED_ENDS;
	else
		memory->unanswered =
			unanswered >= UNANSWERED_LEAST && unanswered >= queries * UNANSWERED_BEGINS;
	if (!dns_budget_is_set(&server->budget)) {
		memory->pressure = false;
		memory->over_lately = 0;
		return;
	}
	remember_over(seen, server, memory, now);
	memory->pressure = dns_budget_used(seen, server) >
			   (memory->pressure ? PRESSURE_ENDS : PRESSURE_BEGINS);
}

static void remember_crowd(const struct dns_seen *seen, struct dns_memory *memory, uint64_t now)
{
	double least = memory->crowded ? FORWARDER_ENDS : FORWARDER_BEGINS;
	unsigned n = 0;

	for (unsigned i = 0; i < seen->n_forwarders; i++)
		n += !seen->forwarders[i].expected && seen->forwarders[i].per_second >= least;
	if (n >= CROWD) {
		memory->crowded = true;
		memory->crowded_at_us = now;
		dns_describe_crowd(seen, FORWARDER_ENDS, memory->crowd, sizeof(memory->crowd));
	} else if (now - memory->crowded_at_us > CROWDED_FOR_US) {
		memory->crowded = false;
	}
}

static void take_users(struct limit_reading *limit, const struct dns_label *label)
{
	for (unsigned i = 0; label && i < label->n_users && limit->n_top < LIMIT_TOP_MAX; i++) {
		uint64_t used = (uint64_t)llround(label->users[i].per_second);

		if (used == 0)
			continue;
		limit->top[limit->n_top].workload = label->users[i].workload;
		limit->top[limit->n_top++].used = used;
	}
}

/* A limit of each number of the budget; the first has the server's plain name, and its users. */
static int add_limits(const struct dns_seen *seen, const struct dns_server_state *server,
	const struct dns_server_memory *memory, struct proposal *proposal)
{
	const struct dns_budget *budget = &server->budget;
	const struct dns_seconds *packets = dns_packets_of(seen, server);
	uint64_t mean = (dns_minute(server).queries + 59) / 60;
	const struct {
		const char *part, *unit;
		uint64_t max, used, peak;
		enum dns_excess hits;
		bool upper_bound, users;
	} limits[] = {
		{"", "queries/s", budget->qps, budget->sustained ? mean : server->queries.last,
			budget->sustained ? mean : server->queries.poll_peak,
			budget->sustained ? DNS_OVER_SUSTAINED : DNS_OVER_QUERIES, false, true},
		{budget->qps > 0 ? "/packets" : "", "packets/s", packets ? budget->pps : 0,
			packets ? packets->last : 0, packets ? packets->poll_peak : 0,
			DNS_OVER_PACKETS, dns_is_upper_bound(seen, server), budget->qps == 0},
		{"/pending", "queries", budget->pending, server->pending, 0, DNS_OVER_PENDING,
			false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct limit_reading *limit = limits[i].max ? proposal_limit(proposal) : NULL;

		if (limits[i].max == 0)
			continue;
		if (!limit)
			return -ENOMEM;
		snprintf(
			limit->name, sizeof(limit->name), "dns/%s%s", server->name, limits[i].part);
		limit->unit = limits[i].unit;
		limit->flow = true;
		limit->max = limits[i].max;
		limit->used = limits[i].used;
		limit->peak = limits[i].peak;
		limit->hits = memory->hits[limits[i].hits];
		limit->upper_bound = limits[i].upper_bound;
		if (limits[i].users)
			take_users(limit, dns_label_of(seen->table, server));
	}
	return 0;
}

/*
 * The memory of the i-th server of the table. It is moved there: the order of the table changes
 * only when a server is removed.
 */
static struct dns_server_memory *memory_of(
	struct dns_memory *memory, size_t i, const struct dns_key *key)
{
	struct dns_server_memory moved;
	size_t from = i;

	while (from < memory->n && !dns_address_equal(&memory->servers[from].key, key))
		from++;
	if (from == memory->n) {
		if (grow_array(&memory->servers, memory->n, &memory->allocated, sizeof(moved)) < 0)
			return NULL;
		memory->servers[memory->n++] = (struct dns_server_memory){.key = *key};
	}
	if (from != i) {
		moved = memory->servers[from];
		memory->servers[from] = memory->servers[i];
		memory->servers[i] = moved;
	}
	return &memory->servers[i];
}

uint64_t dns_over_budget_seconds(
	const struct dns_memory *memory, const struct dns_server_state *server)
{
	for (size_t i = 0; i < memory->n; i++)
		if (dns_address_equal(&memory->servers[i].key, &server->key))
			return memory->servers[i].over;
	return 0;
}

void dns_memory_clear(void *data)
{
	struct dns_memory *memory = data;

	free(memory->servers);
}

int dns_decide(const struct dns_seen *seen, struct dns_memory *memory,
	const struct decide_input *input, struct proposal *proposal)
{
	int r = 0;

	for (size_t i = 0; seen->watched && r == 0 && i < seen->table->n; i++) {
		const struct dns_server_state *server = seen->table->servers[i];
		struct dns_server_memory *server_memory = memory_of(memory, i, &server->key);

		if (!server_memory)
			return -ENOMEM;
		remember(seen, server, server_memory, input->now_us);
		if (!dns_budget_is_set(&server->budget))
			continue;
		remember_user(seen, server, server_memory, memory, input->now_us);
		if (server->label >= 0)
			r = add_limits(seen, server, server_memory, proposal);
	}
	/* The rest is of servers that were removed. */
	if (seen->watched && r == 0)
		memory->n = seen->table->n;
	remember_crowd(seen, memory, input->now_us);
	return r < 0 ? r : dns_decide_conditions(seen, memory, proposal);
}
