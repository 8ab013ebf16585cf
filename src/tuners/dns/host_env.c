/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/file.h"

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
