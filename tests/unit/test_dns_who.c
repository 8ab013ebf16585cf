/* SPDX-License-Identifier: Apache-2.0 */
#include "dns_kernel.h"

#include <fcntl.h>
#include <sys/stat.h>

#define HERE   "10.53.0.1"
#define SERVER "10.0.0.1"

/* Sets the queries of a client since the start, and returns the label of the server. */
static void has_sent(struct fixture *node, uint64_t cgroup, const char *source, uint64_t n)
{
	struct dns_counts *counts = pair_of(node, SERVER, cgroup, source);

	send_now(node, counts, (uint32_t)(n - dns_queries(&counts->counters)), true);
}

static const struct dns_label *label_of(const struct fixture *node)
{
	return server_at(node, SERVER)->label;
}

/* Makes a cgroup with one process and returns its inode. */
static uint64_t make_cgroup(struct fixture *node, const char *path, const char *pid)
{
	char full[PATH_MAX];
	struct stat st;

	snprintf(full, sizeof(full), "/cgroup%s/cgroup.procs", path);
	directory_put(&node->directory, full, pid);
	snprintf(full, sizeof(full), "%s/cgroup%s", node->directory.path, path);
	assert_int_equal(stat(full, &st), 0);
	return st.st_ino;
}

/* The sensor finds cgroups there. */
static void use_cgroups(struct fixture *node)
{
	struct path root = directory_at(&node->directory, "/cgroup");

	cgroups_set_root(node->sensor->cgroups, CGROUP_UNIFIED,
		open(root.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

#define POD "/kubepods/pod0f5c9a1e-7b3d-4c8a-9e2f-1a2b3c4d5e6"
#define ID  "3f4e5d6c7b8a9900aabbccddeeff00112233445566778899aabbccddeeff0011"

STATE_TEST(containers_of_a_pod_are_one)
{
	const uint64_t groups[] = {make_cgroup(node, POD "a/one", "0"),
		make_cgroup(node, POD "b/one", "0"), make_cgroup(node, POD "a/two", "0")};
	const struct dns_label *label;

	use_cgroups(node);
	for (uint64_t i = 0; i < 3; i++)
		has_sent(node, groups[i], HERE, (const uint64_t[]){10, 100, 30}[i]);
	poll_after(node, 3 * USEC_PER_SEC);
	for (uint64_t i = 0; i < 3; i++)
		has_sent(node, groups[i], HERE, (const uint64_t[]){11, 105, 36}[i]);
	poll_after(node, USEC_PER_SEC);
	label = label_of(node);
	assert_int_equal(label->n_users, 2);
	assert_string_equal(label->users[0].workload.id, strrchr(POD "a", '/') + 4);
	assert_int_equal(label->users[0].queries, 47);
	assert_true(label->users[0].per_second == 7);
	assert_string_equal(label->users[1].workload.id, strrchr(POD "b", '/') + 4);
}

/* 250 pods with 16 servers each; one is steady, and another sends all within half a second. */
STATE_TEST(the_client_of_the_busiest_second_is_exact)
{
	const uint64_t steady = 1000, burst = 1200;
	const struct dns_second *second;
	char server[DNS_ADDRESS_TEXT];

	for (uint64_t pod = 0; pod < 250; pod++)
		for (int i = 0; i < 16; i++) {
			snprintf(server, sizeof(server), "10.7.0.%d", i + 1);
			send_now(node, pair_of(node, server, 1000 + pod, HERE), 1, true);
		}
	poll_after(node, 7 * USEC_PER_SEC / 10);
	for (int tenth = 0; tenth < 40; tenth++) {
		send_now(node, pair_of(node, "10.7.0.3", steady, HERE), 15, true);
		if (tenth >= 22 && tenth < 27)
			send_now(node, pair_of(node, "10.7.0.3", burst, HERE), 60, true);
		node->now_us += USEC_PER_SEC / 10;
		if (tenth % 10 == 9)
			poll_after(node, 0);
	}
	second = dns_busiest_second(server_at(node, "10.7.0.3")->label, node->now_us);
	assert_non_null(second);
	assert_int_equal(second->users[0].pair.cgroup, burst);
	assert_true(second->users[0].per_second == 300);
	assert_int_equal(second->users[1].pair.cgroup, steady);
	assert_in_range((uint64_t)second->users[1].per_second, 135, 165);
}

/* As the proxy of a network plugin, which keeps the addresses of pods. */
STATE_TEST(a_cgroup_with_many_addresses_is_one_client)
{
	const uint64_t proxy = 700, pod = 800;
	const struct dns_label *label;
	const struct dns_second *second;
	char source[DNS_ADDRESS_TEXT];

	poll_after(node, 3 * USEC_PER_SEC / 2);
	for (int i = 0; i < 200; i++) {
		snprintf(source, sizeof(source), "10.9.0.%d", i + 1);
		send_now(node, pair_of(node, SERVER, proxy, source), 2, true);
	}
	send_now(node, pair_of(node, SERVER, pod, HERE), 150, true);
	poll_after(node, USEC_PER_SEC);
	label = label_of(node);
	assert_int_equal(label->n_users, 2);
	assert_int_equal(label->users[0].pair.cgroup, proxy);
	assert_int_equal(label->users[0].queries, 400);
	second = dns_busiest_second(label, node->now_us);
	assert_int_equal(second->users[0].pair.cgroup, proxy);
	assert_true(second->users[0].per_second == 400 && second->users[1].per_second == 150);
}

STATE_TEST(packets_are_blamed_by_packets)
{
	struct dns_budget budget = {.max[DNS_PACKETS] = 100, .source = "config"};
	struct dns_counts *tcp = pair_of(node, SERVER, 501, HERE);
	const struct dns_second *second;
	struct dns_server_state *server;

	send_now(node, pair_of(node, SERVER, 500, HERE), 1, true);
	poll_after(node, 3 * USEC_PER_SEC / 2);
	server = (struct dns_server_state *)server_at(node, SERVER);
	node->sensor->config.budgets[0].server = server->address;
	node->sensor->config.budgets[0].budget = server->budget = budget;
	node->sensor->config.n_budgets = 1;
	/* 60 queries over UDP, and 25 over TCP, each with six packets. */
	send_now(node, pair_of(node, SERVER, 500, HERE), 60, true);
	tcp->counters.queries[DNS_TCP] += 25;
	tcp->counters.other_packets += 150;
	tcp->bins[node->now_us * 1000 / DNS_BIN_NS % DNS_BINS] += 25 + 150 * DNS_BIN_PACKET;
	poll_after(node, USEC_PER_SEC);
	second = dns_busiest_second(server->label, node->now_us);
	assert_int_equal(second->number, DNS_PACKETS);
	assert_true(second->used[DNS_PACKETS] == 210);
	assert_int_equal(second->users[0].pair.cgroup, 501);
	assert_true(second->users[0].per_second == 150);
}

/* A share of the budget before says nothing about the present one. */
STATE_TEST(a_new_budget_has_seconds_of_its_own)
{
	struct dns_config *config = &node->sensor->config;
	const struct dns_second *second;

	config->budgets[0].server = address_of(SERVER);
	config->budgets[0].budget = (struct dns_budget){.max = {100}, .source = "config"};
	config->n_budgets = 1;
	node->sensor->refreshed_at_us = 0;
	poll_after(node, USEC_PER_SEC);
	send_now(node, pair_of(node, SERVER, 500, HERE), 300, true);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(
		dns_busiest_second(label_of(node), node->now_us)->users[0].pair.cgroup, 500);
	config->budgets[0].budget.max[DNS_QUERIES] = 200;
	node->sensor->refreshed_at_us = 0;
	poll_after(node, 2 * USEC_PER_SEC);
	send_now(node, pair_of(node, SERVER, 501, HERE), 250, true);
	poll_after(node, USEC_PER_SEC);
	second = dns_busiest_second(label_of(node), node->now_us);
	assert_int_equal(second->users[0].pair.cgroup, 501);
	assert_true(second->share == 1.25);
}

/* One client has 250 pending queries for a third of a second, another fewer for longer. */
STATE_TEST(pending_queries_are_blamed_at_their_peak)
{
	struct dns_counts *burst = pair_of(node, "168.63.129.16", 501, HERE);
	const struct dns_second *second;
	uint64_t bin;

	send_now(node, pair_of(node, "168.63.129.16", 500, HERE), 30, false);
	poll_after(node, USEC_PER_SEC);
	bin = node->now_us * 1000 / DNS_BIN_NS;
	send_now(node, burst, 250, false);
	burst->quarters[node->now_us * 1000 / DNS_QUARTER_NS % DNS_QUARTERS].waiting = 0;
	burst->pending[(bin + 5) % DNS_BINS] -= 250;
	poll_after(node, USEC_PER_SEC);
	second = dns_busiest_second(server_at(node, "168.63.129.16")->label, node->now_us);
	assert_int_equal(second->number, DNS_PENDING);
	assert_true(second->used[DNS_PENDING] == 280);
	assert_int_equal(second->users[0].pair.cgroup, 501);
	assert_true(second->users[0].per_second == 250);
	assert_true(second->users[1].per_second == 30);
}

static const struct dns_user *user_named(const struct dns_label *label, const char *name)
{
	for (unsigned i = 0; i < label->n_users; i++)
		if (streq(label->users[i].workload.name, name))
			return &label->users[i];
	fail_msg("%s", name);
	return NULL;
}

/* dockerd forwards queries from sockets in the namespaces of its containers. */
STATE_TEST(a_forwarded_query_is_of_the_container_with_the_address)
{
	uint64_t docker = make_cgroup(node, "/system.slice/docker.service", "0");
	const struct dns_label *label;
	struct names *names = &node->directory.facts.names;
	struct name_entry *entry = calloc(1, sizeof(*entry));

	use_cgroups(node);
	entry->workload.kind = WORKLOAD_CONTAINER;
	set_text(entry->address, "172.18.0.4");
	set_text(entry->workload.name, "shop");
	set_text(entry->workload.id, ID);
	names_replace(names, "runtime", entry, 1);
	has_sent(node, docker, "172.18.0.4", 40);
	has_sent(node, docker, "172.18.0.9", 20);
	has_sent(node, docker, "127.0.0.1", 5);
	poll_after(node, USEC_PER_SEC);
	label = label_of(node);
	assert_int_equal(label->n_users, 3);
	assert_string_equal(label->users[0].workload.name, "shop");
	assert_string_equal(label->users[1].workload.name, "172.18.0.9");
	assert_string_equal(label->users[2].workload.name, "docker.service");
	/* Another container gets the address. */
	entry = calloc(1, sizeof(*entry));
	entry->workload.kind = WORKLOAD_CONTAINER;
	set_text(entry->address, "172.18.0.4");
	set_text(entry->workload.name, "next");
	set_text(entry->workload.id, "another");
	names_replace(names, "runtime", entry, 1);
	poll_after(node, 2 * USEC_PER_SEC);
	has_sent(node, docker, "172.18.0.4", 43);
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(user_named(label, "next")->queries, 3);
	/* The second before was not its second. */
	assert_string_equal(
		dns_busiest_second(label, node->now_us)->users[0].workload.name, "shop");
	free(names->entries);
}

/* In the root cgroup only the address identifies a pod, and another pod may get it later. */
STATE_TEST(an_address_counts_for_its_present_owner)
{
	static const struct {
		const char *id; /* NULL: the address belongs to no pod */
		uint64_t all, own;
	} table[] = {{"uid-a", 100, 100}, {"uid-a", 150, 150}, {NULL, 160, 10}, {"uid-a", 170, 170},
		{"uid-b", 200, 30}, {"uid-b", 250, 80}, {NULL, 260, 10}, {"uid-c", 300, 50}};
	const struct dns_label *label;
	struct names *names = &node->directory.facts.names;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct name_entry *entry = calloc(1, sizeof(*entry));

		entry->workload.kind = WORKLOAD_POD;
		set_text(entry->address, "10.244.0.5");
		set_text(entry->workload.name, "web");
		set_text(entry->workload.id, table[i].id ? table[i].id : "");
		names_replace(names, "runtime", entry, table[i].id ? 1 : 0);
		has_sent(node, CGROUP_ROOT_INODE, "10.244.0.5", table[i].all);
		poll_after(node, USEC_PER_SEC);
		label = label_of(node);
		assert_int_equal(label->n_users, 1);
		assert_int_equal(label->users[0].queries, table[i].own);
	}
	free(names->entries);
}

#define UDP_HEAD \
	"   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid\n"
#define UDP_DNS "  12: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0\n"
#define UDP_WEB "  13: 00000000:1F90 00000000:0035 07 00000000:00000000 00:00000000 00000000 0\n"

STATE_TEST(a_process_serves_by_name_or_by_port_53)
{
	static const struct {
		const char *name, *sockets, *cgroup;
		bool serves;
	} table[] = {
		{"resolver\n", UDP_HEAD UDP_WEB UDP_DNS, "/docker/" ID, true},
		{"web\n", UDP_HEAD UDP_WEB, "/docker/" ID, false},
		{"coredns\n", UDP_HEAD, "/docker/" ID, true},
		{"systemd-resolve\n", UDP_HEAD UDP_DNS, "/resolve.service", false},
		{"dnsmasq\n", UDP_HEAD, "/dnsmasq.service", true},
	};
	directory_put(&node->directory, "/proc/77/stat",
		"77 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 300 23");
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		uint64_t group = make_cgroup(node, table[i].cgroup, "77\n");

		use_cgroups(node);
		directory_put(&node->directory, "/proc/77/comm", table[i].name);
		directory_put(&node->directory, "/proc/77/net/udp", table[i].sockets);
		/* The process is looked up once a minute. */
		has_sent(node, group, HERE, 10 * (i + 1));
		poll_after(node, 61 * USEC_PER_SEC);
		if (label_of(node)->users[0].serves != table[i].serves)
			fail_msg("%s", table[i].name);
	}
}
