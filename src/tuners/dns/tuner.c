/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/loader.h"
#include "tuners/dns/report.h"
#include "tuners/dns/sense.h"
#include "tuners/table.h"

#include "base/util.h"
#include "config/config.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#define LABEL_MAX 63 /* RFC 1035 2.3.4 */

struct dns {
	struct dns_sensor sensor;
	struct dns_seen seen;
	struct dns_memory memory;
	bool watch;
	struct dns_loader *loader; /* NULL when nothing is being loaded */
	char why[TUNER_WHY_MAX];
};

static const char *const mode_words[] = {"enforce", "observe", "off", NULL};
static const char *const auto_words[] = {"auto", NULL};
static const char *const names_words[] = {"off", "socket", NULL};

static const struct config_option domain_items[] = {
	{
		.name = "",
		.type = OPTION_TEXT,
		.min = 1,
		.max = 253,
		.sentence = "A domain, such as cluster.local.",
	},
	{0},
};

static const struct config_option server_items[] = {
	{
		.name = "",
		.type = OPTION_TEXT,
		.min = 1,
		.max = 45,
		.sentence = "An address.",
	},
	{0},
};

static const struct config_option budget_items[] = {
	{
		.name = "server",
		.type = OPTION_TEXT,
		.min = 1,
		.max = 45,
		.sentence = "The upstream's address; auto: the resolver of the cloud that this "
			    "machine is in, with the numbers beside it, or without any those that "
			    "the cloud publishes.",
	},
	{
		.name = "qps",
		.type = OPTION_COUNT,
		.min = 1,
		.max = 1000000000,
		.unit = "queries/s",
		.sentence = "Queries in any second.",
	},
	{
		.name = "pps",
		.type = OPTION_COUNT,
		.min = 1,
		.max = 1000000000,
		.unit = "packets/s",
		.sentence = "Packets in any second, TCP handshakes among them.",
	},
	{
		.name = "pending",
		.type = OPTION_COUNT,
		.min = 1,
		.max = 1000000000,
		.unit = "queries",
		.sentence = "Queries without an answer at a time.",
	},
	{0},
};

const struct config_option dns_options[] = {
	{
		.name = "dns.mode",
		.type = OPTION_CHOICE,
		.words = mode_words,
		.sentence = "This tuner's own mode; empty: the agent's. It sets nothing on the "
			    "node: enforce and observe are the same to it.",
	},
	{
		.name = "dns.cluster_domains",
		.type = OPTION_LIST,
		.max = DNS_DOMAINS_MAX,
		.items = domain_items,
		.def = "[cluster.local]",
		.sentence = "The cluster's own domains: whoever answers names in them is the "
			    "cluster's DNS, and no upstream. At most six labels each.",
	},
	{
		.name = "dns.cluster_servers",
		.type = OPTION_LIST,
		.max = DNS_CLUSTER_SERVERS_MAX,
		.items = server_items,
		.words = auto_words,
		.def = "auto",
		.sentence = "Addresses of the cluster's DNS. auto: the kubelet's clusterDNS. In "
			    "either case whoever answers names of dns.cluster_domains is of the "
			    "cluster too, unless a budget names it.",
	},
	{
		.name = "dns.names",
		.type = OPTION_CHOICE,
		.words = names_words,
		.def = "socket",
		.sentence = "The names that are asked for most, out of a sample. socket: shown by "
			    "the unix socket, so to root alone, and never in metrics. off: no name "
			    "leaves the kernel.",
	},
	{
		.name = "dns.budgets",
		.type = OPTION_LIST,
		.max = DNS_BUDGETS_MAX,
		.items = budget_items,
		.def = "[{server: auto}]",
		.sentence = "What upstreams allow this machine. Each item has a server and any of "
			    "qps, pps and pending. []: no budgets. headroom explain budget/aws "
			    "and the like tell the clouds' own numbers and where they stand.",
	},
	{0},
};

static bool is_known_before(const struct config *config, size_t i, const char *server)
{
	for (size_t k = 0; k < i; k++)
		if (streq(config_item(config, "dns.budgets", k, "server"), server))
			return true;
	return false;
}

static void validate_budget(const struct config *config, size_t i, struct config_fault_list *faults)
{
	const char *server = config_item(config, "dns.budgets", i, "server");
	struct config_place place = config_item_where(config, "dns.budgets", i, "server");
	bool automatic = streq(server, "auto");
	struct dns_key key;
	uint64_t sum = config_item_count(config, "dns.budgets", i, "qps", 0) +
		       config_item_count(config, "dns.budgets", i, "pps", 0) +
		       config_item_count(config, "dns.budgets", i, "pending", 0);

	if (!automatic && !dns_address_parse(server, &key))
		config_fault_add(faults, &place,
			"dns.budgets: %s is no address: give an IPv4 or IPv6 address, or auto",
			server);
	else if (!automatic && sum == 0)
		config_fault_add(faults, &place,
			"dns.budgets: %s has no number: give qps, pps or pending", server);
	else if (is_known_before(config, i, server))
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

/* The kernel looks for a few domains of each length: see headroom/bpf/dns.h. */
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
				"dns.cluster_domains: %s has %zu labels: at most %d are looked at",
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

static void dns_validate(const struct config *config, struct config_fault_list *faults)
{
	size_t n = config_list(config, "dns.budgets");

	for (size_t i = 0; i < n; i++)
		validate_budget(config, i, faults);
	validate_servers(config, faults);
	validate_domains(config, faults);
}

static int dns_open(const struct host *host, bool watch, void **self)
{
	struct dns *dns = calloc(1, sizeof(*dns));
	int r;

	if (!dns)
		return -ENOMEM;
	dns->watch = watch;
	r = dns_sensor_open(&dns->sensor, host);
	if (r < 0) {
		free(dns);
		return r;
	}
	dns->seen.book = &dns->sensor.book;
	*self = dns;
	return 0;
}

static void on_loaded(struct dns_bpf *bpf, const char *why, void *userdata)
{
	struct dns *dns = userdata;

	copy_text(dns->why, sizeof(dns->why), why);
	dns_loader_close(steal(dns->loader));
	dns->sensor.bpf = bpf;
	/* The kernel is told of domains and addresses at the next look. */
	dns->sensor.refreshed_at_us = 0;
	/* Loading took megabytes for a moment. */
	malloc_trim(0);
}

static int dns_attach(void *self, struct sd_event *event)
{
	struct dns *dns = self;

	if (!dns->watch)
		return 0;
	return dns_loader_start(event, dns->sensor.host, on_loaded, dns, &dns->loader);
}

static bool dns_settled(const void *self)
{
	const struct dns *dns = self;

	return !dns->loader;
}

static int dns_configure(void *self, const struct config *config)
{
	struct dns *dns = self;

	dns_config_read(&dns->sensor.config, config);
	dns->sensor.refreshed_at_us = 0;
	return 0;
}

static void dns_sense_op(void *self)
{
	struct dns *dns = self;

	dns_sense(&dns->sensor, &dns->seen, now_us());
}

static int dns_decide_op(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	struct dns *dns = (struct dns *)self; /* not pure yet: servers remember in themselves */

	(void)memory;
	return dns_decide(&dns->seen, &dns->memory, input, proposal);
}

static enum tuner_state dns_state(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct dns *dns = self;

	copy_text(why, TUNER_WHY_MAX, dns->why);
	return why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
}

static void read_losses(const struct dns *dns, uint64_t losses[static DNS_LOSSES])
{
	const struct dns_control *control = dns_bpf_control(dns->sensor.bpf);
	const struct dns_book *book = &dns->sensor.book;

	memset(losses, 0, DNS_LOSSES * sizeof(losses[0]));
	losses[DNS_LOST_SERVERS] = control->lost_servers;
	losses[DNS_LOST_ROWS] = control->lost_rows;
	losses[DNS_LOST_LOOKS] = dns->sensor.coarse;
	losses[DNS_LOST_STREAMS] = control->resyncs + control->cut;
	losses[DNS_LOST_FRAGMENTS] = control->fragments;
	losses[DNS_LOST_SOURCES] = control->lost_sources;
	losses[DNS_LOST_PENDING] = book->evicted;
	losses[DNS_LOST_MALFORMED] = book->malformed;
}

static void dns_metrics(const void *self, const void *memory, struct metric_sink *sink)
{
	const struct dns *dns = self;
	uint64_t losses[DNS_LOSSES];

	(void)memory;
	if (!dns->seen.watched)
		return;
	read_losses(dns, losses);
	dns_put_metrics(sink, &dns->seen, losses);
}

static struct cJSON *dns_document(const void *self, const void *memory, bool trusted)
{
	const struct dns *dns = self;
	struct dns_report report = {
		.seen = &dns->seen,
		.cloud = dns_cloud_name(dns->sensor.cloud),
		.names = dns->sensor.config.names,
		.trusted = trusted,
	};

	(void)memory;
	if (dns->seen.watched)
		read_losses(dns, report.losses);
	return dns_make_document(&report);
}

static void dns_close(void *self)
{
	struct dns *dns = self;

	dns_loader_close(dns->loader);
	dns_sensor_close(&dns->sensor);
	free(dns);
}

const struct tuner_ops dns_tuner = {
	.name = "dns",
	.summary = "Counts the DNS queries that leave this node, by upstream, second and workload, "
		   "and holds them against what the cloud allows one machine.",
	.options = dns_options,
	.limits = dns_limits,
	.explanations = dns_explanations,
	.conditions = dns_conditions,
	.metric_rows = dns_metric_rows,
	.capabilities = dns_capabilities,
	.validate = dns_validate,
	.open = dns_open,
	.attach = dns_attach,
	.settled = dns_settled,
	.configure = dns_configure,
	.sense = dns_sense_op,
	.decide = dns_decide_op,
	.state = dns_state,
	.document_name = "dns",
	.document = dns_document,
	.metrics = dns_metrics,
	.close = dns_close,
};
