/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tuners/dns/resolv.h"
#include "tuners/dns/roles.h"

#include "directory.h"

static struct dns_key key_of(const char *text)
{
	struct dns_key key;

	assert_true(dns_address_parse(text, &key));
	return key;
}

static enum dns_role role_of(
	const struct dns_roles *roles, const char *server, uint64_t answers, bool budgeted)
{
	struct dns_key key = key_of(server);

	return dns_role_of(roles, &key, answers, budgeted);
}

static void servers_have_roles(void **state)
{
	struct dns_key node[] = {key_of("10.1.0.7"), key_of("169.254.20.10")};
	struct dns_roles roles = {.node = node, .n_node = 2};
	struct dns_key cluster = key_of("10.96.0.10");

	(void)state;
	dns_roles_add_cluster(&roles, &cluster);
	dns_roles_add_cluster(&roles, &cluster);
	assert_int_equal(roles.n_cluster, 1);
	/* A stub, a node's cache, a bridge's dnsmasq: a first hop, whatever they answer. */
	assert_int_equal(role_of(&roles, "127.0.0.53", 5, false), DNS_LOCAL);
	assert_int_equal(role_of(&roles, "::1", 0, false), DNS_LOCAL);
	assert_int_equal(role_of(&roles, "169.254.20.10", 100, false), DNS_LOCAL);
	assert_int_equal(role_of(&roles, "10.1.0.7", 0, true), DNS_LOCAL);
	assert_int_equal(role_of(&roles, "10.96.0.10", 0, false), DNS_CLUSTER);
	/* Behind DNAT a host's process sees the pod's own address. */
	assert_int_equal(role_of(&roles, "10.244.1.5", 1, false), DNS_CLUSTER);
	assert_int_equal(role_of(&roles, "10.244.1.5", 0, false), DNS_UPSTREAM);
	assert_int_equal(role_of(&roles, "168.63.129.16", 7, true), DNS_UPSTREAM);
}

static void the_node_has_its_addresses(void **state)
{
	struct dns_roles roles = {0};
	struct dns_key loopback = key_of("127.0.0.1"), stranger = key_of("192.0.2.77");

	(void)state;
	dns_roles_read_node(&roles);
	assert_true(dns_roles_is_node(&roles, &loopback));
	assert_false(dns_roles_is_node(&roles, &stranger));
	dns_roles_clear(&roles);
	assert_false(dns_roles_is_node(&roles, &loopback));
}

static size_t taken(struct dns_roles *roles, const char *text)
{
	return dns_roles_take_kubelet(roles, text, strlen(text));
}

static void a_kubelet_tells_the_clusters_dns(void **state)
{
	struct dns_roles roles = {0};

	(void)state;
	assert_int_equal(taken(&roles, "kind: KubeletConfiguration\n"
				       "clusterDNS:\n- 10.96.0.10\n- fd00::a\n- nonsense\n"),
		2);
	assert_int_equal(role_of(&roles, "fd00::a", 0, false), DNS_CLUSTER);
	roles.n_cluster = 0;
	assert_int_equal(
		taken(&roles,
			"{\"kind\": \"KubeletConfiguration\", \"clusterDNS\": [\"10.3.0.9\"]}"),
		1);
	assert_int_equal(role_of(&roles, "10.3.0.9", 0, false), DNS_CLUSTER);
	/* Nothing of use, and nothing that breaks. */
	assert_int_equal(taken(&roles, ""), 0);
	assert_int_equal(taken(&roles, "clusterDNS: 10.96.0.10\n"), 0);
	assert_int_equal(taken(&roles, "- clusterDNS\n"), 0);
	assert_int_equal(taken(&roles, "clusterDNS: [1.2.3.4"), 0);
	assert_int_equal(roles.n_cluster, 1);
}

static void the_kubelets_file_is_found(void **state)
{
	_cleanup_directory_ struct directory directory = {0};
	struct dns_roles roles = {0};
	struct host host = {0};

	(void)state;
	directory_make(&directory);
	assert_true(host_init(&host, directory.path));
	dns_roles_read_kubelet(&roles, &host);
	assert_int_equal(roles.n_cluster, 0);
	directory_put(&directory, "/etc/kubernetes/kubelet/config.json",
		"{\"clusterDNS\": [\"10.7.0.9\"]}");
	directory_put(&directory, "/var/lib/kubelet/config.yaml", "authentication: {}\n");
	dns_roles_read_kubelet(&roles, &host);
	assert_int_equal(role_of(&roles, "10.7.0.9", 0, false), DNS_CLUSTER);
	roles.n_cluster = 0;
	directory_put(&directory, "/var/lib/kubelet/config.yaml", "clusterDNS: [10.96.0.10]\n");
	dns_roles_read_kubelet(&roles, &host);
	assert_int_equal(roles.n_cluster, 1);
	assert_int_equal(role_of(&roles, "10.96.0.10", 0, false), DNS_CLUSTER);
}

static void resolv_conf(void **state)
{
	char text[] =
		"# a comment\nnameserver 10.0.0.2\n  nameserver 1.2.3.4\nnameserver\tfd00::2\n"
		"nameserver nonsense\nsearch a.example b.example.\ndomain c.example\n"
		"search ec2.internal  d.example \r\noptions ndots:5\nnameserver";
	struct dns_key first = key_of("10.0.0.2"), second = key_of("fd00::2");
	struct dns_resolv resolv;

	(void)state;
	dns_resolv_parse(&resolv, text);
	assert_int_equal(resolv.n_servers, 2);
	assert_true(dns_resolv_names(&resolv, &first));
	assert_true(dns_resolv_names(&resolv, &second));
	assert_int_equal(resolv.n_search, 2);
	assert_string_equal(resolv.search[0], "ec2.internal");
	assert_string_equal(resolv.search[1], "d.example");
}

static void the_real_upstreams_stand_behind_the_stub(void **state)
{
	_cleanup_directory_ struct directory directory = {0};
	struct dns_key upstream = key_of("10.0.0.2"), stub = key_of("127.0.0.53");
	struct dns_resolv resolv;
	struct host host = {0};

	(void)state;
	directory_make(&directory);
	assert_true(host_init(&host, directory.path));
	dns_resolv_read(&resolv, &host);
	assert_int_equal(resolv.n_servers, 0);
	directory_put(&directory, "/etc/resolv.conf", "nameserver 127.0.0.53\n");
	dns_resolv_read(&resolv, &host);
	assert_true(dns_resolv_names(&resolv, &stub));
	directory_put(
		&directory, "/run/systemd/resolve/resolv.conf", "nameserver 10.0.0.2\nsearch x\n");
	dns_resolv_read(&resolv, &host);
	assert_true(dns_resolv_names(&resolv, &upstream));
	assert_false(dns_resolv_names(&resolv, &stub));
	assert_string_equal(resolv.search[0], "x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers_have_roles),
		cmocka_unit_test(the_node_has_its_addresses),
		cmocka_unit_test(a_kubelet_tells_the_clusters_dns),
		cmocka_unit_test(the_kubelets_file_is_found),
		cmocka_unit_test(resolv_conf),
		cmocka_unit_test(the_real_upstreams_stand_behind_the_stub),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
