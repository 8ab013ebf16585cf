/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "base/exposition.h"
#include "base/util.h"

/* Every second bucket of the kernel's, and its last bound: 0.26 ms, 1 ms, ... 1.1 s, 2.1 s. */
#define LATENCY_BOUNDS 8

/* Runs a statement for each server that has a label. */
#define FOR_EACH_LABEL(label, table)                           \
	for (const struct dns_label *label = (table)->labels;  \
		label < (table)->labels + DNS_LABELS; label++) \
		if (label->server)

static void put_transports(struct metric_sink *sink, const char *server, enum dns_role role,
	const struct dns_totals *totals, bool always)
{
	static const char *const transports[] = {[DNS_UDP] = "udp", [DNS_TCP] = "tcp"};

	for (int i = 0; i < DNS_TRANSPORTS; i++)
		if (totals->queries[i] > 0 || (always && i == DNS_UDP))
			metric_sample(sink, (double)totals->queries[i], server,
				dns_role_names[role], transports[i], NULL);
}

static void put_rcodes(
	struct metric_sink *sink, const char *server, const struct dns_totals *totals)
{
	for (int code = 0; code < DNS_RCODES; code++)
		if (totals->responses[code] > 0)
			metric_sample(sink, (double)totals->responses[code], server,
				dns_rcode_names[code], NULL);
}

static void put_counters(struct metric_sink *sink, const struct dns_server_table *table)
{
	const struct dns_others others = dns_sum_others(table);

	metric_family(sink, "headroom_dns_queries_total");
	FOR_EACH_LABEL(label, table)
	put_transports(sink, label->server->name, label->server->role, &label->reported, true);
	for (int role = 0; role < DNS_ROLES; role++)
		put_transports(sink, "other", (enum dns_role)role, &table->others[role], false);
	metric_family(sink, "headroom_dns_retransmissions_total");
	FOR_EACH_LABEL(label, table)
	metric_sample(sink, (double)label->reported.retransmissions, label->server->name, NULL);
	if (others.totals.retransmissions > 0)
		metric_sample(sink, (double)others.totals.retransmissions, "other", NULL);
	metric_family(sink, "headroom_dns_responses_total");
	FOR_EACH_LABEL(label, table)
	put_rcodes(sink, label->server->name, &label->reported);
	put_rcodes(sink, "other", &others.totals);
	metric_family(sink, "headroom_dns_unanswered_total");
	FOR_EACH_LABEL(label, table)
	metric_sample(sink, (double)label->reported.unanswered, label->server->name, NULL);
	if (others.totals.unanswered > 0)
		metric_sample(sink, (double)others.totals.unanswered, "other", NULL);
	metric_family(sink, "headroom_dns_pending");
	FOR_EACH_LABEL(label, table)
	metric_sample(sink, (double)label->server->pending, label->server->name, NULL);
	if (others.pending > 0)
		metric_sample(sink, (double)others.pending, "other", NULL);
}

static void put_latency(struct metric_sink *sink, const struct dns_server_table *table)
{
	double bounds[LATENCY_BOUNDS];

	for (int i = 0; i < LATENCY_BOUNDS; i++)
		bounds[i] = (double)(UINT64_C(1) << (DNS_LATENCY_SHIFT + MIN(2 * i + 1, 14))) / 1e9;
	metric_family(sink, "headroom_dns_latency_seconds");
	FOR_EACH_LABEL(label, table)
	{
		const struct dns_totals *totals = &label->reported;
		uint64_t counts[LATENCY_BOUNDS + 1] = {0};

		for (int bucket = 0; bucket < DNS_LATENCY_BUCKETS; bucket++)
			counts[bucket == 15 ? LATENCY_BOUNDS : bucket / 2] +=
				totals->latency[bucket];
		metric_histogram(sink, bounds, counts, LATENCY_BOUNDS,
			(double)totals->latency_ns / 1e9, label->server->name, NULL);
	}
}

static void put_seconds(struct metric_sink *sink, const struct dns_report *report)
{
	const struct dns_server_table *table = report->seen->table;

	metric_family(sink, "headroom_dns_peak_queries_per_second");
	FOR_EACH_LABEL(label, table)
	metric_sample(sink, dns_seconds_peak(&label->server->queries), label->server->name, NULL);
	metric_family(sink, "headroom_dns_second_queries");
	FOR_EACH_LABEL(label, table)
	metric_histogram(sink, dns_second_bounds, label->server->queries.counts, DNS_SECOND_BOUNDS,
		label->server->queries.sum, label->server->name, NULL);
	metric_family(sink, "headroom_dns_budget_queries_per_second");
	FOR_EACH_LABEL(label, table)
	{
		const struct dns_budget *budget = &label->server->budget;
		uint64_t most = budget->qps > 0 ? budget->qps : budget->pps;

		if (most > 0)
			metric_sample(sink, (double)most, label->server->name, NULL);
	}
	metric_family(sink, "headroom_dns_over_budget_seconds_total");
	FOR_EACH_LABEL(label, table)
	{
		if (dns_budget_is_set(&label->server->budget))
			metric_sample(sink,
				(double)dns_over_budget_seconds(report->memory, label->server),
				label->server->name, NULL);
	}
}

void dns_put_metrics(struct metric_sink *sink, const struct dns_report *report)
{
	const struct dns_server_table *table = report->seen->table;

	put_counters(sink, table);
	put_latency(sink, table);
	put_seconds(sink, report);
	metric_family(sink, "headroom_dns_search_expansions_total");
	for (int role = 0; role < DNS_ROLES; role++)
		metric_sample(sink, (double)report->seen->search[role].failed, dns_role_names[role],
			NULL);
	metric_family(sink, "headroom_dns_lost_total");
	for (size_t i = 0; i < DNS_LOSSES && report->losses[i].name; i++)
		metric_sample(sink, (double)report->losses[i].count, report->losses[i].name, NULL);
}
