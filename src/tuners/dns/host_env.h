/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_DNS_HOST_ENV_H
#define TUNERS_DNS_HOST_ENV_H

/*
 * What the configuration, and the node's files and devices, say of DNS servers: budgets,
 * resolv.conf, addresses, the kubelet.
 */

#include "config/config.h"
#include "runtime/kubelet.h"
#include "tuners/dns/dns.h"

#define DNS_RESOLV_SERVERS      8
#define DNS_RESOLV_SEARCH       8
#define DNS_DOMAIN_MAX          256
#define DNS_CLUSTER_SERVERS_MAX 16
#define DNS_NODE_ADDRESSES_MAX  4096

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

struct dns_host_env {
	char cloud[DNS_CLOUD_MAX];                  /* empty: none known */
	unsigned uplinks;                           /* network devices of the machine */
	struct dns_key servers[DNS_RESOLV_SERVERS]; /* of the node's own resolv.conf(5) */
	size_t n_servers;
	char search[DNS_RESOLV_SEARCH][DNS_DOMAIN_MAX];
	size_t n_search;
	struct dns_key *node; /* the node's addresses, sorted */
	size_t n_node, node_allocated;
	struct dns_key kubelet[KUBELET_SERVERS_MAX]; /* its clusterDNS */
	size_t n_kubelet;
	struct dns_key cluster[DNS_CLUSTER_SERVERS_MAX];
	size_t n_cluster;
};

/* Reads all but the cloud and the kubelet anew. Of what cannot be read, nothing is known. */
void dns_host_env_read(
	struct dns_host_env *env, const struct host *host, const struct dns_config *config);
void dns_host_env_clear(struct dns_host_env *env);

/* Takes the lines of a resolv.conf, in place of what was there. text is cut up. */
void dns_resolv_parse(struct dns_host_env *env, char *text);
bool dns_host_env_lists(const struct dns_host_env *env, const struct dns_key *server);

bool dns_host_env_is_node(const struct dns_host_env *env, const struct dns_key *address);
void dns_host_env_add_cluster(struct dns_host_env *env, const struct dns_key *address);

/* Takes the kubelet's clusterDNS, for the next dns_host_env_read(). */
void dns_host_env_take_kubelet(struct dns_host_env *env, const struct kubelet_values *values);

/*
 * The role of a server. answers: how many cluster names it answered with NOERROR; budgeted: a
 * budget names it, which makes it an upstream wherever its answers come from.
 */
enum dns_role dns_role_of(const struct dns_host_env *env, const struct dns_key *server,
	uint64_t answers, bool budgeted);

/* config.c */
extern const struct config_option dns_options[];

/* Checks what the option table cannot. */
void dns_config_validate(const struct config *config, struct config_fault_list *faults);

void dns_config_read(struct dns_config *into, const struct config *config);

/* The budget of a server, from the configuration or by the cloud; none for none. */
struct dns_budget dns_config_budget(const struct dns_config *config, const struct dns_host_env *env,
	const struct dns_key *server);

#endif
