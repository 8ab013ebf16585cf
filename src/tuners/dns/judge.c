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

/* The users of a second are counted after it. */
#define USERS_FOLLOW_US (5 * USEC_PER_SEC)

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
	/* Seconds before a new budget do not count for it. */
	if (memcmp(memory->budget.max, budget->max, sizeof(budget->max)) != 0) {
		memory->pressure = false;
		memory->over_lately = 0;
		memset(memory->worst, 0, sizeof(memory->worst));
		memset(memory->changed_peak, 0, sizeof(memory->changed_peak));
		memory->changed_at_us = now;
		free(steal(memory->over_second));
	}
	memory->budget = *budget;
	if (!dns_budget_is_set(budget))
		return;
	memory->uses = dns_uses_of(seen, server);
	for (int i = 0; i < DNS_NUMBERS; i++)
		memory->changed_peak[i] = MAX(memory->changed_peak[i], memory->uses.poll_peak[i]);
	if (now - memory->changed_at_us < DNS_SECOND_AGE_US)
		memcpy(memory->uses.minute_peak, memory->changed_peak,
			sizeof(memory->changed_peak));
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

/* Counts the forwarders above the lower rate, so that the number rarely changes. */
static void remember_crowd(struct dns_memory *memory, uint64_t now)
{
	double least = memory->crowded ? FORWARDER_ENDS : FORWARDER_BEGINS, sum = 0;
	unsigned n = 0, counted = 0;

	for (unsigned i = 0; i < memory->n_forwarders; i++) {
		const struct dns_user *forwarder = &memory->forwarders[i];

		if (dns_is_node_cache(&forwarder->workload) || forwarder->smooth < FORWARDER_ENDS)
			continue;
		n += forwarder->smooth >= least;
		sum += forwarder->smooth;
		counted++;
	}
	if (n >= CROWD && sum >= (memory->crowded ? CROWD_ENDS : CROWD_BEGINS)) {
		memory->crowded = true;
		memory->crowded_at_us = now;
		memory->n_crowding = counted;
		memory->crowd_rate = sum;
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

/* Writes "SERVFAIL 20, REFUSED 3". Returns text. */
static const char *list_failures(const struct dns_slot *minute, char *text, size_t size)
{
	static const struct {
		enum dns_rcode_class code;
		const char *name;
	} rows[] = {{DNS_SERVFAIL, "SERVFAIL"}, {DNS_REFUSED, "REFUSED"}, {DNS_FORMERR, "FORMERR"},
		{DNS_NOTIMP, "NOTIMP"}};

	text[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (minute->responses[rows[i].code] > 0)
			text_append(text, size, "%s%s %llu", text[0] ? ", " : "", rows[i].name,
				minute->responses[rows[i].code]);
	return text;
}

/* A finding about a server is made from these. */
struct server_input {
	const struct dns_seen *seen;
	const struct dns_server_state *server;
	const struct dns_server_memory *memory;
	const struct decide_input *input;
	struct proposal *proposal;
};

static struct finding *find_of_server(const struct server_input *known, int condition,
	enum reason reason, const char *slug, enum finding_phase phase)
{
	struct instance instance = {.kind = INSTANCE_SERVER};

	/* The sum of the servers without a slot has no role. */
	set_text(instance.name, known->server->role == DNS_NO_ROLE ? "servers beyond the first 1023"
								   : known->server->name);
	return proposal_finding(known->proposal, known->input, &dns_conditions[condition], reason,
		slug, &instance, phase);
}

/* "201 of 200 pending, 740 of 764 packets are not DNS": what the worst number does not say. */
static void add_budget_message(struct finding *finding, const struct server_input *known,
	enum dns_number worst, const double used[static DNS_NUMBERS], const char *scope,
	const struct dns_second *second)
{
	const struct dns_budget *budget = &known->server->budget;
	char text[256] = "";

	if (worst == DNS_PACKETS && scope[0])
		text_append(text, sizeof(text), "%s", scope);
	if (worst == DNS_QUERIES && budget->sustained)
		text_append(text, sizeof(text), "over a minute");
	for (int i = 0; i < DNS_NUMBERS; i++)
		if (i != (int)worst && budget->max[i] > 0)
			text_append(text, sizeof(text), "%s%.0f of %" PRIu64 " %s",
				text[0] ? ", " : "", used[i], budget->max[i], dns_numbers[i].noun);
	if (second && second->not_dns >= 0.5)
		text_append(text, sizeof(text), "%s%.0f of %.0f packets are not DNS",
			text[0] ? ", " : "", second->not_dns, second->used[DNS_PACKETS]);
	finding_message(finding, "%s", text);
}

/* The users of the second that matters, in its unit. */
static void add_second_users(
	struct finding *finding, const struct dns_second *second, enum dns_number worst)
{
	finding->knows = WHO_UNKNOWN;
	for (unsigned i = 0; second && second->number == worst && i < second->n_users; i++)
		finding_user_add(
			finding, &(struct limit_user){.workload = second->users[i].workload,
					 .used = (uint64_t)llround(second->users[i].per_second)});
	if (second)
		finding->use.at_us = finding->worst.at_us = second->found_us;
}

static void add_budget_hint(struct finding *finding, const struct server_input *known)
{
	const struct dns_rate *search = known->seen->search[MIN(known->server->role, DNS_UPSTREAM)];
	double queries = known->memory->uses.last[DNS_QUERIES];

	if (search[DNS_EXPANDED].per_second > queries / 5 && queries > 1)
		finding_hint(finding,
			"%.0f queries/s are search-domain expansions: ndots: 1 in the pod's "
			"dnsConfig, or names that end in a dot",
			search[DNS_EXPANDED].per_second);
	else
		finding_hint(finding,
			"a cache on the node, or fewer forwarders on this node, sends fewer queries");
}

/* A server has one finding about its budget: it is exceeded, or it nearly is. */
static void find_budget(const struct server_input *known)
{
	const struct dns_server_memory *memory = known->memory;
	uint64_t now = known->input->now_us, since_over = now - memory->over_at_us;
	bool is_over = memory->over_lately > 0;
	const double *used = is_over ? memory->worst : memory->uses.minute_peak;
	const struct dns_second *second = dns_second_that_matters(known->server, memory, now);
	char slug[LIMIT_NAME_MAX];
	enum finding_phase phase = !is_over || since_over == 0     ? FINDING_HAPPENS
				   : since_over <= USERS_FOLLOW_US ? FINDING_LASTS
								   : FINDING_OVER;
	const struct finding *open;
	struct finding *finding;
	enum dns_number worst;

	snprintf(slug, sizeof(slug), "dns/%s", known->server->name);
	/* A new budget, too, ends what was found: without a hold. */
	if (!is_over && !memory->pressure) {
		(void)find_of_server(
			known, DNS_BUDGET_PRESSURE, REASON_NEAR_BUDGET, slug, FINDING_OVER);
		return;
	}
	finding = find_of_server(known, is_over ? DNS_BUDGET_EXCEEDED : DNS_BUDGET_PRESSURE,
		is_over ? REASON_OVER_BUDGET : REASON_NEAR_BUDGET, slug, phase);
	if (!finding)
		return;
	(void)dns_share(&known->server->budget, used, &worst);
	finding->unit = dns_numbers[worst].noun;
	finding->happens = "over";
	finding->counts_hits = finding->hits_are_seconds = true;
	finding->hold_us = is_over ? EXCEEDED_WINDOW_US : 0;
	finding->breaks = "the resolver drops the excess: lookups time out";
	finding->use.max = known->server->budget.max[worst];
	finding->use.used =
		(uint64_t)llround(phase == FINDING_OVER ? memory->uses.last[worst] : used[worst]);
	/* The busiest second of the last minute is near the budget, not this one. */
	if (!is_over) {
		finding->worst = finding->use;
		finding->use.used = (uint64_t)llround(memory->uses.last[worst]);
	}
	/* Seconds over the budget since it began, as the sensor counts them. */
	open = finding_find(known->input, finding->slug, &finding->instance);
	if (is_over)
		finding->use.hits = memory->over_lately -
				    (open && open->condition == finding->condition
						    ? MIN(open->times, memory->over_lately)
						    : 0);
	add_budget_message(finding, known, worst, used,
		!memory->upper_bound ? ""
		: is_over            ? "of one address"
				     : "of all network interfaces together",
		second);
	add_second_users(finding, second, worst);
	add_budget_hint(finding, known);
}

/* Adds the client that is hit most; per_second is what it loses. */
static void add_client(struct finding *finding, const struct dns_user *user)
{
	struct limit_user client = {.workload = user->workload,
		.used = MAX((uint64_t)llround(user->per_second), UINT64_C(1))};

	finding->knows = WHO_UNKNOWN;
	if (user->per_second <= 0)
		return;
	snprintf(client.detail, sizeof(client.detail), "%.3g/s", user->per_second);
	finding_user_add(finding, &client);
}

static void find_unanswered(const struct server_input *known)
{
	const struct dns_server_state *server = known->server;
	const struct dns_slot minute = dns_minute(server);
	static const struct dns_user nobody;
	struct finding *finding;

	if (!known->memory->unanswered)
		return;
	finding = find_of_server(known, DNS_UNANSWERED, REASON_UNANSWERED, NULL, FINDING_HAPPENS);
	if (!finding)
		return;
	finding->use.used = dns_lost(&minute);
	finding->use.max = minute.queries;
	finding->breaks = "lookups take seconds, or fail";
	finding_message(finding,
		"%" PRIu64 " of %" PRIu64 " %s%squeries of the last minute without an answer",
		dns_lost(&minute), minute.queries, dns_role_names[server->role],
		server->role == DNS_NO_ROLE ? "" : " ");
	add_client(finding, server->label ? &server->label->waiting : &nobody);
	finding_hint(finding, "ask it from the node: dig @%s . NS", server->name);
}

static void find_failing(const struct server_input *known)
{
	const struct dns_server_state *server = known->server;
	const struct dns_slot minute = dns_minute(server);
	static const struct dns_user nobody;
	uint64_t failures = dns_failures(minute.responses);
	uint64_t answers = dns_answers(minute.responses);
	char share[SHARE_MAX], codes[128];
	struct finding *finding;

	if (!known->memory->failing)
		return;
	finding = find_of_server(known, DNS_FAILING, REASON_FAILING, NULL, FINDING_HAPPENS);
	if (!finding)
		return;
	finding->use.used = failures;
	finding->use.max = answers;
	finding->breaks = "lookups fail, or are repeated";
	finding_message(finding,
		"%" PRIu64 " of %" PRIu64 " %s%sanswers of the last minute (%s) failed: %s",
		failures, answers, dns_role_names[server->role],
		server->role == DNS_NO_ROLE ? "" : " ",
		share_text((double)failures / (double)MAX(answers, UINT64_C(1)), share),
		list_failures(&minute, codes, sizeof(codes)));
	add_client(finding, server->label ? &server->label->failing : &nobody);
	finding_hint(
		finding, "ask it from the node: dig @%s . NS; then read its log", server->name);
}

static void find_crowd(const struct dns_memory *memory, const struct decide_input *input,
	struct proposal *proposal)
{
	struct finding *finding =
		memory->crowded
			? proposal_finding(proposal, input, &dns_conditions[DNS_FORWARDER_CROWDING],
				  REASON_SEVERAL_FORWARDERS, NULL, NULL, FINDING_HAPPENS)
			: NULL;

	if (!finding)
		return;
	finding->use.used = (uint64_t)llround(memory->crowd_rate);
	finding_message(finding, "%u forwarders on this node send upstream %.3g queries/s in all",
		memory->n_crowding, memory->crowd_rate);
	for (unsigned i = 0; i < memory->n_forwarders; i++) {
		const struct dns_user *forwarder = &memory->forwarders[i];
		struct limit_user user = {.workload = forwarder->workload,
			.used = MAX((uint64_t)llround(forwarder->smooth), UINT64_C(1))};

		if (dns_is_node_cache(&forwarder->workload) || forwarder->smooth < FORWARDER_ENDS)
			continue;
		snprintf(user.detail, sizeof(user.detail), "%.3g/s", forwarder->smooth);
		finding_user_add(finding, &user);
	}
	finding_hint(finding,
		"a topology spread constraint or anti-affinity puts them on several nodes");
}

void dns_memory_clear(void *data)
{
	struct dns_memory *memory = data;

	for (size_t i = 0; i < memory->n; i++)
		free(memory->servers[i].over_second);
	free(memory->servers);
}

static void judge_conditions(bool watched, bool any_budget, struct proposal *proposal)
{
	const enum reason budget = any_budget ? REASON_WITHIN_BUDGET : REASON_NO_BUDGET;
	const struct condition_reading judged[DNS_CONDITIONS] = {
		[DNS_BUDGET_PRESSURE] = {.reason = budget},
		[DNS_BUDGET_EXCEEDED] = {.reason = budget},
		[DNS_UNANSWERED] = {.reason = REASON_ALL_ANSWERED},
		[DNS_FAILING] = {.reason = REASON_FEW_FAILURES},
		[DNS_FORWARDER_CROWDING] = {.reason = REASON_FEW_FORWARDERS},
	};

	for (int i = 0; i < DNS_CONDITIONS; i++) {
		struct condition_reading *reading =
			proposal_condition(proposal, &dns_conditions[i], judged[i].reason);

		if (!watched)
			condition_unknown(reading, REASON_NOT_WATCHED);
	}
}

void dns_decide(
	const void *self, const struct decide_input *input, void *data, struct proposal *proposal)
{
	const struct dns_sensor *sensor = self;
	const struct dns_seen *seen = &sensor->seen;
	struct dns_memory *memory = data;
	const uint64_t now = input->now_us;
	bool any_budget = false;

	proposal_lack(proposal, LACK_BPF, sensor->why);
	for (size_t i = 0; seen->watched && i < seen->table.n; i++) {
		const struct dns_server_state *server = seen->table.servers[i];
		struct dns_server_memory *known = memory_of(memory, i, &server->address);
		const struct server_input all = {seen, server, known, input, proposal};

		remember(sensor, server, known, now);
		any_budget = any_budget || dns_budget_is_set(&server->budget);
		if (dns_budget_is_set(&server->budget) && server->label)
			add_limits(server, known, now, proposal);
		find_budget(&all);
		find_unanswered(&all);
		find_failing(&all);
	}
	if (seen->watched) {
		/* The rest belongs to removed servers. */
		while (memory->n > seen->table.n)
			free(memory->servers[--memory->n].over_second);
		list_forwarders(seen, memory);
		remember_crowd(memory, now);
		find_crowd(memory, input, proposal);
	}
	judge_conditions(seen->watched, any_budget, proposal);
}
