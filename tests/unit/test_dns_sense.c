/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/exposition.h"
#include "tuners/dns/sense.h"

#include "fake_dns_kernel.h"

/* A node made up for a test, and the agent's polls of it. */
struct fixture {
	struct directory directory;
	struct host host;
	struct dns_sensor sensor;
	struct dns_bpf *kernel;
	uint64_t now_us;
};

static void poll_after(struct fixture *node, uint64_t later_us)
{
	node->now_us += later_us;
	dns_sense(&node->sensor, node->now_us);
}

static void begin(struct fixture *node)
{
	char why[TUNER_WHY_MAX] = "";

	directory_make(&node->directory);
	assert_true(host_init(&node->host, node->directory.path));
	directory_put(&node->directory, "/etc/resolv.conf",
		"nameserver 168.63.129.16\nsearch cluster.LOCAL ec2.internal\n");
	dns_sensor_open(&node->sensor, &node->host);
	node->kernel = node->sensor.bpf = dns_bpf_load(why);
	node->sensor.config.budget_auto = true;
	copy_text(node->sensor.config.domains[0], DNS_DOMAIN_MAX, "cluster.local");
	node->sensor.config.n_domains = 1;
	poll_after(node, 1000 * USEC_PER_SEC);
}

static void end(struct fixture *node)
{
	dns_sensor_close(&node->sensor);
	directory_remove(&node->directory);
}

#define STATE_TEST(name) TEST_OF(fixture, node, begin, end, name)

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

	return dns_server_find(&node->sensor.seen.table, &key);
}

STATE_TEST(budgets_are_watched_before_the_first_query)
{
	assert_non_null(known(node, "168.63.129.16"));
	assert_int_equal(known(node, "168.63.129.16")->budget.max[DNS_QUERIES], 1000);
	assert_non_null(known(node, "168.63.129.16")->label);
	assert_int_equal(
		node->kernel->n_servers, 2); /* a slot is reserved for it, and for the rest */
	/* The cluster's domain, and the search list, which has it too. */
	assert_int_equal(node->kernel->control.suffixes.slots[1][0].class, DNS_SUFFIX_CLUSTER);
	assert_int_equal(node->kernel->control.suffixes.slots[1][1].class, DNS_SUFFIX_SEARCH);
	assert_int_equal(node->kernel->control.suffixes.slots[1][2].hash, 0);
	send_queries(node, "168.63.129.16", 1500);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(known(node, "168.63.129.16")->queries.poll_peak, 1500);
	assert_int_equal(known(node, "168.63.129.16")->queries.over, 1);
	assert_int_equal(dns_queries(&known(node, "168.63.129.16")->label->reported), 1500);
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

/* A thousand servers that were asked once hide a new one for some seconds, not longer. */
STATE_TEST(a_full_table_makes_room_within_ten_seconds)
{
	char address[DNS_ADDRESS_TEXT];

	for (int i = 0; i < 1000; i++) {
		snprintf(address, sizeof(address), "10.2.%d.%d", i / 250, i % 250 + 1);
		send_queries(node, address, 1);
	}
	poll_after(node, USEC_PER_SEC);
	for (int i = 0; i < 7; i++) {
		/* What found no room is counted without a role. */
		node->kernel->control.lost_servers += 50;
		node->kernel->servers[0].queries[DNS_UDP] += 50;
		poll_after(node, USEC_PER_SEC);
	}
	assert_true(node->kernel->forgotten > 900);
	assert_true(dns_queries(&node->sensor.seen.table.others) >= 300);
	for (int i = 0; i < 2; i++) {
		send_queries(node, "10.9.9.9", 70);
		poll_after(node, USEC_PER_SEC);
	}
	assert_non_null(known(node, "10.9.9.9")->label);
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
	assert_int_equal(node->kernel->control.watching, 0);
	send_queries(node, "169.254.169.253", 1);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->kernel->control.watching, 6);
	poll_after(node, USEC_PER_SEC);
	send_packets(node, 0, 600);
	send_packets(node, 1, 600);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->sensor.seen.link_local.poll_peak, 1200);
	assert_int_equal(node->sensor.seen.link_local.over, 1);
	assert_int_equal(node->sensor.seen.n_senders, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(node->sensor.seen.senders[i].seconds.poll_peak, 600);
		assert_int_equal(node->sensor.seen.senders[i].seconds.over, 0);
	}
}

STATE_TEST(sources_without_room_are_in_the_sum)
{
	send_queries(node, "169.254.169.253", 1);
	poll_after(node, USEC_PER_SEC);
	for (size_t i = 0; i <= FAKE_REST; i++)
		send_packets(node, i, (uint32_t)i + 1);
	poll_after(node, USEC_PER_SEC);
	/* The last is of those without room, and is no sender. */
	assert_int_equal(node->sensor.seen.link_local.poll_peak, 20 * 21 / 2);
	assert_int_equal(node->sensor.seen.n_senders, FAKE_REST);
	assert_int_equal(node->sensor.seen.senders[0].packets, FAKE_REST);
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
		assert_int_equal(node->sensor.seen.link_local.poll_peak, 1);
	}
	/* Half of the room is free, and the active sender has stayed. */
	assert_in_range(count_sources(node), DNS_SOURCES_MAX / 2 - 16, DNS_SOURCES_MAX / 2);
	assert_int_equal(node->kernel->sources[7].packets, 60);
	assert_int_equal(node->kernel->sources[FAKE_REST].packets, 1);
	/* A sender that comes again begins anew. */
	for (size_t i = 0; i < 7; i++)
		send_packets(node, i, 100);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->sensor.seen.link_local.poll_peak, 700);
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

TEST(a_latency_is_in_the_first_bucket_whose_bound_it_does_not_exceed)
{
	assert_int_equal(dns_latency_bucket(0), 0);
	assert_int_equal(dns_latency_bucket(UINT64_MAX), DNS_LATENCY_BUCKETS - 1);
	for (uint32_t i = 0; i < DNS_LATENCY_BUCKETS - 1; i++) {
		assert_int_equal(dns_latency_bucket(dns_latency_bounds[i]), i);
		assert_int_equal(dns_latency_bucket(dns_latency_bounds[i] + 1), i + 1);
	}
}

static char *metrics_of(struct fixture *node)
{
	struct dns_memory memory = {0};
	char *text = NULL;
	size_t size = 0;
	struct metric_sink sink = {.out = open_memstream(&text, &size), .rows = dns_metric_rows};

	dns_put_metrics(&node->sensor, &memory, &sink);
	fclose(sink.out);
	return text;
}

STATE_TEST(the_latency_histogram_has_round_bounds)
{
	static const uint64_t took[] = {100000000, 500000000, 1000000000, DNS_TIMEOUT_NS};
	_cleanup_free_ char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(took); i++)
		serve(node, "10.9.9.9")->latency[dns_latency_bucket(took[i])]++;
	poll_after(node, USEC_PER_SEC);
	text = metrics_of(node);
	assert_non_null(strstr(text, "le=\"0.1\"} 1\n"));
	assert_non_null(strstr(text, "le=\"0.5\"} 2\n"));
	assert_non_null(strstr(text, "le=\"1\"} 3\n"));
	assert_non_null(strstr(text, "le=\"5\"} 4\n"));
}

static void add_user(struct dns_label *label, const char *name, double per_second)
{
	struct dns_user *user = &label->users[label->n_users++];

	user->workload.kind = WORKLOAD_POD;
	copy_text(user->workload.namespace, sizeof(user->workload.namespace), "shop");
	copy_text(user->workload.name, sizeof(user->workload.name), name);
	user->per_second = per_second;
}

STATE_TEST(who_asks_most_of_a_server_without_a_budget_is_a_metric)
{
	static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
	_cleanup_free_ char *text = NULL;
	char line[160];

	send_queries(node, "10.9.9.9", 100);
	poll_after(node, USEC_PER_SEC);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		add_user(known(node, "10.9.9.9")->label, names[i], 20 - (double)i);
	text = metrics_of(node);
	for (size_t i = 0; i < 5; i++) {
		snprintf(line, sizeof(line),
			"workload_queries_per_second{server=\"10.9.9.9\",kind=\"pod\","
			"namespace=\"shop\",name=\"%s\"} %zu\n",
			names[i], 20 - i);
		assert_non_null(strstr(text, line));
	}
	assert_null(strstr(text, "name=\"f\""));
	assert_non_null(strstr(
		text, "server=\"10.9.9.9\",kind=\"other\",namespace=\"\",name=\"other\"} 10\n"));
}

STATE_TEST(a_server_that_was_never_asked_has_no_histograms)
{
	_cleanup_free_ char *before = NULL, *after = NULL;

	poll_after(node, USEC_PER_SEC);
	before = metrics_of(node);
	assert_non_null(strstr(before, "headroom_dns_pending{server=\"168.63.129.16\"} 0\n"));
	assert_null(strstr(before, "_bucket"));
	send_queries(node, "168.63.129.16", 1);
	serve(node, "168.63.129.16")->latency[0]++;
	poll_after(node, USEC_PER_SEC);
	poll_after(node, USEC_PER_SEC);
	after = metrics_of(node);
	assert_non_null(strstr(after, "latency_seconds_count{server=\"168.63.129.16\"} 1\n"));
	assert_non_null(strstr(after, "second_queries_sum{server=\"168.63.129.16\"} 1\n"));
}

STATE_TEST(servers_without_a_label_are_one_without_a_role)
{
	_cleanup_free_ char *text = NULL;
	char address[DNS_ADDRESS_TEXT];

	for (unsigned i = 0; i < DNS_LABELS + 5; i++) {
		snprintf(address, sizeof(address), "10.3.0.%u", i + 1);
		send_queries(node, address, 10);
	}
	poll_after(node, USEC_PER_SEC);
	text = metrics_of(node);
	assert_non_null(strstr(text,
		"headroom_dns_queries_total{server=\"other\",role=\"\",transport=\"udp\"} 60\n"));
	assert_null(strstr(text, "server=\"other\",role=\"u"));
}

/* The busiest node there is: every label taken, everything counted, every workload busy. */
STATE_TEST(series_are_bounded)
{
	_cleanup_free_ char *text = NULL;
	char name[DNS_ADDRESS_TEXT];
	size_t series = 0;

	for (unsigned i = 0; i < 4 * DNS_LABELS; i++) {
		struct dns_server *server;

		snprintf(name, sizeof(name), "10.3.0.%u", i + 1);
		send_queries(node, name, 1000);
		server = serve(node, name);
		server->queries[DNS_TCP] = server->dot_packets = server->latency[3] = 9;
		for (int code = 0; code < DNS_RCODES; code++)
			server->responses[code] = 9;
	}
	poll_after(node, USEC_PER_SEC);
	for (size_t i = 0; i < node->sensor.seen.table.n; i++) {
		struct dns_label *label = node->sensor.seen.table.servers[i]->label;

		for (unsigned k = 0; label && k < DNS_TOP; k++) {
			snprintf(name, sizeof(name), "pod-%u", k);
			add_user(label, name, 7);
		}
	}
	text = metrics_of(node);
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		series += *line != '#';
	assert_non_null(strstr(text, "encrypted_packets_total{server=\"other\"}"));
	assert_in_range(series, 800, 1000);
}
