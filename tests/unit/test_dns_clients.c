/* SPDX-License-Identifier: Apache-2.0 */
#include "dns_kernel.h"

struct row {
	uint8_t server;
	uint64_t cgroup, queries;
	uint64_t failed; /* more than 0: with a search domain */
};

/* The kernel's rows, read so much later. */
static void read_rows(struct fixture *node, const struct row *rows, size_t n, uint64_t later_us)
{
	for (size_t i = 0; i < n; i++) {
		node->kernel->row_keys[i] =
			(struct dns_row_key){.server = {AF_INET, {10, 0, 0, rows[i].server}},
				.suffix = rows[i].failed ? DNS_SUFFIX_SEARCH : DNS_SUFFIX_NONE,
				.cgroup = rows[i].cgroup};
		node->kernel->rows[i] =
			(struct dns_row){.queries = rows[i].queries, .nxdomain = rows[i].failed};
	}
	node->kernel->n_rows = n;
	poll_after(node, later_us);
}

STATE_TEST(rows_are_summed_by_server_and_cgroup)
{
	static const struct row rows[] = {
		{2, 7, 10, 1}, {1, 9, 5, 0}, {2, 7, 20, 2}, {1, 7, 1, 0}, {2, 7, 30, 0}};
	const struct dns_clients *clients = &node->sensor->clients;

	for (int reading = 0; reading < 2; reading++) {
		read_rows(node, rows, ARRAY_SIZE(rows), USEC_PER_SEC);
		assert_int_equal(clients->n, 3);
		assert_int_equal(clients->clients[0].cgroup, 7);
		assert_int_equal(clients->clients[0].counts.queries, 1);
		assert_int_equal(clients->clients[1].cgroup, 9);
		assert_int_equal(clients->clients[2].counts.queries, 60);
		assert_int_equal(clients->clients[2].counts.expanded, 30);
		assert_int_equal(clients->clients[2].counts.failed, 3);
	}
	assert_int_equal(node->sensor->seen.search[DNS_UPSTREAM].failed, 3);
	/* In the root cgroup the address tells them apart. */
	node->kernel->row_keys[0].source_family = AF_INET;
	poll_after(node, USEC_PER_SEC);
	assert_int_equal(clients->n, 4);
	/* Those without a row are forgotten. */
	read_rows(node, rows, 0, USEC_PER_SEC);
	assert_int_equal(clients->n, 0);
}

STATE_TEST(rates_are_from_reading_to_reading)
{
	static const struct row first[] = {{1, 7, 1000, 0}, {1, 8, 10, 0}},
				second[] = {{1, 7, 1200, 0}, {1, 8, 10, 0}, {1, 9, 50, 0}},
				third[] = {{1, 7, 40, 0}, {1, 8, 10, 0}, {1, 9, 50, 0}};
	const struct dns_clients *clients = &node->sensor->clients;

	node->sensor->clients.read_at_us = 0;
	read_rows(node, first, 2, USEC_PER_SEC);
	/* What came before the first reading has no time. */
	assert_true(clients->clients[0].per_second == 0);
	read_rows(node, second, 3, 2 * USEC_PER_SEC);
	assert_true(clients->clients[0].per_second == 100);
	assert_true(clients->clients[1].per_second == 0);
	assert_true(clients->clients[2].per_second == 25);
	assert_true(clients->clients[0].smooth > 0 && clients->clients[0].smooth < 100);
	assert_int_equal(clients->clients[0].changed_at_us, node->now_us);
	assert_int_equal(clients->clients[1].changed_at_us, node->now_us - 2 * USEC_PER_SEC);
	/* A row that was forgotten in between begins anew. */
	read_rows(node, third, 3, 2 * USEC_PER_SEC);
	assert_true(clients->clients[0].per_second == 20);
	assert_true(clients->clients[2].per_second == 0);
}

static struct dns_user user(const char *name, uint64_t queries, double rate)
{
	struct dns_user user = {.queries = queries, .per_second = rate, .smooth = rate};

	user.workload.kind = WORKLOAD_POD;
	copy_text(user.workload.name, sizeof(user.workload.name), name);
	return user;
}

TEST(containers_of_a_pod_are_one)
{
	struct dns_user users[] = {user("cart", 10, 1), user("shop", 100, 5), user("cart", 30, 6)};
	struct dns_label label = {0};

	dns_label_take_users(&label, users, ARRAY_SIZE(users));
	assert_int_equal(label.n_users, 2);
	assert_string_equal(label.users[0].workload.name, "cart");
	assert_int_equal(label.users[0].queries, 40);
	assert_true(label.users[0].per_second == 7);
	assert_string_equal(label.users[1].workload.name, "shop");
	dns_label_take_users(&label, users, 0);
	assert_int_equal(label.n_users, 0);
}

/* Without cgroups of their own, pods are told apart by an address that they inherit. */
TEST(an_address_counts_for_its_present_owner)
{
	static const struct {
		const char *id; /* NULL: nobody's address just now */
		uint64_t all, own;
	} table[] = {{"uid-a", 100, 100}, {"uid-a", 150, 150}, {NULL, 160, 10}, {"uid-a", 170, 170},
		{"uid-b", 200, 30}, {"uid-b", 250, 80}, {NULL, 260, 10}, {"uid-c", 300, 50}};
	struct dns_client client = {.source = {AF_INET, {10, 244, 0, 5}}}, other = {0};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct workload workload = {
			.kind = table[i].id ? WORKLOAD_POD : WORKLOAD_NETNS, .name = "web"};

		copy_text(workload.id, sizeof(workload.id), table[i].id ? table[i].id : "");
		client.counts.queries = other.counts.queries = table[i].all;
		assert_int_equal(dns_client_queries(&client, &workload), table[i].own);
		assert_int_equal(dns_client_queries(&other, &workload), table[i].all);
	}
}

#define UDP_HEAD \
	"   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid\n"
#define UDP_DNS "  12: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0\n"
#define UDP_WEB "  13: 00000000:1F90 00000000:0035 07 00000000:00000000 00:00000000 00000000 0\n"

DIRECTORY_TEST(a_process_serves_by_name_or_by_port_53)
{
	static const struct {
		const char *name, *sockets;
		bool in_container, serves;
	} table[] = {
		{"resolver\n", UDP_HEAD UDP_WEB UDP_DNS, true, true},
		{"web\n", UDP_HEAD UDP_WEB, true, false},
		{"coredns\n", UDP_HEAD, true, true},
		{"systemd-resolve\n", UDP_HEAD UDP_DNS, false, false},
		{"dnsmasq\n", UDP_HEAD, false, true},
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		directory_put(directory, "/proc/77/comm", table[i].name);
		directory_put(directory, "/proc/77/net/udp", table[i].sockets);
		if (dns_process_serves(&directory->host, 77, table[i].in_container) !=
			table[i].serves)
			fail_msg("%s", table[i].name);
	}
}
