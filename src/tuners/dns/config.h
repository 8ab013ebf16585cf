/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_CONFIG_H
#define TUNERS_DNS_CONFIG_H

#include "config/config.h"
#include "tuners/dns/host_env.h"

#define DNS_BUDGETS_MAX DNS_PINNED_MAX

struct dns_config {
	char domains[DNS_DOMAINS_MAX][DNS_DOMAIN_MAX];
	size_t n_domains;
	bool cluster_auto;
	struct dns_key cluster[DNS_CLUSTER_SERVERS_MAX];
	size_t n_cluster;
	bool names;
	bool budget_auto;
	struct dns_budget own; /* numbers beside server: auto, in place of the cloud's */
	struct {
		struct dns_key server;
		struct dns_budget budget;
	} budgets[DNS_BUDGETS_MAX];
	size_t n_budgets;
};

extern const struct config_option dns_options[];

/* Checks what the option table cannot. */
void dns_config_validate(const struct config *config, struct config_fault_list *faults);

void dns_config_read(struct dns_config *into, const struct config *config);

/* The budget of a server, from the configuration or by the cloud; none for none. */
struct dns_budget dns_config_budget(const struct dns_config *config, const struct dns_host_env *env,
	const struct dns_key *server);

#endif
