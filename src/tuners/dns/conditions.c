/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* How many servers, or forwarders, one message names. */
#define NAMED 3

/* A message that grows part by part; what has no room is left out. */
static void PRINTF_LIKE(2, 3) add(struct condition_reading *condition, const char *format, ...)
{
	size_t used = strlen(condition->message);
	va_list args;

	va_start(args, format);
	vsnprintf(condition->message + used, CONDITION_MESSAGE_MAX - used, format, args);
	va_end(args);
}

static void set(struct condition_reading *condition, const char *reason)
{
	if (condition->status == CONDITION_TRUE)
		add(condition, "; ");
	condition->status = CONDITION_TRUE;
	condition->reason = reason;
}

/* "pod kube-system/coredns-x". */
static void describe(const struct workload *workload, char *text, size_t size)
{
	if (workload->kind == WORKLOAD_HOST)
		copy_text(text, size, "the host");
	else
		snprintf(text, size, "%s %s%s%s", workload_kind_name(workload->kind),
			workload->namespace, workload->namespace[0] ? "/" : "", workload->name);
}

struct numbers {
	double queries;
	uint64_t packets, pending;
	const char *whose; /* the packets, where there are several network devices */
};

/* "1500 of 1024 queries/s, 201 of 200 pending". */
static void add_numbers(struct condition_reading *condition, const struct dns_seen *seen,
	const struct dns_server_state *server, const struct numbers *used)
{
	const struct dns_budget *budget = &server->budget;
	const char *comma = "";

	if (budget->qps > 0) {
		add(condition, "%.0f of %" PRIu64 " queries/s%s", used->queries, budget->qps,
			budget->sustained ? " over a minute" : "");
		comma = ", ";
	}
	if (budget->pps > 0) {
		add(condition, "%s%" PRIu64 " of %" PRIu64 " packets/s%s", comma, used->packets,
			budget->pps, dns_is_upper_bound(seen, server) ? used->whose : "");
		comma = ", ";
	}
	if (budget->pending > 0)
		add(condition, "%s%" PRIu64 " of %" PRIu64 " pending", comma, used->pending,
			budget->pending);
}

static double mean_of_minute(const struct dns_server_state *server)
{
	return (double)dns_minute_queries(server) / 60;
}

static void judge_budget(const struct dns_seen *seen, const struct dns_server_state *server,
	struct condition_reading *pressure, struct condition_reading *exceeded)
{
	const struct dns_server_memory *memory = &server->memory;
	const struct dns_seconds *packets = dns_packets_of(seen, server);
	struct numbers last = {
		.queries = dns_seconds_peak(&server->queries),
		.packets = packets ? dns_seconds_peak(packets) : 0,
		.pending = dns_minute_pending(server),
		.whose = " of all network interfaces together",
	};
	struct numbers worst = {(double)memory->worst_queries, memory->worst_packets,
		memory->worst_pending, " of one address"};

	if (server->budget.sustained)
		last.queries = worst.queries = mean_of_minute(server);
	if (memory->pressure) {
		set(pressure, "near-budget");
		add(pressure, "%s: ", server->name);
		add_numbers(pressure, seen, server, &last);
	}
	if (memory->over_lately > 0) {
		set(exceeded, "over-budget");
		add(exceeded, "%s: %" PRIu64 " s over, up to ", server->name, memory->over_lately);
		add_numbers(exceeded, seen, server, &worst);
	}
}

static void add_user(struct condition_reading *condition, const struct dns_server_state *server,
	const struct dns_user *user)
{
	char who[192];

	if (!user || condition->status != CONDITION_TRUE)
		return;
	describe(&user->workload, who, sizeof(who));
	add(condition, "; most for %s from %s", server->name, who);
}

/* Who asks most of the server that is the nearest to its budget. */
static void add_busiest(struct condition_reading *condition, const struct dns_seen *seen)
{
	const struct dns_server_state *worst = NULL;
	const struct dns_user *user = NULL;
	const struct dns_label *label;

	for (size_t i = 0; i < seen->book->n; i++) {
		const struct dns_server_state *server = seen->book->servers[i];

		if (server->memory.pressure &&
			(!worst || dns_budget_used(seen, server) > dns_budget_used(seen, worst)))
			worst = server;
	}
	label = worst ? dns_label_of(seen->book, worst) : NULL;
	for (unsigned i = 0; label && i < label->n_users; i++)
		if (!user || label->users[i].smooth > user->smooth)
			user = &label->users[i];
	add_user(condition, worst, user);
}

/* Who asked most, then, of the server whose budget was overrun last. */
static void add_culprit(struct condition_reading *condition, const struct dns_seen *seen)
{
	const struct dns_server_state *last = NULL;
	const struct dns_label *label;

	for (size_t i = 0; i < seen->book->n; i++) {
		const struct dns_server_state *server = seen->book->servers[i];

		if (server->memory.over_lately > 0 &&
			(!last || server->memory.over_at_us > last->memory.over_at_us))
			last = server;
	}
	label = last ? dns_label_of(seen->book, last) : NULL;
	if (label && label->worst.per_second > 0)
		add_user(condition, last, &label->worst);
}

static void judge_answers(const struct dns_server_state *server, unsigned *named,
	struct condition_reading *unanswered)
{
	if (!server->memory.unanswered || (*named)++ >= NAMED)
		return;
	set(unanswered, "unanswered");
	add(unanswered,
		"%s (%s): %" PRIu64 " without an answer in the last minute, %" PRIu64 " sent",
		server->name, dns_role_name(server->role), dns_minute_unanswered(server),
		dns_minute_queries(server));
}

void dns_describe_crowd(const struct dns_seen *seen, double least, char *text, size_t size)
{
	unsigned n = 0, named = 0;
	double sum = 0;
	size_t used;

	for (unsigned i = 0; i < seen->n_forwarders; i++) {
		const struct dns_forwarder *forwarder = &seen->forwarders[i];

		if (forwarder->expected || forwarder->per_second < least)
			continue;
		n++;
		sum += forwarder->per_second;
	}
	snprintf(text, size, "%u forwarders on this node send upstream %.3g queries/s in all", n,
		sum);
	for (unsigned i = 0; i < seen->n_forwarders && named < NAMED; i++) {
		const struct dns_forwarder *forwarder = &seen->forwarders[i];
		char who[192];

		if (forwarder->expected || forwarder->per_second < least)
			continue;
		describe(&forwarder->workload, who, sizeof(who));
		used = strlen(text);
		snprintf(text + used, size - used, "%s%s %.3g/s", named++ == 0 ? ": " : ", ", who,
			forwarder->per_second);
	}
}

static bool any_budget(const struct dns_seen *seen)
{
	for (size_t i = 0; i < seen->book->n; i++)
		if (dns_has_budget(seen->book->servers[i]))
			return true;
	return false;
}

static void judge(const struct dns_seen *seen, const struct dns_memory *memory,
	struct condition_reading readings[static 4])
{
	unsigned silent = 0;

	for (size_t i = 0; i < seen->book->n; i++) {
		judge_budget(seen, seen->book->servers[i], &readings[0], &readings[1]);
		judge_answers(seen->book->servers[i], &silent, &readings[2]);
	}
	if (silent > NAMED)
		add(&readings[2], "; and %u other servers", silent - NAMED);
	if (memory->crowded) {
		set(&readings[3], "several-forwarders");
		add(&readings[3], "%s", memory->crowd);
	}
	add_busiest(&readings[0], seen);
	add_culprit(&readings[1], seen);
	for (int i = 0; i < 2; i++)
		if (readings[i].status == CONDITION_FALSE && !any_budget(seen))
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
