/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include <math.h>

/* DNSBudgetPressure begins above the first share of the budget and ends below the second. */
#define PRESSURE_BEGINS 0.80
#define PRESSURE_ENDS   0.70
#define PEAK_WINDOW_US  (60 * USEC_PER_SEC)

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
/* Together they matter from the first rate, 2 % of what a cloud allows, down to the second. */
#define CROWD_BEGINS   20
#define CROWD_ENDS     10
#define CROWD          2
#define CROWDED_FOR_US (60 * USEC_PER_SEC)

#define NAMED 3 /* servers, or forwarders, that one message names */

/* How much of the budget's numbers is used. */
struct uses {
	double last[DNS_NUMBERS], poll_peak[DNS_NUMBERS], minute_peak[DNS_NUMBERS];
	uint64_t over[DNS_NUMBERS]; /* seconds so far */
};

bool dns_is_upper_bound(const struct dns_seen *seen, const struct dns_server_state *server)
{
	return server->budget.link_local && server->budget.max[DNS_PACKETS] > 0 &&
	       seen->uplinks > 1;
}

static struct uses uses_of(const struct dns_seen *seen, const struct dns_server_state *server)
{
	const struct dns_seconds *queries = &server->queries;
	const struct dns_seconds *packets =
		server->budget.link_local ? &seen->link_local : &server->packets;
	struct dns_slot minute = dns_minute(server);
	double mean = (double)minute.queries / 60, pending = (double)server->pending;
	bool sustained = server->budget.sustained;

	return (struct uses){
		.last = {sustained ? mean : queries->last, packets->last, pending},
		.poll_peak = {sustained ? mean : queries->poll_peak, packets->poll_peak, pending},
		.minute_peak = {sustained ? mean : dns_seconds_peak(queries),
			dns_seconds_peak(packets), (double)minute.pending},
		.over = {queries->over, packets->over, 0},
	};
}

static double share_of(const struct dns_budget *budget, const double used_of[static DNS_NUMBERS])
{
	double used = 0;

	for (int i = 0; i < DNS_NUMBERS; i++)
		if (budget->max[i] > 0)
			used = MAX(used, used_of[i] / (double)budget->max[i]);
	return used;
}

double dns_budget_used(const struct dns_seen *seen, const struct dns_server_state *server)
{
	struct uses uses = uses_of(seen, server);

	return share_of(&server->budget, uses.minute_peak);
}

/* How much each of the budget's numbers was exceeded since the last poll: a second counts once. */
static uint64_t newly_over(const struct dns_budget *budget, const struct uses *uses,
	struct dns_server_memory *memory, uint64_t now)
{
	uint64_t seconds = (now - memory->polled_at_us + USEC_PER_SEC / 2) / USEC_PER_SEC, most = 0;

	if (memory->polled_at_us == 0 || seconds == 0)
		seconds = 1;
	memory->polled_at_us = now;
	for (int i = 0; i < DNS_NUMBERS; i++) {
		/* A sum over senders falls when one is forgotten. */
		uint64_t more = uses->over[i] - MIN(uses->over[i], memory->counted[i]);

		if (i == DNS_PENDING || (i == DNS_QUERIES && budget->sustained))
			more = uses->last[i] > (double)budget->max[i] ? seconds : 0;
		memory->counted[i] = uses->over[i];
		more = budget->max[i] > 0 ? more : 0;
		memory->hits[i] += more;
		most = MAX(most, more);
	}
	return most;
}

/* The busiest when it was: an average would blame a client with few, steady queries. */
static void blame(
	const struct dns_label *label, uint64_t at_us, uint64_t now, struct dns_user *busiest)
{
	for (unsigned i = 0; label && now - at_us <= USERS_KNOWN_US && i < label->n_users; i++)
		if (label->users[i].per_second > busiest->per_second)
			*busiest = label->users[i];
}

/* The busiest poll of the last minute, and whose it was. */
static void remember_peak(const struct dns_server_state *server, const struct uses *uses,
	struct dns_server_memory *memory, uint64_t now)
{
	double share = share_of(&server->budget, uses->poll_peak);

	if (share > memory->peak || now - memory->peak_at_us > PEAK_WINDOW_US) {
		memory->peak = share;
		memory->peak_at_us = now;
		memory->peak_user.per_second = 0;
	}
	blame(server->label, memory->peak_at_us, now, &memory->peak_user);
}

static void remember_over(const struct dns_server_state *server, const struct uses *uses,
	struct dns_server_memory *memory, uint64_t now)
{
	uint64_t more = newly_over(&server->budget, uses, memory, now);

	memory->over += more;
	if (more > 0) {
		memory->over_lately += more;
		memory->over_at_us = now;
	} else if (now - memory->over_at_us > EXCEEDED_WINDOW_US) {
		memory->over_lately = 0;
		memset(memory->worst, 0, sizeof(memory->worst));
		memory->user.per_second = 0;
	}
	if (memory->over_lately == 0)
		return;
	/* A second that is over the budget already may still grow. */
	for (int i = 0; i < DNS_NUMBERS; i++)
		memory->worst[i] = MAX(memory->worst[i], uses->poll_peak[i]);
	blame(server->label, memory->over_at_us, now, &memory->user);
}

static void remember(const struct dns_seen *seen, const struct dns_server_state *server,
	struct dns_server_memory *memory, uint64_t now)
{
	const struct dns_slot minute = dns_minute(server);
	double queries = (double)minute.queries, unanswered = (double)minute.unanswered;
	bool by_sender = dns_is_upper_bound(seen, server);
	struct uses uses;

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
	uses = uses_of(seen, server);
	memory->pressure = share_of(&server->budget, uses.minute_peak) >
			   (memory->pressure ? PRESSURE_ENDS : PRESSURE_BEGINS);
	remember_peak(server, &uses, memory, now);
	/*
	 * With several network devices, each with a budget of its own, the sum of all packets
	 * proves nothing; those of one address do, as an address is on one device.
	 */
	if (by_sender) {
		uses.over[DNS_PACKETS] = 0;
		uses.poll_peak[DNS_PACKETS] = 0;
		for (unsigned i = 0; i < seen->n_senders; i++) {
			const struct dns_seconds *seconds = &seen->senders[i].seconds;

			uses.over[DNS_PACKETS] += seconds->over;
			uses.poll_peak[DNS_PACKETS] =
				MAX(uses.poll_peak[DNS_PACKETS], seconds->poll_peak);
		}
	}
	/* Another sum begins elsewhere: what it has is nothing new. */
	if (memory->by_sender != by_sender)
		memory->counted[DNS_PACKETS] = uses.over[DNS_PACKETS];
	memory->by_sender = by_sender;
	remember_over(server, &uses, memory, now);
}

/* A message names those above the lower rate, so that it does not change with every poll. */
static void remember_crowd(const struct dns_seen *seen, struct dns_memory *memory, uint64_t now)
{
	double least = memory->crowded ? FORWARDER_ENDS : FORWARDER_BEGINS, sum = 0;
	char named[3 * 224] = "", workload[WORKLOAD_TEXT_MAX];
	unsigned n = 0, listed = 0;

	for (unsigned i = 0; i < seen->n_forwarders; i++) {
		const struct dns_forwarder *forwarder = &seen->forwarders[i];
		size_t used = strlen(named);

		if (forwarder->expected || forwarder->per_second < FORWARDER_ENDS)
			continue;
		n += forwarder->per_second >= least;
		sum += forwarder->per_second;
		if (listed++ >= NAMED)
			continue;
		workload_describe(&forwarder->workload, workload, sizeof(workload));
		snprintf(named + used, sizeof(named) - used, "%s%s %.3g/s",
			listed == 1 ? ": " : ", ", workload, forwarder->per_second);
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

void dns_take_users(struct limit_reading *limit, const struct dns_label *label, unsigned most)
{
	for (unsigned i = 0; i < label->n_users && limit->n_top < most; i++) {
		uint64_t used = (uint64_t)llround(label->users[i].per_second);

		if (used == 0)
			continue;
		limit->top[limit->n_top].workload = label->users[i].workload;
		limit->top[limit->n_top++].used = used;
	}
}

/* A limit of each number of the budget; the first has the server's plain name, and its users. */
static void add_limits(const struct dns_seen *seen, const struct dns_server_state *server,
	const struct dns_server_memory *memory, struct proposal *proposal)
{
	const char *parts[DNS_NUMBERS] = {"", "/packets", "/pending"};
	struct uses uses = uses_of(seen, server);

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
		limit->used = (uint64_t)ceil(uses.last[i]);
		limit->peak = (uint64_t)ceil(uses.poll_peak[i]);
		limit->hits = memory->hits[i];
		limit->upper_bound = i == DNS_PACKETS && dns_is_upper_bound(seen, server);
		if (memory->over_lately > 0 && memory->worst[i] > (double)limit->max)
			limit->condition = &dns_conditions[DNS_BUDGET_EXCEEDED];
		else if (memory->pressure &&
			 uses.minute_peak[i] > PRESSURE_ENDS * (double)limit->max)
			limit->condition = &dns_conditions[DNS_BUDGET_PRESSURE];
		if (parts[i][0] == '\0')
			dns_take_users(limit, server->label, LIMIT_TOP_MAX);
	}
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
		struct dns_server_memory *added = add_element(
			&memory->servers, &memory->n, &memory->allocated, sizeof(*added));

		added->key = *key;
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

/* "1500 of 1024 queries/s, 201 of 200 pending"; scope is that of packets. */
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

static void judge_budget(const struct dns_seen *seen, const struct dns_server_state *server,
	const struct dns_server_memory *memory, struct condition_reading *pressure,
	struct condition_reading *exceeded)
{
	bool several = dns_is_upper_bound(seen, server);
	struct uses uses = uses_of(seen, server);

	if (memory->pressure) {
		condition_raise(pressure, "near-budget", "%s: ", server->name);
		add_numbers(pressure, &server->budget, uses.minute_peak,
			several ? " of all network interfaces together" : "");
	}
	if (memory->over_lately > 0) {
		condition_raise(exceeded, "over-budget", "%s: %" PRIu64 " s over, up to ",
			server->name, memory->over_lately);
		add_numbers(
			exceeded, &server->budget, memory->worst, several ? " of one address" : "");
	}
}

static void add_user(struct condition_reading *condition, const struct dns_server_memory *server,
	const struct dns_user *user)
{
	char text[WORKLOAD_TEXT_MAX], name[DNS_ADDRESS_TEXT];

	if (user->per_second == 0 || condition->status != CONDITION_TRUE)
		return;
	workload_describe(&user->workload, text, sizeof(text));
	dns_address_text(&server->key, name);
	condition_append(condition, "; most for %s from %s", name, text);
}

/*
 * Who sent most in the busiest second of the server that is nearest to its budget, and of the one
 * whose budget was exceeded last.
 */
static void add_users(const struct dns_seen *seen, const struct dns_memory *memory,
	struct condition_reading *pressure, struct condition_reading *exceeded)
{
	const struct dns_server_memory *nearest = NULL, *last = NULL;
	double used, most = 0;

	for (size_t i = 0; i < seen->table.n; i++) {
		const struct dns_server_memory *its = &memory->servers[i];

		used = its->pressure ? dns_budget_used(seen, seen->table.servers[i]) : 0;
		if (used > most) {
			most = used;
			nearest = its;
		}
		if (its->over_lately > 0 && (!last || its->over_at_us > last->over_at_us))
			last = its;
	}
	if (nearest)
		add_user(pressure, nearest, &nearest->peak_user);
	if (last)
		add_user(exceeded, last, &last->user);
}

static void judge(const struct dns_seen *seen, const struct dns_memory *memory,
	struct condition_reading readings[static DNS_CONDITIONS])
{
	struct condition_reading *unanswered = &readings[DNS_UNANSWERED];
	bool any_budget = false;
	unsigned silent = 0;

	for (size_t i = 0; i < seen->table.n; i++) {
		const struct dns_server_state *server = seen->table.servers[i];
		const struct dns_server_memory *its = &memory->servers[i];

		judge_budget(seen, server, its, &readings[DNS_BUDGET_PRESSURE],
			&readings[DNS_BUDGET_EXCEEDED]);
		if (its->unanswered && silent++ < NAMED) {
			condition_raise(unanswered, "unanswered",
				"%s (%s): %" PRIu64
				" without an answer in the last minute, %" PRIu64 " sent",
				server->name, dns_role_names[server->role],
				dns_minute(server).unanswered, dns_minute(server).queries);
		}
		any_budget = any_budget || dns_budget_is_set(&server->budget);
	}
	if (silent > NAMED)
		condition_append(unanswered, "; and %u other servers", silent - NAMED);
	if (memory->crowded)
		condition_raise(&readings[DNS_FORWARDER_CROWDING], "several-forwarders", "%s",
			memory->crowd);
	if (!any_budget)
		readings[DNS_BUDGET_PRESSURE].reason = readings[DNS_BUDGET_EXCEEDED].reason =
			"no-budget";
	add_users(seen, memory, &readings[DNS_BUDGET_PRESSURE], &readings[DNS_BUDGET_EXCEEDED]);
}

static void add_conditions(
	const struct dns_seen *seen, const struct dns_memory *memory, struct proposal *proposal)
{
	struct condition_reading readings[DNS_CONDITIONS] = {
		[DNS_BUDGET_PRESSURE] = {.reason = "within-budget"},
		[DNS_BUDGET_EXCEEDED] = {.reason = "within-budget"},
		[DNS_UNANSWERED] = {.reason = "all-answered"},
		[DNS_FORWARDER_CROWDING] = {.reason = "few-forwarders"},
	};

	if (seen->watched)
		judge(seen, memory, readings);
	for (int i = 0; i < DNS_CONDITIONS; i++) {
		readings[i].type = &dns_conditions[i];
		if (!seen->watched) {
			readings[i].status = CONDITION_UNKNOWN;
			readings[i].reason = "not-watched";
		}
		*proposal_condition(proposal, NULL, NULL) = readings[i];
	}
}

void dns_memory_clear(void *data)
{
	struct dns_memory *memory = data;

	free(memory->servers);
}

void dns_decide(const struct dns_seen *seen, struct dns_memory *memory,
	const struct decide_input *input, struct proposal *proposal)
{
	for (size_t i = 0; seen->watched && i < seen->table.n; i++) {
		const struct dns_server_state *server = seen->table.servers[i];
		struct dns_server_memory *its = memory_of(memory, i, &server->key);

		remember(seen, server, its, input->now_us);
		if (dns_budget_is_set(&server->budget) && server->label)
			add_limits(seen, server, its, proposal);
	}
	/* The rest is of servers that were removed. */
	if (seen->watched)
		memory->n = seen->table.n;
	remember_crowd(seen, memory, input->now_us);
	add_conditions(seen, memory, proposal);
}
