/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/dns/dns.h"

#define _cleanup_table_ __attribute__((cleanup(dns_server_table_clear)))

static struct dns_key numbered(unsigned n)
{
	return (struct dns_key){AF_INET, {10, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n}};
}

static struct dns_server_state *add_server(struct dns_server_table *table, unsigned n)
{
	struct dns_key key = numbered(n);
	struct dns_server_state *server = dns_server_get(table, &key);

	assert_non_null(server);
	dns_label_claim(table, server, 0);
	return server;
}

static void query(
	struct dns_server_table *table, struct dns_server_state *server, uint64_t n, uint64_t now)
{
	struct dns_server counts = {.totals = server->totals};

	counts.totals.queries[DNS_UDP] += n;
	counts.totals.responses[DNS_NOERROR] += n;
	dns_server_update(table, server, &counts, now);
}

/* The sum of all labels and of the others. */
static uint64_t reported(const struct dns_server_table *table)
{
	uint64_t sum = dns_queries(&table->others);

	for (size_t i = 0; i < table->n; i++)
		if (table->servers[i]->label)
			sum += dns_queries(&table->servers[i]->label->reported);
	return sum;
}

TEST(counters_never_fall)
{
	_cleanup_table_ struct dns_server_table table = {0};
	struct dns_server_state *server = add_server(&table, 1);
	struct dns_server back = {0};

	query(&table, server, 100, USEC_PER_SEC);
	back.totals.queries[DNS_UDP] = 99;
	dns_server_update(&table, server, &back, 2 * USEC_PER_SEC);
	assert_int_equal(server->changed_at_us, USEC_PER_SEC);
	assert_int_equal(dns_queries(&server->totals), 100);
	assert_int_equal(reported(&table), 100);
	dns_server_add_unanswered(&table, server, 7, 0);
	assert_int_equal(server->label->reported.unanswered, 7);
}

TEST(a_minute_never_has_more_unanswered_queries_than_queries)
{
	_cleanup_table_ struct dns_server_table table = {0};
	struct dns_server_state *server = add_server(&table, 1);
	/* At the end of a slot. */
	uint64_t sent = 1000 * DNS_SLOT_US - USEC_PER_SEC;
	struct dns_server counts = {.totals.queries[DNS_UDP] = 673};

	dns_server_update(&table, server, &counts, sent);
	/* Queries to another server displace them before the sweep that ends them. */
	counts.totals.expired = 600;
	dns_server_update(&table, server, &counts, sent + 6 * USEC_PER_SEC);
	assert_int_equal(dns_minute(server).unanswered, 600);
	for (uint64_t now = sent; now < sent + 80 * USEC_PER_SEC; now += USEC_PER_SEC) {
		dns_minute_pass(server, now);
		assert_true(dns_minute(server).unanswered <= dns_minute(server).queries);
	}
	assert_int_equal(dns_minute(server).queries, 0);
	assert_int_equal(server->totals.unanswered, 600);
}

TEST(only_a_much_busier_server_gets_a_label)
{
	_cleanup_table_ struct dns_server_table table = {0};
	struct dns_server_state *busy, *pinned, *first = add_server(&table, 0);
	uint64_t now = 1000 * USEC_PER_SEC;

	for (unsigned i = 0; i < DNS_LABELS; i++)
		query(&table, add_server(&table, i), 100, now);
	busy = add_server(&table, 100);
	assert_null(busy->label);
	query(&table, busy, 200, now);
	assert_null(busy->label);
	assert_int_equal(dns_queries(&table.others), 200);
	/* The queries that earn the label are its first ones, and the others get those of the
	 * loser. */
	query(&table, busy, 61, now);
	assert_non_null(busy->label);
	assert_null(first->label);
	assert_int_equal(dns_queries(&busy->label->reported), 61);
	assert_int_equal(dns_queries(&table.others), 300);
	query(&table, busy, 5, now);
	query(&table, first, 5, now);
	assert_int_equal(dns_queries(&busy->label->reported), 66);
	assert_int_equal(dns_queries(&table.others), 305);
	/* A quiet server with a budget gets a label and keeps it. */
	pinned = add_server(&table, 200);
	pinned->pinned = true;
	dns_label_claim(&table, pinned, now);
	assert_non_null(pinned->label);
	query(&table, first, 100000, now);
	assert_non_null(pinned->label);
	assert_int_equal(reported(&table), DNS_LABELS * 100 + 261 + 5 + 5 + 100000);
}

TEST(a_long_idle_server_loses_its_label)
{
	_cleanup_table_ struct dns_server_table table = {0};
	struct dns_server_state *late;
	uint64_t now = 1000 * USEC_PER_SEC;

	for (unsigned i = 0; i < DNS_LABELS; i++)
		query(&table, add_server(&table, i), 1, now + i);
	now += 500 * USEC_PER_SEC;
	for (unsigned i = 0; i < table.n; i++)
		dns_minute_pass(table.servers[i], now);
	late = add_server(&table, 100);
	query(&table, late, 1, now);
	assert_null(late->label);
	now += 101 * USEC_PER_SEC;
	query(&table, late, 1, now);
	/* The server that was idle the longest loses its label. */
	assert_non_null(late->label);
	assert_null(table.servers[0]->label);
}

TEST(counts_of_removed_servers_stay_in_the_sum)
{
	_cleanup_table_ struct dns_server_table table = {0};
	struct dns_server late = {.totals.queries[DNS_TCP] = 3}, last;
	struct dns_server_state *server;

	for (unsigned i = 0; i < DNS_LABELS; i++)
		query(&table, add_server(&table, i), 1, USEC_PER_SEC);
	server = add_server(&table, 100);
	query(&table, server, 10, USEC_PER_SEC);
	last = (struct dns_server){.totals.queries[DNS_UDP] = 12};
	dns_server_add_others(&table, server, &last);
	dns_server_remove(&table, table.n - 1);
	dns_server_add_others(&table, NULL, &late);
	assert_int_equal(reported(&table), DNS_LABELS + 12 + 3);
}
