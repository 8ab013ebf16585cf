/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/text.h"

#include <math.h>

/* DNSBudgetPressure begins above the first share of the budget and ends below the second. */
#define PRESSURE_BEGINS 0.80
#define PRESSURE_ENDS   0.70
#define PEAK_WINDOW_US  (60 * USEC_PER_SEC)

/* DNSBudgetExceeded stays True long enough for a dashboard and an alert to see it. */
#define EXCEEDED_WINDOW_US (300 * USEC_PER_SEC)

/* Users may be read only every ten seconds. */
#define USERS_KNOWN_US (11 * USEC_PER_SEC)

/*
 * DNSUnanswered begins with this number and this share of the queries of the last minute: every
 * network loses a few. It ends below the second share.
 */
#define UNANSWERED_LEAST  10
#define UNANSWERED_BEGINS 0.05
#define UNANSWERED_ENDS   0.01

/* A forwarder counts from the first rate of queries to upstreams and down to the second. */
#define FORWARDER_BEGINS 0.5
#define FORWARDER_ENDS   0.1
/* Two forwarders crowd from the first sum of rates, 2 % of a cloud's budget, to the second. */
#define CROWD_BEGINS   20
#define CROWD_ENDS     10
#define CROWD          2
#define CROWDED_FOR_US (60 * USEC_PER_SEC)

#define NAMED 3 /* servers or forwarders in one message */

static double share_of(const struct dns_budget *budget, const double used_of[static DNS_NUMBERS])
{
	double used = 0;

	for (int i = 0; i < DNS_NUMBERS; i++)
		if (budget->max[i] > 0)
			used = MAX(used, used_of[i] / (double)budget->max[i]);
	return used;
}

/* The busiest user at that time: an average would name a client with few, steady queries. */
static void blame(
	const struct dns_label *label, uint64_t at_us, uint64_t now, struct dns_user *busiest)
{
	for (unsigned i = 0; label && now - at_us <= USERS_KNOWN_US && i < label->n_users; i++)
		if (label->users[i].per_second > busiest->per_second)
			*busiest = label->users[i];
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
		memory->user.per_second = 0;
	}
	if (memory->over_lately == 0)
		return;
	/* The use in a second over the budget may still grow. */
	for (int i = 0; i < DNS_NUMBERS; i++)
		memory->worst[i] = MAX(memory->worst[i], uses.poll_peak[i]);
	blame(server->label, memory->over_at_us, now, &memory->user);
}

static void remember(const struct dns_sensor *sensor, const struct dns_server_state *server,
	struct dns_server_memory *memory, uint64_t now)
{
	const struct dns_seen *seen = &sensor->seen;
	const struct dns_budget *budget = &server->budget;
	const struct dns_seconds *queries = &server->queries;
	const struct dns_seconds *packets =
		budget->link_local ? &seen->link_local : &server->packets;
	const struct dns_slot minute = dns_minute(server);
	double sent = (double)minute.queries, unanswered = (double)minute.unanswered;
	double pending = (double)server->pending, share;

	if (memory->unanswered)
		memory->unanswered = unanswered > 0 && unanswered >= sent * UNANSWERED_ENDS;
	else
		memory->unanswered =
			unanswered >= UNANSWERED_LEAST && unanswered >= sent * UNANSWERED_BEGINS;
	if (!dns_budget_is_set(budget)) {
		memory->pressure = false;
		memory->over_lately = 0;
		return;
	}
	memory->uses = (struct dns_uses){
		.last = {queries->last, packets->last, pending},
		.poll_peak = {queries->poll_peak, packets->poll_peak, pending},
		.minute_peak = {dns_seconds_peak(queries), dns_seconds_peak(packets),
			(double)minute.pending},
	};
	if (budget->sustained)
		memory->uses.last[DNS_QUERIES] = memory->uses.poll_peak[DNS_QUERIES] =
			memory->uses.minute_peak[DNS_QUERIES] = sent / 60;
	memory->used = share_of(budget, memory->uses.minute_peak);
	memory->upper_bound =
		budget->link_local && budget->max[DNS_PACKETS] > 0 && sensor->env.uplinks > 1;
	memory->pressure = memory->used > (memory->pressure ? PRESSURE_ENDS : PRESSURE_BEGINS);
	/* The busiest poll of the last minute and its busiest user. */
	share = share_of(budget, memory->uses.poll_peak);
	if (share > memory->peak || now - memory->peak_at_us > PEAK_WINDOW_US) {
		memory->peak = share;
		memory->peak_at_us = now;
		memory->peak_user.per_second = 0;
	}
	blame(server->label, memory->peak_at_us, now, &memory->peak_user);
	remember_over(seen, server, packets, memory, now);
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

void dns_add_users(struct limit_reading *limit, const struct dns_label *label, unsigned most)
{
	for (unsigned i = 0; i < label->n_users && limit->n_top < most; i++) {
		uint64_t used = (uint64_t)llround(label->users[i].per_second);

		if (used > 0)
			*limit_add_user(limit) =
				(struct limit_user){label->users[i].workload, used};
	}
}

/* Adds a limit for each number of the budget. The first has the server's name and its users. */
static void add_limits(const struct dns_server_state *server,
	const struct dns_server_memory *memory, struct proposal *proposal)
{
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
		if (parts[i][0] == '\0')
			dns_add_users(limit, server->label, LIMIT_TOP_MAX);
	}
}

/* The memory of the server at index i, which swaps places when the order of the table has changed.
 */
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

static void add_user(struct condition_reading *condition, const struct dns_server_memory *server,
	const struct dns_user *user)
{
	char text[WORKLOAD_TEXT_MAX], name[DNS_ADDRESS_TEXT];

	if (user->per_second == 0)
		return;
	workload_describe(&user->workload, text, sizeof(text));
	dns_address_text(&server->key, name);
	condition_append(condition, "; most for %s from %s", name, text);
}

static void judge(const struct dns_seen *seen, const struct dns_memory *memory,
	struct condition_reading readings[static DNS_CONDITIONS])
{
	struct condition_reading *pressure = &readings[DNS_BUDGET_PRESSURE],
				 *exceeded = &readings[DNS_BUDGET_EXCEEDED],
				 *unanswered = &readings[DNS_UNANSWERED];
	/* The server nearest to its budget, and the last one over its budget. */
	const struct dns_server_memory *nearest = NULL, *last = NULL;
	bool any_budget = false;
	unsigned silent = 0;

	for (size_t i = 0; i < seen->table.n; i++) {
		const struct dns_server_state *server = seen->table.servers[i];
		const struct dns_server_memory *its = &memory->servers[i];

		if (its->pressure) {
			condition_raise(pressure, "near-budget", "%s: ", server->name);
			add_numbers(pressure, &server->budget, its->uses.minute_peak,
				its->upper_bound ? " of all network interfaces together" : "");
			if (!nearest || its->used > nearest->used)
				nearest = its;
		}
		if (its->over_lately > 0) {
			condition_raise(exceeded, "over-budget", "%s: %" PRIu64 " s over, up to ",
				server->name, its->over_lately);
			add_numbers(exceeded, &server->budget, its->worst,
				its->upper_bound ? " of one address" : "");
			if (!last || its->over_at_us > last->over_at_us)
				last = its;
		}
		if (its->unanswered && silent++ < NAMED)
			condition_raise(unanswered, "unanswered",
				"%s (%s): %" PRIu64
				" without an answer in the last minute, %" PRIu64 " sent",
				server->name, dns_role_names[server->role],
				dns_minute(server).unanswered, dns_minute(server).queries);
		any_budget = any_budget || dns_budget_is_set(&server->budget);
	}
	if (silent > NAMED)
		condition_append(unanswered, "; and %u other servers", silent - NAMED);
	if (!any_budget)
		pressure->reason = exceeded->reason = "no-budget";
	if (nearest)
		add_user(pressure, nearest, &nearest->peak_user);
	if (last)
		add_user(exceeded, last, &last->user);
	if (memory->crowded)
		condition_raise(&readings[DNS_FORWARDER_CROWDING], "several-forwarders", "%s",
			memory->crowd);
}

void dns_memory_clear(void *data)
{
	struct dns_memory *memory = data;

	free(memory->servers);
}

void dns_decide(
	const void *self, const struct decide_input *input, void *data, struct proposal *proposal)
{
	const struct dns_sensor *sensor = self;
	const struct dns_seen *seen = &sensor->seen;
	struct dns_memory *memory = data;
	struct condition_reading readings[DNS_CONDITIONS] = {
		[DNS_BUDGET_PRESSURE] = {.reason = "within-budget"},
		[DNS_BUDGET_EXCEEDED] = {.reason = "within-budget"},
		[DNS_UNANSWERED] = {.reason = "all-answered"},
		[DNS_FORWARDER_CROWDING] = {.reason = "few-forwarders"},
	};

	for (size_t i = 0; seen->watched && i < seen->table.n; i++) {
		const struct dns_server_state *server = seen->table.servers[i];
		struct dns_server_memory *its = memory_of(memory, i, &server->key);

		remember(sensor, server, its, input->now_us);
		if (dns_budget_is_set(&server->budget) && server->label)
			add_limits(server, its, proposal);
	}
	if (seen->watched) {
		/* The rest belongs to removed servers. */
		memory->n = seen->table.n;
		list_forwarders(seen, memory);
		remember_crowd(memory, input->now_us);
		judge(seen, memory, readings);
	}
	for (int i = 0; i < DNS_CONDITIONS; i++) {
		readings[i].type = &dns_conditions[i];
		if (!seen->watched) {
			readings[i].status = CONDITION_UNKNOWN;
			readings[i].reason = "not-watched";
		}
		*proposal_condition(proposal, NULL, NULL) = readings[i];
	}
}
