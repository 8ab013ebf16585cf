/* SPDX-License-Identifier: Apache-2.0 */
#include "dns_kernel.h"

#include <fcntl.h>
#include <sys/stat.h>

struct row {
	uint8_t server;
	uint64_t cgroup, queries;
	uint64_t failed; /* more than 0: with a search domain */
};

/* Sets the rows of the kernel and polls after this time. */
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

/* The label of a server of this address, which gets n queries. */
static const struct dns_label *serve(struct fixture *node, uint8_t server, uint64_t n)
{
	struct dns_key key = {AF_INET, {10, 0, 0, server}};

	node->kernel->servers[slot_of(node->kernel, &key)].totals.queries[DNS_UDP] += n;
	poll_after(node, USEC_PER_SEC);
	return dns_server_find(&node->sensor->seen.table, &key)->label;
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

	cgroups_close(node->sensor->cgroups);
	node->sensor->cgroups = cgroups_open(&node->directory.host, &node->directory.facts.names,
		open(root.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

#define POD "/kubepods/pod0f5c9a1e-7b3d-4c8a-9e2f-1a2b3c4d5e6"
#define ID  "3f4e5d6c7b8a9900aabbccddeeff00112233445566778899aabbccddeeff0011"

STATE_TEST(containers_of_a_pod_are_one)
{
	const struct row first[] = {{1, make_cgroup(node, POD "a/one", "0"), 10, 0},
		{1, make_cgroup(node, POD "b/one", "0"), 100, 0},
		{1, make_cgroup(node, POD "a/two", "0"), 30, 0}};
	struct row second[3];
	const struct dns_label *label = serve(node, 1, 140);

	use_cgroups(node);
	memcpy(second, first, sizeof(first));
	second[0].queries += 1, second[1].queries += 5, second[2].queries += 6;
	read_rows(node, first, 3, 3 * USEC_PER_SEC);
	read_rows(node, second, 3, USEC_PER_SEC);
	assert_int_equal(label->n_users, 2);
	assert_string_equal(label->users[0].workload.id, strrchr(POD "a", '/') + 4);
	assert_int_equal(label->users[0].queries, 47);
	assert_true(label->users[0].per_second == 7);
	assert_string_equal(label->users[1].workload.id, strrchr(POD "b", '/') + 4);
	read_rows(node, first, 0, USEC_PER_SEC);
	assert_int_equal(label->n_users, 0);
}

/* In the root cgroup only the address identifies a pod, and another pod may get it later. */
STATE_TEST(an_address_counts_for_its_present_owner)
{
	static const struct {
		const char *id; /* NULL: the address belongs to no pod */
		uint64_t all, own;
	} table[] = {{"uid-a", 100, 100}, {"uid-a", 150, 150}, {NULL, 160, 10}, {"uid-a", 170, 170},
		{"uid-b", 200, 30}, {"uid-b", 250, 80}, {NULL, 260, 10}, {"uid-c", 300, 50}};
	const struct dns_label *label = serve(node, 1, 1);
	struct names *names = &node->directory.facts.names;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct name_entry *entry = calloc(1, sizeof(*entry));

		entry->workload.kind = WORKLOAD_POD;
		set_text(entry->address, "10.244.0.5");
		set_text(entry->workload.name, "web");
		set_text(entry->workload.id, table[i].id ? table[i].id : "");
		names_replace(names, "runtime", entry, table[i].id ? 1 : 0);
		node->kernel->n_rows = 1;
		node->kernel->row_keys[0] = (struct dns_row_key){.server = {AF_INET, {10, 0, 0, 1}},
			.cgroup = 1,
			.source_family = AF_INET,
			.source = {10, 244, 0, 5}};
		node->kernel->rows[0].queries = table[i].all;
		poll_after(node, USEC_PER_SEC);
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
	const struct dns_label *label = serve(node, 1, 1);

	directory_put(&node->directory, "/proc/77/stat",
		"77 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 300 23");
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct row row = {1, make_cgroup(node, table[i].cgroup, "77\n"), i + 1, 0};

		use_cgroups(node);
		directory_put(&node->directory, "/proc/77/comm", table[i].name);
		directory_put(&node->directory, "/proc/77/net/udp", table[i].sockets);
		/* The process is looked up once a minute. */
		read_rows(node, &row, 1, 61 * USEC_PER_SEC);
		assert_int_equal(label->n_users, 1);
		if (label->users[0].serves != table[i].serves)
			fail_msg("%s", table[i].name);
	}
}
