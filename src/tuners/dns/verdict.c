/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

/*
 * The users of the second that matters, then those of now. With "other" they add up to all queries
 * to the server and to the queries, or packets, of that second.
 */
static void add_users(
	cJSON *parent, const struct dns_server_state *server, const struct dns_second *second)
{
	static const struct dns_second none;
	const struct dns_label *label = server->label;
	cJSON *array = json_array(parent, "top");
	double all = (double)dns_queries(&label->reported), rate = server->queries.last, rest;

	second = second ? second : &none;
	rest = dns_second_total(second);
	for (unsigned i = 0; i < second->n_users + label->n_users; i++) {
		const bool first = i < second->n_users;
		const struct dns_user *user =
			first ? &second->users[i] : &label->users[i - second->n_users];
		const struct dns_user *now =
			dns_user_find(label->users, label->n_users, &user->workload);
		double queries = (double)(now ? now : user)->queries, in_second = 0;
		cJSON *object;

		if (cJSON_GetArraySize(array) == LIMIT_TOP_MAX ||
			(!first && dns_user_find(second->users, second->n_users, &user->workload)))
			continue;
		if (first)
			in_second = user->per_second;
		object = json_append(array);
		workload_json(object, &user->workload);
		JSON_NUMBERS(object, {"queries", queries},
			{"queries_per_second", now ? now->per_second : 0},
			{"in_second", in_second});
		all -= queries;
		rate -= now ? now->per_second : 0;
		rest -= in_second;
	}
	JSON_NUMBERS(json_object(parent, "other"), {"queries", MAX(all, 0)},
		{"queries_per_second", MAX(rate, 0)}, {"in_second", MAX(rest, 0)});
}

static void add_verdict(cJSON *object, const struct dns_server_memory *memory)
{
	static const char *const words[DNS_CONDITIONS + 1] = {
		[DNS_BUDGET_EXCEEDED] = "over-budget",
		[DNS_FAILING] = "failing",
		[DNS_UNANSWERED] = "unanswered",
		[DNS_BUDGET_PRESSURE] = "near-budget",
		[DNS_CONDITIONS] = "ok",
	};
	int verdict = dns_verdict(memory);
	const struct condition_type *type = &dns_conditions[verdict];

	json_text(object, "verdict", words[verdict]);
	json_text(object, "severity",
		verdict == DNS_CONDITIONS ? words[verdict] : severity_names[type->severity]);
	json_text(object, "condition", verdict == DNS_CONDITIONS ? "" : type->name);
}

static void add_second(cJSON *parent, const struct dns_second *second)
{
	cJSON *object = json_object(parent, "second");
	uint64_t age = now_us() - second->end * (DNS_BIN_NS / 1000);

	json_time(object, "end", realtime_us() - age);
	JSON_NUMBERS(object, {"queries", second->queries}, {"packets", second->packets});
	json_text(object, "counts", second->of_packets ? "packets" : "queries");
}

void dns_add_verdict(struct cJSON *object, const struct dns_server_state *server,
	const struct dns_server_memory *memory, uint64_t now)
{
	const struct dns_second *second = dns_second_that_matters(server, memory, now);
	const struct dns_slot minute = dns_minute(server);

	JSON_NUMBERS(object, {"minute_queries", (double)minute.queries},
		{"minute_unanswered", (double)minute.unanswered},
		{"minute_responses", (double)dns_answers(&minute)},
		{"minute_failed", (double)dns_failures(&minute)},
		{"over_budget_seconds", (double)memory->over},
		{"over_lately_seconds", (double)memory->over_lately});
	add_verdict(object, memory);
	if (server->label->failing.failures > 0)
		workload_json(json_object(object, "failing"), &server->label->failing.workload);
	if (second)
		add_second(object, second);
	else
		json_null(object, "second");
	add_users(object, server, second);
}
