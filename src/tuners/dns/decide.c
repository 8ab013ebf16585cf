/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

/* DNSBudgetPressure begins above the first share of the budget and ends below the second. */
#define PRESSURE_BEGINS 0.80
#define PRESSURE_ENDS   0.70

/* DNSBudgetExceeded stays for as long as a dashboard and an alert need to see it. */
#define EXCEEDED_WINDOW_US (300 * USEC_PER_SEC)

/* Who asks is read as seldom as every ten seconds: so long it may take to see who it was. */
#define WHO_IS_KNOWN_US (11 * USEC_PER_SEC)

/*
 * DNSUnanswered begins with so many queries, and such a share, of the last minute; a few are lost
 * on any network. It ends below the second share.
 */
#define UNANSWERED_LEAST  10
#define UNANSWERED_BEGINS 0.05
#define UNANSWERED_ENDS   0.01

/* A forwarder counts from so many queries a second to upstreams, and until so few. */
#define FORWARDER_BEGINS 0.5
#define FORWARDER_ENDS   0.1
#define CROWD            2
#define CROWDED_FOR_US   (60 * USEC_PER_SEC)

bool dns_has_budget(const struct dns_server_state *server)
{
	return server->role == DNS_UPSTREAM && dns_budget_is_set(&server->budget);
}

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
		used = (double)dns_minute_queries(server) / 60 / (double)budget->qps;
	else if (budget->qps > 0)
		used = (double)dns_seconds_peak(&server->queries) / (double)budget->qps;
	if (budget->pps > 0 && packets)
		used = MAX(used, (double)dns_seconds_peak(packets) / (double)budget->pps);
	if (budget->pending > 0)
		used = MAX(used, (double)dns_minute_pending(server) / (double)budget->pending);
	return used;
}

/*
 * Seconds in which more packets than the budget were sent for sure. With several network devices,
 * each with a budget of its own, all together prove nothing: what one address sends alone does, as
 * an address is on one device.
 */
static uint64_t packets_over(const struct dns_seen *seen, const struct dns_server_state *server)
{
	const struct dns_seconds *packets = dns_packets_of(seen, server);
	uint64_t sum = 0;

	if (!packets || server->budget.pps == 0)
		return 0;
	if (!dns_is_upper_bound(seen, server))
		return packets->over;
	for (unsigned i = 0; i < seen->n_senders; i++)
		sum += seen->senders[i].seconds.over;
	return sum;
}

/* The most that counts in such a second. */
static uint64_t packets_peak(const struct dns_seen *seen, const struct dns_server_state *server)
{
	const struct dns_seconds *packets = dns_packets_of(seen, server);
	uint64_t peak = 0;

	if (!packets)
		return 0;
	if (!dns_is_upper_bound(seen, server))
		return packets->look_peak;
	for (unsigned i = 0; i < seen->n_senders; i++)
		peak = MAX(peak, seen->senders[i].seconds.look_peak);
	return peak;
}

/* How much each of the budget's numbers was overrun since the last look: a second counts once. */
static uint64_t newly_over(const struct dns_seen *seen, struct dns_server_state *server)
{
	uint64_t *before = server->memory.counted;
	uint64_t counts[DNS_OVERRUNS] = {
		[DNS_OVER_QUERIES] = server->queries.over,
		[DNS_OVER_PACKETS] = packets_over(seen, server),
		[DNS_OVER_PENDING] = server->memory.pending_over,
		[DNS_OVER_SUSTAINED] = (uint64_t)server->memory.sustained_over,
	};
	uint64_t most = 0;

	for (int i = 0; i < DNS_OVERRUNS; i++) {
		uint64_t more = counts[i] - MIN(counts[i], before[i]);

		/* A sum over senders falls when one is forgotten. */
		most = MAX(most, more);
		server->memory.hits[i] += more;
		before[i] = counts[i];
	}
	return most;
}

static void remember_worst(const struct dns_seen *seen, struct dns_server_state *server)
{
	struct dns_server_memory *memory = &server->memory;

	memory->worst_queries = MAX(memory->worst_queries, server->queries.look_peak);
	memory->worst_pending = MAX(memory->worst_pending, server->pending);
	memory->worst_packets = MAX(memory->worst_packets, packets_peak(seen, server));
}

/* The busiest of the moment: an average of any time would blame who asks steadily and little. */
static void remember_who(
	const struct dns_seen *seen, const struct dns_server_state *server, uint64_t now)
{
	struct dns_label *label = server->label < 0 ? NULL : &seen->book->labels[server->label];

	if (!label)
		return;
	if (server->memory.over_lately == 0)
		label->worst = (struct dns_user){0};
	else if (now - server->memory.over_at_us <= WHO_IS_KNOWN_US)
		for (unsigned i = 0; i < label->n_users; i++)
			if (label->users[i].per_second > label->worst.per_second)
				label->worst = label->users[i];
}

static void remember_over(
	const struct dns_seen *seen, struct dns_server_state *server, uint64_t now)
{
	struct dns_server_memory *memory = &server->memory;
	const struct dns_budget *budget = &server->budget;
	double passed = memory->looked_at_us == 0 ? 0 : (double)(now - memory->looked_at_us);
	uint64_t *most = &server->slots[server->slot % DNS_SLOTS].pending, more;

	*most = MAX(*most, server->pending);
	if (budget->pending > 0 && server->pending > budget->pending)
		memory->pending_over++;
	if (budget->sustained && dns_minute_queries(server) > 60 * budget->qps)
		memory->sustained_over += passed / (double)USEC_PER_SEC;
	more = newly_over(seen, server);
	memory->over += more;
	if (more > 0) {
		memory->over_lately += more;
		memory->over_at_us = now;
		remember_worst(seen, server);
	} else if (now - memory->over_at_us > EXCEEDED_WINDOW_US) {
		memory->over_lately = 0;
		memory->worst_queries = memory->worst_packets = memory->worst_pending = 0;
	}
	remember_who(seen, server, now);
	memory->looked_at_us = now;
}

static void remember(const struct dns_seen *seen, struct dns_server_state *server, uint64_t now)
{
	struct dns_server_memory *memory = &server->memory;
	double queries = (double)dns_minute_queries(server);
	double unanswered = (double)dns_minute_unanswered(server);

	if (memory->unanswered)
		memory->unanswered = unanswered > 0 && unanswered >= queries * UNANSWERED_ENDS;
	else
		memory->unanswered =
			unanswered >= UNANSWERED_LEAST && unanswered >= queries * UNANSWERED_BEGINS;
	if (!dns_has_budget(server)) {
		memory->pressure = false;
		memory->over_lately = 0;
		return;
	}
	remember_over(seen, server, now);
	memory->pressure = dns_budget_used(seen, server) >
			   (memory->pressure ? PRESSURE_ENDS : PRESSURE_BEGINS);
}

static unsigned count_forwarders(const struct dns_seen *seen, double least)
{
	unsigned n = 0;

	for (unsigned i = 0; i < seen->n_forwarders; i++)
		n += !seen->forwarders[i].expected && seen->forwarders[i].per_second >= least;
	return n;
}

static void remember_crowd(const struct dns_seen *seen, struct dns_memory *memory, uint64_t now)
{
	if (count_forwarders(seen, memory->crowded ? FORWARDER_ENDS : FORWARDER_BEGINS) >= CROWD) {
		memory->crowded = true;
		memory->crowded_at_us = now;
		dns_describe_crowd(seen, FORWARDER_ENDS, memory->crowd, sizeof(memory->crowd));
	} else if (now - memory->crowded_at_us > CROWDED_FOR_US) {
		memory->crowded = false;
	}
}

static struct limit_reading *new_limit(struct proposal *proposal,
	const struct dns_server_state *server, const char *part, const char *unit)
{
	struct limit_reading *limit = proposal_limit(proposal);

	if (!limit)
		return NULL;
	snprintf(limit->name, sizeof(limit->name), "dns/%s%s", server->name, part);
	limit->unit = unit;
	return limit;
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

static int add_queries(const struct dns_seen *seen, const struct dns_server_state *server,
	struct proposal *proposal)
{
	const struct dns_budget *budget = &server->budget;
	struct limit_reading *limit = new_limit(proposal, server, "", "queries/s");

	if (!limit)
		return -ENOMEM;
	limit->flow = true;
	limit->max = budget->qps;
	limit->used = server->queries.last;
	limit->peak = server->queries.look_peak;
	limit->hits = server->memory.hits[DNS_OVER_QUERIES];
	take_users(limit, dns_label_of(seen->book, server));
	if (!budget->sustained)
		return 0;
	limit->used = (dns_minute_queries(server) + 59) / 60;
	limit->peak = limit->used;
	limit->hits = server->memory.hits[DNS_OVER_SUSTAINED];
	return 0;
}

/* Without a budget of queries the limit of packets has the server's plain name. */
static int add_packets(const struct dns_seen *seen, const struct dns_server_state *server,
	struct proposal *proposal)
{
	const struct dns_seconds *packets = dns_packets_of(seen, server);
	struct limit_reading *limit;

	if (!packets)
		return 0;
	limit = new_limit(proposal, server, server->budget.qps > 0 ? "/packets" : "", "packets/s");
	if (!limit)
		return -ENOMEM;
	limit->flow = true;
	limit->max = server->budget.pps;
	limit->used = packets->last;
	limit->peak = packets->look_peak;
	limit->hits = server->memory.hits[DNS_OVER_PACKETS];
	limit->upper_bound = dns_is_upper_bound(seen, server);
	if (server->budget.qps == 0)
		take_users(limit, dns_label_of(seen->book, server));
	return 0;
}

static int add_pending(const struct dns_server_state *server, struct proposal *proposal)
{
	struct limit_reading *limit = new_limit(proposal, server, "/pending", "queries");

	if (!limit)
		return -ENOMEM;
	limit->flow = true;
	limit->max = server->budget.pending;
	limit->used = server->pending;
	limit->hits = server->memory.hits[DNS_OVER_PENDING];
	return 0;
}

static int add_limits(const struct dns_seen *seen, const struct dns_server_state *server,
	struct proposal *proposal)
{
	int r = 0;

	if (server->budget.qps > 0)
		r = add_queries(seen, server, proposal);
	if (r == 0 && server->budget.pps > 0)
		r = add_packets(seen, server, proposal);
	if (r == 0 && server->budget.pending > 0)
		r = add_pending(server, proposal);
	return r;
}

int dns_decide(const struct dns_seen *seen, struct dns_memory *memory,
	const struct decide_input *input, struct proposal *proposal)
{
	int r = 0;

	for (size_t i = 0; seen->watched && r == 0 && i < seen->book->n; i++) {
		struct dns_server_state *server = seen->book->servers[i];

		remember(seen, server, input->now_us);
		if (dns_has_budget(server) && server->label >= 0)
			r = add_limits(seen, server, proposal);
	}
	remember_crowd(seen, memory, input->now_us);
	return r < 0 ? r : dns_decide_conditions(seen, memory, proposal);
}
