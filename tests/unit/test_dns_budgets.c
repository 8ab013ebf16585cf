/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <sys/socket.h>

#include "tuners/dns/dns.h"

static struct dns_key key_of(const char *text)
{
	struct dns_key key;

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
		{"sys_vendor", "Microsoft Corporation\n", ""}, /* any Hyper-V */
		{"sys_vendor", "Alibaba Cloud\n", "alibaba"},
		{"chassis_asset_tag", "HUAWEICLOUD\n", "huawei"},
		{"product_name", "Google Compute Engine\n", "gcp"},
		{"sys_vendor", "QEMU\n", ""},
		{"nothing", "", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_directory_ struct directory directory = {0};
		char path[64];
		struct host host;

		directory_make(&directory);
		snprintf(path, sizeof(path), "/sys/class/dmi/id/%s", table[i].file);
		directory_put(&directory, path, table[i].text);
		assert_true(host_init(&host, directory.path));
		assert_string_equal(dns_cloud_detect(&host), table[i].cloud);
	}
}

struct expected {
	const char *cloud;
	const char *server;
	bool listed;
	const char *source; /* NULL: no budget */
	uint64_t qps, pps, pending;
};

TEST(each_cloud_has_its_budget)
{
	static const struct expected table[] = {
		{"aws", "169.254.169.253", false, "aws", 0, 1024, 0},
		{"", "fd00:ec2::253", false, "aws", 0, 1024, 0},
		{"aws", "10.0.0.2", true, "aws", 0, 1024, 0},
		{"aws", "172.31.0.2", true, "aws", 0, 1024, 0},
		{"aws", "192.168.5.18", true, "aws", 0, 1024, 0},
		/* Not the VPC's base plus two, not the node's resolver, not this cloud. */
		{"aws", "10.0.0.3", true, NULL, 0, 0, 0},
		{"aws", "10.0.0.2", false, NULL, 0, 0, 0},
		{"", "10.0.0.2", true, NULL, 0, 0, 0},
		{"aws", "8.8.8.2", true, NULL, 0, 0, 0},
		{"azure", "168.63.129.16", false, "azure", 1000, 0, 200},
		{"", "168.63.129.16", false, "azure", 1000, 0, 200},
		{"alibaba", "100.100.2.136", false, "alibaba", 5000, 0, 0},
		{"alibaba", "100.100.2.138", false, "alibaba", 5000, 0, 0},
		/* Shared address space: anybody may have it. */
		{"", "100.100.2.136", false, NULL, 0, 0, 0},
		{"huawei", "100.125.1.250", false, "huawei", 2000, 0, 0},
		{"huawei", "100.125.129.250", false, "huawei", 2000, 0, 0},
		{"", "72.3.128.240", false, "rackspace", 10, 0, 0},
		/* No published number. */
		{"gcp", "169.254.169.254", true, NULL, 0, 0, 0},
		{"digitalocean", "67.207.67.2", true, NULL, 0, 0, 0},
		{"", "1.1.1.1", true, NULL, 0, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct dns_key server = key_of(table[i].server);
		struct dns_budget budget = {0};
		bool found = dns_budget_builtin(table[i].cloud, &server, table[i].listed, &budget);

		if (found != (table[i].source != NULL))
			fail_msg("%s in %s", table[i].server, table[i].cloud);
		assert_int_equal(dns_budget_is_set(&budget), found);
		if (!found)
			continue;
		assert_string_equal(budget.source, table[i].source);
		assert_int_equal(budget.qps, table[i].qps);
		assert_int_equal(budget.pps, table[i].pps);
		assert_int_equal(budget.pending, table[i].pending);
		assert_int_equal(budget.link_local, streq(table[i].source, "aws"));
		assert_int_equal(budget.sustained, streq(table[i].source, "rackspace"));
	}
}

TEST(every_budget_is_explained)
{
	for (const struct dns_budget_row *row = dns_budget_rows; row->cloud; row++) {
		const struct explanation *found = NULL;
		struct dns_key key;

		for (const struct explanation *one = dns_explanations; one->name; one++)
			if (starts_with(one->name, "budget/") &&
				streq(one->name + strlen("budget/"), row->cloud))
				found = one;
		if (!found)
			fail_msg("explain knows nothing of budget/%s", row->cloud);
		assert_true(strlen(found->source) > 20);
		for (size_t i = 0; i < DNS_BUDGET_NETWORKS && row->networks[i]; i++)
			assert_true(dns_address_parse(row->networks[i], &key));
	}
}

TEST(addresses_are_parsed_and_compared)
{
	struct dns_key key = {0};
	char text[DNS_ADDRESS_TEXT];

	assert_false(dns_address_parse("", &key));
	assert_false(dns_address_parse("10.0.0", &key));
	assert_false(dns_address_parse("10.0.0.256", &key));
	assert_false(dns_address_parse("example", &key));
	assert_int_equal(key.family, 0);
	dns_address_text(&key, text);
	assert_string_equal(text, "other");
	assert_true(dns_address_parse("fe80::1%eth0", &key));
	assert_int_equal(key.family, AF_INET6);
	dns_address_text(&key, text);
	assert_string_equal(text, "fe80::1");
	assert_true(dns_address_is_loopback(&(struct dns_key){AF_INET, {127, 0, 0, 53}}));
	key = key_of("10.65.0.1");
	assert_true(dns_address_within(&key, "10.64.0.0", 10));
	assert_true(dns_address_within(&key, "10.0.0.0", 8));
	assert_false(dns_address_within(&key, "10.128.0.0", 9));
	assert_false(dns_address_within(&key, "::", 0));
}
