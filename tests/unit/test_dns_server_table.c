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
	dns_label_offer(table, server);
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
	dns_server_add_unanswered(&table, server, 7);
	assert_int_equal(server->label->reported.unanswered, 7);
}

TEST(only_a_much_busier_server_gets_a_label)
{
	_cleanup_table_ struct dns_server_table table = {0};
	struct dns_server_state *busy, *pinned;
	uint64_t now = 1000 * USEC_PER_SEC;

	for (unsigned i = 0; i < DNS_LABELS; i++)
		query(&table, add_server(&table, i), 100, now);
	busy = add_server(&table, 100);
	assert_null(busy->label);
	query(&table, busy, 200, now);
	dns_label_assign(&table, now);
	assert_null(busy->label);
	query(&table, busy, 61, now);
	assert_int_equal(dns_queries(&table.others), 261);
	dns_label_assign(&table, now);
	assert_non_null(busy->label);
	assert_int_equal(dns_queries(&table.others), 261);
	query(&table, busy, 5, now);
	/* A quiet server with a budget gets a label and keeps it. */
	pinned = add_server(&table, 200);
	pinned->pinned = true;
	for (int i = 0; i < 2; i++) {
		dns_label_assign(&table, now);
		assert_non_null(pinned->label);
	}
	/* The reported sum does not fall when labels change. */
	assert_int_equal(reported(&table), DNS_LABELS * 100 + 261 + 5);
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
	dns_label_assign(&table, now);
	assert_null(late->label);
	now += 101 * USEC_PER_SEC;
	query(&table, late, 1, now);
	dns_label_assign(&table, now);
	/* The server that was idle the longest loses its label. */
	assert_non_null(late->label);
	assert_null(table.servers[0]->label);
}
