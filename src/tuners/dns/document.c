/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "base/json.h"
#include "base/util.h"

#include <stdio.h>
#include <stdlib.h>

const char *const dns_rcode_names[DNS_RCODES] = {
	[DNS_NOERROR] = "NOERROR",
	[DNS_FORMERR] = "FORMERR",
	[DNS_SERVFAIL] = "SERVFAIL",
	[DNS_NXDOMAIN] = "NXDOMAIN",
	[DNS_NOTIMP] = "NOTIMP",
	[DNS_REFUSED] = "REFUSED",
	[DNS_RCODE_OTHER] = "other",
};

/* IANA's DNS parameters; RFC 3597 for the rest. */
static const char *type_name(uint32_t type, char text[static 16])
{
	static const struct {
		uint32_t type;
		const char *name;
	} known[] = {{1, "A"}, {2, "NS"}, {5, "CNAME"}, {6, "SOA"}, {12, "PTR"}, {15, "MX"},
		{16, "TXT"}, {28, "AAAA"}, {33, "SRV"}, {64, "SVCB"}, {65, "HTTPS"}, {255, "ANY"}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].type == type)
			return known[i].name;
	snprintf(text, 16, "TYPE%u", type);
	return text;
}

static void add_budget(struct json *json, cJSON *parent, const struct dns_seen *seen,
	const struct dns_server_state *server)
{
	const struct dns_budget *budget = &server->budget;
	cJSON *object;

	if (!dns_budget_is_set(&server->budget)) {
		json_null(json, parent, "budget");
		return;
	}
	object = json_object(json, parent, "budget");
	JSON_NUMBERS(json, object, {"qps", (double)budget->qps}, {"pps", (double)budget->pps},
		{"pending", (double)budget->pending});
	json_text(json, object, "source", budget->source);
	json_number(json, parent, "budget_used", dns_budget_used(seen, server));
	json_text(
		json, parent, "budget_bound", dns_is_upper_bound(seen, server) ? "upper" : "exact");
}

/* Within a bucket times are taken to be spread evenly. */
static double quantile(const struct dns_totals *totals, double share)
{
	double wanted = share * (double)totals->answered, below = 0;

	for (int i = 0; i < DNS_LATENCY_BUCKETS; i++) {
		double upper = (double)(UINT64_C(1) << (i + DNS_LATENCY_SHIFT)) / 1e9;
		double lower = i == 0 ? 0 : upper / 2, count = (double)totals->latency[i];

		if (count > 0 && below + count >= wanted)
			return i == DNS_LATENCY_BUCKETS - 1
				       ? lower
				       : lower + (upper - lower) * (wanted - below) / count;
		below += count;
	}
	return 0;
}

static void add_latency(struct json *json, cJSON *parent, const struct dns_totals *totals)
{
	if (totals->answered == 0) {
		json_null(json, parent, "latency");
		return;
	}
	JSON_NUMBERS(json, json_object(json, parent, "latency"),
		{"mean", (double)totals->latency_ns / (double)totals->answered / 1e9},
		{"p50", quantile(totals, 0.50)}, {"p99", quantile(totals, 0.99)});
}

static int by_queries(const void *a, const void *b)
{
	const struct dns_user *x = *(const struct dns_user *const *)a;
	const struct dns_user *y = *(const struct dns_user *const *)b;

	return (x->queries < y->queries) - (x->queries > y->queries);
}

/* The users and the rest add up to all queries to the server. */
static void add_users(struct json *json, cJSON *parent, const struct dns_label *label)
{
	cJSON *array = json_array(json, parent, "top");
	uint64_t listed = 0, all = dns_queries(&label->server->totals);
	const struct dns_user *users[DNS_TOP];
	double rate = label->server->queries.last;

	for (unsigned i = 0; i < label->n_users; i++)
		users[i] = &label->users[i];
	qsort(users, label->n_users, sizeof(users[0]), by_queries);
	for (unsigned i = 0; i < MIN(label->n_users, LIMIT_TOP_MAX); i++) {
		cJSON *user = json_append(json, array);

		workload_json(json, user, &users[i]->workload);
		JSON_NUMBERS(json, user, {"queries", (double)users[i]->queries},
			{"queries_per_second", users[i]->per_second});
		listed += users[i]->queries;
		rate -= users[i]->per_second;
	}
	JSON_NUMBERS(json, json_object(json, parent, "other"),
		{"queries", (double)(all - MIN(listed, all))},
		{"queries_per_second", MAX(rate, 0)});
}

static void add_names(struct json *json, cJSON *parent, const struct dns_label *label)
{
	cJSON *array = json_array(json, parent, "names");
	const struct dns_name *top[DNS_NAMES_TOP];
	size_t n = label->names ? dns_names_top(label->names, top) : 0;
	double sum = 0, rate = (double)dns_minute(label->server).queries / 60;

	for (size_t i = 0; label->names && i < label->names->n; i++)
		sum += label->names->names[i].count;
	for (size_t i = 0; i < n; i++) {
		cJSON *name = json_append(json, array);
		char text[16];

		json_text(json, name, "name", top[i]->text);
		json_text(json, name, "type", type_name(top[i]->type, text));
		JSON_NUMBERS(json, name, {"samples", top[i]->count}, {"share", top[i]->count / sum},
			{"queries_per_second", top[i]->count / sum * rate});
	}
}

static void add_counts(struct json *json, cJSON *object, const struct dns_totals *totals)
{
	cJSON *queries = json_object(json, object, "queries");
	cJSON *responses = json_object(json, object, "responses");

	JSON_NUMBERS(json, queries, {"udp", (double)totals->queries[DNS_UDP]},
		{"tcp", (double)totals->queries[DNS_TCP]});
	for (int code = 0; code < DNS_RCODES; code++)
		json_number(
			json, responses, dns_rcode_names[code], (double)totals->responses[code]);
	JSON_NUMBERS(json, object, {"retransmissions", (double)totals->retransmissions},
		{"answered", (double)totals->answered}, {"unanswered", (double)totals->unanswered},
		{"late", (double)totals->late}, {"evicted", (double)totals->evicted},
		{"truncated", (double)totals->truncated}, {"malformed", (double)totals->malformed},
		{"edns", (double)totals->edns}, {"packets", (double)totals->packets},
		{"dot_packets", (double)totals->dot_packets});
	add_latency(json, object, totals);
}

static void add_server(struct json *json, cJSON *array, const struct dns_report *report,
	const struct dns_label *label)
{
	const struct dns_server_state *server = label->server;
	cJSON *object = json_append(json, array);

	json_text(json, object, "server", server->name);
	json_text(json, object, "role", dns_role_names[server->role]);
	add_counts(json, object, &server->totals);
	JSON_NUMBERS(json, object, {"pending", (double)server->pending},
		{"queries_per_second", server->queries.last},
		{"peak", dns_seconds_peak(&server->queries)});
	if (server->packets)
		JSON_NUMBERS(json, object, {"packets_per_second", server->packets->last},
			{"peak_packets", dns_seconds_peak(server->packets)});
	JSON_NUMBERS(json, object, {"minute_queries", (double)dns_minute(server).queries},
		{"minute_unanswered", (double)dns_minute(server).unanswered},
		{"over_budget_seconds", (double)dns_over_budget_seconds(report->memory, server)});
	add_budget(json, object, report->seen, server);
	add_users(json, object, label);
	if (report->names && report->trusted)
		add_names(json, object, label);
}

/* The busiest first. */
static int by_busyness(const void *a, const void *b)
{
	const struct dns_server_state *one = (*(const struct dns_label *const *)a)->server;
	const struct dns_server_state *other = (*(const struct dns_label *const *)b)->server;
	uint64_t x = dns_minute(one).queries, y = dns_minute(other).queries;

	if (x == y) {
		x = dns_queries(&one->totals);
		y = dns_queries(&other->totals);
	}
	return (x < y) - (x > y);
}

static void add_servers(struct json *json, cJSON *array, const struct dns_report *report)
{
	const struct dns_label *sorted[DNS_LABELS];
	size_t n = 0;

	for (size_t i = 0; i < DNS_LABELS; i++)
		if (report->seen->table->labels[i].server)
			sorted[n++] = &report->seen->table->labels[i];
	qsort(sorted, n, sizeof(sorted[0]), by_busyness);
	for (size_t i = 0; i < n; i++)
		add_server(json, array, report, sorted[i]);
}

/* All servers without an element of their own. */
static void add_others(struct json *json, cJSON *array, const struct dns_server_table *table)
{
	const struct dns_others others = dns_sum_others(table);
	double queries = (double)dns_queries(&others.totals);
	cJSON *object;

	if (queries == 0 && others.servers == 0)
		return;
	object = json_append(json, array);
	json_text(json, object, "server", "other");
	json_text(json, object, "role", dns_role_names[DNS_UPSTREAM]);
	json_number(json, object, "servers", (double)others.servers);
	add_counts(json, object, &others.totals);
	json_number(json, object, "pending", (double)others.pending);
	json_null(json, object, "budget");
	json_array(json, object, "top");
	json_number(json, json_object(json, object, "other"), "queries", queries);
}

/* What search lists cost, and how to avoid it. */
static void add_search(struct json *json, const struct dns_seen *seen)
{
	static const char *const advice[DNS_ROLES] = {
		[DNS_LOCAL] = "dns-search-local",
		[DNS_CLUSTER] = "dns-search-cluster",
		[DNS_UPSTREAM] = "dns-search-upstream",
	};
	cJSON *array = json_array(json, json->root, "expansions");

	for (int role = 0; role < DNS_ROLES; role++) {
		const struct dns_search *search = &seen->search[role];
		cJSON *object = json_append(json, array);

		json_text(json, object, "role", dns_role_names[role]);
		JSON_NUMBERS(json, object, {"queries", (double)search->queries},
			{"failed", (double)search->failed},
			{"queries_per_second", search->queries_per_second},
			{"failed_per_second", search->failed_per_second});
		json_text(json, object, "explain", advice[role]);
	}
}

static void add_forwarders(struct json *json, const struct dns_seen *seen)
{
	cJSON *array = json_array(json, json->root, "forwarders");

	for (unsigned i = 0; i < seen->n_forwarders; i++) {
		cJSON *object = json_append(json, array);

		workload_json(json, object, &seen->forwarders[i].workload);
		json_number(json, object, "per_second", seen->forwarders[i].per_second);
		json_bool(json, object, "expected", seen->forwarders[i].expected);
	}
}

/* What shares one budget of packets on AWS, and from which addresses it came. */
static void add_link_local(struct json *json, const struct dns_seen *seen)
{
	cJSON *object, *array;

	if (!seen->link_local) {
		json_null(json, json->root, "link_local");
		return;
	}
	object = json_object(json, json->root, "link_local");
	JSON_NUMBERS(json, object, {"packets_per_second", seen->link_local->last},
		{"peak_packets", dns_seconds_peak(seen->link_local)}, {"uplinks", seen->uplinks});
	array = json_array(json, object, "sources");
	for (unsigned i = 0; i < seen->n_senders; i++) {
		cJSON *source = json_append(json, array);
		char text[DNS_ADDRESS_TEXT];

		dns_address_text(&seen->senders[i].source, text);
		json_text(json, source, "address", text);
		JSON_NUMBERS(json, source, {"packets", (double)seen->senders[i].packets},
			{"peak_packets", dns_seconds_peak(&seen->senders[i].seconds)});
	}
}

struct cJSON *dns_make_document(const struct dns_report *report)
{
	struct json json;
	cJSON *lost, *servers;

	if (!report->seen->watched)
		return cJSON_CreateNull();
	json_begin(&json);
	json_text(&json, json.root, "names", report->names ? "socket" : "off");
	json_text(&json, json.root, "cloud", report->cloud);
	json_number(&json, json.root, "timeout", (double)DNS_TIMEOUT_NS / 1e9);
	lost = json_object(&json, json.root, "lost");
	for (size_t i = 0; i < DNS_LOSSES && report->losses[i].name; i++)
		json_number(&json, lost, report->losses[i].name, (double)report->losses[i].count);
	add_search(&json, report->seen);
	add_forwarders(&json, report->seen);
	add_link_local(&json, report->seen);
	servers = json_array(&json, json.root, "servers");
	add_servers(&json, servers, report);
	add_others(&json, servers, report->seen->table);
	return json_take(&json);
}
