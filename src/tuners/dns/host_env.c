/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/util.h"

#include <glob.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

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

		if (host_path(host, paths[i], full) &&
			read_file(full, RESOLV_CONF_MAX, &text, NULL) == 0)
			dns_resolv_parse(env, text);
	}
}

static int by_address(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct dns_key));
}

bool dns_host_env_is_node(const struct dns_host_env *env, const struct dns_key *address)
{
	return env->n_node > 0 &&
	       bsearch(address, env->node, env->n_node, sizeof(*env->node), by_address) != NULL;
}

static bool take_address(const struct sockaddr *from, struct dns_key *address)
{
	const struct sockaddr_in *ipv4 = (const void *)from;
	const struct sockaddr_in6 *ipv6 = (const void *)from;

	*address = (struct dns_key){0};
	if (!from || (from->sa_family != AF_INET && from->sa_family != AF_INET6))
		return false;
	address->family = from->sa_family;
	if (from->sa_family == AF_INET)
		memcpy(address->address, &ipv4->sin_addr, 4);
	else
		memcpy(address->address, &ipv6->sin6_addr, 16);
	return true;
}

static void read_addresses(struct dns_host_env *env)
{
	struct ifaddrs *all = NULL;
	size_t n = 0;

	/* The addresses of before stay when they cannot be listed. */
	if (getifaddrs(&all) < 0)
		return;
	for (struct ifaddrs *one = all; one && n < DNS_NODE_ADDRESSES_MAX; one = one->ifa_next) {
		struct dns_key address;

		if (!take_address(one->ifa_addr, &address) || streq(one->ifa_name, IPVS_DEVICE))
			continue;
		if (grow_array(&env->node, n, &env->node_allocated, sizeof(address)) < 0)
			break;
		env->node[n++] = address;
	}
	freeifaddrs(all);
	env->n_node = n;
	if (n > 0)
		qsort(env->node, n, sizeof(*env->node), by_address);
}

enum dns_role dns_role_of(const struct dns_config *config, const struct dns_host_env *env,
	const struct dns_key *server, uint64_t answers, bool budgeted)
{
	if (dns_address_is_loopback(server) || dns_host_env_is_node(env, server))
		return DNS_LOCAL;
	if (dns_address_in(config->cluster, config->n_cluster, server) ||
		(config->cluster_auto && dns_address_in(env->kubelet, env->n_kubelet, server)))
		return DNS_CLUSTER;
	return answers > 0 && !budgeted ? DNS_CLUSTER : DNS_UPSTREAM;
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
	size_t root = strlen(host->root), len;
	glob_t devices = {0};
	unsigned n = 0;

	if (host_path(host, "/sys/class/net/*/device", pattern) &&
		glob(pattern, 0, NULL, &devices) == 0)
		for (size_t i = 0; i < devices.gl_pathc; i++) {
			len = strlen(devices.gl_pathv[i]) - root - strlen("device");
			snprintf(path, sizeof(path), "%.*soperstate", (int)len,
				devices.gl_pathv[i] + root);
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

void dns_host_env_clear(struct dns_host_env *env)
{
	free(env->node);
	*env = (struct dns_host_env){0};
}
