/* SPDX-License-Identifier: Apache-2.0 */
#include "dns_kernel.h"

static struct dns_server *serve(struct fixture *node, const char *address)
{
	struct dns_key key = key_of(address);

	return &node->kernel->servers[slot_of(node->kernel, &key)];
}

static void send_queries(struct fixture *node, const char *address, uint32_t n)
{
	struct dns_server *server = serve(node, address);

	server->totals.queries[DNS_UDP] += n;
	server->bins[node->now_us * 1000 / DNS_BIN_NS % DNS_BINS] +=
		n * (DNS_BIN_QUERY + DNS_BIN_PACKET);
}

static const struct dns_server_state *known(const struct fixture *node, const char *address)
{
	struct dns_key key = key_of(address);

	return dns_server_find(&node->sensor->seen.table, &key);
}

STATE_TEST(a_reading_that_fails_changes_nothing)
{
	send_queries(node, "10.9.9.9", 100);
	poll_after(node, USEC_PER_SEC);
	node->kernel->error = -EFAULT;
	for (int i = 0; i < 5; i++)
		poll_after(node, USEC_PER_SEC);
	assert_int_equal(dns_queries(&known(node, "10.9.9.9")->totals), 100);
	assert_int_equal(dns_seconds_peak(&known(node, "10.9.9.9")->queries), 100);
	assert_int_equal(known(node, "10.9.9.9")->queries.last, 0);
	node->kernel->error = 0;
	send_queries(node, "10.9.9.9", 7);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(dns_queries(&known(node, "10.9.9.9")->totals), 107);
	assert_int_equal(known(node, "10.9.9.9")->queries.last, 7);
}

/* Sends a query to each of n servers. */
static void send_to_many(struct fixture *node, int n)
{
	char address[DNS_ADDRESS_TEXT];

	for (int i = 0; i < n; i++) {
		snprintf(address, sizeof(address), "10.1.%d.%d", i / 250, i % 250 + 1);
		send_queries(node, address, 1);
	}
}

STATE_TEST(room_is_made_for_new_servers)
{
	send_to_many(node, 600);
	send_queries(node, "10.9.9.9", 1000);
	poll_after(node, USEC_PER_SEC);
	poll_after(node, 30 * USEC_PER_SEC);
	assert_int_equal(node->kernel->forgotten, 0);
	for (int i = 0; i < 40; i++) {
		send_queries(node, "10.9.9.9", 10);
		poll_after(node, USEC_PER_SEC);
	}
	/* The busy server, the pinned one, the sum of the rest and those with a label stay. */
	assert_in_range(node->kernel->forgotten, 570, 600);
	assert_non_null(known(node, "10.9.9.9"));
	assert_non_null(known(node, "168.63.129.16"));
	assert_null(known(node, "10.1.2.99"));
	/* A forgotten server starts at 0. */
	send_queries(node, "10.1.2.99", 5);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(dns_queries(&known(node, "10.1.2.99")->totals), 5);
}

static void send_packets(struct fixture *node, size_t source, uint32_t n)
{
	struct dns_source *counts = &node->kernel->sources[source];

	node->kernel->n_sources = MAX(node->kernel->n_sources, source + 1);
	counts->bins[node->now_us * 1000 / DNS_BIN_NS % DNS_BINS] += n;
	counts->packets += n;
	counts->last_ns = node->now_us * 1000;
}

static void watch_link_local(struct fixture *node)
{
	assert_int_equal(node->kernel->control.watching, 0);
	send_queries(node, "169.254.169.253", 1);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->kernel->control.watching, 6);
}

STATE_TEST(sources_without_room_are_in_the_sum)
{
	watch_link_local(node);
	for (size_t i = 0; i <= FAKE_REST; i++)
		send_packets(node, i, (uint32_t)i + 1);
	poll_after(node, USEC_PER_SEC);
	/* The last source is the sum of sources without room. */
	assert_int_equal(node->sensor->seen.link_local.poll_peak, 20 * 21 / 2);
	assert_int_equal(node->sensor->seen.n_senders, FAKE_REST);
	assert_int_equal(node->sensor->seen.senders[0].packets, FAKE_REST);
	/* A second over the budget counts once, even if the next reading fails. */
	poll_after(node, USEC_PER_SEC);
	send_packets(node, 0, 1100);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->sensor->seen.link_local.over, 1);
	node->kernel->error = -ENOMEM;
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->sensor->seen.link_local.over, 0);
}

STATE_TEST(idle_senders_make_room)
{
	const unsigned *senders = &node->sensor->seen.n_senders;

	watch_link_local(node);
	for (size_t i = 0; i < FAKE_SOURCES; i++)
		send_packets(node, i, 1);
	poll_after(node, USEC_PER_SEC);
	for (int i = 0; i < 29; i++) {
		send_packets(node, 7, 1);
		poll_after(node, 20 * USEC_PER_SEC);
	}
	assert_int_equal(*senders, FAKE_SOURCES - 1);
	for (int i = 0; i < 30; i++) {
		send_packets(node, 7, 1);
		poll_after(node, 2 * USEC_PER_SEC);
		assert_int_equal(node->sensor->seen.link_local.poll_peak, 1);
	}
	/* Half of the room is free, and the active sender stays. */
	assert_in_range(*senders, DNS_SOURCES_MAX / 2 - 16, DNS_SOURCES_MAX / 2);
	assert_int_equal(node->kernel->forgotten, FAKE_SOURCES - 1 - *senders);
	assert_int_equal(node->kernel->sources[7].packets, 60);
	assert_int_equal(node->kernel->sources[FAKE_REST].packets, 1);
	/* A forgotten sender starts at 0. */
	for (size_t i = 0; i < 7; i++)
		send_packets(node, i, 100);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->sensor->seen.link_local.poll_peak, 700);
}

STATE_TEST(late_polls_are_counted_once)
{
	send_queries(node, "10.9.9.9", 100);
	send_queries(node, "10.9.9.10", 100);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->sensor->coarse, 0);
	send_queries(node, "10.9.9.9", 100);
	send_queries(node, "10.9.9.10", 100);
	poll_after(node, 20 * USEC_PER_SEC);
	assert_int_equal(node->sensor->coarse, 1);
	/* Without queries a late poll loses nothing. */
	poll_after(node, 2 * USEC_PER_SEC);
	poll_after(node, 20 * USEC_PER_SEC);
	assert_int_equal(node->sensor->coarse, 1);
}
