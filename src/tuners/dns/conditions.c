/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* How many servers, or forwarders, one message names. */
#define NAMED 3

struct numbers {
	double queries;
	uint64_t packets, pending;
	const char *scope; /* of the packets, where there are several network devices */
};

/* "1500 of 1024 queries/s, 201 of 200 pending". */
static void add_numbers(struct condition_reading *condition, const struct dns_seen *seen,
	const struct dns_server_state *server, const struct numbers *used)
{
	const struct dns_budget *budget = &server->budget;
	const struct {
		uint64_t max;
		double used;
		const char *unit, *more;
	} numbers[] = {
		{budget->qps, used->queries, "queries/s",
			budget->sustained ? " over a minute" : ""},
		{budget->pps, (double)used->packets, "packets/s",
			dns_is_upper_bound(seen, server) ? used->scope : ""},
		{budget->pending, (double)used->pending, "pending", ""},
	};
	const char *comma = "";

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (numbers[i].max == 0)
			continue;
		condition_append(condition, "%s%.0f of %" PRIu64 " %s%s", comma, numbers[i].used,
			numbers[i].max, numbers[i].unit, numbers[i].more);
		comma = ", ";
	}
}

static void judge_budget(const struct dns_seen *seen, const struct dns_server_state *server,
	const struct dns_server_memory *memory, struct condition_reading *pressure,
	struct condition_reading *exceeded)
{
	const struct dns_seconds *packets = dns_packets_of(seen, server);
	struct numbers last = {
		.queries = dns_seconds_peak(&server->queries),
		.packets = packets ? dns_seconds_peak(packets) : 0,
		.pending = dns_minute(server).pending,
		.scope = " of all network interfaces together",
	};
	struct numbers worst = {(double)memory->worst_queries, memory->worst_packets,
		memory->worst_pending, " of one address"};

	if (server->budget.sustained)
		last.queries = worst.queries = (double)dns_minute(server).queries / 60;
	if (memory->pressure) {
		condition_raise(pressure, "near-budget");
		condition_append(pressure, "%s: ", server->name);
		add_numbers(pressure, seen, server, &last);
	}
	if (memory->over_lately > 0) {
		condition_raise(exceeded, "over-budget");
		condition_append(exceeded, "%s: %" PRIu64 " s over, up to ", server->name,
			memory->over_lately);
		add_numbers(exceeded, seen, server, &worst);
	}
}

static void add_user(struct condition_reading *condition, const struct dns_server_state *server,
	const struct dns_user *user)
{
	char text[192];

	if (!user || condition->status != CONDITION_TRUE)
		return;
	workload_describe(&user->workload, text, sizeof(text));
	condition_append(condition, "; most for %s from %s", server->name, text);
}

/*
 * Who sends most to the server that is nearest to its budget, and who sent most at the time to the
 * server whose budget was exceeded last.
 */
static void add_users(const struct dns_seen *seen, const struct dns_memory *memory,
	struct condition_reading *pressure, struct condition_reading *exceeded)
{
	const struct dns_server_state *nearest = NULL, *last = NULL;
	const struct dns_label *label;
	const struct dns_user *user = NULL;
	uint64_t last_at = 0;

	for (size_t i = 0; i < seen->table->n; i++) {
		const struct dns_server_state *server = seen->table->servers[i];
		const struct dns_server_memory *its = &memory->servers[i];

		if (its->pressure && (!nearest || dns_budget_used(seen, server) >
							  dns_budget_used(seen, nearest)))
			nearest = server;
		if (its->over_lately > 0 && (!last || its->over_at_us > last_at)) {
			last = server;
			last_at = its->over_at_us;
		}
	}
	label = nearest ? dns_label_of(seen->table, nearest) : NULL;
	for (unsigned i = 0; label && i < label->n_users; i++)
		if (!user || label->users[i].smooth > user->smooth)
			user = &label->users[i];
	add_user(pressure, nearest, user);
	if (last && last->label >= 0 && memory->worst[last->label].user.per_second > 0)
		add_user(exceeded, last, &memory->worst[last->label].user);
}

void dns_describe_crowd(const struct dns_seen *seen, double least, char *text, size_t size)
{
	char named[3 * 224] = "";
	unsigned n = 0;
	double sum = 0;

	for (unsigned i = 0; i < seen->n_forwarders; i++) {
		const struct dns_forwarder *forwarder = &seen->forwarders[i];
		size_t used = strlen(named);
		char workload[192];

		if (forwarder->expected || forwarder->per_second < least)
			continue;
		sum += forwarder->per_second;
		if (n++ >= NAMED)
			continue;
		workload_describe(&forwarder->workload, workload, sizeof(workload));
		snprintf(named + used, sizeof(named) - used, "%s%s %.3g/s", n == 1 ? ": " : ", ",
			workload, forwarder->per_second);
	}
	snprintf(text, size, "%u forwarders on this node send upstream %.3g queries/s in all%s", n,
		sum, named);
}

static void judge(const struct dns_seen *seen, const struct dns_memory *memory,
	struct condition_reading readings[static 4])
{
	bool any_budget = false;
	unsigned silent = 0;

	for (size_t i = 0; i < seen->table->n; i++) {
		const struct dns_server_state *server = seen->table->servers[i];
		const struct dns_server_memory *its = &memory->servers[i];

		judge_budget(seen, server, its, &readings[0], &readings[1]);
		if (its->unanswered && silent++ < NAMED) {
			condition_raise(&readings[2], "unanswered");
			condition_append(&readings[2],
				"%s (%s): %" PRIu64
				" without an answer in the last minute, %" PRIu64 " sent",
				server->name, dns_role_names[server->role],
				dns_minute(server).unanswered, dns_minute(server).queries);
		}
		any_budget = any_budget || dns_budget_is_set(&server->budget);
	}
	if (silent > NAMED)
		condition_append(&readings[2], "; and %u other servers", silent - NAMED);
	if (memory->crowded) {
		condition_raise(&readings[3], "several-forwarders");
		condition_append(&readings[3], "%s", memory->crowd);
	}
	add_users(seen, memory, &readings[0], &readings[1]);
	for (int i = 0; i < 2; i++)
		if (readings[i].status == CONDITION_FALSE && !any_budget)
			readings[i].reason = "no-budget";
}

int dns_decide_conditions(
	const struct dns_seen *seen, const struct dns_memory *memory, struct proposal *proposal)
{
	struct condition_reading readings[] = {
		{.type = &dns_conditions[DNS_BUDGET_PRESSURE], .reason = "within-budget"},
		{.type = &dns_conditions[DNS_BUDGET_EXCEEDED], .reason = "within-budget"},
		{.type = &dns_conditions[DNS_UNANSWERED], .reason = "all-answered"},
		{.type = &dns_conditions[DNS_FORWARDER_CROWDING], .reason = "few-forwarders"},
	};

	if (seen->watched)
		judge(seen, memory, readings);
	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		struct condition_reading *condition = proposal_condition(proposal);

		if (!condition)
			return -ENOMEM;
		if (!seen->watched) {
			readings[i].status = CONDITION_UNKNOWN;
			readings[i].reason = "not-watched";
		}
		*condition = readings[i];
	}
	return 0;
}
