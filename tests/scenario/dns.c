/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/dns/dns.h"

#define SENDS_MAX 64

/* Queries to one server, or link-local packets, evenly from begin to end. */
struct sending {
	struct dns_server_state *server; /* NULL: link-local packets, */
	unsigned sender;                 /* from this address of the node */
	uint64_t begin_ns, end_ns, n, sent;
};

struct replay {
	struct dns_sensor sensor; /* configuration, roles and counts */
	struct dns_memory memory;
	struct sending sendings[SENDS_MAX];
	size_t n_sendings;
	uint64_t uplinks;
	uint64_t ticked_us; /* the last poll */
};

static bool parse_address(struct scenario *scenario, struct dns_address *address)
{
	const char *word = scenario_word(scenario);

	return word && dns_address_parse(word, address);
}

/* "1500 since 4300": 1500 queries, evenly from this millisecond until now. */
static bool parse_send(
	struct scenario *scenario, struct replay *replay, struct dns_server_state *server)
{
	struct sending *sending = &replay->sendings[replay->n_sendings];
	uint64_t n, since;

	if (replay->n_sendings == SENDS_MAX || !scenario_number(scenario, &n) ||
		!scenario_is(scenario, "since") || !scenario_number(scenario, &since))
		return false;
	*sending = (struct sending){.server = server,
		.begin_ns = since * 1000000,
		.end_ns = scenario->now_us * 1000,
		.n = n};
	replay->n_sendings++;
	return sending->begin_ns < sending->end_ns && since * 1000 >= replay->ticked_us;
}

/* "pod kube-system coredns-x 200 [serves]". */
static bool parse_user(struct scenario *scenario, struct dns_label *label)
{
	static const char *const kinds[] = {"host", "pod", "container", "unit"};
	struct dns_user user = {0};
	uint64_t rate;
	int kind = 0;

	while (kind < 4 && !scenario_is(scenario, kinds[kind]))
		kind++;
	user.workload.kind = (enum workload_kind)kind;
	if (kind == 4 || label->n_users == DNS_TOP ||
		!scenario_value(
			scenario, user.workload.namespace, sizeof(user.workload.namespace)) ||
		!scenario_value(scenario, user.workload.name, sizeof(user.workload.name)) ||
		!scenario_number(scenario, &rate))
		return false;
	user.per_second = user.smooth = (double)rate;
	user.serves = scenario_is(scenario, "serves");
	if (scenario_is(scenario, "failing")) {
		user.failures = (double)rate;
		label->failing = user;
	}
	label->users[label->n_users++] = user;
	return true;
}

/* "answers servfail 20". */
static bool parse_answers(
	struct scenario *scenario, struct replay *replay, struct dns_server_state *server)
{
	static const char *const codes[DNS_RCODES] = {
		"noerror", "formerr", "servfail", "nxdomain", "notimp", "refused", "other"};
	struct dns_counters more = {0};
	uint64_t number;
	int code = 0;

	while (code < DNS_RCODES && !scenario_is(scenario, codes[code]))
		code++;
	if (code == DNS_RCODES || !scenario_number(scenario, &number))
		return false;
	more.responses[code] = number;
	dns_server_add(&replay->sensor.seen.table, server, &more, scenario->now_us);
	return true;
}

static bool parse_part(
	struct scenario *scenario, struct replay *replay, struct dns_server_state *server)
{
	uint64_t number;

	if (scenario_is(scenario, "send"))
		return parse_send(scenario, replay, server);
	if (scenario_is(scenario, "user"))
		return parse_user(scenario, server->label);
	if (scenario_is(scenario, "no-users")) {
		server->label->n_users = 0;
		return true;
	}
	if (scenario_is(scenario, "pending")) {
		if (!scenario_number(scenario, &server->pending))
			return false;
		server->pending_peak = server->pending;
		return true;
	}
	if (scenario_is(scenario, "cluster-answers")) {
		if (!scenario_number(scenario, &number))
			return false;
		server->totals.counters.cluster_answers = number;
		return true;
	}
	if (scenario_is(scenario, "answers"))
		return parse_answers(scenario, replay, server);
	if (!scenario_is(scenario, "unanswered") || !scenario_number(scenario, &number))
		return false;
	dns_minute_pass(server, scenario->now_us);
	dns_server_add_ends(&replay->sensor.seen.table, server,
		&(struct dns_ends){.unanswered = number}, scenario->now_us - DNS_TIMEOUT_NS / 1000);
	return true;
}

/* "send 900 since 10000 [other]": other is another address of the node. */
static bool parse_link_local(struct scenario *scenario, void *base)
{
	struct replay *replay = base;

	if (!scenario_is(scenario, "send") || !parse_send(scenario, replay, NULL))
		return false;
	replay->sendings[replay->n_sendings - 1].sender = scenario_is(scenario, "other");
	return true;
}

static bool parse_server(struct scenario *scenario, void *base)
{
	struct replay *replay = base;
	struct dns_server_state *server;
	struct dns_address address;

	if (!parse_address(scenario, &address))
		return false;
	server = dns_server_get(&replay->sensor.seen.table, &address);
	if (!server)
		return false;
	dns_set_role(&replay->sensor.config, &replay->sensor.facts, server);
	dns_label_claim(&replay->sensor.seen.table, server, 0);
	while (scenario->next < scenario->n_words)
		if (!parse_part(scenario, replay, server))
			return false;
	return true;
}

static const struct scenario_word at_words[] = {
	{.word = "look"},
	WORD_CALL("link-local", parse_link_local),
	WORD_CALL("server", parse_server),
	{0},
};

static bool parse_budget(struct scenario *scenario, void *base)
{
	struct dns_config *config = &((struct replay *)base)->sensor.config;
	struct dns_budget budget = {.source = "config"};
	struct dns_address address = {0};
	bool automatic = scenario_is(scenario, "auto");

	if (!automatic && !parse_address(scenario, &address))
		return false;
	while (scenario->next < scenario->n_words) {
		int i = 0;

		while (i < DNS_NUMBERS && !scenario_is(scenario, dns_numbers[i].key))
			i++;
		if (i == DNS_NUMBERS || !scenario_number(scenario, &budget.max[i]))
			return false;
	}
	if (automatic) {
		config->own = budget;
		return config->budget_auto = true;
	}
	config->budgets[config->n_budgets].server = address;
	config->budgets[config->n_budgets++].budget = budget;
	return true;
}

static bool parse_listed(struct scenario *scenario, void *base)
{
	struct dns_facts *facts = &((struct replay *)base)->sensor.facts;

	return parse_address(scenario, &facts->servers[facts->n_servers++]);
}

static bool parse_cluster(struct scenario *scenario, void *base)
{
	struct dns_config *config = &((struct replay *)base)->sensor.config;

	return parse_address(scenario, &config->cluster[config->n_cluster++]);
}

static const struct scenario_word config[] = {
	WORD_CONST("unwatched", struct replay, sensor.seen.watched, false),
	WORD_TEXT("cloud", struct replay, sensor.facts.cloud),
	WORD_CALL("budget", parse_budget),
	WORD_CONST("no-budgets", struct replay, sensor.config.budget_auto, false),
	WORD_CALL("listed", parse_listed),
	WORD_NUMBER("uplinks", struct replay, uplinks),
	WORD_CALL("cluster", parse_cluster),
	{0},
};

/* Counts the queries until this moment. */
static void send_until(struct replay *replay, uint64_t now_ns)
{
	for (size_t i = 0; i < replay->n_sendings; i++) {
		struct sending *sending = &replay->sendings[i];
		uint64_t length = sending->end_ns - sending->begin_ns, at, n = 0;
		struct dns_seen *seen = &replay->sensor.seen;
		uint32_t *bins = sending->server ? sending->server->label->queries.fresh
						 : seen->link_local.fresh;

		while (sending->sent < sending->n &&
			(at = sending->begin_ns + length * sending->sent / sending->n) < now_ns) {
			bins[at / DNS_BIN_NS % DNS_BINS]++;
			if (!sending->server)
				seen->senders[sending->sender]
					.seconds.fresh[at / DNS_BIN_NS % DNS_BINS]++;
			sending->sent++;
			n++;
		}
		if (sending->server)
			dns_server_add(&seen->table, sending->server,
				&(struct dns_counters){.queries[DNS_UDP] = n}, now_ns / 1000);
	}
}

/* The users of the last reading sent the queries of a new second. */
static void name_seconds(struct dns_label *label)
{
	for (size_t i = 0; i < DNS_SECONDS; i++) {
		struct dns_second *second = &label->seconds[i];

		if (second->known || second->found_us == 0)
			continue;
		second->n_users = MIN(label->n_users, (unsigned)LIMIT_TOP_MAX);
		memcpy(second->users, label->users, second->n_users * sizeof(*label->users));
		qsort(second->users, second->n_users, sizeof(second->users[0]), dns_user_by_rate);
		second->known = true;
	}
}

static void tick(struct replay *replay, struct decide_input *input, struct proposal *proposal)
{
	struct dns_server_table *table = &replay->sensor.seen.table;
	uint64_t now_ns = input->now_us * 1000;

	send_until(replay, now_ns);
	for (size_t i = 0; i < table->n; i++) {
		struct dns_server_state *server = table->servers[i];
		uint64_t qps = server->budget.sustained ? 0 : server->budget.max[DNS_QUERIES];

		dns_set_role(&replay->sensor.config, &replay->sensor.facts, server);
		dns_minute_pass(server, input->now_us);
		dns_seconds_update(&server->label->queries, now_ns, qps);
	}
	dns_seconds_update(&replay->sensor.seen.link_local, now_ns, 1024);
	replay->sensor.seen.n_senders = 2;
	replay->sensor.facts.uplinks = (unsigned)replay->uplinks;
	for (size_t i = 0; i < 2; i++)
		dns_seconds_update(&replay->sensor.seen.senders[i].seconds, now_ns, 1024);
	for (size_t i = 0; i < table->n; i++) {
		dns_second_observe(&replay->sensor.seen, table->servers[i], input->now_us);
		name_seconds(table->servers[i]->label);
	}
	replay->ticked_us = input->now_us;
	proposal_clear(proposal);
	dns_decide(&replay->sensor, input, &replay->memory, proposal);
}

/* Polls once a second like the agent, until this moment. */
static void decide(void *self, const struct decide_input *input, struct proposal *proposal)
{
	struct replay *replay = self;
	struct decide_input moment = *input;

	for (moment.now_us = replay->ticked_us + USEC_PER_SEC;
		replay->ticked_us > 0 && moment.now_us < input->now_us;
		moment.now_us += USEC_PER_SEC)
		tick(replay, &moment, proposal);
	moment.now_us = input->now_us;
	tick(replay, &moment, proposal);
}

static void begin(void *self)
{
	struct replay *replay = self;

	replay->sensor.config.budget_auto = true;
	replay->sensor.seen.watched = true;
	replay->uplinks = 1;
}

static void end(void *self, void *)
{
	struct replay *replay = self;

	dns_memory_clear(&replay->memory);
	dns_server_table_clear(&replay->sensor.seen.table);
}

const struct scenario_tuner dns_scenario = {
	.ops = &dns_tuner,
	.size = sizeof(struct replay),
	.at = at_words,
	.config = config,
	.open = begin,
	.close = end,
	.decide = decide,
};
