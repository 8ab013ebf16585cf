/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include "tuners/dns/dns.h"

#define LABEL_OF_64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static struct loaded load(const char *text)
{
	struct loaded loaded = load_options(text);

	if (loaded.config)
		tuners_validate(loaded.config, &loaded.faults);
	return loaded;
}

static void assert_fault(const char *text, unsigned line, const char *words)
{
	_cleanup_loaded_ struct loaded loaded = load(text);

	assert_int_equal(loaded.faults.n, 1);
	assert_int_equal(loaded.faults.faults[0].line, line);
	if (!strstr(loaded.faults.faults[0].message, words))
		fail_msg("%s", loaded.faults.faults[0].message);
}

static struct dns_budget budget_of(
	const struct dns_config *config, const char *cloud, const char *server)
{
	struct dns_facts facts = {0};
	struct dns_address key;

	set_text(facts.cloud, cloud);
	assert_true(dns_address_parse(server, &key));
	return dns_config_budget(config, &facts, &key, false);
}

TEST(defaults_are_automatic)
{
	_cleanup_loaded_ struct loaded loaded = load("");
	struct dns_config config;

	assert_int_equal(loaded.faults.n, 0);
	dns_config_read(&config, loaded.config, &loaded.faults);
	assert_int_equal(config.n_domains, 1);
	assert_string_equal(config.domains[0], "cluster.local");
	assert_true(config.cluster_auto);
	assert_true(config.names);
	assert_true(config.budget_auto);
	assert_int_equal(config.n_budgets, 0);
	assert_int_equal(budget_of(&config, "", "168.63.129.16").max[DNS_QUERIES], 1000);
	assert_false(dns_budget_is_set(&(struct dns_budget){0}));
}

TEST(configured_values_are_read)
{
	_cleanup_loaded_ struct loaded loaded =
		load("dns:\n"
		     "  cluster_domains: [example.internal, b]\n"
		     "  cluster_servers: [10.96.0.10, \"fd00::a\"]\n"
		     "  names: off\n"
		     "  budgets:\n"
		     "  - {server: auto, qps: 500}\n"
		     "  - {server: 10.0.0.2, qps: 200, pps: 1024, pending: 50}\n"
		     "  - {server: 169.254.169.253, pps: 2048}\n"
		     "  - {server: \"fd00::53\", qps: 5}\n"
		     "  - {server: \"FD00:0::53\", qps: 7}\n");
	struct dns_config config;
	struct dns_budget budget;

	assert_int_equal(loaded.faults.n, 0);
	dns_config_read(&config, loaded.config, &loaded.faults);
	assert_int_equal(config.n_domains, 2);
	assert_false(config.cluster_auto);
	assert_int_equal(config.n_cluster, 2);
	assert_false(config.names);
	budget = budget_of(&config, "", "10.0.0.2");
	assert_int_equal(budget.max[DNS_QUERIES], 200);
	assert_int_equal(budget.max[DNS_PACKETS], 1024);
	assert_int_equal(budget.max[DNS_PENDING], 50);
	assert_string_equal(budget.source, "config");
	assert_false(budget.link_local);
	/* The first of two spellings of an address counts. */
	assert_int_equal(budget_of(&config, "", "fd00::53").max[DNS_QUERIES], 5);
	/* Configured numbers keep the rules of the cloud. */
	budget = budget_of(&config, "aws", "169.254.169.253");
	assert_int_equal(budget.max[DNS_PACKETS], 2048);
	assert_true(budget.link_local);
	budget = budget_of(&config, "azure", "168.63.129.16");
	assert_int_equal(budget.max[DNS_QUERIES], 500);
	assert_int_equal(budget.max[DNS_PENDING], 0);
	assert_int_equal(budget_of(&config, "", "1.1.1.1").max[DNS_QUERIES], 0);
}

TEST(empty_lists_mean_none)
{
	_cleanup_loaded_ struct loaded loaded =
		load("dns: {budgets: [], cluster_domains: [], cluster_servers: []}\n");
	struct dns_config config;

	assert_int_equal(loaded.faults.n, 0);
	dns_config_read(&config, loaded.config, &loaded.faults);
	assert_int_equal(config.n_domains, 0);
	assert_false(config.cluster_auto);
	assert_int_equal(budget_of(&config, "azure", "168.63.129.16").max[DNS_QUERIES], 0);
}

/* test_config.py of the root tests has more faults of dns.budgets. */
TEST(faults_have_their_line)
{
	assert_fault("dns:\n  budgets:\n  - {qps: 5}\n", 3, "server");
	assert_fault("dns:\n  budgets:\n  - {server: auto}\n  - {server: auto}\n", 4, "twice");
	assert_fault("dns:\n  cluster_servers:\n  - 10.96.0\n", 3, "not an address");
	assert_fault("dns:\n  names: yes\n", 2, "socket");
	assert_fault("dns:\n  cluster_domains:\n  - a\n  - b..c\n", 4, "not a domain");
	assert_fault("dns:\n  cluster_domains: [" LABEL_OF_64 "]\n", 2, "at most 62 characters");
	assert_fault("dns:\n  cluster_domains: [.]\n", 2, "not a domain");
	assert_fault("dns:\n  cluster_domains: [.a]\n", 2, "not a domain");
	assert_fault("dns:\n  cluster_domains: [" LABEL_OF_64 ".b]\n", 2, "not a domain");
	/* Packets never have these addresses. */
	assert_fault(
		"dns:\n  budgets:\n  - {server: \"::ffff:10.0.0.2\", qps: 5}\n", 3, "IPv4 address");
	assert_fault("dns:\n  budgets:\n  - {server: 0.0.0.0, qps: 5}\n", 3, "no packet");
	assert_fault("dns:\n  budgets:\n  - {server: \"::\", qps: 5}\n", 3, "no packet");
	assert_fault("dns:\n  cluster_domains: cluster.local\n", 2, "cluster_domains");
}
