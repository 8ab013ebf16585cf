/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"
#include "tuners/table.h"

#include "base/util.h"

#define LABEL_MAX 63 /* RFC 1035 2.3.4 */

static const char *const auto_words[] = {"auto", NULL};
static const char *const names_words[] = {"off", "socket", NULL};

#define NUMBER .type = OPTION_COUNT, .min = 1, .max = 1000000000

static const struct config_option domain_items[] = {
	{.name = "",
		.type = OPTION_TEXT,
		.min = 1,
		.max = 253,
		.sentence = "A domain, such as cluster.local."},
	{0},
};

static const struct config_option server_items[] = {
	{.name = "", .type = OPTION_TEXT, .min = 1, .max = 45, .sentence = "An address."},
	{0},
};

static const struct config_option budget_items[] = {
	{.name = "server",
		.type = OPTION_TEXT,
		.min = 1,
		.max = 45,
		.sentence = "The upstream's address; auto: the resolver of the cloud that this "
			    "machine is in, with the numbers given here, or without any with "
			    "those that the cloud publishes."},
	{.name = "qps", NUMBER, .unit = "queries/s", .sentence = "Queries in any second."},
	{.name = "pps",
		NUMBER,
		.unit = "packets/s",
		.sentence = "Packets in any second, TCP handshakes among them."},
	{.name = "pending",
		NUMBER,
		.unit = "queries",
		.sentence = "Queries without an answer at a time."},
	{0},
};

const struct config_option dns_options[] = {
	{.name = "dns.mode",
		.type = OPTION_CHOICE,
		.words = tuner_mode_words,
		.sentence = "This tuner's own mode; empty: the agent's. It sets nothing on the "
			    "node: enforce and observe are the same to it."},
	{.name = "dns.cluster_domains",
		.type = OPTION_LIST,
		.max = DNS_DOMAINS_MAX,
		.items = domain_items,
		.def = "[cluster.local]",
		.sentence = "The cluster's own domains: a server that answers names in them is the "
			    "cluster's DNS, and no upstream. At most six labels each."},
	{.name = "dns.cluster_servers",
		.type = OPTION_LIST,
		.max = DNS_CLUSTER_SERVERS_MAX,
		.items = server_items,
		.words = auto_words,
		.def = "auto",
		.sentence = "Addresses of the cluster's DNS. auto: the kubelet's clusterDNS. In "
			    "either case a server that answers names of dns.cluster_domains is of "
			    "the cluster too, unless a budget names it."},
	{.name = "dns.names",
		.type = OPTION_CHOICE,
		.words = names_words,
		.def = "socket",
		.sentence = "The names in most queries, out of a sample. socket: shown by the unix "
			    "socket, so to root alone, and never in metrics. off: no name leaves "
			    "the kernel."},
	{.name = "dns.budgets",
		.type = OPTION_LIST,
		.max = DNS_BUDGETS_MAX,
		.items = budget_items,
		.def = "[{server: auto}]",
		.sentence = "What upstreams allow this machine. Each item has a server and any of "
			    "qps, pps and pending. []: no budgets. headroom explain budget/aws "
			    "and the like show the clouds' own numbers and their sources."},
	{0},
};

static struct dns_budget read_budget(const struct config *config, size_t i)
{
	return (struct dns_budget){
		.qps = config_item_count(config, "dns.budgets", i, "qps", 0),
		.pps = config_item_count(config, "dns.budgets", i, "pps", 0),
		.pending = config_item_count(config, "dns.budgets", i, "pending", 0),
		.source = "config",
	};
}

static void validate_budget(const struct config *config, size_t i, struct config_fault_list *faults)
{
	const char *server = config_item(config, "dns.budgets", i, "server");
	struct config_place place = config_item_where(config, "dns.budgets", i, "server");
	struct dns_budget budget = read_budget(config, i);
	bool automatic = streq(server, "auto"), twice = false;
	struct dns_key key;

	for (size_t k = 0; k < i; k++)
		twice = twice || streq(config_item(config, "dns.budgets", k, "server"), server);
	if (!automatic && !dns_address_parse(server, &key))
		config_fault_add(faults, &place,
			"dns.budgets: %s is no address: give an IPv4 or IPv6 address, or auto",
			server);
	else if (!automatic && !dns_budget_is_set(&budget))
		config_fault_add(faults, &place,
			"dns.budgets: %s has no number: give qps, pps or pending", server);
	else if (twice)
		config_fault_add(
			faults, &place, "dns.budgets: %s is there twice: keep one", server);
}

/* 0 for what is no domain. */
static size_t count_labels(const char *domain)
{
	size_t labels = 0;

	for (const char *label = domain; *label;) {
		size_t len = strcspn(label, ".");

		if (len == 0 || len > LABEL_MAX)
			return 0;
		labels++;
		label += len + (label[len] == '.');
	}
	return labels;
}

/* The kernel compares a few domains of each length: see headroom/bpf/dns.h. */
static void validate_domains(const struct config *config, struct config_fault_list *faults)
{
	size_t n = config_list(config, "dns.cluster_domains"), alike[DNS_SUFFIX_LABELS + 1] = {0};

	for (size_t i = 0; i < n; i++) {
		const char *domain = config_item(config, "dns.cluster_domains", i, "");
		struct config_place place = config_item_where(config, "dns.cluster_domains", i, "");
		size_t labels = count_labels(domain);

		if (labels == 0)
			config_fault_add(faults, &place,
				"dns.cluster_domains: %s is no domain: labels of 1 to 63 characters "
				"with a dot between them",
				domain);
		else if (labels > DNS_SUFFIX_LABELS)
			config_fault_add(faults, &place,
				"dns.cluster_domains: %s has %zu labels: at most %d are compared",
				domain, labels, DNS_SUFFIX_LABELS);
		else if (++alike[labels] > DNS_SUFFIX_SLOTS)
			config_fault_add(faults, &place,
				"dns.cluster_domains: %s is one too many: at most %d domains with as "
				"many labels as each other",
				domain, DNS_SUFFIX_SLOTS);
	}
}

static void validate_servers(const struct config *config, struct config_fault_list *faults)
{
	size_t n = config_list(config, "dns.cluster_servers");
	struct dns_key key;

	for (size_t i = 0; i < n; i++) {
		const char *server = config_item(config, "dns.cluster_servers", i, "");
		struct config_place place = config_item_where(config, "dns.cluster_servers", i, "");

		if (!dns_address_parse(server, &key))
			config_fault_add(faults, &place,
				"dns.cluster_servers: %s is no address: give IPv4 or IPv6 "
				"addresses, or auto in place of the list",
				server);
	}
}

void dns_config_validate(const struct config *config, struct config_fault_list *faults)
{
	size_t n = config_list(config, "dns.budgets");

	for (size_t i = 0; i < n; i++)
		validate_budget(config, i, faults);
	validate_servers(config, faults);
	validate_domains(config, faults);
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

struct dns_budget dns_config_budget(const struct dns_config *config, const struct dns_host_env *env,
	const struct dns_key *server)
{
	struct dns_budget budget = {0};
	bool listed = dns_address_in(env->servers, env->n_servers, server);
	bool builtin = dns_budget_builtin(env->cloud, server, listed, &budget);

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
