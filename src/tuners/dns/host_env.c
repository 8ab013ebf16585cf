/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include <glob.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#define BLANKS          " \t\r"
#define RESOLV_CONF_MAX 65536

/* kube-proxy in IPVS mode gives the addresses of services to this device. */
#define IPVS_DEVICE "kube-ipvs0"

#define DMI "/sys/class/dmi/id/"

/* From cloud-init's tools/ds-identify and the clouds' documentation. */
static const struct {
	const char *cloud, *path;
	const char *begins; /* the first characters of the file */
} dmi_marks[] = {
	{"aws", DMI "sys_vendor", "Amazon EC2"},
	{"aws", DMI "bios_vendor", "Amazon EC2"},   /* bare metal */
	{"aws", DMI "bios_version", "4.11.amazon"}, /* Xen */
	{"aws", DMI "bios_version", "4.2.amazon"},
	/* The vendor is Microsoft on every Hyper-V; this tag identifies Azure. */
	{"azure", DMI "chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"},
	{"alibaba", DMI "sys_vendor", "Alibaba Cloud"},
	{"huawei", DMI "chassis_asset_tag", "HUAWEICLOUD"},
	{"huawei", DMI "sys_vendor", "Huawei Cloud"},
	{"gcp", DMI "product_name", "Google Compute Engine"},
	{"digitalocean", DMI "sys_vendor", "DigitalOcean"},
};

/* Replaces the servers and the search list; text is modified. */
static void parse_resolv_conf(struct dns_host_env *env, char *text)
{
	char *state = NULL;

	env->n_servers = env->n_search = 0;
	for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
		char *rest = line + strcspn(line, BLANKS), *inner = NULL, *word;
		bool search;

		if (*rest)
			*rest++ = '\0';
		search = streq(line, "search") || streq(line, "domain");
		/* The last such line counts: resolv.conf(5). */
		if (search)
			env->n_search = 0;
		word = strtok_r(rest, BLANKS, &inner);
		if (streq(line, "nameserver") && word && env->n_servers < DNS_RESOLV_SERVERS)
			env->n_servers += dns_address_parse(word, &env->servers[env->n_servers]);
		for (; search && word && env->n_search < DNS_RESOLV_SEARCH;
			word = strtok_r(NULL, BLANKS, &inner)) {
			size_t len = strlen(word);

			if (word[len - 1] == '.')
				word[len - 1] = '\0';
			env->n_search += word[0] && copy_text(env->search[env->n_search],
							    DNS_DOMAIN_MAX, word);
		}
	}
}

void dns_host_env_read(struct dns_host_env *env, const struct host *host)
{
	/* Where systemd-resolved runs, /etc/resolv.conf names its stub only. */
	static const char *const paths[] = {"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"};
	char full[PATH_MAX], path[SETTING_PATH_MAX], value[SETTING_VALUE_MAX];
	struct ifaddrs *all = NULL;
	glob_t devices = {0};

	env->cloud[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(dmi_marks) && !env->cloud[0]; i++)
		if (host_read_value(host, dmi_marks[i].path, value) == 0 &&
			starts_with(value, dmi_marks[i].begins))
			set_text(env->cloud, dmi_marks[i].cloud);
	env->n_servers = env->n_search = 0;
	for (size_t i = 0; i < ARRAY_SIZE(paths) && env->n_servers == 0; i++) {
		_cleanup_free_ char *text = NULL;

		if (host_read_file(host, paths[i], RESOLV_CONF_MAX, &text) == 0)
			parse_resolv_conf(env, text);
	}
	/* On failure the old addresses stay. */
	if (getifaddrs(&all) == 0)
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
	/* Uplinks are hardware devices that are not down. */
	env->uplinks = 0;
	glob(host_path(host, "/sys/class/net/*/device", full), 0, NULL, &devices);
	for (size_t i = 0; i < devices.gl_pathc; i++) {
		const char *device = devices.gl_pathv[i] + strlen(host->root);

		snprintf(path, sizeof(path), "%.*s/operstate", (int)(strrchr(device, '/') - device),
			device);
		env->uplinks += host_read_value(host, path, value) < 0 || !streq(value, "down");
	}
	globfree(&devices);
}

void dns_set_role(const struct dns_config *config, const struct dns_host_env *env,
	struct dns_server_state *server)
{
	const struct dns_key *key = &server->key;

	/* Pods keep their resolv.conf when the node's moves on. */
	server->listed = server->listed || dns_address_in(env->servers, env->n_servers, key);
	server->budget = dns_config_budget(config, env, key, server->listed);
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
