/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/util.h"

#include <dirent.h>
#include <stdio.h>

/* Services of AWS on link-local addresses, which share one budget of packets: metadata, DNS, NTP.
 */
static const char *const link_local[] = {"169.254.169.254", "169.254.169.253", "169.254.169.123",
	"fd00:ec2::254", "fd00:ec2::253", "fd00:ec2::123"};

static void read_roles(struct dns_sensor *sensor)
{
	struct dns_roles *roles = &sensor->roles;
	const struct dns_config *config = &sensor->config;

	dns_roles_read_node(roles);
	roles->n_cluster = 0;
	for (size_t i = 0; i < config->n_cluster; i++)
		dns_roles_add_cluster(roles, &config->cluster[i]);
	if (config->cluster_auto)
		dns_roles_read_kubelet(roles, sensor->host);
}

/* A device of the machine, not made by software, that is not down. */
static bool is_uplink(const struct host *host, const char *name)
{
	char path[SETTING_PATH_MAX], full[PATH_MAX], state[SETTING_VALUE_MAX];

	snprintf(path, sizeof(path), "/sys/class/net/%.64s/device", name);
	if (name[0] == '.' || !host_path(host, path, full) || access(full, F_OK) < 0)
		return false;
	snprintf(path, sizeof(path), "/sys/class/net/%.64s/operstate", name);
	return host_read_value(host, path, state) < 0 || !streq(state, "down");
}

static unsigned count_uplinks(const struct host *host)
{
	char full[PATH_MAX];
	struct dirent *entry;
	unsigned n = 0;
	DIR *directory = host_path(host, "/sys/class/net", full) ? opendir(full) : NULL;

	while (directory && (entry = readdir(directory)))
		n += is_uplink(host, entry->d_name);
	if (directory)
		closedir(directory);
	return n;
}

/* Cluster domains first: a search list may repeat them. */
static void set_suffixes(struct dns_sensor *sensor)
{
	struct dns_suffix_name names[DNS_DOMAINS_MAX + DNS_RESOLV_SEARCH];
	size_t n = 0;

	for (size_t i = 0; i < sensor->config.n_domains; i++)
		names[n++] =
			(struct dns_suffix_name){sensor->config.domains[i], DNS_SUFFIX_CLUSTER};
	for (size_t i = 0; i < sensor->resolv.n_search; i++) {
		const char *name = sensor->resolv.search[i];
		bool known = false;

		for (size_t k = 0; k < n; k++)
			known = known || strcasecmp(names[k].name, name) == 0;
		if (!known)
			names[n++] = (struct dns_suffix_name){name, DNS_SUFFIX_SEARCH};
	}
	dns_bpf_set_suffixes(sensor->bpf, names, n);
}

static void watch(struct dns_sensor *sensor, const struct dns_key *address)
{
	for (size_t i = 0; i < sensor->n_watched; i++)
		if (dns_address_equal(&sensor->watched[i], address))
			return;
	if (sensor->n_watched == ARRAY_SIZE(sensor->watched))
		return;
	sensor->watched[sensor->n_watched++] = *address;
	dns_bpf_watch(sensor->bpf, sensor->watched, sensor->n_watched);
}

/* All that shares the budget is watched as soon as one of it is known to be here. */
static void watch_with(struct dns_sensor *sensor, const struct dns_server_state *server)
{
	if (!server->budget.link_local || server->budget.pps == 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(link_local); i++) {
		struct dns_key address;

		if (dns_address_parse(link_local[i], &address))
			watch(sensor, &address);
	}
	watch(sensor, &server->key);
}

void dns_surroundings_place(struct dns_sensor *sensor, struct dns_server_state *server)
{
	server->budget =
		dns_config_budget(&sensor->config, sensor->cloud, &sensor->resolv, &server->key);
	server->role = dns_role_of(&sensor->roles, &server->key, server->totals.cluster_answers,
		dns_budget_is_set(&server->budget));
	if (server->role != DNS_UPSTREAM)
		server->budget = (struct dns_budget){0};
	watch_with(sensor, server);
}

/* A budget is told of before anybody uses it. */
static void pin(struct dns_sensor *sensor, const struct dns_key *key)
{
	struct dns_budget budget =
		dns_config_budget(&sensor->config, sensor->cloud, &sensor->resolv, key);
	struct dns_server_state *server;

	if (!dns_budget_is_set(&budget))
		return;
	server = dns_book_get(&sensor->book, key);
	if (!server)
		return;
	server->pinned = true;
	/* Else whoever asks a thousand others first could hide what is asked of this one. */
	dns_bpf_expect_server(sensor->bpf, key);
	dns_surroundings_place(sensor, server);
	dns_book_offer(&sensor->book, server);
}

static void pin_all(struct dns_sensor *sensor)
{
	for (size_t i = 0; i < sensor->book.n; i++) {
		sensor->book.servers[i]->pinned = false;
		dns_surroundings_place(sensor, sensor->book.servers[i]);
	}
	for (size_t i = 0; i < sensor->config.n_budgets; i++)
		pin(sensor, &sensor->config.budgets[i].server);
	for (size_t i = 0; i < sensor->resolv.n_servers; i++)
		pin(sensor, &sensor->resolv.servers[i]);
}

void dns_surroundings_read(struct dns_sensor *sensor, struct dns_seen *seen)
{
	sensor->refreshed_at_us = sensor->now_us;
	sensor->strangers = false;
	dns_resolv_read(&sensor->resolv, sensor->host);
	read_roles(sensor);
	seen->uplinks = count_uplinks(sensor->host);
	set_suffixes(sensor);
	pin_all(sensor);
}
