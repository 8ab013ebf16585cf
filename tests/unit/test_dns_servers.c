/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/dns/dns.h"

#define _cleanup_table_ __attribute__((cleanup(dns_server_table_clear)))

static struct dns_address numbered(unsigned n)
{
	return (struct dns_address){
		{0xfd, [13] = (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n}};
}

static struct dns_server_state *add_server(struct dns_server_table *table, unsigned n)
{
	struct dns_address address = numbered(n);
	struct dns_server_state *server = dns_server_get(table, &address);

	assert_non_null(server);
	dns_label_claim(table, server, 0);
	return server;
}

static void query(
	struct dns_server_table *table, struct dns_server_state *server, uint64_t n, uint64_t now)
{
	struct dns_counters more = {.queries[DNS_UDP] = n, .responses[DNS_NOERROR] = n};

	dns_server_add(table, server, &more, now);
}

/* The sum of all labels and of the others. */
static uint64_t reported(const struct dns_server_table *table)
{
	uint64_t sum = dns_queries(&table->others.counters);

	for (size_t i = 0; i < table->n; i++)
		if (table->servers[i]->label)
			sum += dns_queries(&table->servers[i]->label->reported.counters);
	return sum;
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
	assert_int_equal(dns_queries(&table.others.counters), 200);
	/* The queries that earn the label are its first ones. The queries of the loser end with
	 * its series: the others do not jump. */
	query(&table, busy, 61, now);
	assert_non_null(busy->label);
	assert_null(first->label);
	assert_int_equal(dns_queries(&busy->label->reported.counters), 61);
	assert_int_equal(dns_queries(&table.others.counters), 200);
	query(&table, busy, 5, now);
	query(&table, first, 5, now);
	assert_int_equal(dns_queries(&busy->label->reported.counters), 66);
	assert_int_equal(dns_queries(&table.others.counters), 205);
	/* A quiet server with a budget gets a label and keeps it. */
	pinned = add_server(&table, 200);
	pinned->pinned = true;
	dns_label_claim(&table, pinned, now);
	assert_non_null(pinned->label);
	query(&table, first, 100000, now);
	assert_non_null(pinned->label);
	assert_int_equal(reported(&table), (DNS_LABELS - 3) * 100 + 261 + 5 + 5 + 100000);
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
