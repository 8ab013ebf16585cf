/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"
#include "tuners/table.h"

static const char *const auto_choices[] = {"auto", NULL};
static const char *const names_choices[] = {"off", "socket", NULL};

#define NUMBER_MAX 1000000000

static const struct config_option domain_items[] = {
	{"", OPTION_TEXT, .min = 1, .max = 253, .help = "A domain, such as cluster.local."},
	{0},
};

static const struct config_option server_items[] = {
	{"", OPTION_TEXT, .min = 1, .max = 45, .help = "An address."},
	{0},
};

static const struct config_option budget_items[] = {
	{"server", OPTION_TEXT, .min = 1, .max = 45,
		.help = "The upstream's address. auto: the resolver of this machine's cloud; "
			"numbers given here replace the published ones."},
	{"qps", OPTION_COUNT, 1, NUMBER_MAX, .unit = "queries/s", .help = "Queries in any second."},
	{"pps", OPTION_COUNT, 1, NUMBER_MAX, .unit = "packets/s",
		.help = "Packets in any second, with TCP handshakes."},
	{"pending", OPTION_COUNT, 1, NUMBER_MAX, .unit = "queries",
		.help = "Queries that wait for an answer at the same time."},
	{0},
};

const struct config_option dns_options[] = {
	{"dns.mode", OPTION_CHOICE, .choices = tuner_mode_choices,
		.help = "This tuner's own mode; empty: the agent's. The tuner sets nothing on the "
			"node, so enforce and observe are the same."},
	{"dns.cluster_domains", OPTION_LIST, .max = DNS_DOMAINS_MAX, .items = domain_items,
		.def = "[cluster.local]",
		.help = "The cluster's domains, of at most 62 characters each. A server that answers "
			"names in them is the cluster's DNS, not an upstream."},
	{"dns.cluster_servers", OPTION_LIST, .max = DNS_CLUSTER_SERVERS_MAX, .items = server_items,
		.choices = auto_choices, .def = "auto",
		.help = "Addresses of the cluster's DNS. auto: the kubelet's clusterDNS. A server "
			"that answers names in dns.cluster_domains also belongs to the "
			"cluster, unless a budget names it."},
	{"dns.names", OPTION_CHOICE, .choices = names_choices, .def = "socket",
		.help = "The most frequent names in a sample of the queries. socket: only the unix "
			"socket shows them, to root, and metrics never do. off: no name leaves "
			"the kernel."},
	{"dns.budgets", OPTION_LIST, .max = DNS_PINNED_MAX, .items = budget_items,
		.def = "[{server: auto}]",
		.help = "Limits of upstreams for this machine. Each item has a server and any of "
			"qps, pps and pending. []: no budgets. Servers on this node and the "
			"cluster's DNS never have a budget. headroom explain budget/aws and the "
			"like show the published numbers and their sources."},
	{0},
};

static bool parse_address(const struct config *config, const char *list, size_t i,
	const char *field, const char *cure, struct dns_address *address,
	struct config_fault_list *faults)
{
	const char *text = config_item(config, list, i, field);
	struct config_position position = config_item_where(config, list, i, field);

	if (dns_address_parse(text, address))
		return true;
	config_fault_add(faults, &position, "%s: %s is not an address: %s", list, text, cure);
	return false;
}

/* Packets never have a mapped or an unspecified address. */
static bool is_of_network(const char *text, const struct dns_address *address)
{
	static const struct dns_address none;

	return !dns_address_equal(address, &none) && !dns_address_within(address, "0.0.0.0", 32) &&
	       !(dns_address_is_ipv4(address) && strchr(text, ':'));
}

static void parse_budget(struct dns_config *into, const struct config *config, size_t i,
	struct config_fault_list *faults)
{
	struct config_position position = config_item_where(config, "dns.budgets", i, "server");
	const char *server = config_item(config, "dns.budgets", i, "server");
	struct dns_budget budget = {.source = "config"};
	bool twice = false;

	for (int k = 0; k < DNS_NUMBERS; k++)
		(void)parse_count(
			config_item(config, "dns.budgets", i, dns_numbers[k].key), &budget.max[k]);
	for (size_t k = 0; k < i; k++)
		twice = twice || streq(config_item(config, "dns.budgets", k, "server"), server);
	if (twice) {
		config_fault_add(
			faults, &position, "dns.budgets: %s appears twice: keep one", server);
	} else if (streq(server, "auto")) {
		into->budget_auto = true;
		into->own = budget;
	} else if (parse_address(config, "dns.budgets", i, "server",
			   "give an IPv4 or IPv6 address, or auto",
			   &into->budgets[into->n_budgets].server, faults)) {
		if (!is_of_network(server, &into->budgets[into->n_budgets].server))
			config_fault_add(faults, &position,
				"dns.budgets: no packet has the address %s: give the address of a "
				"server, an IPv4 address as in 192.0.2.1",
				server);
		into->budgets[into->n_budgets++].budget = budget;
		if (!dns_budget_is_set(&budget))
			config_fault_add(faults, &position,
				"dns.budgets: %s: give qps, pps or pending", server);
	}
}

/* The option table bounds the lengths of the lists. */
void dns_config_read(
	struct dns_config *into, const struct config *config, struct config_fault_list *faults)
{
	*into = (struct dns_config){
		.cluster_auto = config_choice(config, "dns.cluster_servers") >= 0,
		.names = streq(config_text(config, "dns.names"), "socket"),
		.budget_auto = config_choice(config, "dns.budgets") >= 0,
	};
	for (size_t i = 0; i < config_list(config, "dns.budgets"); i++)
		parse_budget(into, config, i, faults);
	for (size_t i = 0; i < config_list(config, "dns.cluster_servers"); i++)
		into->n_cluster += parse_address(config, "dns.cluster_servers", i, "",
			"give IPv4 or IPv6 addresses, or auto in place of the list",
			&into->cluster[into->n_cluster], faults);
	for (size_t i = 0; i < config_list(config, "dns.cluster_domains"); i++) {
		struct config_position position =
			config_item_where(config, "dns.cluster_domains", i, "");
		const char *domain = config_item(config, "dns.cluster_domains", i, "");
		struct dns_suffix table[DNS_SUFFIXES] = {0};

		if (!dns_suffix_add(table, domain, DNS_SUFFIX_CLUSTER))
			config_fault_add(faults, &position,
				"dns.cluster_domains: %s is not a domain of at most 62 characters: write "
				"labels of 1 to 63 characters with a dot between them",
				domain);
		copy_text(into->domains[into->n_domains++], DNS_DOMAIN_MAX, domain);
	}
}

bool dns_budget_is_set(const struct dns_budget *budget)
{
	return budget->max[DNS_QUERIES] || budget->max[DNS_PACKETS] || budget->max[DNS_PENDING];
}

void dns_config_validate(const struct config *config, struct config_fault_list *faults)
{
	struct dns_config checked;

	dns_config_read(&checked, config, faults);
}

struct dns_budget dns_config_budget(const struct dns_config *config, const struct dns_facts *facts,
	const struct dns_address *server, bool listed)
{
	const struct dns_budget_row *row = dns_budget_rows;
	const struct dns_budget *numbers = NULL;
	struct dns_budget budget = {0};

	for (; row->cloud && !dns_budget_is_set(&budget); row++) {
		if ((!streq(row->cloud, facts->cloud) &&
			    !(row->anywhere && facts->cloud[0] == '\0')) ||
			(row->listed && ((server->bytes[15] & 0xf) != 2 || !listed)))
			continue;
		for (size_t i = 0; i < DNS_BUDGET_NETWORKS && row->networks[i]; i++)
			if (dns_address_within(server, row->networks[i], row->bits)) {
				budget = row->value;
				set_text(budget.source, row->cloud);
			}
	}
	/* The first item counts: an address has several spellings. */
	for (size_t i = 0; i < config->n_budgets && !numbers; i++)
		if (dns_address_equal(&config->budgets[i].server, server))
			numbers = &config->budgets[i].budget;
	if (!numbers && !config->budget_auto)
		return (struct dns_budget){0};
	if (!numbers && dns_budget_is_set(&budget) && dns_budget_is_set(&config->own))
		numbers = &config->own;
	/* Only the numbers replace the cloud's: packets stay link-local. */
	if (numbers) {
		memcpy(budget.max, numbers->max, sizeof(budget.max));
		set_text(budget.source, numbers->source);
	}
	return budget;
}
