/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/report.h"

#include "base/exposition.h"
#include "base/util.h"

/* Every second bucket of the kernel's, and its last bound: 0.26 ms, 1 ms, ... 1.1 s, 2.1 s. */
#define LATENCY_BOUNDS 8

static void put_labelled(struct metric_sink *sink, const struct dns_book *book,
	uint64_t (*value)(const struct dns_totals *totals))
{
	uint64_t rest = 0;

	for (size_t i = 0; i < DNS_LABELS; i++)
		if (book->labels[i].server)
			metric_sample(sink, (double)value(&book->labels[i].told),
				book->labels[i].server->name, NULL);
	for (int role = 0; role < DNS_ROLES; role++)
		rest += value(&book->others[role]);
	if (rest > 0)
		metric_sample(sink, (double)rest, "other", NULL);
}

static uint64_t unanswered(const struct dns_totals *totals)
{
	return totals->unanswered;
}

static uint64_t retransmissions(const struct dns_totals *totals)
{
	return totals->retransmissions;
}

static void put_transports(struct metric_sink *sink, const char *server, enum dns_role role,
	const struct dns_totals *told, bool always)
{
	static const char *const transports[] = {[DNS_UDP] = "udp", [DNS_TCP] = "tcp"};

	for (int i = 0; i < DNS_TRANSPORTS; i++)
		if (told->queries[i] > 0 || (always && i == DNS_UDP))
			metric_sample(sink, (double)told->queries[i], server, dns_role_name(role),
				transports[i], NULL);
}

static void put_queries(struct metric_sink *sink, const struct dns_book *book)
{
	metric_family(sink, "headroom_dns_queries_total");
	for (size_t i = 0; i < DNS_LABELS; i++) {
		const struct dns_label *label = &book->labels[i];

		if (label->server)
			put_transports(
				sink, label->server->name, label->server->role, &label->told, true);
	}
	for (int role = 0; role < DNS_ROLES; role++)
		put_transports(sink, "other", (enum dns_role)role, &book->others[role], false);
}

static void put_rcodes(
	struct metric_sink *sink, const char *server, const uint64_t responses[static DNS_RCODES])
{
	for (int code = 0; code < DNS_RCODES; code++)
		if (responses[code] > 0)
			metric_sample(sink, (double)responses[code], server,
				dns_rcode_name((enum dns_rcode_class)code), NULL);
}

static void put_responses(struct metric_sink *sink, const struct dns_book *book)
{
	uint64_t rest[DNS_RCODES] = {0};

	metric_family(sink, "headroom_dns_responses_total");
	for (size_t i = 0; i < DNS_LABELS; i++)
		if (book->labels[i].server)
			put_rcodes(
				sink, book->labels[i].server->name, book->labels[i].told.responses);
	for (int role = 0; role < DNS_ROLES; role++)
		for (int code = 0; code < DNS_RCODES; code++)
			rest[code] += book->others[role].responses[code];
	put_rcodes(sink, "other", rest);
}

static void put_latency(struct metric_sink *sink, const struct dns_book *book)
{
	double bounds[LATENCY_BOUNDS];

	for (int i = 0; i < LATENCY_BOUNDS; i++)
		bounds[i] = (double)(UINT64_C(1) << (DNS_LATENCY_SHIFT + MIN(2 * i + 1, 14))) / 1e9;
	metric_family(sink, "headroom_dns_latency_seconds");
	for (size_t i = 0; i < DNS_LABELS; i++) {
		const struct dns_totals *told = &book->labels[i].told;
		uint64_t counts[LATENCY_BOUNDS + 1] = {0};

		if (!book->labels[i].server)
			continue;
		for (int bucket = 0; bucket < DNS_LATENCY_BUCKETS; bucket++)
			counts[bucket == 15 ? LATENCY_BOUNDS : bucket / 2] += told->latency[bucket];
		metric_histogram(sink, bounds, counts, LATENCY_BOUNDS,
			(double)told->latency_ns / 1e9, book->labels[i].server->name, NULL);
	}
}

static void put_seconds(struct metric_sink *sink, const struct dns_book *book)
{
	metric_family(sink, "headroom_dns_peak_queries_per_second");
	for (size_t i = 0; i < DNS_LABELS; i++)
		if (book->labels[i].server)
			metric_sample(sink, dns_seconds_peak(&book->labels[i].server->queries),
				book->labels[i].server->name, NULL);
	metric_family(sink, "headroom_dns_second_queries");
	for (size_t i = 0; i < DNS_LABELS; i++) {
		const struct dns_server_state *server = book->labels[i].server;

		if (server)
			metric_histogram(sink, dns_second_bounds, server->queries.counts,
				DNS_SECOND_BOUNDS, server->queries.sum, server->name, NULL);
	}
}

static void put_budgets(struct metric_sink *sink, const struct dns_book *book)
{
	metric_family(sink, "headroom_dns_budget_queries_per_second");
	for (size_t i = 0; i < DNS_LABELS; i++) {
		const struct dns_server_state *server = book->labels[i].server;
		uint64_t qps = server ? server->budget.qps : 0;

		qps = server && qps == 0 ? server->budget.pps : qps;
		if (qps > 0)
			metric_sample(sink, (double)qps, server->name, NULL);
	}
	metric_family(sink, "headroom_dns_over_budget_seconds_total");
	for (size_t i = 0; i < DNS_LABELS; i++) {
		const struct dns_server_state *server = book->labels[i].server;

		if (server && dns_has_budget(server))
			metric_sample(sink, (double)server->memory.over, server->name, NULL);
	}
}

static void put_pending(struct metric_sink *sink, const struct dns_book *book)
{
	double rest = 0;

	metric_family(sink, "headroom_dns_pending");
	for (size_t i = 0; i < DNS_LABELS; i++)
		if (book->labels[i].server)
			metric_sample(sink, (double)book->labels[i].server->pending,
				book->labels[i].server->name, NULL);
	for (size_t i = 0; i < book->n; i++)
		if (book->servers[i]->label < 0)
			rest += (double)book->servers[i]->pending;
	if (rest > 0)
		metric_sample(sink, rest, "other", NULL);
}

static void put_search(struct metric_sink *sink, const struct dns_seen *seen)
{
	metric_family(sink, "headroom_dns_search_expansions_total");
	for (int role = 0; role < DNS_ROLES; role++)
		metric_sample(sink, (double)seen->search[role].failed,
			dns_role_name((enum dns_role)role), NULL);
}

const char *dns_loss_name(enum dns_loss loss)
{
	static const char *const names[] = {
		[DNS_LOST_SERVERS] = "servers",
		[DNS_LOST_ROWS] = "rows",
		[DNS_LOST_PENDING] = "pending",
		[DNS_LOST_LOOKS] = "looks",
		[DNS_LOST_STREAMS] = "streams",
		[DNS_LOST_FRAGMENTS] = "fragments",
		[DNS_LOST_MALFORMED] = "malformed",
		[DNS_LOST_SOURCES] = "sources",
	};

	return names[loss];
}

static void put_losses(struct metric_sink *sink, const uint64_t losses[static DNS_LOSSES])
{
	metric_family(sink, "headroom_dns_lost_total");
	for (int loss = 0; loss < DNS_LOSSES; loss++)
		metric_sample(sink, (double)losses[loss], dns_loss_name((enum dns_loss)loss), NULL);
}

void dns_put_metrics(struct metric_sink *sink, const struct dns_seen *seen,
	const uint64_t losses[static DNS_LOSSES])
{
	const struct dns_book *book = seen->book;

	put_queries(sink, book);
	metric_family(sink, "headroom_dns_retransmissions_total");
	put_labelled(sink, book, retransmissions);
	put_responses(sink, book);
	metric_family(sink, "headroom_dns_unanswered_total");
	put_labelled(sink, book, unanswered);
	put_pending(sink, book);
	put_latency(sink, book);
	put_seconds(sink, book);
	put_budgets(sink, book);
	put_search(sink, seen);
	put_losses(sink, losses);
}
