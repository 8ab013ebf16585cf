/* SPDX-License-Identifier: Apache-2.0 */

/* The document, the metrics, and then what the page and `headroom top` show of the document. */

#include "tuners/dns/dns.h"

#include "base/exposition.h"
#include "base/json.h"
#include "base/text.h"

/* Indices of dns_latency_bounds in the histogram: 1 ms, 5 ms, ... 1 s, 5 s. */
static const unsigned latency_bounds[] = {3, 5, 7, 9, 11, 12, 14};

/* Workloads of each server with a series. */
#define USERS_EXPORTED 5

static const char *const rcode_names[DNS_RCODES] = {[DNS_NOERROR] = "NOERROR",
	[DNS_FORMERR] = "FORMERR",
	[DNS_SERVFAIL] = "SERVFAIL",
	[DNS_NXDOMAIN] = "NXDOMAIN",
	[DNS_NOTIMP] = "NOTIMP",
	[DNS_REFUSED] = "REFUSED",
	[DNS_RCODE_OTHER] = "other"};

/* Incomplete counts since the start; a row without a key ends them. */
struct losses {
	struct json_number rows[10];
};

static struct losses losses_of(const struct dns_sensor *sensor)
{
	static const struct dns_control none;
	const struct dns_control *control =
		sensor->kernel ? dns_kernel_control(sensor->kernel) : &none;

	return (struct losses){{
		{"servers", (double)sensor->seen.table.lost},
		{"pairs", (double)control->lost_pairs},
		{"pending", (double)sensor->seen.table.not_followed},
		{"polls", (double)sensor->coarse},
		{"streams", (double)control->resyncs},
		{"uninspected", (double)control->uninspected},
		{"unmatched", (double)control->unmatched},
		{"fragments", (double)control->fragments},
		{"malformed", (double)sensor->seen.table.malformed},
	}};
}

/* Zero before the first decision. */
static const struct dns_server_memory *memory_of(
	const struct dns_memory *memory, const struct dns_server_state *server)
{
	static const struct dns_server_memory none;

	for (size_t i = 0; i < memory->n; i++)
		if (dns_address_equal(&memory->servers[i].address, &server->address))
			return &memory->servers[i];
	return &none;
}

static void add_counts(cJSON *object, const struct dns_totals *totals)
{
	const struct dns_counters *counters = &totals->counters;
	cJSON *responses;

	JSON_NUMBERS(json_object(object, "queries"), {"udp", (double)counters->queries[DNS_UDP]},
		{"tcp", (double)counters->queries[DNS_TCP]});
	responses = json_object(object, "responses");
	for (int code = 0; code < DNS_RCODES; code++)
		json_number(responses, rcode_names[code], (double)counters->responses[code]);
	JSON_NUMBERS(object, {"retransmissions", (double)counters->repeated},
		{"answered", (double)totals->answered},
		{"unanswered", (double)totals->ends.unanswered},
		{"unknown", (double)totals->ends.not_followed},
		{"superseded", (double)totals->ends.superseded}, {"late", (double)counters->late},
		{"truncated", (double)counters->truncated},
		{"malformed", (double)counters->malformed}, {"edns", (double)counters->edns},
		{"packets", (double)totals->packets},
		{"dot_packets", (double)counters->dot_packets});
	if (totals->answered == 0)
		json_null(object, "latency");
	else
		JSON_NUMBERS(json_object(object, "latency"),
			{"mean", (double)counters->latency_ns / (double)totals->answered / 1e9},
			{"p50", histogram_quantile(dns_latency_bounds, counters->latency,
					DNS_LATENCY_BUCKETS - 1, 0.50)},
			{"p99", histogram_quantile(dns_latency_bounds, counters->latency,
					DNS_LATENCY_BUCKETS - 1, 0.99)});
}

/*
 * The users of the second that matters, then the present users. With "other" they add up to all
 * queries to the server and to the queries, or packets, of that second.
 */
static void add_users(
	cJSON *parent, const struct dns_server_state *server, const struct dns_second *second)
{
	static const struct dns_second none;
	const struct dns_label *label = server->label;
	cJSON *array = json_array(parent, "top");
	double all = (double)dns_queries(&label->reported.counters),
	       rate = server->label->queries.last, rest;

	second = second ? second : &none;
	rest = second->used[second->number];
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

/* Nobody knows whether a server answers that has answered none of a few, or superseded, queries. */
static void add_verdict(
	cJSON *object, const struct dns_server_memory *memory, const struct dns_slot *minute)
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
	const bool unknown = verdict == DNS_CONDITIONS && dns_answers(minute->responses) == 0 &&
			     minute->ends.superseded + dns_lost(minute) > 0;

	json_text(object, "verdict", unknown ? "unknown" : words[verdict]);
	json_text(object, "severity",
		verdict == DNS_CONDITIONS ? words[verdict] : severity_names[type->severity]);
	json_text(object, "condition", verdict == DNS_CONDITIONS ? "" : type->name);
}

static void add_second(cJSON *parent, const struct dns_second *second)
{
	cJSON *object = json_object(parent, "second");
	uint64_t age = now_us() - second->end * (DNS_BIN_NS / 1000);

	json_time(object, "end", realtime_us() - age);
	for (int i = 0; i < DNS_NUMBERS; i++)
		json_number(object, dns_numbers[i].name, second->used[i]);
	json_text(object, "counts", dns_numbers[second->number].name);
}

static void add_state(cJSON *object, const struct dns_server_state *server,
	const struct dns_server_memory *memory, uint64_t now)
{
	const struct dns_second *second = dns_second_that_matters(server, memory, now);
	const struct dns_slot minute = dns_minute(server);

	JSON_NUMBERS(object, {"minute_queries", (double)minute.queries},
		{"minute_unanswered", (double)dns_lost(&minute)},
		{"minute_responses", (double)dns_answers(minute.responses)},
		{"minute_failed", (double)dns_failures(minute.responses)},
		{"over_budget_seconds", (double)memory->over},
		{"over_lately_seconds", (double)memory->over_lately});
	add_verdict(object, memory, &minute);
	if (server->label->failing.failures > 0)
		workload_json(json_object(object, "failing"), &server->label->failing.workload);
	if (second)
		add_second(object, second);
	else
		json_null(object, "second");
	add_users(object, server, second);
}

static void add_server(cJSON *array, const struct dns_server_state *server,
	const struct dns_server_memory *memory, uint64_t now, bool trusted)
{
	/* IANA's DNS parameters; RFC 3597 for the rest. */
	static const struct {
		uint32_t type;
		const char *name;
	} types[] = {{1, "A"}, {2, "NS"}, {5, "CNAME"}, {6, "SOA"}, {12, "PTR"}, {15, "MX"},
		{16, "TXT"}, {28, "AAAA"}, {33, "SRV"}, {64, "SVCB"}, {65, "HTTPS"}, {255, "ANY"}};
	const struct dns_slot minute = dns_minute(server);
	struct dns_name_count top[DNS_NAMES_TOP];
	double rate = (double)minute.queries / 60;
	uint64_t samples;
	size_t n;
	cJSON *object = json_append(array), *budget, *list;

	json_text(object, "server", server->name);
	json_text(object, "role", dns_role_names[server->role]);
	add_counts(object, &server->label->reported);
	JSON_NUMBERS(object, {"pending", (double)server->pending},
		{"queries_per_second", server->label->queries.last},
		{"peak", dns_seconds_peak(&server->label->queries)},
		{"packets_per_second", server->label->packets.last},
		{"peak_packets", dns_seconds_peak(&server->label->packets)},
		{"minute_unknown", (double)minute.ends.not_followed});
	history_json(object, &server->label->history);
	if (dns_budget_is_set(&server->budget)) {
		budget = json_object(object, "budget");
		for (int i = 0; i < DNS_NUMBERS; i++)
			json_number(budget, dns_numbers[i].key, (double)server->budget.max[i]);
		json_text(budget, "source", server->budget.source);
		json_number(object, "budget_used", memory->used);
		json_text(object, "budget_bound", memory->upper_bound ? "upper" : "exact");
	} else {
		json_null(object, "budget");
	}
	add_state(object, server, memory, now);
	if (!trusted)
		return;
	list = json_array(object, "names");
	n = dns_names_top(&server->label->names, top, &samples);
	for (size_t i = 0; i < n; i++) {
		cJSON *name = json_append(list);
		const double share = (double)top[i].count / (double)samples;
		char type[16] = "";

		if (top[i].type)
			snprintf(type, sizeof(type), "TYPE%u", top[i].type);
		for (size_t k = 0; k < ARRAY_SIZE(types); k++)
			if (types[k].type == top[i].type)
				set_text(type, types[k].name);
		json_text(name, "name", top[i].text);
		json_text(name, "type", type);
		JSON_NUMBERS(name, {"samples", top[i].count}, {"share", share},
			{"queries_per_second", share * rate});
	}
}

static double pending_of_others(const struct dns_server_table *table)
{
	double pending = 0;

	for (size_t i = 0; i < table->n; i++)
		pending += table->servers[i]->label ? 0 : (double)table->servers[i]->pending;
	return pending;
}

struct ranked {
	const struct dns_server_state *server;
	const struct dns_server_memory *memory;
};

/* Problems first, then the busiest. */
static int by_rank(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	const int verdicts[] = {dns_verdict(x->memory), dns_verdict(y->memory)};
	uint64_t first = dns_minute(x->server).queries, other = dns_minute(y->server).queries;

	if (verdicts[0] != verdicts[1])
		return verdicts[0] - verdicts[1];
	if (first == other) {
		first = dns_queries(&x->server->totals.counters);
		other = dns_queries(&y->server->totals.counters);
	}
	return (first < other) - (first > other);
}

static void add_servers(
	cJSON *root, const struct dns_sensor *sensor, const struct dns_memory *memory, bool trusted)
{
	const struct dns_server_table *table = &sensor->seen.table;
	double queries = (double)dns_queries(&table->others.counters), others = 0;
	cJSON *array = json_array(root, "servers"), *object;
	struct ranked ranked[DNS_LABELS];

	for (size_t i = 0; i < table->n_labels; i++)
		ranked[i] =
			(struct ranked){table->labelled[i], memory_of(memory, table->labelled[i])};
	qsort(ranked, table->n_labels, sizeof(ranked[0]), by_rank);
	for (size_t i = 0; i < table->n_labels; i++)
		add_server(array, ranked[i].server, ranked[i].memory, sensor->now_us,
			sensor->config.names && trusted);
	for (size_t i = 0; i < table->n; i++)
		others += !table->servers[i]->label &&
			  dns_queries(&table->servers[i]->totals.counters) > 0;
	if (queries == 0 && others == 0)
		return;
	object = json_append(array);
	json_text(object, "server", "other");
	json_text(object, "role", dns_role_names[DNS_NO_ROLE]);
	add_counts(object, &table->others);
	JSON_NUMBERS(object, {"servers", others}, {"pending", pending_of_others(table)});
	json_null(object, "budget");
	json_array(object, "top");
	json_number(json_object(object, "other"), "queries", queries);
}

/* The packets of the link-local budget beside DNS, by client. */
static void add_services(cJSON *root, const struct dns_seen *seen)
{
	cJSON *array = json_array(root, "services");

	for (int i = 0; i < DNS_SERVICES; i++) {
		const struct dns_service_state *service = &seen->services[i];
		double rate = service->seconds.last, rest = (double)service->packets;
		cJSON *object = json_append(array), *top;

		json_text(object, "service", dns_service_names[i]);
		JSON_NUMBERS(object, {"packets_per_second", rate},
			{"peak_packets", dns_seconds_peak(&service->seconds)},
			{"packets", (double)service->packets});
		top = json_array(object, "top");
		for (unsigned k = 0; k < service->n_users; k++) {
			const struct dns_user *user = &service->users[k];
			cJSON *client = json_append(top);

			workload_json(client, &user->workload);
			JSON_NUMBERS(client, {"packets_per_second", user->per_second},
				{"packets", (double)user->queries});
			rest -= (double)user->queries;
		}
		json_number(json_object(object, "other"), "packets", MAX(rest, 0));
	}
}

struct cJSON *dns_make_document(const void *self, const void *data, bool trusted)
{
	const struct dns_sensor *sensor = self;
	const struct dns_memory *memory = data;
	const struct dns_seen *seen = &sensor->seen;
	struct losses losses;
	cJSON *root, *array, *object;

	if (!seen->watched)
		return cJSON_CreateNull();
	root = cJSON_CreateObject();
	json_text(root, "names", sensor->config.names ? "socket" : "off");
	json_text(root, "cloud", sensor->facts.cloud);
	json_time(root, "since", sensor->since_us);
	json_number(root, "timeout", (double)DNS_TIMEOUT_NS / 1e9);
	losses = losses_of(sensor);
	json_numbers(json_object(root, "lost"), losses.rows);
	array = json_array(root, "expansions");
	for (int role = 0; role < DNS_ROLES; role++) {
		const struct dns_rate *search = seen->search[role];
		char advice[32];

		object = json_append(array);
		json_text(object, "role", dns_role_names[role]);
		JSON_NUMBERS(object, {"queries", (double)search[DNS_EXPANDED].n},
			{"failed", (double)search[DNS_EXPANDED_FAILED].n},
			{"queries_per_second", search[DNS_EXPANDED].per_second},
			{"failed_per_second", search[DNS_EXPANDED_FAILED].per_second},
			{"other_nxdomain_per_second", search[DNS_OTHER_NXDOMAIN].per_second});
		snprintf(advice, sizeof(advice), "dns-search-%s", dns_role_names[role]);
		json_text(object, "explain", advice);
	}
	array = json_array(root, "forwarders");
	for (unsigned i = 0; i < memory->n_forwarders; i++) {
		const struct workload *workload = &memory->forwarders[i].workload;

		object = json_append(array);
		workload_json(object, workload);
		json_number(object, "per_second", memory->forwarders[i].smooth);
		json_bool(object, "expected", dns_is_node_cache(workload));
	}
	if (dns_kernel_control(sensor->kernel)->n_watched > 0) {
		object = json_object(root, "link_local");
		JSON_NUMBERS(object, {"packets_per_second", seen->link_local.last},
			{"peak_packets", dns_seconds_peak(&seen->link_local)},
			{"uplinks", sensor->facts.uplinks});
		array = json_array(object, "sources");
		for (unsigned i = 0; i < MIN(seen->n_senders, DNS_TOP); i++) {
			char address[DNS_ADDRESS_TEXT];

			object = json_append(array);
			dns_address_text(&seen->senders[i].source, address);
			json_text(object, "address", address);
			JSON_NUMBERS(object, {"packets", (double)seen->senders[i].packets},
				{"peak_packets", dns_seconds_peak(&seen->senders[i].seconds)});
		}
	} else {
		json_null(root, "link_local");
	}
	if (seen->has_services)
		add_services(root, seen);
	else
		json_array(root, "services");
	add_servers(root, sensor, memory, trusted);
	return root;
}

/* Families with one sample for each server. */
static const char *const families[] = {"headroom_dns_retransmissions_total",
	"headroom_dns_unanswered_total", "headroom_dns_unknown_total",
	"headroom_dns_superseded_total", "headroom_dns_pending",
	"headroom_dns_peak_queries_per_second", "headroom_dns_budget_queries_per_second",
	"headroom_dns_over_budget_seconds_total"};

/* A server with a label, or all others. */
struct series {
	const char *name;
	const struct dns_server_state *server; /* NULL: the others */
	const struct dns_second *second;       /* that matters; NULL: none */
	const struct dns_totals *totals;
	double samples[ARRAY_SIZE(families)]; /* below 0: no sample */
};

/* No sample for 0. */
static double above_0(uint64_t number)
{
	return number > 0 ? (double)number : -1;
}

static size_t list_series(const struct dns_sensor *sensor, const struct dns_memory *memory,
	struct series series[static DNS_LABELS + 1])
{
	const struct dns_server_table *table = &sensor->seen.table;
	const struct dns_totals *others = &table->others;
	size_t n = 0;

	for (size_t i = 0; i < table->n_labels; i++) {
		const struct dns_server_state *server = table->labelled[i];
		const struct dns_totals *totals = &server->label->reported;
		const uint64_t *max = server->budget.max;
		uint64_t most = max[DNS_QUERIES] ? max[DNS_QUERIES] : max[DNS_PACKETS];
		const struct dns_server_memory *server_memory = memory_of(memory, server);

		/* A server with queries over TLS only has a series of packets only. */
		if (!server->pinned && dns_queries(&totals->counters) == 0 &&
			totals->counters.dot_packets > 0)
			continue;
		series[n++] = (struct series){server->name, server,
			dns_second_that_matters(server, server_memory, sensor->now_us), totals,
			{
				above_0(totals->counters.repeated),
				(double)totals->ends.unanswered,
				above_0(totals->ends.not_followed),
				above_0(totals->ends.superseded),
				(double)server->pending,
				dns_seconds_peak(&server->label->queries),
				above_0(most),
				dns_budget_is_set(&server->budget) ? (double)server_memory->over
								   : -1,
			}};
	}
	series[n++] = (struct series){"other", NULL, NULL, others,
		{(double)others->counters.repeated, (double)others->ends.unanswered,
			(double)others->ends.not_followed, (double)others->ends.superseded,
			pending_of_others(table)}};
	return n;
}

/* Families with several samples for each server. */
static void put_counts(struct metric_sink *sink, const struct series *series, size_t n)
{
	static const char *const transports[] = {[DNS_UDP] = "udp", [DNS_TCP] = "tcp"};
	const struct series *end = series + n, *shown;

	metric_family(sink, "headroom_dns_queries_total");
	for (shown = series; shown < end; shown++)
		for (int i = 0; i < DNS_TRANSPORTS; i++)
			if (shown->totals->counters.queries[i] > 0 ||
				(shown->server && i == DNS_UDP))
				metric_sample(sink, (double)shown->totals->counters.queries[i],
					shown->name,
					dns_role_names[shown->server ? shown->server->role
								     : DNS_NO_ROLE],
					transports[i], NULL);
	metric_family(sink, "headroom_dns_workload_queries_per_second");
	for (shown = series; shown < end; shown++) {
		struct limit_reading reading = {0};

		if (!shown->second)
			continue;
		reading.used = (uint64_t)shown->second->used[shown->second->number];
		set_text(reading.name, shown->name);
		dns_add_users(&reading, USERS_EXPORTED, shown->second->users,
			shown->second->n_users, false);
		metric_users(sink, &reading);
		free(reading.top);
	}
	metric_family(sink, "headroom_dns_responses_total");
	for (shown = series; shown < end; shown++)
		for (int code = 0; code < DNS_RCODES; code++)
			if (shown->totals->counters.responses[code] > 0)
				metric_sample(sink, (double)shown->totals->counters.responses[code],
					shown->name, rcode_names[code], NULL);
	metric_family(sink, "headroom_dns_latency_seconds");
	for (shown = series; shown < end; shown++) {
		double bounds[ARRAY_SIZE(latency_bounds)];
		uint64_t counts[ARRAY_SIZE(bounds) + 1] = {0};
		size_t bound = 0;

		if (!shown->server || shown->totals->answered == 0)
			continue;
		for (unsigned bucket = 0; bucket < DNS_LATENCY_BUCKETS; bucket++) {
			counts[bound] += shown->totals->counters.latency[bucket];
			if (bound < ARRAY_SIZE(bounds) && bucket == latency_bounds[bound])
				bounds[bound++] = (double)dns_latency_bounds[bucket] / 1e9;
		}
		metric_histogram(sink, bounds, counts, ARRAY_SIZE(bounds),
			(double)shown->totals->counters.latency_ns / 1e9, shown->name, NULL);
	}
	metric_family(sink, "headroom_dns_second_queries");
	for (shown = series; shown < end; shown++)
		if (shown->server && shown->server->label->queries.sum > 0)
			metric_histogram(sink, dns_second_bounds,
				shown->server->label->queries.counts, DNS_SECOND_BOUNDS,
				shown->server->label->queries.sum, shown->name, NULL);
}

void dns_put_metrics(const void *self, const void *memory, struct metric_sink *sink)
{
	const struct dns_sensor *sensor = self;
	const struct dns_server_table *table = &sensor->seen.table;
	struct series series[DNS_LABELS + 1];
	struct losses losses;
	size_t n;

	if (!sensor->seen.watched)
		return;
	n = list_series(sensor, memory, series);
	put_counts(sink, series, n);
	for (size_t family = 0; family < ARRAY_SIZE(families); family++) {
		metric_family(sink, families[family]);
		for (size_t i = 0; i < n; i++)
			if (series[i].samples[family] >= (series[i].server ? 0 : 1))
				metric_sample(
					sink, series[i].samples[family], series[i].name, NULL);
	}
	metric_family(sink, "headroom_dns_encrypted_packets_total");
	for (size_t i = 0; i < table->n_labels; i++) {
		double packets = (double)table->labelled[i]->label->reported.counters.dot_packets;

		if (packets > 0)
			metric_sample(sink, packets, table->labelled[i]->name, NULL);
	}
	if (table->others.counters.dot_packets > 0)
		metric_sample(sink, (double)table->others.counters.dot_packets, "other", NULL);
	metric_family(sink, "headroom_dns_search_expansions_total");
	for (int role = 0; role < DNS_ROLES; role++)
		if (sensor->seen.search[role][DNS_EXPANDED].n > 0)
			metric_sample(sink,
				(double)sensor->seen.search[role][DNS_EXPANDED_FAILED].n,
				dns_role_names[role], NULL);
	metric_family(sink, "headroom_dns_service_packets_total");
	for (int i = 0; i < DNS_SERVICES; i++)
		if (sensor->seen.has_services)
			metric_sample(sink, (double)sensor->seen.services[i].packets,
				dns_service_names[i], NULL);
	metric_family(sink, "headroom_dns_lost_total");
	losses = losses_of(sensor);
	for (const struct json_number *loss = losses.rows; loss->key; loss++)
		metric_sample(sink, loss->number, loss->key, NULL);
}

/* ---- the page and `headroom top` show the document ---- */

/* A number of the server's budget; 0 without one. */
static double budget_number(const cJSON *server, int i)
{
	char path[32];

	snprintf(path, sizeof(path), "budget/%s", dns_numbers[i].key);
	return json_number_at(server, path);
}

/* "1024", "200 pps": the first number of the budget. */
static void write_budget_short(const cJSON *server, char *text, size_t size)
{
	static const char *const briefs[DNS_NUMBERS] = {
		[DNS_PACKETS] = " pps", [DNS_PENDING] = " pend", [DNS_QUERIES] = ""};

	copy_text(text, size, "-");
	for (int i = DNS_NUMBERS - 1; i >= 0; i--)
		if (budget_number(server, i) > 0)
			snprintf(text, size, "%.0f%s", budget_number(server, i), briefs[i]);
}

/* "1000 queries/s, 200 pending". */
static void write_budget(const cJSON *server, char *text, size_t size)
{
	for (int i = 0; i < DNS_NUMBERS; i++) {
		double number = budget_number(server, i);

		if (number > 0)
			text_append(text, size, "%s%.0f %s", text[0] ? ", " : "", number,
				dns_numbers[i].noun);
	}
}

/* "lxd web-1 700 of 1500": the busiest client in the second that matters. */
static void write_busiest(const cJSON *server, char *text, size_t size)
{
	const cJSON *second = json_at(server, "second");

	if (json_number_at(server, "top/0/in_second") > 0)
		snprintf(text, size, "%s %.0f of %.0f", json_text_at(server, "top/0/workload/text"),
			json_number_at(server, "top/0/in_second"),
			json_number_at(second, json_text_at(second, "counts")));
}

/* Queries over TLS (DoT) cannot be counted. */
static bool is_encrypted(const cJSON *row)
{
	return json_number_at(row, "dot_packets") > 0 &&
	       json_number_at(row, "queries/udp") + json_number_at(row, "queries/tcp") == 0;
}

static void write_encrypted(const cJSON *row, char *text, size_t size)
{
	if (json_number_at(row, "dot_packets") > 0)
		snprintf(text, size, "over TLS, %.0f packets", json_number_at(row, "dot_packets"));
}

static const struct column server_columns[] = {
	{.title = "Resolver", .heading = "server", .key = "server", .width = -15},
	{"Verdict", "verdict", "verdict", COLUMN_STATE, -12, .tone = "severity"},
	{"Role", "role", "role", .width = -8, .rank = 4},
	{"Queries a second", "q/s", "queries_per_second", COLUMN_NUMBER, 7, .limit = "budget/qps"},
	{"Busiest second", "peak/s", "peak", COLUMN_NUMBER, 8, .limit = "budget/qps"},
	{.title = "Budget", .format = COLUMN_NUMBER, .write = write_budget},
	{.heading = "budget", .write = write_budget_short, .width = 9},
	{"Seconds over it", "s over", "over_budget_seconds", COLUMN_NUMBER, 7},
	{"Failed, last minute", "failed", "minute_failed", COLUMN_NUMBER, 8},
	{"Unanswered, last minute", "unanswered", "minute_unanswered", COLUMN_NUMBER, 11},
	{"Pending", "pending", "pending", COLUMN_NUMBER, 8, .limit = "budget/pending", .rank = 3},
	{"Latency p50", "p50", "latency/p50", COLUMN_SECONDS, 8, .rank = 2},
	{"p99", "p99", "latency/p99", COLUMN_SECONDS, 8, .rank = 1},
	{.title = "Last hour", .key = "history", .format = COLUMN_HISTORY, .unit = "queries"},
	{.title = "Most in its busiest second", .format = COLUMN_NOTE, .write = write_busiest},
	{.title = "Encrypted", .write = write_encrypted},
	{0},
};

static bool is_idle(const cJSON *row)
{
	return !is_encrypted(row) && json_at(row, "minute_queries") &&
	       json_number_at(row, "minute_queries") == 0 && json_number_at(row, "pending") == 0;
}

/* Lines below a server. */
#define USERS_SHOWN 5
#define NAMES_SHOWN 5

static void write_second(const cJSON *server, char *text, size_t size)
{
	const cJSON *second = json_at(server, "second");
	const char *counts = json_text_at(second, "counts");
	double over = json_number_at(server, "over_lately_seconds");

	if (over > 0)
		text_append(text, size, "%.0f s over the budget in the last five minutes; ", over);
	text_append(text, size,
		"the %s second, until %s, had %.0f %s:", over > 0 ? "worst" : "busiest",
		json_text_at(second, "end"), json_number_at(second, counts), counts);
}

static void write_losses(const cJSON *server, char *text, size_t size)
{
	double unanswered = json_number_at(server, "minute_unanswered");
	double failed = json_number_at(server, "minute_failed");
	const char *between = "";

	write_encrypted(server, text, size);
	if (text[0])
		between = "; ";
	if (failed > 0) {
		text_append(text, size, "%s%.0f of %.0f answers of the last minute failed", between,
			failed, json_number_at(server, "minute_responses"));
		if (json_at(server, "failing"))
			text_append(text, size, ", most to %s",
				json_text_at(server, "failing/workload/text"));
		between = "; ";
	}
	if (unanswered > 0)
		text_append(text, size, "%s%.0f of %.0f queries of the last minute unanswered",
			between, unanswered, json_number_at(server, "minute_queries"));
}

/* A client or the sum of all others. */
static void write_user(const cJSON *server, const cJSON *user, char *text, size_t size)
{
	const cJSON *second = json_at(server, "second");
	const char *counts = json_text_at(second, "counts"), *name;
	double all = json_number_at(second, counts);
	char share[SHARE_MAX];

	name = json_text_at(user, "workload/text");
	snprintf(text, size, "%8.0f%s %5s %10.0f in all  %s", json_number_at(user, "in_second"),
		streq(counts, dns_numbers[DNS_PENDING].name) ? "  " : "/s",
		share_text(json_number_at(user, "in_second") / MAX(all, 1.0), share),
		json_number_at(user, "queries"), name[0] ? name : "other");
}

static void write_cure(const cJSON *server, char *text, size_t size)
{
	const char *name = json_text_at(server, "condition");

	for (const struct condition_type *type = dns_conditions; type->name; type++)
		if (streq(type->name, name))
			snprintf(text, size, "%s: %s", name, type->help);
}

static void write_name(const cJSON *name, char *text, size_t size)
{
	char share[SHARE_MAX];

	if (name)
		snprintf(text, size, "%10s  %s  %s",
			share_text(json_number_at(name, "share"), share),
			json_text_at(name, "name"), json_text_at(name, "type"));
}

/*
 * The losses, the second that matters with its clients, the cure, and the most frequent names.
 * Lines without a text are left out.
 */
static bool write_detail(const cJSON *server, int i, char *text, size_t size)
{
	const cJSON *top = json_at(server, "top"), *other = json_at(server, "other");
	const cJSON *names = json_at(server, "names");
	const bool second = cJSON_IsObject(json_at(server, "second"));

	text[0] = '\0';
	if (i == 0)
		write_losses(server, text, size);
	else if (i == 1 && second)
		write_second(server, text, size);
	else if (i < 2 + USERS_SHOWN && i >= 2 && i - 2 < cJSON_GetArraySize(top))
		write_user(server, cJSON_GetArrayItem(top, i - 2), text, size);
	else if (i == 2 + USERS_SHOWN &&
		 json_number_at(other, "queries") + json_number_at(other, "in_second") >= 1)
		write_user(server, other, text, size);
	else if (i == 3 + USERS_SHOWN)
		write_cure(server, text, size);
	else if (i > 3 + USERS_SHOWN)
		write_name(cJSON_GetArrayItem(names, i - 4 - USERS_SHOWN), text, size);
	return i < 4 + USERS_SHOWN + MIN(cJSON_GetArraySize(names), NAMES_SHOWN);
}

static void write_notes(const cJSON *dns, char *text, size_t size)
{
	const char *between = "  failed search-list expansions: ";
	const cJSON *item;

	if (json_text_at(dns, "since")[0])
		text_append(text, size, "  counting since %s\n", json_text_at(dns, "since"));

	cJSON_ArrayForEach (item, json_at(dns, "expansions")) {
		if (json_number_at(item, "failed_per_second") < 0.5)
			continue;
		text_append(text, size, "%s%s %.0f of %.0f/s", between, json_text_at(item, "role"),
			json_number_at(item, "failed_per_second"),
			json_number_at(item, "queries_per_second"));
		between = ", ";
	}
	text_append(text, size, between[0] == ',' ? "\n" : "");
	between = "  NXDOMAIN for names outside of the known search domains: ";
	cJSON_ArrayForEach (item, json_at(dns, "expansions")) {
		if (json_number_at(item, "other_nxdomain_per_second") < 0.5)
			continue;
		text_append(text, size, "%s%s %.0f/s", between, json_text_at(item, "role"),
			json_number_at(item, "other_nxdomain_per_second"));
		between = ", ";
	}
	text_append(text, size,
		between[0] == ',' ? " (pods may have search domains of their own)\n" : "");
	json_append_losses(json_at(dns, "lost"), text, size);
}

static const struct column service_columns[] = {
	{.title = "Service", .heading = "service", .key = "service", .width = -15},
	{"Packets a second", "packets/s", "packets_per_second", COLUMN_NUMBER, 10},
	{"Busiest second", "peak/s", "peak_packets", COLUMN_NUMBER, 8},
	{"Packets", "packets", "packets", COLUMN_NUMBER, 10},
	{.title = "Most by", .format = COLUMN_NOTE, .key = "top/0/workload/text"},
	{0},
};

/* The clients, and then the sum of all others. */
static bool write_service_client(const cJSON *service, int i, char *text, size_t size)
{
	int n = MIN(cJSON_GetArraySize(json_at(service, "top")), USERS_SHOWN);
	const cJSON *client = cJSON_GetArrayItem(json_at(service, "top"), i);
	double others = json_number_at(service, "other/packets");

	text[0] = '\0';
	for (int k = USERS_SHOWN; k < cJSON_GetArraySize(json_at(service, "top")); k++)
		others += json_number_at(cJSON_GetArrayItem(json_at(service, "top"), k), "packets");
	if (i < n)
		snprintf(text, size, "%8.0f/s %10.0f in all  %s",
			json_number_at(client, "packets_per_second"),
			json_number_at(client, "packets"), json_text_at(client, "workload/text"));
	else if (others >= 1)
		snprintf(text, size, "%10s %10.0f in all  other", "", others);
	return i <= n;
}

static void write_no_notes(const cJSON *, char *, size_t)
{
}

static const struct table_view services_view = {
	.title = "Link-local services beside DNS, which share the budget of packets",
	.rows = "services",
	.columns = service_columns,
	.is_optional = true,
	.empty = "",
	.write_detail = write_service_client,
	.write_notes = write_no_notes};

const struct table_view dns_view = {.title = "DNS",
	.times = "peak/s 1 min; p99 since start",
	.rank = 1,
	.rows = "servers",
	.columns = server_columns,
	.folds = is_idle,
	.folded = "idle",
	.blanks = is_encrypted,
	.order = "problems first",
	.next = &services_view,
	.empty = "no query has left this node yet",
	.write_detail = write_detail,
	.users_at = 2,
	.write_notes = write_notes};
