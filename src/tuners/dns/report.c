/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/exposition.h"

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
	struct json_number rows[11];
};

static struct losses losses_of(const struct dns_sensor *sensor)
{
	static const struct dns_control none;
	const struct dns_control *control = sensor->bpf ? dns_bpf_control(sensor->bpf) : &none;

	return (struct losses){{
		{"servers", (double)control->lost_servers},
		{"rows", (double)control->lost_rows},
		{"pending", (double)sensor->seen.table.unknown},
		{"polls", (double)sensor->coarse},
		{"streams", (double)control->resyncs},
		{"uninspected", (double)control->uninspected},
		{"unmatched", (double)control->unmatched},
		{"fragments", (double)control->fragments},
		{"malformed", (double)sensor->seen.table.malformed},
		{"sources", (double)control->lost_sources},
	}};
}

/* Zero before the first decision. */
static const struct dns_server_memory *memory_of(
	const struct dns_memory *memory, const struct dns_server_state *server)
{
	static const struct dns_server_memory none;

	for (size_t i = 0; i < memory->n; i++)
		if (dns_address_equal(&memory->servers[i].key, &server->key))
			return &memory->servers[i];
	return &none;
}

static void add_counts(cJSON *object, const struct dns_totals *totals)
{
	cJSON *queries = json_object(object, "queries");
	cJSON *responses = json_object(object, "responses");

	JSON_NUMBERS(queries, {"udp", (double)totals->queries[DNS_UDP]},
		{"tcp", (double)totals->queries[DNS_TCP]});
	for (int code = 0; code < DNS_RCODES; code++)
		json_number(responses, rcode_names[code], (double)totals->responses[code]);
	JSON_NUMBERS(object, {"retransmissions", (double)totals->retransmissions},
		{"answered", (double)totals->answered}, {"unanswered", (double)totals->unanswered},
		{"unknown", (double)totals->unknown}, {"late", (double)totals->late},
		{"truncated", (double)totals->truncated}, {"malformed", (double)totals->malformed},
		{"edns", (double)totals->edns}, {"packets", (double)totals->packets},
		{"dot_packets", (double)totals->dot_packets});
	if (totals->answered == 0)
		json_null(object, "latency");
	else
		JSON_NUMBERS(json_object(object, "latency"),
			{"mean", (double)totals->latency_ns / (double)totals->answered / 1e9},
			{"p50", histogram_quantile(dns_latency_bounds, totals->latency,
					DNS_LATENCY_BUCKETS - 1, 0.50)},
			{"p99", histogram_quantile(dns_latency_bounds, totals->latency,
					DNS_LATENCY_BUCKETS - 1, 0.99)});
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
	const struct dns_names *names = &server->label->names;
	double samples = 0, rate = (double)minute.queries / 60;
	cJSON *object = json_append(array), *budget, *list;

	json_text(object, "server", server->name);
	json_text(object, "role", dns_role_names[server->role]);
	add_counts(object, &server->label->reported);
	JSON_NUMBERS(object, {"pending", (double)server->pending},
		{"queries_per_second", server->queries.last},
		{"peak", dns_seconds_peak(&server->queries)},
		{"packets_per_second", server->packets.last},
		{"peak_packets", dns_seconds_peak(&server->packets)},
		{"minute_unknown", (double)minute.unknown});
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
	dns_add_verdict(object, server, memory, now);
	if (!trusted)
		return;
	list = json_array(object, "names");
	for (size_t i = 0; i < names->n; i++)
		samples += names->names[i].count;
	for (size_t i = 0; i < MIN(names->n, DNS_NAMES_TOP); i++) {
		const struct dns_name_count *of = &names->names[i];
		cJSON *name = json_append(list);
		char type[16];

		snprintf(type, sizeof(type), "TYPE%u", of->type);
		for (size_t k = 0; k < ARRAY_SIZE(types); k++)
			if (types[k].type == of->type)
				set_text(type, types[k].name);
		json_text(name, "name", of->text);
		json_text(name, "type", type);
		JSON_NUMBERS(name, {"samples", of->count}, {"share", of->count / samples},
			{"queries_per_second", of->count / samples * rate});
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
	uint64_t one = dns_minute(x->server).queries, other = dns_minute(y->server).queries;

	if (verdicts[0] != verdicts[1])
		return verdicts[0] - verdicts[1];
	if (one == other) {
		one = dns_queries(&x->server->totals);
		other = dns_queries(&y->server->totals);
	}
	return (one < other) - (one > other);
}

static void add_servers(
	cJSON *root, const struct dns_sensor *sensor, const struct dns_memory *memory, bool trusted)
{
	const struct dns_server_table *table = &sensor->seen.table;
	double queries = (double)dns_queries(&table->others), others = 0;
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
		others += !table->servers[i]->label && table->servers[i]->key.family != 0;
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
	json_text(root, "cloud", sensor->env.cloud);
	json_time(root, "since", sensor->since_us);
	json_number(root, "timeout", (double)DNS_TIMEOUT_NS / 1e9);
	losses = losses_of(sensor);
	json_numbers(json_object(root, "lost"), losses.rows);
	array = json_array(root, "expansions");
	for (int role = 0; role < DNS_ROLES; role++) {
		const struct dns_search *search = &seen->search[role];
		char advice[32];

		object = json_append(array);
		json_text(object, "role", dns_role_names[role]);
		JSON_NUMBERS(object, {"queries", (double)search->queries},
			{"failed", (double)search->failed},
			{"queries_per_second", search->queries_per_second},
			{"failed_per_second", search->failed_per_second});
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
	if (dns_bpf_control(sensor->bpf)->watching) {
		object = json_object(root, "link_local");
		JSON_NUMBERS(object, {"packets_per_second", seen->link_local.last},
			{"peak_packets", dns_seconds_peak(&seen->link_local)},
			{"uplinks", sensor->env.uplinks});
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
	add_servers(root, sensor, memory, trusted);
	return root;
}

/* Families with one sample for each server. */
static const char *const families[] = {"headroom_dns_retransmissions_total",
	"headroom_dns_unanswered_total", "headroom_dns_unknown_total", "headroom_dns_pending",
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
		const struct dns_server_memory *its = memory_of(memory, server);

		/* A server with queries over TLS only has a series of packets only. */
		if (!server->pinned && dns_queries(totals) == 0 && totals->dot_packets > 0)
			continue;
		series[n++] = (struct series){server->name, server,
			dns_second_that_matters(server, its, sensor->now_us), totals,
			{
				totals->retransmissions > 0 ? (double)totals->retransmissions : -1,
				(double)totals->unanswered,
				totals->unknown > 0 ? (double)totals->unknown : -1,
				(double)server->pending,
				dns_seconds_peak(&server->queries),
				most > 0 ? (double)most : -1,
				dns_budget_is_set(&server->budget) ? (double)its->over : -1,
			}};
	}
	series[n++] = (struct series){"other", NULL, NULL, others,
		{(double)others->retransmissions, (double)others->unanswered,
			(double)others->unknown, pending_of_others(table)}};
	return n;
}

/* Families with several samples for each server. */
static void put_counts(struct metric_sink *sink, const struct series *series, size_t n)
{
	static const char *const transports[] = {[DNS_UDP] = "udp", [DNS_TCP] = "tcp"};
	const struct series *end = series + n, *one;

	metric_family(sink, "headroom_dns_queries_total");
	for (one = series; one < end; one++)
		for (int i = 0; i < DNS_TRANSPORTS; i++)
			if (one->totals->queries[i] > 0 || (one->server && i == DNS_UDP))
				metric_sample(sink, (double)one->totals->queries[i], one->name,
					dns_role_names[one->server ? one->server->role
								   : DNS_NO_ROLE],
					transports[i], NULL);
	metric_family(sink, "headroom_dns_workload_queries_per_second");
	for (one = series; one < end; one++) {
		struct limit_reading reading = {0};

		if (!one->second)
			continue;
		reading.used = (uint64_t)dns_second_total(one->second);
		set_text(reading.name, one->name);
		dns_add_users(&reading, USERS_EXPORTED, one->second->users, one->second->n_users);
		metric_users(sink, &reading);
		free(reading.top);
	}
	metric_family(sink, "headroom_dns_responses_total");
	for (one = series; one < end; one++)
		for (int code = 0; code < DNS_RCODES; code++)
			if (one->totals->responses[code] > 0)
				metric_sample(sink, (double)one->totals->responses[code], one->name,
					rcode_names[code], NULL);
	metric_family(sink, "headroom_dns_latency_seconds");
	for (one = series; one < end; one++) {
		double bounds[ARRAY_SIZE(latency_bounds)];
		uint64_t counts[ARRAY_SIZE(bounds) + 1] = {0};
		size_t bound = 0;

		if (!one->server || one->totals->answered == 0)
			continue;
		for (unsigned bucket = 0; bucket < DNS_LATENCY_BUCKETS; bucket++) {
			counts[bound] += one->totals->latency[bucket];
			if (bound < ARRAY_SIZE(bounds) && bucket == latency_bounds[bound])
				bounds[bound++] = (double)dns_latency_bounds[bucket] / 1e9;
		}
		metric_histogram(sink, bounds, counts, ARRAY_SIZE(bounds),
			(double)one->totals->latency_ns / 1e9, one->name, NULL);
	}
	metric_family(sink, "headroom_dns_second_queries");
	for (one = series; one < end; one++)
		if (one->server && one->server->queries.sum > 0)
			metric_histogram(sink, dns_second_bounds, one->server->queries.counts,
				DNS_SECOND_BOUNDS, one->server->queries.sum, one->name, NULL);
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
		double packets = (double)table->labelled[i]->label->reported.dot_packets;

		if (packets > 0)
			metric_sample(sink, packets, table->labelled[i]->name, NULL);
	}
	if (table->others.dot_packets > 0)
		metric_sample(sink, (double)table->others.dot_packets, "other", NULL);
	metric_family(sink, "headroom_dns_search_expansions_total");
	for (int role = 0; role < DNS_ROLES; role++)
		if (sensor->seen.search[role].queries > 0)
			metric_sample(sink, (double)sensor->seen.search[role].failed,
				dns_role_names[role], NULL);
	metric_family(sink, "headroom_dns_lost_total");
	losses = losses_of(sensor);
	for (const struct json_number *loss = losses.rows; loss->key; loss++)
		metric_sample(sink, loss->number, loss->key, NULL);
}
