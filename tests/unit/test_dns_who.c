/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tuners/dns/who.h"
#include "workload/names.h"

#include "directory.h"

#define POD \
	"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c3d4e_0000_1111_2222_333344445555.slice"
#define UID "1b2c3d4e-0000-1111-2222-333344445555"

/* A directory stands for a cgroup: it has an inode too, which is returned. */
static uint64_t make_cgroup(const struct directory *directory, const char *path)
{
	char full[PATH_MAX];
	struct stat st;

	directory_path(directory, path, full);
	assert_int_equal(make_directories(full, 0755), 0);
	assert_int_equal(stat(full, &st), 0);
	return st.st_ino;
}

static struct workload find(const struct dns_who *who, uint64_t cgroup)
{
	static const struct dns_roles roles;
	static const struct dns_key none;

	return dns_who_find(who, cgroup, 1, &none, &roles);
}

static void a_cgroup_is_a_workload(void **state)
{
	_cleanup_directory_ struct directory directory = {0};
	_cleanup_(cleanup_dns_who_close) struct dns_who *who = NULL;
	struct host host = {0};
	uint64_t ids[5];

	(void)state;
	directory_make(&directory);
	ids[0] = make_cgroup(&directory, POD "/cri-containerd-aa.scope");
	ids[1] = make_cgroup(&directory, "/system.slice/ssh.service");
	ids[2] = make_cgroup(&directory, "/user.slice/user-0.slice/session-3.scope");
	ids[3] = make_cgroup(&directory, "/lxc.payload.web/init.scope");
	ids[4] = make_cgroup(&directory, "/made/by/hand");
	who = dns_who_open(&host, directory.path);
	assert_non_null(who);
	assert_int_equal(find(who, ids[0]).kind, WORKLOAD_UNIT);
	dns_who_learn(who, ids, 5, 1000);
	assert_int_equal(find(who, ids[0]).kind, WORKLOAD_POD);
	assert_string_equal(find(who, ids[0]).id, UID);
	assert_int_equal(find(who, ids[1]).kind, WORKLOAD_UNIT);
	assert_string_equal(find(who, ids[1]).name, "ssh.service");
	assert_string_equal(find(who, ids[2]).name, "session-3.scope");
	assert_int_equal(find(who, ids[3]).kind, WORKLOAD_LXD);
	assert_string_equal(find(who, ids[3]).name, "web");
	assert_string_equal(find(who, ids[4]).name, "/made/by/hand");
}

static void a_runtime_knows_the_pods_name(void **state)
{
	_cleanup_directory_ struct directory directory = {0};
	_cleanup_(cleanup_dns_who_close) struct dns_who *who = NULL;
	_cleanup_(cleanup_names_close) struct names *names = names_open();
	struct name_entry *entry = calloc(1, sizeof(*entry));
	struct dns_key source = {0}, stranger = {0};
	struct dns_roles roles = {0};
	struct host host = {.names = names};
	struct workload workload;
	uint64_t id;

	(void)state;
	assert_non_null(entry);
	directory_make(&directory);
	id = make_cgroup(&directory, POD);
	entry->workload = (struct workload){WORKLOAD_POD, "shop", "cart-7", UID};
	strcpy(entry->address, "10.244.1.5");
	assert_int_equal(names_replace(names, "test", entry, 1), 0);
	who = dns_who_open(&host, directory.path);
	dns_who_learn(who, &id, 1, 1000);
	assert_string_equal(find(who, id).name, "cart-7");
	assert_string_equal(find(who, id).namespace, "shop");
	/* Where all are in the root, the address tells. */
	assert_true(dns_address_parse("10.244.1.5", &source));
	workload = dns_who_find(who, 1, 1, &source, &roles);
	assert_int_equal(workload.kind, WORKLOAD_POD);
	assert_string_equal(workload.name, "cart-7");
	assert_true(dns_address_parse("192.0.2.9", &stranger));
	workload = dns_who_find(who, 1, 1, &stranger, &roles);
	assert_int_equal(workload.kind, WORKLOAD_NETNS);
	assert_string_equal(workload.name, "192.0.2.9");
	assert_true(dns_address_parse("127.0.0.1", &source));
	assert_int_equal(dns_who_find(who, 1, 1, &source, &roles).kind, WORKLOAD_HOST);
	roles.node = &stranger;
	roles.n_node = 1;
	assert_int_equal(dns_who_find(who, 1, 1, &stranger, &roles).kind, WORKLOAD_HOST);
}

static void a_cgroup_that_comes_later_is_found(void **state)
{
	_cleanup_directory_ struct directory directory = {0};
	_cleanup_(cleanup_dns_who_close) struct dns_who *who = NULL;
	struct host host = {0};
	uint64_t gone = 123456789, later, wishes[3];

	(void)state;
	directory_make(&directory);
	who = dns_who_open(&host, directory.path);
	for (uint64_t now = 1; now < 20; now++)
		dns_who_learn(who, &gone, 1, now * 100 * USEC_PER_SEC);
	assert_string_equal(find(who, gone).name, "cgroup 123456789");
	later = make_cgroup(&directory, "/system.slice/later.service");
	wishes[0] = wishes[1] = later; /* asked for twice, known once */
	wishes[2] = gone;
	dns_who_learn(who, wishes, 3, 3000 * USEC_PER_SEC);
	assert_string_equal(find(who, later).name, "later.service");
}

#define UDP_HEAD \
	"   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid\n"
#define UDP_DNS "  12: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0\n"
#define UDP_WEB "  13: 00000000:1F90 00000000:0035 07 00000000:00000000 00:00000000 00000000 0\n"

/* The process of a cgroup serves when its name says so, or its own namespace binds port 53. */
static void who_serves_is_told_by_its_process(void **state)
{
	static const struct {
		const char *cgroup, *name, *sockets;
		bool serves;
	} table[] = {
		{POD, "resolver", UDP_HEAD UDP_WEB UDP_DNS, true},
		{POD, "web", UDP_HEAD UDP_WEB, false},
		{POD, "coredns", UDP_HEAD, true},
		{"/system.slice/a.service", "systemd-resolve", UDP_HEAD UDP_DNS, false},
		{"/system.slice/b.service", "dnsmasq", UDP_HEAD, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_directory_ struct directory directory = {0};
		_cleanup_(cleanup_dns_who_close) struct dns_who *who = NULL;
		struct host host = {0};
		char path[PATH_MAX], line[64];
		uint64_t id;

		directory_make(&directory);
		assert_true(host_init(&host, directory.path));
		id = make_cgroup(&directory, table[i].cgroup);
		snprintf(path, sizeof(path), "%s/cgroup.procs", table[i].cgroup);
		directory_put(&directory, path, "77\n78\n");
		snprintf(line, sizeof(line), "%s\n", table[i].name);
		directory_put(&directory, "/proc/77/comm", line);
		directory_put(&directory, "/proc/77/net/udp", table[i].sockets);
		who = dns_who_open(&host, directory.path);
		assert_false(dns_who_serves(who, id, USEC_PER_SEC));
		dns_who_learn(who, &id, 1, USEC_PER_SEC);
		if (dns_who_serves(who, id, USEC_PER_SEC) != table[i].serves)
			fail_msg("%s", table[i].name);
		/* A minute later it is somebody else, or nobody. */
		directory_put(&directory, "/proc/77/comm", "unbound\n");
		assert_int_equal(dns_who_serves(who, id, 50 * USEC_PER_SEC), table[i].serves);
		assert_true(dns_who_serves(who, id, 62 * USEC_PER_SEC));
	}
}

static void forwarders_are_told_by_name(void **state)
{
	struct workload workload = {.kind = WORKLOAD_POD};

	(void)state;
	strcpy(workload.name, "coredns-5dd5756b68-x7k2p");
	assert_true(dns_who_is_forwarder(&workload));
	assert_false(dns_who_is_node_cache(&workload));
	strcpy(workload.name, "node-local-dns-9xk2p");
	assert_true(dns_who_is_forwarder(&workload));
	assert_true(dns_who_is_node_cache(&workload));
	strcpy(workload.name, "dnsmasq.service");
	assert_true(dns_who_is_forwarder(&workload));
	strcpy(workload.name, "cart-7");
	assert_false(dns_who_is_forwarder(&workload));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cgroup_is_a_workload),
		cmocka_unit_test(a_runtime_knows_the_pods_name),
		cmocka_unit_test(a_cgroup_that_comes_later_is_found),
		cmocka_unit_test(who_serves_is_told_by_its_process),
		cmocka_unit_test(forwarders_are_told_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
