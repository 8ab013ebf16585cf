/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/util.h"

/* Services of AWS on link-local addresses that share one budget of packets: metadata, DNS, NTP. */
static const char *const link_local[] = {"169.254.169.254", "169.254.169.253", "169.254.169.123",
	"fd00:ec2::254", "fd00:ec2::253", "fd00:ec2::123"};

/* Cluster domains first: a search list may repeat them, and the first counts. */
static void set_suffixes(struct dns_sensor *sensor)
{
	struct dns_suffix_name names[DNS_DOMAINS_MAX + DNS_RESOLV_SEARCH];
	size_t n = 0;

	for (size_t i = 0; i < sensor->config.n_domains; i++)
		names[n++] =
			(struct dns_suffix_name){sensor->config.domains[i], DNS_SUFFIX_CLUSTER};
	for (size_t i = 0; i < sensor->env.n_search; i++)
		names[n++] = (struct dns_suffix_name){sensor->env.search[i], DNS_SUFFIX_SEARCH};
	dns_bpf_set_suffixes(sensor->bpf, names, n);
}

static void watch(struct dns_sensor *sensor, const struct dns_key *address)
{
	if (dns_address_in(sensor->watched, sensor->n_watched, address) ||
		sensor->n_watched == ARRAY_SIZE(sensor->watched))
		return;
	sensor->watched[sensor->n_watched++] = *address;
	dns_bpf_watch(sensor->bpf, sensor->watched, sensor->n_watched);
}

void dns_set_role(const struct dns_config *config, const struct dns_host_env *env,
	struct dns_server_state *server)
{
	server->budget = dns_config_budget(config, env, &server->key);
	server->role = dns_role_of(config, env, &server->key, server->totals.cluster_answers,
		dns_budget_is_set(&server->budget));
	if (server->role != DNS_UPSTREAM)
		server->budget = (struct dns_budget){0};
}

void dns_classify(struct dns_sensor *sensor, struct dns_server_state *server)
{
	dns_set_role(&sensor->config, &sensor->env, server);
	if (!server->budget.link_local || server->budget.pps == 0)
		return;
	/* All that shares the budget is watched as soon as one of it is known to be here. */
	for (size_t i = 0; i < ARRAY_SIZE(link_local); i++) {
		struct dns_key address;

		if (dns_address_parse(link_local[i], &address))
			watch(sensor, &address);
	}
	watch(sensor, &server->key);
}

/* A budget is reported before its first use. */
static void pin(struct dns_sensor *sensor, const struct dns_key *key)
{
	struct dns_budget budget = dns_config_budget(&sensor->config, &sensor->env, key);
	struct dns_server_state *server;

	if (!dns_budget_is_set(&budget))
		return;
	server = dns_server_get(&sensor->table, key);
	if (!server)
		return;
	server->pinned = true;
	/* Else queries to a thousand other servers could hide those to this one. */
	dns_bpf_expect_server(sensor->bpf, key);
	dns_classify(sensor, server);
	dns_label_offer(&sensor->table, server);
}

void dns_refresh(struct dns_sensor *sensor, struct dns_seen *seen)
{
	sensor->refreshed_at_us = sensor->now_us;
	sensor->unclassified = false;
	dns_host_env_read(&sensor->env, sensor->host);
	seen->uplinks = sensor->env.uplinks;
	set_suffixes(sensor);
	for (size_t i = 0; i < sensor->table.n; i++) {
		sensor->table.servers[i]->pinned = false;
		dns_classify(sensor, sensor->table.servers[i]);
	}
	for (size_t i = 0; i < sensor->config.n_budgets; i++)
		pin(sensor, &sensor->config.budgets[i].server);
	for (size_t i = 0; i < sensor->env.n_servers; i++)
		pin(sensor, &sensor->env.servers[i]);
}
