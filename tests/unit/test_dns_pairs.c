/* SPDX-License-Identifier: Apache-2.0 */
#include "dns_kernel.h"

#define HERE "10.53.0.1"

static void send_to(struct fixture *node, const char *server, uint32_t n)
{
	send_now(node, pair_of(node, server, 77, HERE), n, true);
}

STATE_TEST(a_reading_that_fails_changes_nothing)
{
	const struct dns_server_state *server;

	send_to(node, "10.9.9.9", 100);
	poll_after(node, USEC_PER_SEC);
	node->kernel->error = -EFAULT;
	for (int i = 0; i < 5; i++)
		poll_after(node, USEC_PER_SEC);
	server = server_at(node, "10.9.9.9");
	assert_int_equal(dns_queries(&server->totals.counters), 100);
	assert_int_equal(dns_seconds_peak(&server->label->queries), 100);
	assert_int_equal(server->label->queries.last, 0);
	node->kernel->error = 0;
	send_to(node, "10.9.9.9", 7);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(dns_queries(&server->totals.counters), 107);
	assert_int_equal(server->label->queries.last, 7);
}

STATE_TEST(counters_never_fall)
{
	struct dns_counts *counts = pair_of(node, "10.9.9.9", 77, HERE);

	send_now(node, counts, 100, true);
	poll_after(node, USEC_PER_SEC);
	counts->counters.queries[DNS_UDP]--;
	poll_after(node, USEC_PER_SEC);
	counts->counters.queries[DNS_UDP] += 2;
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(dns_queries(&server_at(node, "10.9.9.9")->label->reported.counters), 101);
}

STATE_TEST(a_query_is_pending_for_five_seconds_and_then_unanswered)
{
	struct dns_counts *counts = pair_of(node, "10.9.9.9", 77, HERE);
	const struct dns_server_state *server;
	struct dns_slot minute;

	for (int i = 0; i < 4; i++) {
		send_now(node, counts, 10, false);
		poll_after(node, USEC_PER_SEC / 2);
	}
	server = server_at(node, "10.9.9.9");
	assert_int_equal(server->pending, 40);
	assert_int_equal(server->totals.ends.unanswered, 0);
	poll_after(node, 3 * USEC_PER_SEC);
	assert_int_equal(server->pending, 40);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(server->pending, 20);
	assert_int_equal(server->totals.ends.unanswered, 20);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(server->pending, 0);
	assert_int_equal(server->totals.ends.unanswered, 40);
	/* A minute never has more unanswered queries than queries. */
	for (int i = 0; i < 80; i++) {
		poll_after(node, USEC_PER_SEC);
		minute = dns_minute(server);
		assert_true(minute.ends.unanswered <= minute.queries);
	}
	assert_int_equal(minute.ends.unanswered, 0);
}

STATE_TEST(a_late_poll_settles_each_query_once)
{
	struct dns_counts *counts = pair_of(node, "10.9.9.9", 77, HERE);

	send_now(node, counts, 10, false);
	poll_after(node, USEC_PER_SEC);
	poll_after(node, 30 * USEC_PER_SEC);
	for (int i = 0; i < 20; i++)
		poll_after(node, USEC_PER_SEC);
	assert_int_equal(server_at(node, "10.9.9.9")->totals.ends.unanswered, 10);
	assert_int_equal(server_at(node, "10.9.9.9")->pending, 0);
}

STATE_TEST(queries_that_are_not_followed_are_not_unanswered)
{
	struct dns_counts *counts = pair_of(node, "10.9.9.9", 77, HERE);
	const struct dns_server_state *server;
	struct dns_slot minute;

	send_now(node, counts, 100, false);
	counts->counters.not_followed += 60;
	poll_after(node, USEC_PER_SEC);
	server = server_at(node, "10.9.9.9");
	assert_int_equal(server->totals.ends.not_followed, 0);
	poll_after(node, 5 * USEC_PER_SEC);
	assert_int_equal(server->totals.ends.not_followed, 60);
	assert_int_equal(server->totals.ends.unanswered, 40);
	/* No answer at all: the server is dead. */
	minute = dns_minute(server);
	assert_int_equal(dns_lost(&minute), 100);
	send_now(node, counts, 1, true);
	poll_after(node, USEC_PER_SEC);
	minute = dns_minute(server);
	assert_int_equal(dns_lost(&minute), 40);
}

STATE_TEST(superseded_queries_are_neither_pending_nor_unanswered)
{
	struct dns_counts *counts = pair_of(node, "10.9.9.9", 77, HERE);
	uint64_t quarter = node->now_us * 1000 / DNS_QUARTER_NS % DNS_QUARTERS;
	const struct dns_server_state *server;

	counts->counters.queries[DNS_UDP] = 30;
	counts->quarters[quarter].superseded = 30;
	poll_after(node, USEC_PER_SEC);
	server = server_at(node, "10.9.9.9");
	assert_int_equal(server->pending, 0);
	/* An answer came nevertheless. */
	counts->quarters[quarter].superseded = 29;
	poll_after(node, 5 * USEC_PER_SEC);
	assert_int_equal(server->totals.ends.superseded, 29);
	assert_int_equal(server->totals.ends.unanswered, 0);
}

/* Between two polls, 250 queries wait for a third of a second. */
STATE_TEST(a_short_burst_of_pending_queries_is_seen)
{
	struct dns_counts *counts = pair_of(node, "168.63.129.16", 77, HERE);
	uint64_t bin = node->now_us * 1000 / DNS_BIN_NS;

	send_now(node, counts, 250, false);
	counts->quarters[node->now_us * 1000 / DNS_QUARTER_NS % DNS_QUARTERS].waiting = 0;
	counts->pending[(bin + 5) % DNS_BINS] -= 250;
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(server_at(node, "168.63.129.16")->pending, 0);
	assert_int_equal(server_at(node, "168.63.129.16")->pending_peak, 250);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(server_at(node, "168.63.129.16")->pending_peak, 0);
}

/* Sends a query to each of n servers. */
static void send_to_many(struct fixture *node, int n)
{
	char address[DNS_ADDRESS_TEXT];

	for (int i = 0; i < n; i++) {
		snprintf(address, sizeof(address), "10.1.%d.%d", i / 250, i % 250 + 1);
		send_to(node, address, 1);
	}
}

STATE_TEST(room_is_made_for_new_servers)
{
	send_to_many(node, 600);
	send_to(node, "10.9.9.9", 1000);
	poll_after(node, USEC_PER_SEC);
	poll_after(node, 30 * USEC_PER_SEC);
	assert_int_equal(node->kernel->removed, 0);
	for (int i = 0; i < 40; i++) {
		send_to(node, "10.9.9.9", 10);
		poll_after(node, USEC_PER_SEC);
	}
	/* The busy server and the pinned one stay, and those with a label. */
	assert_int_equal(node->kernel->removed, 600);
	assert_in_range(node->sensor->seen.table.n, 3, 30);
	assert_non_null(server_at(node, "10.9.9.9"));
	assert_non_null(server_at(node, "168.63.129.16"));
	assert_null(server_at(node, "10.1.2.99"));
	/* A pair that was removed starts at 0, and the sum keeps its queries. */
	send_to(node, "10.1.2.99", 5);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(dns_queries(&server_at(node, "10.1.2.99")->totals.counters), 5);
}

STATE_TEST(servers_beyond_the_table_are_counted_together)
{
	const struct dns_server_state *rest;

	send_to_many(node, 1500);
	poll_after(node, USEC_PER_SEC);
	rest = dns_server_find(&node->sensor->seen.table, &(struct dns_address){0});
	/* One is the rest, and one is pinned. */
	assert_int_equal(node->sensor->seen.table.n, DNS_SERVERS - 1);
	assert_int_equal(dns_queries(&rest->totals.counters), 1500 - (DNS_SERVERS - 3));
	assert_int_equal(node->sensor->seen.table.lost, 1500 - (DNS_SERVERS - 3));
}

static void send_packets(struct fixture *node, const char *source, uint32_t n)
{
	struct dns_counts *counts = pair_of(node, "169.254.169.254", 1, source);

	counts->counters.other_packets += n;
	counts->bins[node->now_us * 1000 / DNS_BIN_NS % DNS_BINS] += n * DNS_BIN_PACKET;
}

STATE_TEST(packets_to_link_local_addresses_share_a_budget)
{
	const struct dns_seen *seen = &node->sensor->seen;

	assert_int_equal(node->kernel->control.n_watched, 0);
	send_to(node, "169.254.169.253", 1);
	poll_after(node, 3 * USEC_PER_SEC / 2);
	assert_int_equal(node->kernel->control.n_watched, 6);
	send_packets(node, "10.0.0.1", 900);
	send_packets(node, "10.0.0.2", 300);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(seen->link_local.poll_peak, 1200);
	assert_int_equal(seen->link_local.over, 1);
	assert_int_equal(seen->n_senders, 3);
	assert_int_equal(seen->senders[0].packets, 900);
	assert_int_equal(seen->senders[0].seconds.over, 0);
	/* The metadata service gets no row among the DNS servers. */
	assert_null(server_at(node, "169.254.169.254")->label);
	/* A second over the budget counts once, even if the next reading fails. */
	node->kernel->error = -ENOMEM;
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(seen->link_local.over, 0);
}

STATE_TEST(late_polls_are_counted_once)
{
	send_to(node, "10.9.9.9", 100);
	send_to(node, "10.9.9.10", 100);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->sensor->coarse, 0);
	send_to(node, "10.9.9.9", 100);
	send_to(node, "10.9.9.10", 100);
	poll_after(node, 20 * USEC_PER_SEC);
	assert_int_equal(node->sensor->coarse, 1);
	/* Without queries a late poll loses nothing. */
	poll_after(node, 2 * USEC_PER_SEC);
	poll_after(node, 20 * USEC_PER_SEC);
	assert_int_equal(node->sensor->coarse, 1);
}

STATE_TEST(a_new_label_does_not_change_the_others)
{
	const struct dns_server_table *table = &node->sensor->seen.table;

	send_to_many(node, DNS_LABELS + 5);
	poll_after(node, USEC_PER_SEC);
	/* One label is that of the pinned server. */
	assert_int_equal(dns_queries(&table->others.counters), 6);
	send_to(node, "10.9.9.9", 500);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(dns_queries(&server_at(node, "10.9.9.9")->label->reported.counters), 500);
	assert_int_equal(dns_queries(&table->others.counters), 6);
}

STATE_TEST(a_label_that_comes_back_has_no_queries_of_the_time_without_it)
{
	const struct dns_server_state *server;

	send_to(node, "10.9.9.9", 10);
	poll_after(node, USEC_PER_SEC);
	server = server_at(node, "10.9.9.9");
	assert_non_null(server->label);
	for (int second = 0; second < 100; second++) {
		for (int i = 0; i < 20; i++)
			send_to_many(node, DNS_LABELS - 1);
		send_to(node, "10.9.9.9", 5);
		poll_after(node, USEC_PER_SEC);
		if (second == 20)
			assert_null(server->label);
	}
	assert_null(server->label);
	send_to(node, "10.9.9.9", 5000);
	poll_after(node, USEC_PER_SEC);
	assert_non_null(server->label);
	for (int second = 0; second < 4; second++) {
		send_to(node, "10.9.9.9", 7);
		poll_after(node, USEC_PER_SEC);
		assert_int_equal(server->label->queries.last, 7);
	}
}

STATE_TEST(a_reading_that_fails_removes_no_server)
{
	send_to_many(node, 600);
	poll_after(node, USEC_PER_SEC);
	node->kernel->error = -ENOMEM;
	poll_after(node, 11 * USEC_PER_SEC);
	node->kernel->error = 0;
	send_to(node, "10.1.2.99", 1);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(dns_queries(&server_at(node, "10.1.2.99")->totals.counters), 2);
}

/* The tuner was off. */
STATE_TEST(decades_without_a_poll_take_no_time)
{
	const uint64_t begin_us = now_us();

	send_now(node, pair_of(node, "10.9.9.9", 77, HERE), 10, false);
	poll_after(node, USEC_PER_SEC);
	poll_after(node, 50 * 365 * 86400 * USEC_PER_SEC);
	assert_true(now_us() - begin_us < USEC_PER_SEC);
	send_to(node, "10.9.9.9", 3);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(server_at(node, "10.9.9.9")->label->queries.last, 3);
}

STATE_TEST(a_pause_is_not_over_the_budget)
{
	struct dns_counts *counts = pair_of(node, "168.63.129.16", 77, HERE);
	struct dns_memory memory = {0};
	struct proposal proposal = {0};
	struct decide_input input = {0};

	for (int i = 0; i < 2; i++) {
		send_now(node, counts, 250, false);
		poll_after(node, USEC_PER_SEC);
		input.now_us = node->now_us;
		proposal_clear(&proposal);
		dns_decide(node->sensor, &input, &memory, &proposal);
		assert_int_equal(memory.servers[0].over, i == 0 ? 1 : 61);
		node->now_us += 3600 * USEC_PER_SEC;
	}
	proposal_clear(&proposal);
	dns_memory_clear(&memory);
}
