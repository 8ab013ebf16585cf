/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

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
	/*
	 * Seconds that began since the last poll: polls may be more frequent. After a pause nobody
	 * knows more than the last minute.
	 */
	uint64_t passed = memory->polled_at_us == 0
				  ? 1
				  : MIN(now / USEC_PER_SEC - memory->polled_at_us / USEC_PER_SEC,
					    UINT64_C(60));
	uint64_t most = 0;
	uint64_t over[DNS_NUMBERS] = {
		server->label ? server->label->queries.over : 0, packets ? packets->over : 0};
	struct dns_uses uses = memory->uses;

	memory->polled_at_us = now;
	if (memory->upper_bound)
		uses.poll_peak[DNS_PACKETS] = over[DNS_PACKETS] = 0;
	for (unsigned i = 0; memory->upper_bound && i < seen->n_senders; i++) {
		const struct dns_seconds *seconds = &seen->senders[i].seconds;

		over[DNS_PACKETS] = MAX(over[DNS_PACKETS], seconds->over);
		uses.poll_peak[DNS_PACKETS] = MAX(uses.poll_peak[DNS_PACKETS], seconds->poll_peak);
	}
	for (int i = 0; i < DNS_NUMBERS; i++) {
		uint64_t max = server->budget.max[i];

		if (i == DNS_PENDING || (i == DNS_QUERIES && server->budget.sustained))
			over[i] = uses.poll_peak[i] > (double)max ? passed : 0;
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

static bool remains(bool was, uint64_t lost, uint64_t total)
{
	return was ? lost > 0 && (double)lost >= (double)total * LOST_ENDS
		   : lost >= LOST_LEAST && (double)lost >= (double)total * LOST_BEGINS;
}

static void remember(const struct dns_sensor *sensor, const struct dns_server_state *server,
	struct dns_server_memory *memory, uint64_t now)
{
	const struct dns_seen *seen = &sensor->seen;
	const struct dns_budget *budget = &server->budget;
	const struct dns_slot minute = dns_minute(server);
	enum dns_number number;

	memory->unanswered = remains(memory->unanswered, dns_lost(&minute), minute.queries);
	memory->failing = remains(
		memory->failing, dns_failures(minute.responses), dns_answers(minute.responses));
	/* An excess over an earlier budget does not count for a new one. */
	if (memcmp(memory->budget.max, budget->max, sizeof(budget->max)) != 0) {
		memory->pressure = false;
		memory->over_lately = 0;
		memset(memory->worst, 0, sizeof(memory->worst));
		free(steal(memory->over_second));
	}
	memory->budget = *budget;
	if (!dns_budget_is_set(budget))
		return;
	memory->uses = dns_uses_of(seen, server);
	memory->used = dns_share(budget, memory->uses.minute_peak, &number);
	memory->upper_bound =
		budget->link_local && budget->max[DNS_PACKETS] > 0 && sensor->facts.uplinks > 1;
	memory->pressure = memory->used > (memory->pressure ? PRESSURE_ENDS : PRESSURE_BEGINS);
	remember_over(seen, server,
		budget->link_local ? &seen->link_local
		: server->label    ? &server->label->packets
				   : NULL,
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

void dns_add_users(struct limit_reading *limit, unsigned most, const struct dns_user *users,
	unsigned n, bool packets)
{
	for (unsigned i = 0; i < n && limit->n_top < most; i++) {
		uint64_t used = (uint64_t)llround(packets ? users[i].packets : users[i].per_second);

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
		if (parts[i][0] == '\0')
			dns_add_users(limit, LIMIT_TOP_MAX, server->label->users,
				server->label->n_users, i == DNS_PACKETS);
		if (!second || second->number != (enum dns_number)i)
			continue;
		limit->busiest = (uint64_t)llround(second->used[i]);
		for (unsigned k = 0; k < MIN(second->n_users, (unsigned)LIMIT_PEAK_TOP); k++)
			*limit_add_busiest(limit) =
				(struct limit_user){.workload = second->users[k].workload,
					.used = (uint64_t)llround(second->users[k].per_second)};
	}
}

/* The memory of the server at index i. It swaps places when the table's order has changed. */
static struct dns_server_memory *memory_of(
	struct dns_memory *memory, size_t i, const struct dns_address *address)
{
	struct dns_server_memory found = {.address = *address};
	size_t from = i;

	while (from < memory->n && !dns_address_equal(&memory->servers[from].address, address))
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
			budget->max[i], dns_numbers[i].noun, more[i]);
		comma = ", ";
	}
}

/* The number has its unit if the sentence has more than one. */
static void add_busiest(struct condition_reading *condition, const struct dns_budget *budget,
	const struct dns_second *second)
{
	char text[WORKLOAD_TEXT_MAX];
	int units = 0;

	for (int i = 0; i < DNS_NUMBERS; i++)
		units += budget->max[i] > 0;
	if (!second)
		return;
	if (second->not_dns >= 0.5)
		condition_append(condition, ", %.0f of %.0f packets not DNS", second->not_dns,
			second->used[DNS_PACKETS]);
	if (second->n_users == 0)
		return;
	workload_describe(&second->users[0].workload, text, sizeof(text));
	condition_append(condition, ", most from %s (%.0f%s%s)", text, second->users[0].per_second,
		units > 1 ? " " : "", units > 1 ? dns_numbers[second->number].name : "");
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
		condition_append(condition, "%s%s %llu", comma, rows[i].name,
			minute->responses[rows[i].code]);
		comma = ", ";
	}
}

/* "10.0.0.2 (upstream)", or what the sum of the servers without a slot is called. */
static const char *describe(const struct dns_server_state *server, char text[static SERVER_TEXT])
{
	if (server->role == DNS_NO_ROLE)
		return "servers beyond the first 1023";
	snprintf(text, SERVER_TEXT, "%s (%s)", server->name, dns_role_names[server->role]);
	return text;
}

/* ", most from pod shop/web": nothing for a user without queries. */
static void add_client(
	struct condition_reading *reading, const char *words, const struct dns_user *user)
{
	char text[WORKLOAD_TEXT_MAX];

	if (user->per_second <= 0)
		return;
	workload_describe(&user->workload, text, sizeof(text));
	condition_append(reading, ", most %s %s", words, text);
}

/* Adds the problem of a server to the message of the condition. */
static void report_server(int condition, const struct dns_server_state *server,
	const struct dns_server_memory *memory, uint64_t now, struct condition_reading *reading)
{
	static const struct dns_user nobody;
	const struct dns_slot minute = dns_minute(server);
	const double failures = (double)dns_failures(minute.responses),
		     answers = (double)dns_answers(minute.responses);
	char share[SHARE_MAX], text[SERVER_TEXT];

	switch (condition) {
	case DNS_BUDGET_EXCEEDED:
		reading->last_us = MAX(reading->last_us, memory->over_at_us);
		condition_raise(reading, REASON_OVER_BUDGET, "%s: %" PRIu64 " s over, up to ",
			server->name, memory->over_lately);
		add_numbers(reading, &server->budget, memory->worst,
			memory->upper_bound ? " of one address" : "");
		add_busiest(reading, &server->budget, dns_second_that_matters(server, memory, now));
		break;
	case DNS_BUDGET_PRESSURE:
		condition_raise(reading, REASON_NEAR_BUDGET, "%s: ", server->name);
		add_numbers(reading, &server->budget, memory->uses.minute_peak,
			memory->upper_bound ? " of all network interfaces together" : "");
		add_busiest(reading, &server->budget, dns_busiest_second(server->label, now));
		break;
	case DNS_UNANSWERED:
		condition_raise(reading, REASON_UNANSWERED,
			"%s: %" PRIu64 " of %" PRIu64
			" queries of the last minute without an answer",
			describe(server, text), dns_lost(&minute), minute.queries);
		add_client(reading, "from", server->label ? &server->label->waiting : &nobody);
		break;
	default:
		condition_raise(reading, REASON_FAILING,
			"%s: %.0f of %.0f answers of the last minute (%s)", describe(server, text),
			failures, answers, share_text(failures / answers, share));
		add_failures(reading, &minute);
		add_client(reading, "to", server->label ? &server->label->failing : &nobody);
	}
}

/* How bad the condition is for the server; 0: not True. */
static double badness(int condition, const struct dns_server_state *server,
	const struct dns_server_memory *memory)
{
	const struct dns_slot minute = dns_minute(server);
	enum dns_number number;
	const double bad[DNS_CONDITIONS] = {
		[DNS_BUDGET_EXCEEDED] = memory->over_lately > 0
						? dns_share(&server->budget, memory->worst, &number)
						: 0,
		[DNS_FAILING] = memory->failing ? (double)dns_failures(minute.responses) : 0,
		[DNS_UNANSWERED] = memory->unanswered ? (double)dns_lost(&minute) : 0,
		[DNS_BUDGET_PRESSURE] = memory->pressure ? memory->used : 0,
	};

	return bad[condition];
}

/* The worst servers of a condition, the worst first. */
struct bad_server {
	size_t i;
	double badness;
};

static int by_badness(const void *a, const void *b)
{
	const struct bad_server *x = a, *y = b;

	return (x->badness < y->badness) - (x->badness > y->badness);
}

static unsigned judge_condition(const struct dns_seen *seen, const struct dns_memory *memory,
	int condition, uint64_t now, struct condition_reading *reading)
{
	struct bad_server worst[NAMED];
	size_t n = 0;
	unsigned count = 0;

	for (size_t i = 0; i < seen->table.n; i++) {
		const struct bad_server candidate = {
			i, badness(condition, seen->table.servers[i], &memory->servers[i])};

		if (candidate.badness <= 0)
			continue;
		count++;
		keep_first(worst, &n, NAMED, sizeof(candidate), &candidate, by_badness);
	}
	for (size_t i = 0; i < n; i++)
		report_server(condition, seen->table.servers[worst[i].i],
			&memory->servers[worst[i].i], now, reading);
	if (count > NAMED)
		condition_append(reading, "; and %u other servers", count - NAMED);
	return count;
}

static void judge_servers(const struct dns_seen *seen, const struct dns_memory *memory,
	bool any_budget, uint64_t now, struct condition_reading readings[static DNS_CONDITIONS])
{
	for (int i = 0; i < DNS_CONDITIONS; i++)
		if (judge_condition(seen, memory, i, now, &readings[i]) == 0 && !any_budget &&
			(i == DNS_BUDGET_PRESSURE || i == DNS_BUDGET_EXCEEDED))
			readings[i].reason = REASON_NO_BUDGET;
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
	bool any_budget = false;

	proposal_lacks(proposal, sensor->why);
	for (size_t i = 0; seen->watched && i < seen->table.n; i++) {
		const struct dns_server_state *server = seen->table.servers[i];
		struct dns_server_memory *known = memory_of(memory, i, &server->address);

		remember(sensor, server, known, now);
		any_budget = any_budget || dns_budget_is_set(&server->budget);
		if (dns_budget_is_set(&server->budget) && server->label)
			add_limits(server, known, now, proposal);
	}
	if (seen->watched) {
		/* The rest belongs to removed servers. */
		while (memory->n > seen->table.n)
			free(memory->servers[--memory->n].over_second);
		list_forwarders(seen, memory);
		remember_crowd(memory, now);
		judge_servers(seen, memory, any_budget, now, readings);
	}
	for (int i = 0; i < DNS_CONDITIONS; i++) {
		readings[i].type = &dns_conditions[i];
		if (!seen->watched)
			condition_unknown(&readings[i], REASON_NOT_WATCHED);
		*proposal_condition(proposal, NULL, REASON_NONE) = readings[i];
	}
}
