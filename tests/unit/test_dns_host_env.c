/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/dns/sense.h"

static struct dns_key key_of(const char *text)
{
	struct dns_key key;

	assert_true(dns_address_parse(text, &key));
	return key;
}

static struct dns_config config;

static enum dns_role role_of(
	const struct dns_host_env *env, const char *server, uint64_t answers, bool budgeted)
{
	struct dns_key key = key_of(server);

	return dns_role_of(&config, env, &key, answers, budgeted);
}

TEST(servers_have_roles)
{
	struct dns_key node[] = {key_of("10.1.0.7"), key_of("169.254.20.10")};
	struct dns_host_env env = {.node = node, .n_node = 2};

	config = (struct dns_config){.cluster = {key_of("10.96.0.10")}, .n_cluster = 1};
	/* A stub, a node's cache, a bridge's dnsmasq: a first hop, whatever they answer. */
	assert_int_equal(role_of(&env, "127.0.0.53", 5, false), DNS_LOCAL);
	assert_int_equal(role_of(&env, "::1", 0, false), DNS_LOCAL);
	assert_int_equal(role_of(&env, "169.254.20.10", 100, false), DNS_LOCAL);
	assert_int_equal(role_of(&env, "10.1.0.7", 0, true), DNS_LOCAL);
	assert_int_equal(role_of(&env, "10.96.0.10", 0, false), DNS_CLUSTER);
	/* Behind DNAT a host's process sees the pod's own address. */
	assert_int_equal(role_of(&env, "10.244.1.5", 1, false), DNS_CLUSTER);
	assert_int_equal(role_of(&env, "10.244.1.5", 0, false), DNS_UPSTREAM);
	assert_int_equal(role_of(&env, "168.63.129.16", 7, true), DNS_UPSTREAM);
}

TEST(addresses_of_the_node_are_known)
{
	struct dns_host_env env = {0};
	struct host host;
	struct dns_key loopback = key_of("127.0.0.1"), stranger = key_of("192.0.2.77");

	assert_true(host_init(&host, "/nonexistent"));
	dns_host_env_read(&env, &host);
	assert_true(dns_host_env_is_node(&env, &loopback));
	assert_false(dns_host_env_is_node(&env, &stranger));
	dns_host_env_clear(&env);
	assert_false(dns_host_env_is_node(&env, &loopback));
}

TEST(cluster_dns_comes_from_the_kubelet)
{
	struct kubelet_values values = {
		.cluster_dns = {"10.96.0.10", "fd00::a"}, .n_cluster_dns = 2};
	struct dns_host_env env = {0};

	config = (struct dns_config){.cluster_auto = true};
	dns_host_env_take_kubelet(&env, &values);
	assert_int_equal(role_of(&env, "10.96.0.10", 0, false), DNS_CLUSTER);
	assert_int_equal(role_of(&env, "fd00::a", 0, false), DNS_CLUSTER);
	config.cluster_auto = false;
	assert_int_equal(role_of(&env, "fd00::a", 0, false), DNS_UPSTREAM);
	dns_host_env_clear(&env);
}

TEST(the_last_search_line_wins)
{
	char text[] =
		"# a comment\nnameserver 10.0.0.2\n  nameserver 1.2.3.4\nnameserver\tfd00::2\n"
		"nameserver nonsense\nsearch a.example b.example.\ndomain c.example\n"
		"search ec2.internal  d.example \r\noptions ndots:5\nnameserver";
	struct dns_key first = key_of("10.0.0.2"), second = key_of("fd00::2");
	struct dns_host_env env;

	dns_resolv_parse(&env, text);
	assert_int_equal(env.n_servers, 2);
	assert_true(dns_address_in(env.servers, env.n_servers, &first));
	assert_true(dns_address_in(env.servers, env.n_servers, &second));
	assert_int_equal(env.n_search, 2);
	assert_string_equal(env.search[0], "ec2.internal");
	assert_string_equal(env.search[1], "d.example");
}

TEST(the_upstreams_of_the_stub_are_read)
{
	_cleanup_directory_ struct directory directory = {0};
	struct dns_key upstream = key_of("10.0.0.2"), stub = key_of("127.0.0.53");
	struct dns_host_env env = {0};
	struct host host = {0};

	directory_make(&directory);
	assert_true(host_init(&host, directory.path));
	dns_host_env_read(&env, &host);
	assert_int_equal(env.n_servers, 0);
	directory_put(&directory, "/etc/resolv.conf", "nameserver 127.0.0.53\n");
	dns_host_env_read(&env, &host);
	assert_true(dns_address_in(env.servers, env.n_servers, &stub));
	directory_put(
		&directory, "/run/systemd/resolve/resolv.conf", "nameserver 10.0.0.2\nsearch x\n");
	dns_host_env_read(&env, &host);
	assert_true(dns_address_in(env.servers, env.n_servers, &upstream));
	assert_false(dns_address_in(env.servers, env.n_servers, &stub));
	assert_string_equal(env.search[0], "x");
	dns_host_env_clear(&env);
}
