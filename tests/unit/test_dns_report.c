/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cjson/cJSON.h>

#include "base/cleanup.h"
#include "base/exposition.h"
#include "base/json.h"
#include "base/util.h"
#include "tuners/dns/dns.h"

static void clear(struct dns_server_table **table)
{
	dns_server_table_clear(*table);
	free(*table);
}

static const struct dns_memory nothing;

#define _cleanup_table_ __attribute__((cleanup(clear)))

static struct dns_server_state *add_server(
	struct dns_server_table *table, unsigned n, uint64_t udp, uint64_t answers)
{
	struct dns_key key = {AF_INET, {10, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n}};
	struct dns_server_state *server = dns_server_get(table, &key);
	struct dns_totals totals = {.queries = {udp, udp / 10}, .answered = answers};

	assert_non_null(server);
	dns_label_offer(table, server);
	totals.responses[DNS_NOERROR] = answers;
	totals.latency[6] = answers; /* under 8.4 ms */
	totals.latency_ns = answers * 6000000;
	dns_server_take(table, server, &totals, 1);
	return server;
}

static void add_user(struct dns_label *label, const char *name, uint64_t queries)
{
	struct dns_user *user = &label->users[label->n_users++];

	user->workload.kind = WORKLOAD_POD;
	copy_text(user->workload.name, sizeof(user->workload.name), name);
	user->queries = queries;
	user->per_second = (double)queries / 10;
}

static char *metrics_of(const struct dns_seen *seen)
{
	struct dns_server_memory remembered = {.over = 3};
	struct dns_memory memory = {.servers = &remembered, .n = 1};
	struct dns_report report = {
		.seen = seen, .memory = &memory, .losses = {[DNS_LOST_ROWS] = 7}};
	struct metric_sink sink = {.rows = dns_metric_rows};
	char *text = NULL;
	size_t len = 0;

	sink.out = open_memstream(&text, &len);
	assert_non_null(sink.out);
	remembered.key = seen->table->servers[0]->key;
	dns_put_metrics(&sink, &report);
	fclose(sink.out);
	return text;
}

static void has(const char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("no '%s' in:\n%s", line, text);
}

TEST(metrics_of_a_server)
{
	_cleanup_table_ struct dns_server_table *table = calloc(1, sizeof(*table));
	struct dns_seen seen = {.watched = true, .table = table};
	_cleanup_free_ char *text = NULL;
	struct dns_server_state *server;

	server = add_server(table, 2, 1000, 900);
	server->budget.qps = 1024;
	server->pending = 4;
	dns_server_take_unanswered(table, server, 2);
	seen.search[DNS_CLUSTER].failed = 11;
	text = metrics_of(&seen);
	has(text,
		"headroom_dns_queries_total{server=\"10.0.0.2\",role=\"upstream\",transport=\"udp\"} "
		"1000\n");
	has(text, "role=\"upstream\",transport=\"tcp\"} 100\n");
	has(text, "headroom_dns_responses_total{server=\"10.0.0.2\",rcode=\"NOERROR\"} 900\n");
	has(text, "headroom_dns_unanswered_total{server=\"10.0.0.2\"} 2\n");
	has(text, "headroom_dns_pending{server=\"10.0.0.2\"} 4\n");
	has(text, "headroom_dns_retransmissions_total{server=\"10.0.0.2\"} 0\n");
	has(text, "headroom_dns_budget_queries_per_second{server=\"10.0.0.2\"} 1024\n");
	has(text, "headroom_dns_over_budget_seconds_total{server=\"10.0.0.2\"} 3\n");
	has(text, "headroom_dns_peak_queries_per_second{server=\"10.0.0.2\"} 0\n");
	has(text, "headroom_dns_second_queries_bucket{server=\"10.0.0.2\",le=\"1000\"} 0\n");
	has(text, "headroom_dns_latency_seconds_count{server=\"10.0.0.2\"} 900\n");
	has(text, "headroom_dns_latency_seconds_sum{server=\"10.0.0.2\"} 5.4\n");
	has(text, "le=\"0.004194304\"} 0\n");
	has(text, "le=\"0.016777216\"} 900\n");
	has(text, "headroom_dns_search_expansions_total{role=\"cluster\"} 11\n");
	has(text, "headroom_dns_lost_total{what=\"rows\"} 7\n");
	assert_null(strstr(text, "server=\"other\""));
}

static size_t count_series(const char *text)
{
	size_t n = 0;

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		n += *line && *line != '#';
	}
	return n;
}

TEST(series_are_bounded)
{
	_cleanup_table_ struct dns_server_table *table = calloc(1, sizeof(*table));
	struct dns_seen seen = {.watched = true, .table = table};
	_cleanup_free_ char *text = NULL, *quiet = NULL;

	for (unsigned i = 0; i < 3; i++)
		add_server(table, i, 100, 50);
	quiet = metrics_of(&seen);
	assert_in_range(count_series(quiet), 50, 150);
	for (unsigned i = 3; i < 1000; i++)
		add_server(table, i, 100, 50);
	text = metrics_of(&seen);
	assert_in_range(count_series(text), 300, 1000);
	has(text,
		"headroom_dns_queries_total{server=\"other\",role=\"upstream\",transport=\"udp\"} "
		"98000\n");
	has(text, "headroom_dns_responses_total{server=\"other\",rcode=\"NOERROR\"} 49000\n");
}

static double number_at(const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItem(object, name);

	if (!cJSON_IsNumber(item))
		fail_msg("no number %s", name);
	return item->valuedouble;
}

TEST(the_document_adds_up)
{
	_cleanup_table_ struct dns_server_table *table = calloc(1, sizeof(*table));
	struct dns_seen seen = {.watched = true, .table = table};
	struct dns_report report = {
		.seen = &seen, .memory = &nothing, .cloud = "aws", .names = true};
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL, *trusted = NULL;
	const cJSON *server, *user, *name;
	double sum;

	add_server(table, 2, 1000, 900);
	add_user(&table->labels[0], "little", 30);
	add_user(&table->labels[0], "big", 700);
	table->labels[0].names = calloc(1, sizeof(*table->labels[0].names));
	for (int i = 0; i < 3; i++)
		dns_names_add(table->labels[0].names, "a.example", 28);
	dns_names_add(table->labels[0].names, "b.example", 65280);
	document = dns_make_document(&report);
	server = cJSON_GetArrayItem(cJSON_GetObjectItem(document, "servers"), 0);
	assert_string_equal(
		cJSON_GetStringValue(cJSON_GetObjectItem(server, "server")), "10.0.0.2");
	sum = number_at(cJSON_GetObjectItem(server, "other"), "queries");
	cJSON_ArrayForEach (user, cJSON_GetObjectItem(server, "top"))
		sum += number_at(user, "queries");
	assert_true(sum == 1100);
	user = cJSON_GetArrayItem(cJSON_GetObjectItem(server, "top"), 0);
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(
				    cJSON_GetObjectItem(user, "workload"), "name")),
		"big");
	assert_true(number_at(cJSON_GetObjectItem(server, "latency"), "p50") > 0.004194);
	assert_true(number_at(cJSON_GetObjectItem(server, "latency"), "p99") < 0.008389);
	assert_true(number_at(cJSON_GetObjectItem(server, "latency"), "mean") == 0.006);
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(server, "budget")));
	/* Names are for trusted readers. */
	assert_null(cJSON_GetObjectItem(server, "names"));
	report.trusted = true;
	trusted = dns_make_document(&report);
	server = cJSON_GetArrayItem(cJSON_GetObjectItem(trusted, "servers"), 0);
	name = cJSON_GetArrayItem(cJSON_GetObjectItem(server, "names"), 0);
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(name, "name")), "a.example");
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(name, "type")), "AAAA");
	assert_true(number_at(name, "share") == 0.75);
	name = cJSON_GetArrayItem(cJSON_GetObjectItem(server, "names"), 1);
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(name, "type")), "TYPE65280");
}

TEST(names_switched_off_are_not_shown)
{
	_cleanup_table_ struct dns_server_table *table = calloc(1, sizeof(*table));
	struct dns_seen seen = {.watched = true, .table = table};
	struct dns_report report = {
		.seen = &seen, .memory = &nothing, .cloud = "", .trusted = true};
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;

	add_server(table, 2, 10, 9);
	document = dns_make_document(&report);
	assert_null(cJSON_GetObjectItem(
		cJSON_GetArrayItem(cJSON_GetObjectItem(document, "servers"), 0), "names"));
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(document, "names")), "off");
}

TEST(servers_without_a_label_are_one_element)
{
	_cleanup_table_ struct dns_server_table *table = calloc(1, sizeof(*table));
	struct dns_seen seen = {.watched = true, .table = table};
	struct dns_report report = {.seen = &seen, .memory = &nothing, .cloud = ""};
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	const cJSON *servers, *rest;

	for (unsigned i = 0; i < 500; i++)
		add_server(table, i, 10, 9);
	document = dns_make_document(&report);
	servers = cJSON_GetObjectItem(document, "servers");
	assert_int_equal(cJSON_GetArraySize(servers), DNS_LABELS + 1);
	rest = cJSON_GetArrayItem(servers, DNS_LABELS);
	assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(rest, "server")), "other");
	assert_true(number_at(rest, "servers") == 480);
	assert_true(number_at(cJSON_GetObjectItem(rest, "queries"), "udp") == 4800);
}

TEST(nothing_watched_is_null)
{
	struct dns_server_table *table = calloc(1, sizeof(*table));
	struct dns_seen seen = {.table = table};
	struct dns_report report = {.seen = &seen, .memory = &nothing, .cloud = ""};
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = dns_make_document(&report);

	assert_true(cJSON_IsNull(document));
	free(table);
}
