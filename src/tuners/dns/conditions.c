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

static void add_busiest(struct condition_reading *condition, const struct dns_seen *seen,
	const struct dns_server_state *server)
{
	const struct dns_label *label = dns_label_of(seen->book, server);
	char who[192];

	if (!label || label->n_users == 0 || label->users[0].smooth < 1)
		return;
	describe(&label->users[0].workload, who, sizeof(who));
	add(condition, ", most of them from %s, %.0f/s", who, label->users[0].smooth);
}

static void add_numbers(struct condition_reading *condition, const struct dns_seen *seen,
	const struct dns_server_state *server)
{
	const struct dns_budget *budget = &server->budget;
	const struct dns_seconds *packets = dns_packets_of(seen, server);
	const char *comma = "";

	add(condition, "%s: ", server->name);
	if (budget->qps > 0) {
		if (budget->sustained)
			add(condition, "%.1f of %" PRIu64 " queries/s over a minute",
				(double)dns_minute_queries(server) / 60, budget->qps);
		else
			add(condition, "%" PRIu32 " of %" PRIu64 " queries in a second",
				dns_seconds_peak(&server->queries), budget->qps);
		comma = ", ";
	}
	if (budget->pps > 0 && packets) {
		add(condition, "%s%" PRIu32 " of %" PRIu64 " packets in a second%s", comma,
			dns_seconds_peak(packets), budget->pps,
			dns_is_upper_bound(seen, server) ? ", of all network interfaces together"
							 : "");
		comma = ", ";
	}
	if (budget->pending > 0)
		add(condition, "%s%" PRIu64 " of %" PRIu64 " pending", comma, server->pending,
			budget->pending);
}

static void judge_budget(const struct dns_seen *seen, const struct dns_server_state *server,
	struct condition_reading *pressure, struct condition_reading *exceeded)
{
	if (server->memory.pressure) {
		set(pressure, "near-budget");
		add_numbers(pressure, seen, server);
		add_busiest(pressure, seen, server);
	}
	if (server->memory.over_lately > 0) {
		set(exceeded, "over-budget");
		add(exceeded, "%s: over budget %" PRIu64 " times in the last five minutes: ",
			server->name, server->memory.over_lately);
		add_numbers(exceeded, seen, server);
		add_busiest(exceeded, seen, server);
	}
}

static void judge_answers(const struct dns_server_state *server, unsigned *named,
	struct condition_reading *unanswered)
{
	if (!server->memory.unanswered || (*named)++ >= NAMED)
		return;
	set(unanswered, "unanswered");
	add(unanswered,
		"%s (%s): %" PRIu64 " queries without an answer in the last minute, "
		"%" PRIu64 " were sent",
		server->name, dns_role_name(server->role), dns_minute_unanswered(server),
		dns_minute_queries(server));
}

static void judge_crowd(const struct dns_seen *seen, const struct dns_memory *memory,
	struct condition_reading *crowding)
{
	unsigned n = 0;
	double sum = 0;
	char who[192];

	if (!memory->crowded)
		return;
	set(crowding, "several-forwarders");
	for (unsigned i = 0; i < seen->n_forwarders; i++) {
		n += !seen->forwarders[i].expected;
		sum += seen->forwarders[i].expected ? 0 : seen->forwarders[i].per_second;
	}
	add(crowding, "%u forwarders on this node send upstream %.0f queries/s in all", n, sum);
	n = 0;
	for (unsigned i = 0; i < seen->n_forwarders && n < NAMED; i++) {
		if (seen->forwarders[i].expected)
			continue;
		describe(&seen->forwarders[i].workload, who, sizeof(who));
		add(crowding, "%s%s %.0f/s", n++ == 0 ? ": " : ", ", who,
			seen->forwarders[i].per_second);
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
	judge_crowd(seen, memory, &readings[3]);
	for (int i = 0; i < 2; i++)
		if (readings[i].status == CONDITION_FALSE && !any_budget(seen))
			readings[i].reason = "no-budget";
}

int dns_decide_conditions(
	const struct dns_seen *seen, const struct dns_memory *memory, struct outlook *outlook)
{
	struct condition_reading readings[] = {
		{.type = CONDITION_DNS_BUDGET_PRESSURE, .reason = "within-budget"},
		{.type = CONDITION_DNS_BUDGET_EXCEEDED, .reason = "within-budget"},
		{.type = CONDITION_DNS_UNANSWERED, .reason = "all-answered"},
		{.type = CONDITION_DNS_FORWARDER_CROWDING, .reason = "few-forwarders"},
	};

	if (seen->watched)
		judge(seen, memory, readings);
	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		struct condition_reading *condition = outlook_condition(outlook);

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
