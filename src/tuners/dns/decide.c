/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/text.h"

#include <math.h>

/* DNSBudgetPressure begins above the first share of the budget and ends below the second. */
#define PRESSURE_BEGINS 0.80
#define PRESSURE_ENDS   0.70

/* DNSBudgetExceeded stays True long enough for a dashboard and an alert to see it. */
#define EXCEEDED_WINDOW_US (300 * USEC_PER_SEC)

/*
 * DNSUnanswered begins at this number and this share of the queries of the last minute, because
 * every network loses a few. It ends below the second share. DNSFailing uses them for answers.
 */
#define LOST_LEAST  10
#define LOST_BEGINS 0.05
#define LOST_ENDS   0.01

/* Hysteresis: the rate of queries to upstreams from which a client counts as a forwarder. */
#define FORWARDER_BEGINS 0.5
#define FORWARDER_ENDS   0.1
/* The sum of the rates from which two forwarders crowd: 2 % of a cloud's budget. */
#define CROWD_BEGINS   20
#define CROWD_ENDS     10
#define CROWD          2
#define CROWDED_FOR_US (60 * USEC_PER_SEC)

#define NAMED 3 /* servers or forwarders in one message */

#define SERVER_TEXT 64

/* Keeps the worst second over the budget within the window. Its users may be known later. */
static void remember_second(
	const struct dns_server_state *server, struct dns_server_memory *memory, uint64_t now)
{
	const struct dns_second *found = dns_busiest_second(server->label, now);
	struct dns_second *worst = memory->over_second;

	if (!found || (!worst && memory->over_at_us != now))
		return;
	if (!worst)
		memory->over_second = worst = must(calloc(1, sizeof(*worst)));
	if (found->found_us == worst->found_us || found->share > worst->share ||
		(memory->over_at_us == now && now - worst->found_us > EXCEEDED_WINDOW_US))
		*worst = *found;
}

const struct dns_second *dns_second_that_matters(
	const struct dns_server_state *server, const struct dns_server_memory *memory, uint64_t now)
{
	return memory->over_lately > 0 && memory->over_second
		       ? memory->over_second
		       : dns_busiest_second(server->label, now);
}

int dns_verdict(const struct dns_server_memory *memory)
{
	return memory->over_lately > 0 ? DNS_BUDGET_EXCEEDED
	       : memory->failing       ? DNS_FAILING
	       : memory->unanswered    ? DNS_UNANSWERED
	       : memory->pressure      ? DNS_BUDGET_PRESSURE
				       : DNS_CONDITIONS;
}

/*
 * Counts the seconds over the budget since the last poll. Each network device has its own budget,
 * so with several devices only the packets of one address can exceed it.
 */
static void remember_over(const struct dns_seen *seen, const struct dns_server_state *server,
	const struct dns_seconds *packets, struct dns_server_memory *memory, uint64_t now)
{
	/* Seconds that began since the last poll: polls may be more frequent. */
	uint64_t passed = memory->polled_at_us == 0
				  ? 1
				  : now / USEC_PER_SEC - memory->polled_at_us / USEC_PER_SEC;
	uint64_t most = 0;
	uint64_t over[DNS_NUMBERS] = {server->queries.over, packets->over};
	struct dns_uses uses = memory->uses;

	memory->polled_at_us = now;
	if (memory->upper_bound)
		uses.poll_peak[DNS_PACKETS] = over[DNS_PACKETS] = 0;
	for (unsigned i = 0; memory->upper_bound && i < seen->n_senders; i++) {
		const struct dns_seconds *seconds = &seen->senders[i].seconds;

		over[DNS_PACKETS] += seconds->over;
		uses.poll_peak[DNS_PACKETS] = MAX(uses.poll_peak[DNS_PACKETS], seconds->poll_peak);
	}
	for (int i = 0; i < DNS_NUMBERS; i++) {
		uint64_t max = server->budget.max[i];

		if (i == DNS_PENDING || (i == DNS_QUERIES && server->budget.sustained))
			over[i] = uses.last[i] > (double)max ? passed : 0;
		memory->hits[i] += max > 0 ? over[i] : 0;
		most = max > 0 ? MAX(most, over[i]) : most;
	}
	memory->over += most;
	memory->over_lately += most;
	if (most > 0) {
		memory->over_at_us = now;
	} else if (now - memory->over_at_us > EXCEEDED_WINDOW_US) {
		memory->over_lately = 0;
		memset(memory->worst, 0, sizeof(memory->worst));
	}
	if (memory->over_lately == 0)
		return;
	/* The use in a second over the budget may still grow. */
	for (int i = 0; i < DNS_NUMBERS; i++)
		memory->worst[i] = MAX(memory->worst[i], uses.poll_peak[i]);
	remember_second(server, memory, now);
}

static bool remains(bool was, uint64_t lost, uint64_t of)
{
	return was ? lost > 0 && (double)lost >= (double)of * LOST_ENDS
		   : lost >= LOST_LEAST && (double)lost >= (double)of * LOST_BEGINS;
}

static void remember(const struct dns_sensor *sensor, const struct dns_server_state *server,
	struct dns_server_memory *memory, uint64_t now)
{
	const struct dns_seen *seen = &sensor->seen;
	const struct dns_budget *budget = &server->budget;
	const struct dns_slot minute = dns_minute(server);

	memory->unanswered = remains(memory->unanswered, minute.unanswered, minute.queries);
	memory->failing = remains(memory->failing, dns_failures(&minute), dns_answers(&minute));
	if (!dns_budget_is_set(budget)) {
		memory->pressure = false;
		memory->over_lately = 0;
		return;
	}
	memory->uses = dns_uses_of(seen, server);
	memory->used = dns_share(budget, memory->uses.minute_peak);
	memory->upper_bound =
		budget->link_local && budget->max[DNS_PACKETS] > 0 && sensor->env.uplinks > 1;
	memory->pressure = memory->used > (memory->pressure ? PRESSURE_ENDS : PRESSURE_BEGINS);
	remember_over(seen, server, budget->link_local ? &seen->link_local : &server->packets,
		memory, now);
}

bool dns_is_node_cache(const struct workload *workload)
{
	return strstr(workload->name, "node-local-dns") || strstr(workload->name, "nodelocaldns");
}

static int by_smooth(const void *a, const void *b)
{
	const struct dns_user *x = a, *y = b;

	return (x->smooth < y->smooth) - (x->smooth > y->smooth);
}

/* Lists the workloads that query upstreams and are DNS servers by name or by their sockets. */
static void list_forwarders(const struct dns_seen *seen, struct dns_memory *memory)
{
	static const char *const parts[] = {"coredns", "kube-dns", "kubedns", "dnsmasq", "unbound",
		"pdns-recursor", "powerdns", "bind9", "named.service", "knot-resolver", "kresd"};

	memory->n_forwarders = 0;
	for (size_t s = 0; s < seen->table.n_labels; s++) {
		const struct dns_server_state *server = seen->table.labelled[s];
		const struct dns_label *label = server->label;

		for (unsigned i = 0; server->role == DNS_UPSTREAM && i < label->n_users; i++) {
			const struct dns_user *user = &label->users[i];
			bool forwards = user->serves || dns_is_node_cache(&user->workload);

			for (size_t k = 0; k < ARRAY_SIZE(parts) && !forwards; k++)
				forwards = strstr(user->workload.name, parts[k]);
			if (forwards)
				dns_user_add(memory->forwarders, &memory->n_forwarders,
					DNS_FORWARDERS, user);
		}
	}
	qsort(memory->forwarders, memory->n_forwarders, sizeof(memory->forwarders[0]), by_smooth);
}

/* The message names all forwarders above the lower rate, so that it rarely changes. */
static void remember_crowd(struct dns_memory *memory, uint64_t now)
{
	double least = memory->crowded ? FORWARDER_ENDS : FORWARDER_BEGINS, sum = 0;
	char named[3 * 224] = "", workload[WORKLOAD_TEXT_MAX];
	unsigned n = 0, listed = 0;

	for (unsigned i = 0; i < memory->n_forwarders; i++) {
		const struct dns_user *forwarder = &memory->forwarders[i];

		if (dns_is_node_cache(&forwarder->workload) || forwarder->smooth < FORWARDER_ENDS)
			continue;
		n += forwarder->smooth >= least;
		sum += forwarder->smooth;
		if (listed++ >= NAMED)
			continue;
		workload_describe(&forwarder->workload, workload, sizeof(workload));
		text_append(named, sizeof(named), "%s%s %.3g/s", listed == 1 ? ": " : ", ",
			workload, forwarder->smooth);
	}
	if (n >= CROWD && sum >= (memory->crowded ? CROWD_ENDS : CROWD_BEGINS)) {
		memory->crowded = true;
		memory->crowded_at_us = now;
		snprintf(memory->crowd, sizeof(memory->crowd),
			"%u forwarders on this node send upstream %.3g queries/s in all%s", listed,
			sum, named);
	} else if (now - memory->crowded_at_us > CROWDED_FOR_US) {
		memory->crowded = false;
	}
}

void dns_add_users(
	struct limit_reading *limit, unsigned most, const struct dns_user *users, unsigned n)
{
	for (unsigned i = 0; i < n && limit->n_top < most; i++) {
		uint64_t used = (uint64_t)llround(users[i].per_second);

		if (used > 0)
			*limit_add_user(limit) =
				(struct limit_user){.workload = users[i].workload, .used = used};
	}
}

/* Adds a limit for each number of the budget. The first limit has the server's name and users. */
static void add_limits(const struct dns_server_state *server,
	const struct dns_server_memory *memory, uint64_t now, struct proposal *proposal)
{
	const struct dns_second *second = dns_second_that_matters(server, memory, now);
	const char *parts[DNS_NUMBERS] = {
		[DNS_QUERIES] = "", [DNS_PACKETS] = "/packets", [DNS_PENDING] = "/pending"};
	const struct dns_uses *uses = &memory->uses;

	if (server->budget.max[DNS_QUERIES] == 0)
		parts[DNS_PACKETS] = "";
	for (int i = 0; i < DNS_NUMBERS; i++) {
		struct limit_reading *limit;

		if (server->budget.max[i] == 0)
			continue;
		limit = proposal_limit(proposal);
		snprintf(limit->name, sizeof(limit->name), "dns/%s%s", server->name, parts[i]);
		limit->unit = dns_numbers[i].unit;
		limit->flow = true;
		limit->max = server->budget.max[i];
		limit->used = (uint64_t)ceil(uses->last[i]);
		limit->peak = (uint64_t)ceil(uses->poll_peak[i]);
		limit->hits = memory->hits[i];
		limit->upper_bound = i == DNS_PACKETS && memory->upper_bound;
		if (memory->over_lately > 0 && memory->worst[i] > (double)limit->max)
			limit->condition = &dns_conditions[DNS_BUDGET_EXCEEDED];
		else if (memory->pressure &&
			 uses->minute_peak[i] > PRESSURE_ENDS * (double)limit->max)
			limit->condition = &dns_conditions[DNS_BUDGET_PRESSURE];
		if (parts[i][0] != '\0')
			continue;
		dns_add_users(limit, LIMIT_TOP_MAX, server->label->users, server->label->n_users);
		if (!second)
			continue;
		limit->busiest = i == DNS_PACKETS ? second->packets : second->queries;
		for (unsigned k = 0; k < MIN(second->n_users, (unsigned)LIMIT_PEAK_TOP); k++)
			*limit_add_busiest(limit) =
				(struct limit_user){.workload = second->users[k].workload,
					.used = (uint64_t)llround(second->users[k].per_second)};
	}
}

/* The memory of the server at index i. It swaps places when the table's order has changed. */
static struct dns_server_memory *memory_of(
	struct dns_memory *memory, size_t i, const struct dns_key *key)
{
	struct dns_server_memory found = {.key = *key};
	size_t from = i;

	while (from < memory->n && !dns_address_equal(&memory->servers[from].key, key))
		from++;
	if (from == memory->n)
		add_element(&memory->servers, &memory->n, &memory->allocated);
	else
		found = memory->servers[from];
	memory->servers[from] = memory->servers[i];
	memory->servers[i] = found;
	return &memory->servers[i];
}

/* "1500 of 1024 queries/s, 201 of 200 pending"; scope follows the packets. */
static void add_numbers(struct condition_reading *condition, const struct dns_budget *budget,
	const double used[static DNS_NUMBERS], const char *scope)
{
	const char *more[DNS_NUMBERS] = {budget->sustained ? " over a minute" : "", scope, ""};
	const char *comma = "";

	for (int i = 0; i < DNS_NUMBERS; i++) {
		if (budget->max[i] == 0)
			continue;
		condition_append(condition, "%s%.0f of %" PRIu64 " %s%s", comma, used[i],
			budget->max[i], dns_numbers[i].of, more[i]);
		comma = ", ";
	}
}

static void add_busiest(struct condition_reading *condition, const struct dns_second *second)
{
	char text[WORKLOAD_TEXT_MAX];

	if (!second || second->n_users == 0)
		return;
	workload_describe(&second->users[0].workload, text, sizeof(text));
	condition_append(condition, ", most from %s (%.0f)", text, second->users[0].per_second);
}

/* "SERVFAIL 20, REFUSED 3". */
static void add_failures(struct condition_reading *condition, const struct dns_slot *minute)
{
	static const struct {
		enum dns_rcode_class code;
		const char *name;
	} rows[] = {{DNS_SERVFAIL, "SERVFAIL"}, {DNS_REFUSED, "REFUSED"}, {DNS_FORMERR, "FORMERR"},
		{DNS_NOTIMP, "NOTIMP"}};
	const char *comma = " failed: ";

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (minute->responses[rows[i].code] == 0)
			continue;
		condition_append(
			condition, "%s%s %u", comma, rows[i].name, minute->responses[rows[i].code]);
		comma = ", ";
	}
}

/* "10.0.0.2 (upstream)", or what the sum of the servers without a slot is called. */
static const char *describe(const struct dns_server_state *server, char text[static SERVER_TEXT])
{
	if (server->key.family == 0)
		return "servers beyond the first 1023";
	snprintf(text, SERVER_TEXT, "%s (%s)", server->name, dns_role_names[server->role]);
	return text;
}

static void judge_server(const struct dns_server_state *server, const struct dns_server_memory *its,
	uint64_t now, unsigned count[static DNS_CONDITIONS],
	struct condition_reading readings[static DNS_CONDITIONS])
{
	const struct dns_slot minute = dns_minute(server);
	struct condition_reading *reading;
	char text[SERVER_TEXT], user[WORKLOAD_TEXT_MAX];

	if (its->pressure && count[DNS_BUDGET_PRESSURE]++ < NAMED) {
		reading = &readings[DNS_BUDGET_PRESSURE];
		condition_raise(reading, REASON_NEAR_BUDGET, "%s: ", server->name);
		add_numbers(reading, &server->budget, its->uses.minute_peak,
			its->upper_bound ? " of all network interfaces together" : "");
		add_busiest(reading, dns_busiest_second(server->label, now));
	}
	if (its->over_lately > 0 && count[DNS_BUDGET_EXCEEDED]++ < NAMED) {
		reading = &readings[DNS_BUDGET_EXCEEDED];
		reading->last_us = MAX(reading->last_us, its->over_at_us);
		condition_raise(reading, REASON_OVER_BUDGET, "%s: %" PRIu64 " s over, up to ",
			server->name, its->over_lately);
		add_numbers(reading, &server->budget, its->worst,
			its->upper_bound ? " of one address" : "");
		add_busiest(reading, dns_second_that_matters(server, its, now));
	}
	if (its->unanswered && count[DNS_UNANSWERED]++ < NAMED)
		condition_raise(&readings[DNS_UNANSWERED], REASON_UNANSWERED,
			"%s: %" PRIu64 " of %" PRIu64
			" queries of the last minute without an answer",
			describe(server, text), minute.unanswered, minute.queries);
	if (its->failing && count[DNS_FAILING]++ < NAMED) {
		char share[SHARE_MAX];

		reading = &readings[DNS_FAILING];
		condition_raise(reading, REASON_FAILING,
			"%s: %" PRIu64 " of %" PRIu64 " answers of the last minute (%s)",
			describe(server, text), dns_failures(&minute), dns_answers(&minute),
			share_text((double)dns_failures(&minute) / (double)dns_answers(&minute),
				share));
		add_failures(reading, &minute);
		if (server->label && server->label->failing.failures > 0) {
			workload_describe(&server->label->failing.workload, user, sizeof(user));
			condition_append(reading, ", most to %s", user);
		}
	}
}

static void judge(const struct dns_seen *seen, const struct dns_memory *memory, uint64_t now,
	struct condition_reading readings[static DNS_CONDITIONS])
{
	unsigned count[DNS_CONDITIONS] = {0};
	bool any_budget = false;

	for (size_t i = 0; i < seen->table.n; i++) {
		judge_server(seen->table.servers[i], &memory->servers[i], now, count, readings);
		any_budget = any_budget || dns_budget_is_set(&seen->table.servers[i]->budget);
	}
	for (int i = 0; i < DNS_CONDITIONS; i++)
		if (count[i] > NAMED)
			condition_append(&readings[i], "; and %u other servers", count[i] - NAMED);
	if (!any_budget) {
		readings[DNS_BUDGET_PRESSURE].reason = REASON_NO_BUDGET;
		if (count[DNS_BUDGET_EXCEEDED] == 0)
			readings[DNS_BUDGET_EXCEEDED].reason = REASON_NO_BUDGET;
	}
	if (memory->crowded)
		condition_raise(&readings[DNS_FORWARDER_CROWDING], REASON_SEVERAL_FORWARDERS, "%s",
			memory->crowd);
}

void dns_memory_clear(void *data)
{
	struct dns_memory *memory = data;

	for (size_t i = 0; i < memory->n; i++)
		free(memory->servers[i].over_second);
	free(memory->servers);
}

void dns_decide(
	const void *self, const struct decide_input *input, void *data, struct proposal *proposal)
{
	const struct dns_sensor *sensor = self;
	const struct dns_seen *seen = &sensor->seen;
	struct dns_memory *memory = data;
	const uint64_t now = input->now_us;
	struct condition_reading readings[DNS_CONDITIONS] = {
		[DNS_BUDGET_PRESSURE] = {.reason = REASON_WITHIN_BUDGET},
		[DNS_BUDGET_EXCEEDED] = {.reason = REASON_WITHIN_BUDGET},
		[DNS_UNANSWERED] = {.reason = REASON_ALL_ANSWERED},
		[DNS_FAILING] = {.reason = REASON_FEW_FAILURES},
		[DNS_FORWARDER_CROWDING] = {.reason = REASON_FEW_FORWARDERS},
	};

	proposal_lacks(proposal, sensor->why);
	for (size_t i = 0; seen->watched && i < seen->table.n; i++) {
		const struct dns_server_state *server = seen->table.servers[i];
		struct dns_server_memory *its = memory_of(memory, i, &server->key);

		remember(sensor, server, its, now);
		if (dns_budget_is_set(&server->budget) && server->label)
			add_limits(server, its, now, proposal);
	}
	if (seen->watched) {
		/* The rest belongs to removed servers. */
		while (memory->n > seen->table.n)
			free(memory->servers[--memory->n].over_second);
		list_forwarders(seen, memory);
		remember_crowd(memory, now);
		judge(seen, memory, now, readings);
	}
	for (int i = 0; i < DNS_CONDITIONS; i++) {
		readings[i].type = &dns_conditions[i];
		if (!seen->watched)
			condition_unknown(&readings[i], REASON_NOT_WATCHED);
		*proposal_condition(proposal, NULL, REASON_NONE) = readings[i];
	}
}
