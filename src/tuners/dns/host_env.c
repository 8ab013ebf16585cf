/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/file.h"
#include "base/log.h"

#include <glob.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#define BLANKS          " \t\r"
#define RESOLV_CONF_MAX 65536

/* kube-proxy's IPVS mode gives every service address to this device: none is of the node. */
#define IPVS_DEVICE "kube-ipvs0"

static void take_search(struct dns_host_env *env, char *rest)
{
	char *state = NULL;

	/* The last such line wins: resolv.conf(5). */
	env->n_search = 0;
	for (char *word = strtok_r(rest, BLANKS, &state); word && env->n_search < DNS_RESOLV_SEARCH;
		word = strtok_r(NULL, BLANKS, &state)) {
		size_t len = strlen(word);

		if (len > 0 && word[len - 1] == '.')
			word[len - 1] = '\0';
		if (word[0] && copy_text(env->search[env->n_search], DNS_DOMAIN_MAX, word))
			env->n_search++;
	}
}

void dns_resolv_parse(struct dns_host_env *env, char *text)
{
	char *state = NULL;

	env->n_servers = env->n_search = 0;
	for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
		char *rest = line + strcspn(line, BLANKS), *inner = NULL;

		if (*rest)
			*rest++ = '\0';
		if (streq(line, "search") || streq(line, "domain"))
			take_search(env, rest);
		else if (streq(line, "nameserver") && env->n_servers < DNS_RESOLV_SERVERS &&
			 (rest = strtok_r(rest, BLANKS, &inner)) &&
			 dns_address_parse(rest, &env->servers[env->n_servers]))
			env->n_servers++;
	}
}

/* systemd-resolved's own list where it runs: /etc has its stub then. */
static void read_resolv(struct dns_host_env *env, const struct host *host)
{
	static const char *const paths[] = {"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"};

	env->n_servers = env->n_search = 0;
	for (size_t i = 0; i < ARRAY_SIZE(paths) && env->n_servers == 0; i++) {
		_cleanup_free_ char *text = NULL;
		char full[PATH_MAX];

		if (read_file(host_path(host, paths[i], full), RESOLV_CONF_MAX, &text, NULL) == 0)
			dns_resolv_parse(env, text);
	}
}

/* The addresses of before stay when they cannot be listed. */
static void read_addresses(struct dns_host_env *env)
{
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		return;
	env->n_node = 0;
	for (struct ifaddrs *one = all; one && env->n_node < DNS_NODE_ADDRESSES_MAX;
		one = one->ifa_next) {
		const struct sockaddr_in *ipv4 = (const void *)one->ifa_addr;
		const struct sockaddr_in6 *ipv6 = (const void *)one->ifa_addr;
		struct dns_key key = {.family = ipv4 ? ipv4->sin_family : AF_UNSPEC};

		if (key.family == AF_INET)
			memcpy(key.address, &ipv4->sin_addr, 4);
		else if (key.family == AF_INET6)
			memcpy(key.address, &ipv6->sin6_addr, 16);
		else
			continue;
		if (!streq(one->ifa_name, IPVS_DEVICE))
			env->node[env->n_node++] = key;
	}
	freeifaddrs(all);
}

void dns_host_env_take_kubelet(struct dns_host_env *env, const struct kubelet_values *values)
{
	env->n_kubelet = 0;
	for (size_t i = 0; i < values->n_cluster_dns; i++)
		if (dns_address_parse(values->cluster_dns[i], &env->kubelet[env->n_kubelet]))
			env->n_kubelet++;
}

/* Devices of the machine, not made by software, that are not down. */
static unsigned count_uplinks(const struct host *host)
{
	char pattern[PATH_MAX], path[SETTING_PATH_MAX], state[SETTING_VALUE_MAX];
	glob_t devices = {0};
	unsigned n = 0;

	if (glob(host_path(host, "/sys/class/net/*/device", pattern), 0, NULL, &devices) == 0)
		for (size_t i = 0; i < devices.gl_pathc; i++) {
			const char *device = devices.gl_pathv[i] + strlen(host->root);

			snprintf(path, sizeof(path), "%.*s/operstate",
				(int)(strrchr(device, '/') - device), device);
			n += host_read_value(host, path, state) < 0 || !streq(state, "down");
		}
	globfree(&devices);
	return n;
}

void dns_host_env_read(struct dns_host_env *env, const struct host *host)
{
	read_resolv(env, host);
	read_addresses(env);
	env->uplinks = count_uplinks(host);
}

/* Services of AWS on link-local addresses that share one budget of packets: metadata, DNS, NTP. */
static const char *const link_local[] = {"169.254.169.254", "169.254.169.253", "169.254.169.123",
	"fd00:ec2::254", "fd00:ec2::253", "fd00:ec2::123"};

/* Cluster domains first: a search list may repeat them, and the first counts. */
static void set_suffixes(const struct dns_sensor *sensor)
{
	struct dns_suffixes table = {0};

	for (size_t i = 0; i < sensor->config.n_domains; i++)
		dns_suffix_add(&table, sensor->config.domains[i], DNS_SUFFIX_CLUSTER);
	for (size_t i = 0; i < sensor->env.n_search; i++)
		dns_suffix_add(&table, sensor->env.search[i], DNS_SUFFIX_SEARCH);
	/* A name that comes meanwhile may be given the new class of an old domain: once. */
	memcpy(&dns_bpf_control(sensor->bpf)->suffixes, &table, sizeof(table));
}

void dns_set_role(const struct dns_config *config, const struct dns_host_env *env,
	struct dns_server_state *server)
{
	const struct dns_key *key = &server->key;

	server->budget = dns_config_budget(config, env, key);
	if (key->family == 0)
		server->role = DNS_NO_ROLE;
	else if (dns_address_is_loopback(key) || dns_address_in(env->node, env->n_node, key))
		server->role = DNS_LOCAL;
	else if (dns_address_in(config->cluster, config->n_cluster, key) ||
		 (config->cluster_auto && dns_address_in(env->kubelet, env->n_kubelet, key)) ||
		 (server->totals.cluster_answers > 0 && !dns_budget_is_set(&server->budget)))
		server->role = DNS_CLUSTER;
	else
		server->role = DNS_UPSTREAM;
	if (server->role != DNS_UPSTREAM)
		server->budget = (struct dns_budget){0};
}

void dns_classify(struct dns_sensor *sensor, struct dns_server_state *server)
{
	struct dns_key address;

	dns_set_role(&sensor->config, &sensor->env, server);
	if (!server->budget.link_local || server->budget.max[DNS_PACKETS] == 0)
		return;
	/* All that shares the budget is watched as soon as one of it is known to be here. */
	for (size_t i = 0; i < ARRAY_SIZE(link_local); i++)
		if (dns_address_parse(link_local[i], &address))
			dns_watch_add(dns_bpf_control(sensor->bpf), &address);
	dns_watch_add(dns_bpf_control(sensor->bpf), &server->key);
}

/* A budget is reported before its first use. */
static const struct dns_server_state *pin(struct dns_sensor *sensor, const struct dns_key *key)
{
	struct dns_budget budget = dns_config_budget(&sensor->config, &sensor->env, key);
	struct dns_server_state *server;

	server = dns_budget_is_set(&budget) ? dns_server_get(&sensor->seen.table, key) : NULL;
	if (!server)
		return NULL;
	server->pinned = true;
	/* Else queries to a thousand other servers could hide those to this one. */
	dns_bpf_expect_server(sensor->bpf, key);
	dns_classify(sensor, server);
	dns_label_offer(&sensor->seen.table, server);
	return server;
}

void dns_refresh(struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;

	sensor->refreshed_at_us = sensor->now_us;
	sensor->unclassified = false;
	dns_host_env_read(&sensor->env, sensor->host);
	set_suffixes(sensor);
	for (size_t i = 0; i < table->n; i++) {
		table->servers[i]->pinned = false;
		dns_classify(sensor, table->servers[i]);
	}
	for (size_t i = 0; i < sensor->config.n_budgets; i++) {
		const struct dns_server_state *server =
			pin(sensor, &sensor->config.budgets[i].server);

		if (server && server->role != DNS_UPSTREAM && !sensor->config.budgets[i].reported)
			log_warning("dns.budgets",
				"%s: this budget has no effect: the server is %s: remove it",
				server->name,
				server->role == DNS_LOCAL ? "on this node" : "the cluster's own");
		sensor->config.budgets[i].reported = server != NULL;
	}
	for (size_t i = 0; i < sensor->env.n_servers; i++)
		pin(sensor, &sensor->env.servers[i]);
}
