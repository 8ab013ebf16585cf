/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"
#include "tuners/dns/dns.h"

static struct dns_key numbered(unsigned n)
{
	return (struct dns_key){AF_INET, {10, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n}};
}

static struct dns_server_state *meet(struct dns_book *book, unsigned n)
{
	struct dns_key key = numbered(n);
	struct dns_server_state *server = dns_book_get(book, &key);

	assert_non_null(server);
	dns_book_offer(book, server);
	return server;
}

static void ask(struct dns_book *book, struct dns_server_state *server, uint64_t n, uint64_t now)
{
	struct dns_totals totals = server->totals;

	totals.queries[DNS_UDP] += n;
	totals.responses[DNS_NOERROR] += n;
	dns_minute_pass(server, now);
	dns_book_take(book, server, &totals, now);
}

/* All that the metrics tell of, over labels and the rest. */
static uint64_t told(const struct dns_book *book)
{
	uint64_t sum = 0;

	for (int role = 0; role < DNS_ROLES; role++)
		sum += dns_queries(&book->others[role]);
	for (size_t i = 0; i < DNS_LABELS; i++)
		if (book->labels[i].server)
			sum += dns_queries(&book->labels[i].told);
	return sum;
}

static void every_server_is_found_again(void **state)
{
	struct dns_book book = {0};
	struct dns_key key;

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		meet(&book, i * 7919);
	assert_int_equal(book.n, 1000);
	for (unsigned i = 0; i < 1000; i += 3) {
		key = numbered(i * 7919);
		dns_book_remove(&book, dns_book_find(&book, &key));
	}
	for (unsigned i = 0; i < 1000; i++) {
		key = numbered(i * 7919);
		assert_int_equal(dns_book_find(&book, &key) != NULL, i % 3 != 0);
	}
	assert_int_equal(book.n, 666);
	dns_book_clear(&book);
}

static void the_book_is_bounded(void **state)
{
	struct dns_book book = {0};
	size_t refused = 0;

	(void)state;
	for (unsigned i = 0; i < 10000; i++) {
		struct dns_key key = numbered(i);

		refused += !dns_book_get(&book, &key);
	}
	assert_int_equal(book.n, DNS_SERVERS_MAX + 1 + DNS_PINNED_MAX);
	assert_int_equal(refused, 10000 - book.n);
	dns_book_clear(&book);
}

static void nothing_is_lost_between_labels_and_the_rest(void **state)
{
	struct dns_book book = {0};
	uint64_t now = 1000 * USEC_PER_SEC;

	(void)state;
	for (unsigned i = 0; i < 50; i++)
		ask(&book, meet(&book, i), i + 1, now);
	/* The first twenty have a label from their first query on. */
	for (size_t i = 0; i < DNS_LABELS; i++)
		assert_int_equal(dns_queries(&book.labels[i].told), i + 1);
	assert_int_equal(told(&book), 50 * 51 / 2);
	dns_book_clear(&book);
}

static void counters_never_fall(void **state)
{
	struct dns_book book = {0};
	struct dns_server_state *server;
	struct dns_totals back = {0};

	(void)state;
	server = meet(&book, 1);
	ask(&book, server, 100, USEC_PER_SEC);
	back.queries[DNS_UDP] = 99;
	assert_false(dns_book_take(&book, server, &back, 2 * USEC_PER_SEC));
	assert_int_equal(dns_queries(&server->totals), 100);
	assert_int_equal(told(&book), 100);
	dns_book_take_unanswered(&book, server, 7);
	assert_int_equal(book.labels[server->label].told.unanswered, 7);
	dns_book_clear(&book);
}

static void only_who_is_much_busier_takes_a_label(void **state)
{
	struct dns_book book = {0};
	struct dns_server_state *busy, *pinned;
	uint64_t now = 1000 * USEC_PER_SEC, rest;

	(void)state;
	for (unsigned i = 0; i < DNS_LABELS; i++)
		ask(&book, meet(&book, i), 100, now);
	busy = meet(&book, 100);
	assert_int_equal(busy->label, -1);
	ask(&book, busy, 200, now);
	dns_book_label(&book, now);
	assert_int_equal(busy->label, -1);
	ask(&book, busy, 61, now);
	rest = dns_queries(&book.others[DNS_UPSTREAM]);
	assert_int_equal(rest, 261);
	dns_book_label(&book, now);
	assert_true(busy->label >= 0);
	/* Its series begins at nothing, and what the rest had stays there. */
	assert_int_equal(dns_queries(&book.labels[busy->label].told), 0);
	assert_int_equal(dns_queries(&book.others[DNS_UPSTREAM]), rest);
	ask(&book, busy, 5, now);
	assert_int_equal(dns_queries(&book.labels[busy->label].told), 5);
	/* A budget is always told of. */
	pinned = meet(&book, 200);
	pinned->pinned = true;
	dns_book_label(&book, now);
	assert_true(pinned->label >= 0);
	for (int i = 0; i < 1000; i++)
		dns_book_label(&book, now);
	assert_true(pinned->label >= 0);
	dns_book_clear(&book);
}

static void who_is_idle_for_long_gives_its_label(void **state)
{
	struct dns_book book = {0};
	struct dns_server_state *late;
	uint64_t now = 1000 * USEC_PER_SEC;

	(void)state;
	for (unsigned i = 0; i < DNS_LABELS; i++)
		ask(&book, meet(&book, i), 1, now + i);
	now += 500 * USEC_PER_SEC;
	for (unsigned i = 0; i < book.n; i++)
		dns_minute_pass(book.servers[i], now);
	late = meet(&book, 100);
	ask(&book, late, 1, now);
	dns_book_label(&book, now);
	assert_int_equal(late->label, -1);
	now += 101 * USEC_PER_SEC;
	ask(&book, late, 1, now);
	dns_book_label(&book, now);
	/* That of who was idle the longest. */
	assert_int_equal(late->label, 0);
	dns_book_clear(&book);
}

static void a_minute_is_six_slots(void **state)
{
	struct dns_book book = {0};
	struct dns_server_state *server;

	(void)state;
	server = meet(&book, 1);
	ask(&book, server, 60, 100 * USEC_PER_SEC);
	ask(&book, server, 40, 130 * USEC_PER_SEC);
	dns_minute_pass(server, 155 * USEC_PER_SEC);
	assert_int_equal(dns_minute_queries(server), 100);
	dns_minute_pass(server, 165 * USEC_PER_SEC);
	assert_int_equal(dns_minute_queries(server), 40);
	/* Never back, and never far behind. */
	dns_minute_pass(server, 100 * USEC_PER_SEC);
	assert_int_equal(dns_minute_queries(server), 40);
	dns_minute_pass(server, UINT64_C(900000) * USEC_PER_SEC);
	assert_int_equal(dns_minute_queries(server), 0);
	dns_book_clear(&book);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_server_is_found_again),
		cmocka_unit_test(the_book_is_bounded),
		cmocka_unit_test(nothing_is_lost_between_labels_and_the_rest),
		cmocka_unit_test(counters_never_fall),
		cmocka_unit_test(only_who_is_much_busier_takes_a_label),
		cmocka_unit_test(who_is_idle_for_long_gives_its_label),
		cmocka_unit_test(a_minute_is_six_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
