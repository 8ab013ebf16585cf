/* SPDX-License-Identifier: Apache-2.0 */
#include "dns_kernel.h"

#include "base/exposition.h"

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

static char *metrics_of(struct fixture *node)
{
	struct dns_memory memory = {0};
	char *text = NULL;
	size_t size = 0;
	struct metric_sink sink = {.out = open_memstream(&text, &size), .rows = dns_metric_rows};

	dns_put_metrics(node->sensor, &memory, &sink);
	fclose(sink.out);
	return text;
}

static size_t count_series(const char *text)
{
	size_t series = 0;

	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		series += *line != '#';
	return series;
}

/* A quiet node may have 300 series, and 240 of them are not about DNS. */
STATE_TEST(events_that_never_happened_have_no_series)
{
	static const char *const servers[] = {"168.63.129.16", "10.9.9.9"};
	_cleanup_free_ char *before = NULL, *after = NULL;

	poll_after(node, USEC_PER_SEC);
	before = metrics_of(node);
	assert_non_null(strstr(before, "headroom_dns_pending{server=\"168.63.129.16\"} 0\n"));
	assert_null(strstr(before, "_bucket{"));
	assert_non_null(strstr(before, "headroom_dns_lost_total{what=\"fragments\"} 0\n"));
	assert_null(strstr(before, "headroom_dns_search_expansions_total{"));
	for (size_t i = 0; i < ARRAY_SIZE(servers); i++) {
		send_queries(node, servers[i], 2);
		serve(node, servers[i])->totals.latency[0] = 1;
		serve(node, servers[i])->totals.responses[DNS_NOERROR] = 1;
		serve(node, servers[i])->totals.responses[DNS_NXDOMAIN] = 1;
	}
	poll_after(node, USEC_PER_SEC);
	poll_after(node, USEC_PER_SEC);
	after = metrics_of(node);
	assert_non_null(strstr(after, "latency_seconds_count{server=\"168.63.129.16\"} 1\n"));
	assert_non_null(strstr(after, "second_queries_sum{server=\"168.63.129.16\"} 2\n"));
	assert_in_range(count_series(after), 50, 60);
	node->kernel->control.fragments = node->sensor->seen.search[DNS_CLUSTER].queries = 1;
	serve(node, "10.9.9.9")->totals.retransmissions = 1;
	poll_after(node, USEC_PER_SEC);
	free(after);
	after = metrics_of(node);
	assert_non_null(strstr(after, "headroom_dns_lost_total{what=\"fragments\"} 1\n"));
	assert_non_null(strstr(after, "expansions_total{role=\"cluster\"} 0\n"));
	assert_non_null(strstr(after, "retransmissions_total{server=\"10.9.9.9\"} 1\n"));
}
