/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/exposition.h"
#include "tuners/dns/sense.h"
#include "tuners/table.h"

/* A kernel that counts what the test says, in place of src/tuners/dns/bpf.c. */
#define FAKE_SERVERS 1100
#define FAKE_SOURCES 200
#define FAKE_REST    19 /* the source of those without room */

struct dns_bpf {
	struct dns_control control;
	struct dns_key server_keys[FAKE_SERVERS];
	struct dns_server servers[FAKE_SERVERS];
	size_t n_servers;
	struct dns_source sources[FAKE_SOURCES];
	size_t n_sources;
	size_t forgotten;
	int error; /* of every reading */
};

struct dns_bpf *dns_bpf_load(char why[static TUNER_WHY_MAX])
{
	struct dns_bpf *bpf = must(calloc(1, sizeof(*bpf)));

	(void)why;
	bpf->control.root_cgroup = 1;
	bpf->n_servers = 1; /* the zero key */
	return bpf;
}

int dns_bpf_attach(struct dns_bpf *bpf, const struct host *host, char why[static TUNER_WHY_MAX])
{
	(void)bpf, (void)host, (void)why;
	return 0;
}

void dns_bpf_close(struct dns_bpf *bpf)
{
	free(bpf);
}

struct dns_control *dns_bpf_control(struct dns_bpf *bpf)
{
	return &bpf->control;
}

int dns_bpf_each(struct dns_bpf *bpf, enum dns_map map, dns_take *take, void *userdata)
{
	size_t n_servers = map == DNS_MAP_SERVERS ? bpf->n_servers : 0;
	size_t n_sources = map == DNS_MAP_SOURCES ? bpf->n_sources : 0;

	for (size_t i = 0; i < n_servers && bpf->error == 0; i++)
		take(userdata, &bpf->server_keys[i], &bpf->servers[i]);
	for (size_t i = 0; i < n_sources && bpf->error == 0; i++) {
		struct dns_key source = {AF_INET, {10, 0, 0, (uint8_t)i}};

		if (i == FAKE_REST)
			source = (struct dns_key){0};
		if (bpf->sources[i].packets > 0)
			take(userdata, &source, &bpf->sources[i]);
	}
	return bpf->error;
}

static size_t slot_of(struct dns_bpf *bpf, const struct dns_key *server)
{
	size_t i = 0;

	while (i < bpf->n_servers && !dns_address_equal(&bpf->server_keys[i], server))
		i++;
	assert_true(i < FAKE_SERVERS);
	bpf->server_keys[i] = *server;
	bpf->n_servers = MAX(bpf->n_servers, i + 1);
	return i;
}

void dns_bpf_expect_server(struct dns_bpf *bpf, const struct dns_key *server)
{
	(void)slot_of(bpf, server);
}

bool dns_bpf_forget(struct dns_bpf *bpf, enum dns_map map, const void *key, uint64_t now)
{
	const struct dns_key *source = key;

	(void)now;
	if (map == DNS_MAP_SOURCES)
		bpf->sources[source->address[3]] = (struct dns_source){0};
	for (size_t i = 0; map == DNS_MAP_SERVERS && i < bpf->n_servers; i++) {
		if (!dns_address_equal(&bpf->server_keys[i], key))
			continue;
		bpf->n_servers--;
		bpf->server_keys[i] = bpf->server_keys[bpf->n_servers];
		bpf->servers[i] = bpf->servers[bpf->n_servers];
		bpf->servers[bpf->n_servers] = (struct dns_server){0};
		bpf->forgotten++;
		break;
	}
	return true;
}

void dns_bpf_reuse(struct dns_bpf *bpf, uint64_t now)
{
	(void)bpf, (void)now;
}

void dns_bpf_sweep(struct dns_bpf *bpf, uint64_t now_ns, dns_take_pending *take, void *userdata)
{
	(void)bpf, (void)now_ns, (void)take, (void)userdata;
}

void dns_bpf_drain_samples(struct dns_bpf *bpf, dns_take_sample *take, void *userdata)
{
	(void)bpf, (void)take, (void)userdata;
}

/* A node made up for a test, and the agent's polls of it. */
struct fixture {
	struct directory directory;
	struct dns_sensor *sensor;
	struct dns_bpf *kernel;
	uint64_t now_us;
};

static void poll_after(struct fixture *node, uint64_t later_us)
{
	node->now_us += later_us;
	dns_sense(node->sensor, node->now_us);
}

static void begin(struct fixture *node)
{
	char why[TUNER_WHY_MAX] = "";

	directory_make(&node->directory);
	directory_put(&node->directory, "/etc/resolv.conf",
		"nameserver 168.63.129.16\nsearch cluster.LOCAL ec2.internal\n");
	node->sensor = dns_tuner.open(&node->directory.host, false);
	node->kernel = node->sensor->bpf = dns_bpf_load(why);
	node->sensor->config.budget_auto = true;
	copy_text(node->sensor->config.domains[0], DNS_DOMAIN_MAX, "cluster.local");
	node->sensor->config.n_domains = 1;
	poll_after(node, 1000 * USEC_PER_SEC);
}

static void end(struct fixture *node)
{
	dns_tuner.close(node->sensor);
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

/* A query to each of so many servers. */
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
	send_to_many(node, 1000);
	poll_after(node, USEC_PER_SEC);
	for (int i = 0; i < 7; i++) {
		/* What found no room is counted without a role. */
		node->kernel->control.lost_servers += 50;
		node->kernel->servers[0].totals.queries[DNS_UDP] += 50;
		poll_after(node, USEC_PER_SEC);
	}
	assert_true(node->kernel->forgotten > 900);
	assert_true(dns_queries(&node->sensor->seen.table.others) >= 300);
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
	/* The last is of those without room, and is no sender. */
	assert_int_equal(node->sensor->seen.link_local.poll_peak, 20 * 21 / 2);
	assert_int_equal(node->sensor->seen.n_senders, FAKE_REST);
	assert_int_equal(node->sensor->seen.senders[0].packets, FAKE_REST);
	/* A second over the budget counts once, also where the kernel cannot be read next. */
	poll_after(node, USEC_PER_SEC);
	send_packets(node, 0, 1100);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->sensor->seen.link_local.over, 1);
	node->kernel->error = -ENOMEM;
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(node->sensor->seen.link_local.over, 0);
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
	watch_link_local(node);
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
		assert_int_equal(node->sensor->seen.link_local.poll_peak, 1);
	}
	/* Half of the room is free, and the active sender has stayed. */
	assert_in_range(count_sources(node), DNS_SOURCES_MAX / 2 - 16, DNS_SOURCES_MAX / 2);
	assert_int_equal(node->kernel->sources[7].packets, 60);
	assert_int_equal(node->kernel->sources[FAKE_REST].packets, 1);
	/* A sender that comes again begins anew. */
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
	/* Nothing happened: nothing is uncertain. */
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

/* So many users, each a query a second busier than the next. */
static void add_users(struct dns_label *label, unsigned n)
{
	for (label->n_users = 0; label->n_users < n; label->n_users++) {
		struct dns_user *user = &label->users[label->n_users];

		user->workload.kind = WORKLOAD_POD;
		snprintf(
			user->workload.name, sizeof(user->workload.name), "pod-%u", label->n_users);
		user->per_second = 20 - (double)label->n_users;
	}
}

STATE_TEST(who_asks_most_of_a_server_without_a_budget_is_a_metric)
{
	_cleanup_free_ char *text = NULL;

	send_queries(node, "10.9.9.9", 100);
	poll_after(node, USEC_PER_SEC);
	add_users(known(node, "10.9.9.9")->label, 6);
	text = metrics_of(node);
	assert_non_null(
		strstr(text, "\"10.9.9.9\",kind=\"pod\",namespace=\"\",name=\"pod-4\"} 16\n"));
	assert_null(strstr(text, "pod-5"));
	assert_non_null(
		strstr(text, "\"10.9.9.9\",kind=\"other\",namespace=\"\",name=\"other\"} 10\n"));
}

static size_t count_series(const char *text)
{
	size_t series = 0;

	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		series += *line != '#';
	return series;
}

/* Apart from DNS a quiet node has 240 series, and is to have no more than 300. */
STATE_TEST(what_never_happened_has_no_series)
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

/* The busiest node there is: every label taken, everything counted, every workload busy. */
STATE_TEST(series_are_bounded)
{
	_cleanup_free_ char *text = NULL;
	char name[DNS_ADDRESS_TEXT];

	for (unsigned i = 0; i < 4 * DNS_LABELS; i++) {
		struct dns_server *server;

		snprintf(name, sizeof(name), "10.3.0.%u", i + 1);
		send_queries(node, name, 1000);
		server = serve(node, name);
		server->totals.queries[DNS_TCP] = server->totals.dot_packets =
			server->totals.latency[3] = 9;
		for (int code = 0; code < DNS_RCODES; code++)
			server->totals.responses[code] = 9;
	}
	poll_after(node, USEC_PER_SEC);
	for (size_t i = 0; i < node->sensor->seen.table.n; i++) {
		struct dns_label *label = node->sensor->seen.table.servers[i]->label;

		if (label)
			add_users(label, DNS_TOP);
	}
	text = metrics_of(node);
	assert_non_null(strstr(text, "encrypted_packets_total{server=\"other\"}"));
	assert_non_null(
		strstr(text, "queries_total{server=\"other\",role=\"\",transport=\"udp\"}"));
	assert_null(strstr(text, "server=\"other\",role=\"u"));
	assert_in_range(count_series(text), 700, 900);
}
