/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/dns/dns.h"

static struct dns_address key_of(const char *text)
{
	struct dns_address key;

	assert_true(dns_address_parse(text, &key));
	return key;
}

TEST(firmware_names_the_cloud)
{
	static const struct {
		const char *file, *text, *cloud;
	} table[] = {
		{"sys_vendor", "Amazon EC2\n", "aws"},
		{"bios_version", "4.11.amazon\n", "aws"},
		{"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n", "azure"},
		{"sys_vendor", "Microsoft Corporation\n", ""}, /* any Hyper-V host */
		{"sys_vendor", "Alibaba Cloud\n", "alibaba"},
		{"chassis_asset_tag", "HUAWEICLOUD\n", "huawei"},
		{"product_name", "Google Compute Engine\n", "gcp"},
		{"sys_vendor", "QEMU\n", ""},
		{"nothing", "", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_directory_ struct directory directory = {0};
		struct dns_facts facts = {0};
		char path[64];

		directory_make(&directory);
		snprintf(path, sizeof(path), "/sys/class/dmi/id/%s", table[i].file);
		directory_put(&directory, path, table[i].text);
		dns_facts_read(&facts, &directory.host);
		assert_string_equal(facts.cloud, table[i].cloud);
	}
}

/* The scenarios dns-budget-* and dns-no-budget have the conditions. */
TEST(each_cloud_has_its_budget)
{
	static const struct {
		const char *cloud, *server;
		bool listed;
		const char *source; /* empty: no budget */
		uint64_t qps, pps, pending;
	} table[] = {
		{"aws", "169.254.169.253", false, "aws", 0, 1024, 0},
		{"", "fd00:ec2::253", false, "aws", 0, 1024, 0},
		{"aws", "172.31.0.2", true, "aws", 0, 1024, 0},
		{"aws", "192.168.5.18", true, "aws", 0, 1024, 0},
		/* Not the third address of the VPC; an unknown cloud; an address outside a VPC. */
		{"aws", "10.0.0.3", true, "", 0, 0, 0},
		{"", "10.0.0.2", true, "", 0, 0, 0},
		{"aws", "8.8.8.2", true, "", 0, 0, 0},
		{"azure", "168.63.129.16", false, "azure", 1000, 0, 200},
		{"alibaba", "100.100.2.136", false, "alibaba", 5000, 0, 0},
		{"alibaba", "100.100.2.138", false, "alibaba", 5000, 0, 0},
		/* Other networks use this shared address space too. */
		{"", "100.100.2.136", false, "", 0, 0, 0},
		{"huawei", "100.125.1.250", false, "huawei", 2000, 0, 0},
		{"huawei", "100.125.129.250", false, "huawei", 2000, 0, 0},
		/* The number is not published. */
		{"digitalocean", "67.207.67.2", true, "", 0, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct dns_config automatic = {.budget_auto = true};
		struct dns_address server = key_of(table[i].server);
		struct dns_facts facts = {0};
		struct dns_budget budget;

		set_text(facts.cloud, table[i].cloud);
		budget = dns_config_budget(&automatic, &facts, &server, table[i].listed);
		assert_string_equal(budget.source, table[i].source);
		assert_int_equal(budget.max[DNS_QUERIES], table[i].qps);
		assert_int_equal(budget.max[DNS_PACKETS], table[i].pps);
		assert_int_equal(budget.max[DNS_PENDING], table[i].pending);
		assert_int_equal(budget.link_local, streq(table[i].source, "aws"));
	}
}

TEST(every_budget_is_explained)
{
	for (const struct dns_budget_row *row = dns_budget_rows; row->cloud; row++) {
		const struct help_entry *found = NULL;
		struct dns_address key;

		for (const struct help_entry *entry = dns_entries; entry->name; entry++)
			if (starts_with(entry->name, "budget/") &&
				streq(entry->name + strlen("budget/"), row->cloud))
				found = entry;
		if (!found)
			fail_msg("explain knows nothing of budget/%s", row->cloud);
		assert_true(strlen(found->source) > 20);
		for (size_t i = 0; i < DNS_BUDGET_NETWORKS && row->networks[i]; i++)
			assert_true(dns_address_parse(row->networks[i], &key));
	}
}

TEST(addresses_are_parsed_and_compared)
{
	struct dns_address key = {0};
	char text[DNS_ADDRESS_TEXT];

	assert_false(dns_address_parse("", &key));
	assert_false(dns_address_parse("10.0.0", &key));
	assert_false(dns_address_parse("10.0.0.256", &key));
	assert_false(dns_address_parse("example", &key));
	assert_false(dns_address_is_set(&key));
	dns_address_text(&key, text);
	assert_string_equal(text, "other");
	assert_true(dns_address_parse("fe80::1%eth0", &key));
	assert_false(dns_address_is_ipv4(&key));
	dns_address_text(&key, text);
	assert_string_equal(text, "fe80::1");
	key = key_of("127.0.0.53");
	assert_true(dns_address_is_loopback(&key) && dns_address_is_ipv4(&key));
	key = key_of("10.65.0.1");
	assert_true(dns_address_within(&key, "10.64.0.0", 10));
	assert_true(dns_address_within(&key, "10.0.0.0", 8));
	assert_false(dns_address_within(&key, "10.128.0.0", 9));
	assert_false(dns_address_within(&key, "2000::", 3));
}

TEST(servers_have_roles)
{
	static const struct {
		const char *address;
		uint64_t answers; /* to names of the cluster */
		enum dns_role role;
	} table[] = {
		/* A stub, the cache of a node and dnsmasq of a bridge are first hops. */
		{"127.0.0.53", 5, DNS_LOCAL},
		{"::1", 0, DNS_LOCAL},
		{"169.254.20.10", 100, DNS_LOCAL},
		{"10.1.0.7", 0, DNS_LOCAL},
		{"10.96.0.10", 0, DNS_CLUSTER},
		/* DNAT shows a process of the host the address of the pod. */
		{"10.244.1.5", 1, DNS_CLUSTER},
		{"10.244.1.5", 0, DNS_UPSTREAM},
		{"168.63.129.16", 7, DNS_UPSTREAM},
	};
	struct dns_facts facts = {
		.node = {key_of("10.1.0.7"), key_of("169.254.20.10")}, .n_node = 2};
	struct dns_config config = {.cluster = {key_of("10.96.0.10")},
		.n_cluster = 1,
		.budgets = {{.server = key_of("10.1.0.7"), .budget.max = {7}}},
		.n_budgets = 1,
		.budget_auto = true};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct dns_server_state server = {.address = key_of(table[i].address),
			.totals.counters.cluster_answers = table[i].answers};

		dns_set_role(&config, &facts, &server);
		assert_int_equal(server.role, table[i].role);
		assert_true(server.role == DNS_UPSTREAM || !dns_budget_is_set(&server.budget));
	}
}

DIRECTORY_TEST(the_last_search_line_wins)
{
	struct dns_address first = key_of("10.0.0.2"), second = key_of("fd00::2");
	struct dns_facts facts = {0};

	directory_put(directory, "/etc/resolv.conf",
		"# a comment\nnameserver 10.0.0.2\n  nameserver 1.2.3.4\nnameserver\tfd00::2\n"
		"nameserver nonsense\nsearch a.example b.example.\ndomain c.example\n"
		"search ec2.internal  d.example \r\noptions ndots:5\nnameserver");
	dns_facts_read(&facts, &directory->host);
	assert_int_equal(facts.n_servers, 2);
	assert_true(dns_address_equal(&facts.servers[0], &first));
	assert_true(dns_address_equal(&facts.servers[1], &second));
	assert_int_equal(facts.n_search, 2);
	assert_string_equal(facts.search[0], "ec2.internal");
	assert_string_equal(facts.search[1], "d.example");
}

DIRECTORY_TEST(the_upstreams_of_the_stub_are_read)
{
	struct dns_address upstream = key_of("10.0.0.2");
	struct dns_facts facts = {0};

	dns_facts_read(&facts, &directory->host);
	assert_int_equal(facts.n_servers, 0);
	directory_put(directory, "/etc/resolv.conf", "nameserver 127.0.0.53\n");
	dns_facts_read(&facts, &directory->host);
	assert_true(dns_address_is_loopback(&facts.servers[0]));
	directory_put(
		directory, "/run/systemd/resolve/resolv.conf", "nameserver 10.0.0.2\nsearch x\n");
	dns_facts_read(&facts, &directory->host);
	assert_int_equal(facts.n_servers, 1);
	assert_true(dns_address_equal(&facts.servers[0], &upstream));
	assert_string_equal(facts.search[0], "x");
}

TEST(suffixes_are_sorted_by_their_length)
{
	struct dns_suffix table[DNS_SUFFIXES] = {0};
	char domain[70];

	assert_true(dns_suffix_add(table, "cluster.local", DNS_SUFFIX_CLUSTER));
	assert_true(dns_suffix_add(table, "svc.Cluster.LOCAL.", DNS_SUFFIX_SEARCH));
	assert_true(dns_suffix_add(table, "x", DNS_SUFFIX_SEARCH));
	/* A known one keeps its class. */
	assert_true(dns_suffix_add(table, "CLUSTER.local", DNS_SUFFIX_SEARCH));
	assert_int_equal(table[0].size, sizeof("\3svc\7cluster\5local"));
	assert_memory_equal(&table[0].words[0].bytes, "\3svc\7clu", 8);
	assert_memory_equal(&table[0].words[1].bytes, "ster\5loc", 8);
	assert_int_equal(table[1].class, DNS_SUFFIX_CLUSTER);
	assert_int_equal(table[2].size, 3);
	assert_int_equal(table[3].size, 0);
	for (int i = 3; i < DNS_SUFFIXES; i++) {
		snprintf(domain, sizeof(domain), "d%d.test", i);
		assert_true(dns_suffix_add(table, domain, DNS_SUFFIX_SEARCH));
	}
	assert_false(dns_suffix_add(table, "full.test", DNS_SUFFIX_SEARCH));
}
