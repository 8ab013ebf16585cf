/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <sys/socket.h>

#include "tuners/dns/sense.h"

#include "fake_dns_kernel.h"

/* A node made up for a test, and the agent's polls of it. */
struct fixture {
	struct directory directory;
	struct host host;
	struct dns_sensor sensor;
	struct dns_seen seen;
	struct dns_bpf *kernel;
	uint64_t now_us;
};

static void poll_after(struct fixture *node, uint64_t later_us)
{
	node->now_us += later_us;
	dns_sense(&node->sensor, &node->seen, node->now_us);
}

static int begin(void **state)
{
	struct fixture *node = calloc(1, sizeof(*node));
	char why[TUNER_WHY_MAX] = "";

	assert_non_null(node);
	directory_make(&node->directory);
	assert_true(host_init(&node->host, node->directory.path));
	directory_put(&node->directory, "/etc/resolv.conf",
		"nameserver 168.63.129.16\nsearch cluster.LOCAL ec2.internal\n");
	assert_int_equal(dns_sensor_open(&node->sensor, &node->host), 0);
	node->sensor.bpf = dns_bpf_open(&node->host, why);
	assert_non_null(node->sensor.bpf);
	node->kernel = node->sensor.bpf;
	node->sensor.config.budget_auto = true;
	node->sensor.config.names = true;
	copy_text(node->sensor.config.domains[0], DNS_DOMAIN_MAX, "cluster.local");
	node->sensor.config.n_domains = 1;
	node->now_us = 1000 * USEC_PER_SEC;
	poll_after(node, 0);
	*state = node;
	return 0;
}

static int end(void **state)
{
	struct fixture *node = *state;

	dns_sensor_close(&node->sensor);
	directory_remove(&node->directory);
	free(node);
	return 0;
}

static struct dns_key key_of(const char *address)
{
	struct dns_key key;

	assert_true(dns_address_parse(address, &key));
	return key;
}

static struct dns_server *serve(struct fixture *node, const char *address)
{
	struct dns_key key = key_of(address);

	return &node->kernel->servers[slot_of(node->kernel, &key)];
}

static void send_queries(struct fixture *node, const char *address, uint32_t n)
{
	struct dns_server *server = serve(node, address);

	server->queries[DNS_UDP] += n;
	server->bins[node->now_us * 1000 / DNS_BIN_NS % DNS_BINS] +=
		n * (DNS_BIN_QUERY + DNS_BIN_PACKET);
}

static const struct dns_server_state *known(const struct fixture *node, const char *address)
{
	struct dns_key key = key_of(address);

	return dns_server_find(&node->sensor.table, &key);
}

#define STATE_TEST(name)                             \
	static void name##_of(struct fixture *node); \
	TEST_FIXTURE(name, begin, end)               \
	{                                            \
		name##_of(*state);                   \
	}                                            \
	static void name##_of(struct fixture *node)

STATE_TEST(budgets_are_watched_before_the_first_query)
{
	assert_non_null(known(node, "168.63.129.16"));
	assert_int_equal(known(node, "168.63.129.16")->budget.qps, 1000);
	assert_true(known(node, "168.63.129.16")->label >= 0);
	assert_int_equal(
		node->kernel->n_servers, 2); /* a slot is reserved for it, and for the rest */
	/* The cluster's domain, and the search list, which has it too. */
	assert_int_equal(node->kernel->n_suffixes, 3);
	send_queries(node, "168.63.129.16", 1500);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(known(node, "168.63.129.16")->queries.poll_peak, 1500);
	assert_int_equal(known(node, "168.63.129.16")->queries.over, 1);
	assert_int_equal(dns_queries(&node->sensor.table.labels[0].reported), 1500);
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

static void send_one(struct fixture *node, const char *address)
{
	size_t place = node->kernel->n_pending++;
	struct dns_pending *query = &node->kernel->pending[place].query;
	struct dns_key key = key_of(address);

	node->kernel->pending[place].sent_ns = node->now_us * 1000;
	*query = (struct dns_pending){.family = 4};
	memcpy(query->server, key.address, sizeof(query->server));
	send_queries(node, address, 1);
}

STATE_TEST(unanswered_queries_are_swept)
{
	size_t sweeps;

	for (int i = 0; i < 12; i++)
		send_one(node, "10.9.9.9");
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(known(node, "10.9.9.9")->pending, 12);
	assert_int_equal(known(node, "10.9.9.9")->totals.unanswered, 0);
	poll_after(node, 5 * USEC_PER_SEC);
	assert_int_equal(known(node, "10.9.9.9")->pending, 0);
	assert_int_equal(known(node, "10.9.9.9")->totals.unanswered, 12);
	assert_int_equal(dns_minute(known(node, "10.9.9.9")).unanswered, 12);
	/* An evicted query never gets an answer either. */
	serve(node, "10.9.9.9")->evicted += 3;
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(known(node, "10.9.9.9")->totals.unanswered, 15);
	/* An idle node is not swept. */
	poll_after(node, USEC_PER_SEC);
	sweeps = node->kernel->sweeps;
	for (int i = 0; i < 10; i++)
		poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->kernel->sweeps, sweeps);
}

STATE_TEST(a_server_that_answers_cluster_names_is_of_the_cluster)
{
	send_queries(node, "10.244.1.5", 3);
	send_queries(node, "168.63.129.16", 3);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(known(node, "10.244.1.5")->role, DNS_UPSTREAM);
	serve(node, "10.244.1.5")->cluster_answers = 1;
	serve(node, "168.63.129.16")->cluster_answers = 1;
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(known(node, "10.244.1.5")->role, DNS_CLUSTER);
	/* A resolver with a budget stays an upstream, whatever it answers. */
	assert_int_equal(known(node, "168.63.129.16")->role, DNS_UPSTREAM);
	send_queries(node, "127.0.0.53", 1);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(known(node, "127.0.0.53")->role, DNS_LOCAL);
}

STATE_TEST(room_is_made_for_new_servers)
{
	char address[DNS_ADDRESS_TEXT];

	for (int i = 0; i < 600; i++) {
		snprintf(address, sizeof(address), "10.1.%d.%d", i / 250, i % 250 + 1);
		send_queries(node, address, 1);
	}
	send_queries(node, "10.9.9.9", 1000);
	poll_after(node, USEC_PER_SEC);
	poll_after(node, 30 * USEC_PER_SEC);
	assert_int_equal(node->kernel->forgotten, 0);
	for (int i = 0; i < 40; i++) {
		send_queries(node, "10.9.9.9", 10);
		poll_after(node, USEC_PER_SEC);
	}
	/* All but the busy one, the pinned one, the rest's, and those with a label. */
	assert_in_range(node->kernel->forgotten, 570, 600);
	assert_non_null(known(node, "10.9.9.9"));
	assert_non_null(known(node, "168.63.129.16"));
	assert_null(known(node, "10.1.2.99"));
	/* It comes again, and counts from there. */
	send_queries(node, "10.1.2.99", 5);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(dns_queries(&known(node, "10.1.2.99")->totals), 5);
}

STATE_TEST(names_are_sampled_while_configured)
{
	send_queries(node, "10.9.9.9", 10);
	poll_after(node, USEC_PER_SEC);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->kernel->one_in, 1);
	assert_non_null(node->sensor.table.labels[known(node, "10.9.9.9")->label].names);
	send_queries(node, "10.9.9.9", 10000);
	poll_after(node, USEC_PER_SEC);
	assert_in_range(node->kernel->one_in, 125, 500);
	node->sensor.config.names = false;
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->kernel->one_in, 0);
	assert_null(node->sensor.table.labels[known(node, "10.9.9.9")->label].names);
}

static void send_packets(struct fixture *node, size_t source, uint32_t n)
{
	struct dns_source *counts = &node->kernel->sources[source];

	node->kernel->n_sources = MAX(node->kernel->n_sources, source + 1);
	counts->bins[node->now_us * 1000 / DNS_BIN_NS % DNS_BINS] += n;
	counts->packets += n;
	counts->last_ns = node->now_us * 1000;
}

STATE_TEST(link_local_packets_share_a_budget)
{
	assert_int_equal(node->kernel->n_watched, 0);
	assert_null(node->seen.link_local);
	send_queries(node, "169.254.169.253", 1);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->kernel->n_watched, 6);
	poll_after(node, USEC_PER_SEC);
	send_packets(node, 0, 600);
	send_packets(node, 1, 600);
	poll_after(node, USEC_PER_SEC);
	assert_non_null(node->seen.link_local);
	assert_int_equal(node->seen.link_local->poll_peak, 1200);
	assert_int_equal(node->seen.link_local->over, 1);
	assert_int_equal(node->seen.n_senders, 2);
	assert_int_equal(node->seen.senders[0].seconds.poll_peak, 600);
	assert_int_equal(node->seen.senders[0].seconds.over, 0);
}

static uint64_t sum_over(const struct fixture *node)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < DNS_SENDERS; i++)
		sum += node->seen.senders[i].seconds.over;
	return sum;
}

STATE_TEST(the_busiest_senders_are_kept)
{
	uint64_t sum = 0;

	send_queries(node, "169.254.169.253", 1);
	poll_after(node, USEC_PER_SEC);
	for (size_t i = 0; i <= FAKE_REST; i++)
		send_packets(node, i, (uint32_t)i + 1);
	poll_after(node, USEC_PER_SEC);
	/* All are in the sum; the last is of those without room, and is no sender. */
	assert_int_equal(node->seen.link_local->poll_peak, 20 * 21 / 2);
	assert_int_equal(node->seen.n_senders, DNS_SENDERS);
	for (size_t i = 0; i < DNS_SENDERS; i++)
		sum += node->seen.senders[i].packets;
	assert_int_equal(sum, 19 * 20 / 2 - 3 * 4 / 2);
	/* A sender that replaces another brings no burst of the past. */
	for (size_t i = 0; i < DNS_SENDERS; i++)
		assert_true(dns_seconds_peak(&node->seen.senders[i].seconds) <= 20);
	send_packets(node, 0, 5000);
	poll_after(node, USEC_PER_SEC);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(sum_over(node), 0);
	send_packets(node, 0, 5000);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->seen.link_local->over, 2);
	assert_int_equal(sum_over(node), 1);
}

static size_t count_sources(const struct fixture *node)
{
	size_t n = 0;

	for (size_t i = 0; i < FAKE_SOURCES; i++)
		n += node->kernel->sources[i].packets > 0;
	return n;
}

STATE_TEST(idle_senders_make_room)
{
	send_queries(node, "169.254.169.253", 1);
	poll_after(node, USEC_PER_SEC);
	for (size_t i = 0; i < FAKE_SOURCES; i++)
		send_packets(node, i, 1);
	poll_after(node, USEC_PER_SEC);
	for (int i = 0; i < 29; i++) {
		send_packets(node, 7, 1);
		poll_after(node, 20 * USEC_PER_SEC);
	}
	assert_int_equal(count_sources(node), FAKE_SOURCES);
	for (int i = 0; i < 30; i++) {
		send_packets(node, 7, 1);
		poll_after(node, 2 * USEC_PER_SEC);
		assert_int_equal(node->seen.link_local->poll_peak, 1);
	}
	/* Half of the room is free, and the active sender has stayed. */
	assert_in_range(count_sources(node), DNS_SOURCES_MAX / 2 - 16, DNS_SOURCES_MAX / 2);
	assert_int_equal(node->kernel->sources[7].packets, 60);
	assert_int_equal(node->kernel->sources[FAKE_REST].packets, 1);
	/* A sender that comes again begins anew. */
	for (size_t i = 0; i < 7; i++)
		send_packets(node, i, 100);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->seen.link_local->poll_peak, 700);
}

STATE_TEST(a_sender_that_replaces_another_brings_no_past)
{
	send_queries(node, "169.254.169.253", 1);
	poll_after(node, USEC_PER_SEC);
	for (size_t i = 0; i < FAKE_SOURCES; i++)
		send_packets(node, i, 1);
	for (int turn = 0; turn < 29; turn++) {
		for (size_t i = 20; i < 40; i++)
			send_packets(node, i, i < 36 ? 120 : 100);
		poll_after(node, 19 * USEC_PER_SEC);
		poll_after(node, USEC_PER_SEC);
	}
	assert_int_equal(node->seen.n_senders, DNS_SENDERS);
	for (int turn = 0; turn < 60; turn++) {
		for (size_t i = 36; i < FAKE_SOURCES; i++)
			send_packets(node, i, 1);
		poll_after(node, 19 * USEC_PER_SEC);
		poll_after(node, USEC_PER_SEC);
		for (size_t i = 0; i < node->seen.n_senders; i++)
			assert_true(dns_seconds_peak(&node->seen.senders[i].seconds) <= 120);
	}
	assert_int_equal(node->kernel->sources[20].packets, 0);
	assert_true(node->kernel->sources[39].packets > 2000);
	assert_int_equal(sum_over(node), 0);
	assert_int_equal(node->seen.link_local->over, 0);
}

STATE_TEST(late_polls_are_counted_once)
{
	send_queries(node, "10.9.9.9", 100);
	send_queries(node, "10.9.9.10", 100);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->sensor.coarse, 0);
	send_queries(node, "10.9.9.9", 100);
	send_queries(node, "10.9.9.10", 100);
	poll_after(node, 20 * USEC_PER_SEC);
	assert_int_equal(node->sensor.coarse, 1);
	/* Nothing happened: nothing is uncertain. */
	poll_after(node, 2 * USEC_PER_SEC);
	poll_after(node, 20 * USEC_PER_SEC);
	assert_int_equal(node->sensor.coarse, 1);
}
