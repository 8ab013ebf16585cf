/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/util.h"
#include "config/config.h"

static struct dns_budget read_budget(const struct config *config, size_t i)
{
	struct dns_budget budget = {
		.qps = config_item_count(config, "dns.budgets", i, "qps", 0),
		.pps = config_item_count(config, "dns.budgets", i, "pps", 0),
		.pending = config_item_count(config, "dns.budgets", i, "pending", 0),
		.source = "config",
	};

	return budget;
}

static void read_budgets(struct dns_config *into, const struct config *config)
{
	size_t n = config_list(config, "dns.budgets");

	into->n_budgets = 0;
	into->own = (struct dns_budget){0};
	into->budget_auto = config_choice(config, "dns.budgets") >= 0;
	for (size_t i = 0; i < n && into->n_budgets < DNS_BUDGETS_MAX; i++) {
		const char *server = config_item(config, "dns.budgets", i, "server");

		if (streq(server, "auto")) {
			into->budget_auto = true;
			into->own = read_budget(config, i);
		} else if (dns_address_parse(server, &into->budgets[into->n_budgets].server)) {
			into->budgets[into->n_budgets++].budget = read_budget(config, i);
		}
	}
}

void dns_config_read(struct dns_config *into, const struct config *config)
{
	size_t n = config_list(config, "dns.cluster_domains");

	into->n_domains = MIN(n, DNS_DOMAINS_MAX);
	for (size_t i = 0; i < into->n_domains; i++)
		copy_text(into->domains[i], DNS_DOMAIN_MAX,
			config_item(config, "dns.cluster_domains", i, ""));
	into->cluster_auto = config_choice(config, "dns.cluster_servers") >= 0;
	into->n_cluster = 0;
	n = config_list(config, "dns.cluster_servers");
	for (size_t i = 0; i < n && into->n_cluster < DNS_CLUSTER_SERVERS_MAX; i++)
		if (dns_address_parse(config_item(config, "dns.cluster_servers", i, ""),
			    &into->cluster[into->n_cluster]))
			into->n_cluster++;
	into->names = streq(config_text(config, "dns.names"), "socket");
	read_budgets(into, config);
}

/* The cloud's kind of budget, such as link-local packets, stays; its numbers do not. */
static void take_numbers(struct dns_budget *budget, const struct dns_budget *numbers)
{
	budget->qps = numbers->qps;
	budget->pps = numbers->pps;
	budget->pending = numbers->pending;
	copy_text(budget->source, sizeof(budget->source), numbers->source);
}

struct dns_budget dns_config_budget(const struct dns_config *config, enum dns_cloud cloud,
	const struct dns_resolv *resolv, const struct dns_key *server)
{
	struct dns_budget budget = {0};
	bool listed = dns_resolv_names(resolv, server);
	bool builtin = dns_budget_builtin(cloud, server, listed, &budget);

	for (size_t i = 0; i < config->n_budgets; i++) {
		if (!dns_address_equal(&config->budgets[i].server, server))
			continue;
		take_numbers(&budget, &config->budgets[i].budget);
		return budget;
	}
	if (!config->budget_auto || !builtin)
		return (struct dns_budget){0};
	if (dns_budget_is_set(&config->own))
		take_numbers(&budget, &config->own);
	return budget;
}
