/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "base/log.h"

#define SAMPLE_EVERY_US (60 * USEC_PER_SEC)
#define ATTACH_EVERY_US (5 * USEC_PER_SEC)

/* The counters continue when the tuner is switched on again. */
static void dns_pause(void *self)
{
	struct dns_sensor *sensor = self;

	sensor->paused = true;
	if (!sensor->kernel)
		return;
	dns_kernel_detach(sensor->kernel);
	sensor->pairs.forget_pending = true;
	sensor->unattached = steal(sensor->kernel);
	sensor->seen.watched = false;
	sensor->next_load_us = 0;
}

static void *dns_open(const struct host *host, struct facts *facts, struct sd_event *event)
{
	struct dns_sensor *sensor = must(calloc(1, sizeof(*sensor)));

	sensor->host = host;
	sensor->names = &facts->names;
	sensor->cgroups = facts->cgroups;
	sensor->watch = event;
	return sensor;
}

/* ---- the poll ---- */

/* Files and addresses rarely change, and reading them costs about 100 us. */
#define REFRESH_EVERY_US (60 * USEC_PER_SEC)
/* A new server may be a new address of the node. */
#define UNCLASSIFIED_EVERY_US (5 * USEC_PER_SEC)

#define SAMPLES_PER_SECOND 40

/* Link-local services of AWS that share one budget of packets. */
static const struct {
	const char *address;
	enum dns_service service;
} link_local[] = {
	{"169.254.169.254", DNS_METADATA},
	{"169.254.169.253", DNS_NO_SERVICE},
	{"169.254.169.123", DNS_TIME},
	{"fd00:ec2::254", DNS_METADATA},
	{"fd00:ec2::253", DNS_NO_SERVICE},
	{"fd00:ec2::123", DNS_TIME},
};

static enum dns_service service_at(const struct dns_address *address)
{
	struct dns_address known;

	for (size_t i = 0; i < ARRAY_SIZE(link_local); i++)
		if (dns_address_parse(link_local[i].address, &known) &&
			dns_address_equal(&known, address))
			return link_local[i].service;
	return DNS_NO_SERVICE;
}

/* Watches the packets that share the server's budget. */
static void watch_packets(struct dns_sensor *sensor, const struct dns_server_state *server)
{
	const struct dns_server_table *table = &sensor->seen.table;
	struct dns_control *control = dns_kernel_control(sensor->kernel);
	struct dns_address address;

	for (size_t i = 0; i < ARRAY_SIZE(link_local); i++)
		if (dns_address_parse(link_local[i].address, &address))
			dns_watch_add(control, &address);
	dns_watch_add(control, &server->address);
	for (size_t i = 0; i < table->n; i++)
		table->servers[i]->watched = dns_is_watched(control, &table->servers[i]->address);
}

void dns_classify(struct dns_sensor *sensor, struct dns_server_state *server)
{
	struct dns_control *control = dns_kernel_control(sensor->kernel);

	dns_set_role(&sensor->config, &sensor->facts, server);
	server->service = service_at(&server->address);
	server->watched = dns_is_watched(control, &server->address);
	if (server->budget.link_local && server->budget.max[DNS_PACKETS] > 0 && !server->watched)
		watch_packets(sensor, server);
}

/* Adds a server with a budget before its first query. */
static const struct dns_server_state *pin(
	struct dns_sensor *sensor, const struct dns_address *address)
{
	const struct dns_facts *facts = &sensor->facts;
	struct dns_budget budget = dns_config_budget(&sensor->config, facts, address,
		dns_address_in(facts->servers, facts->n_servers, address));
	struct dns_server_state *server;

	server = dns_budget_is_set(&budget) ? dns_server_get(&sensor->seen.table, address) : NULL;
	if (!server)
		return NULL;
	server->pinned = true;
	/* Without it, thousands of other pairs could hide its queries. */
	dns_kernel_add_server(sensor->kernel, address);
	dns_classify(sensor, server);
	dns_label_claim(&sensor->seen.table, server, sensor->now_us);
	return server;
}

/* Reads the node's files and devices, and updates the BPF parameters that depend on them. */
static void refresh(struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;
	struct dns_suffix suffixes[DNS_SUFFIXES] = {0};

	sensor->refreshed_at_us = sensor->now_us;
	sensor->unclassified = false;
	dns_facts_read(&sensor->facts, sensor->host);
	/* Cluster domains first: a search list may repeat them, and the first class stays. */
	for (size_t i = 0; i < sensor->config.n_domains; i++)
		(void)dns_suffix_add(suffixes, sensor->config.domains[i], DNS_SUFFIX_CLUSTER);
	for (size_t i = 0; i < sensor->facts.n_search; i++)
		(void)dns_suffix_add(suffixes, sensor->facts.search[i], DNS_SUFFIX_SEARCH);
	memcpy(dns_kernel_control(sensor->kernel)->suffixes, suffixes, sizeof(suffixes));
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
				server->role == DNS_LOCAL ? "on this node" : "the cluster's DNS");
		sensor->config.budgets[i].reported = server != NULL;
	}
	for (size_t i = 0; i < sensor->facts.n_servers; i++)
		pin(sensor, &sensor->facts.servers[i]);
}

static int by_packets(const void *a, const void *b)
{
	const struct dns_sender *x = a, *y = b;

	return (x->packets < y->packets) - (x->packets > y->packets);
}

/* The packets that share the budget of a cloud's link-local services. */
static void update_link_local(struct dns_seen *seen, uint64_t now_ns)
{
	uint64_t budget = 0;

	for (size_t i = 0; i < seen->table.n; i++) {
		const struct dns_budget *limits = &seen->table.servers[i]->budget;

		if (limits->link_local)
			budget = MAX(budget, limits->max[DNS_PACKETS]);
	}
	(void)dns_seconds_update(&seen->link_local, now_ns, budget);
	for (unsigned i = 0; i < seen->n_senders; i++)
		(void)dns_seconds_update(&seen->senders[i].seconds, now_ns, budget);
	for (int i = 0; i < DNS_SERVICES; i++)
		(void)dns_seconds_update(&seen->services[i].seconds, now_ns, 0);
	qsort(seen->senders, seen->n_senders, sizeof(seen->senders[0]), by_packets);
}

static void add_sample(void *userdata, const struct dns_sample *sample)
{
	struct dns_sensor *sensor = userdata;
	struct dns_server_state *server = dns_server_find(&sensor->seen.table, &sample->server);
	char text[DNS_SAMPLE_NAME * 4];
	uint32_t type;

	if (!server || !server->label)
		return;
	(void)dns_sample_name(sample, text, sizeof(text), &type);
	dns_names_add(&server->label->names, text, type);
}

/* Samples all names at a low rate, and SAMPLES_PER_SECOND at a high one. */
static void read_names(struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;
	struct dns_control *control = dns_kernel_control(sensor->kernel);
	double seconds = (double)(sensor->now_us - sensor->sampled_at_us) / (double)USEC_PER_SEC;
	double rate = sensor->sampled_at_us == 0 ? 0 : (double)sensor->sent / MAX(seconds, 0.1);

	sensor->sampled_at_us = sensor->now_us;
	control->sample_share =
		sensor->config.names ? (uint32_t)(UINT32_MAX / (rate / SAMPLES_PER_SECOND + 1)) : 0;
	dns_kernel_each_sample(sensor->kernel, add_sample, sensor);
	for (size_t i = 0; i < table->n_labels; i++) {
		struct dns_names *names = &table->labelled[i]->label->names;

		if (sensor->config.names)
			dns_names_fade(names, sensor->now_us);
		else if (names->whole.n > 0)
			*names = (struct dns_names){0};
	}
}

void dns_sense(void *self, uint64_t now)
{
	struct dns_sensor *sensor = self;
	struct dns_server_table *table = &sensor->seen.table;
	uint64_t age = now - sensor->refreshed_at_us;
	bool late = false;

	sensor->seen.watched = sensor->kernel != NULL;
	sensor->now_us = now;
	if (!sensor->kernel)
		return;
	if (sensor->refreshed_at_us == 0 || age >= REFRESH_EVERY_US ||
		(sensor->unclassified && age >= UNCLASSIFIED_EVERY_US))
		refresh(sensor);
	dns_pairs_read(sensor);
	sensor->seen.has_services = dns_kernel_control(sensor->kernel)->n_watched > 0;
	update_link_local(&sensor->seen, now * 1000);
	/* Time passes even if reading fails. */
	for (size_t i = 0; i < table->n; i++) {
		struct dns_server_state *server = table->servers[i];
		struct dns_label *label = server->label;
		uint64_t qps = server->budget.sustained ? 0 : server->budget.max[DNS_QUERIES];

		dns_minute_pass(server, now);
		if (!label)
			continue;
		late |= !dns_seconds_update(&label->queries, now * 1000, qps);
		(void)dns_seconds_update(
			&label->packets, now * 1000, server->budget.max[DNS_PACKETS]);
		history_observe(&label->history, now, label->queries.poll_peak);
		dns_second_observe(&sensor->seen, server, now);
	}
	sensor->coarse += late;
	dns_name_users(sensor);
	read_names(sensor);
	dns_pairs_prune(sensor);
}

/* ---- the BPF programs ---- */

static bool programs_due(void *self, void **programs)
{
	struct dns_sensor *sensor = self;

	if (now_us() < sensor->next_load_us)
		return false;
	sensor->next_load_us = UINT64_MAX;
	*programs = steal(sensor->unattached);
	return true;
}

static int load_programs(const struct host *host, void **programs, char why[static TUNER_WHY_MAX])
{
	struct dns_kernel *kernel = *programs ? *programs : dns_kernel_load(why);
	int r = kernel ? dns_kernel_attach(kernel, host, why) : -ENOTSUP;

	if (r < 0 && r != -EPERM)
		dns_kernel_close(steal(kernel));
	*programs = kernel;
	return r;
}

static void adopt_programs(void *self, void *programs, const char *why)
{
	struct dns_sensor *sensor = self;

	set_text(sensor->why, why);
	if (programs && why[0]) {
		sensor->unattached = programs;
		sensor->next_load_us = now_us() + ATTACH_EVERY_US;
	} else if (programs) {
		sensor->kernel = programs;
		sensor->since_us = realtime_us();
		if (sensor->paused)
			dns_pause(sensor);
	}
}

static void unload_programs(void *programs)
{
	dns_kernel_close(programs);
}

static const struct bpf_ops dns_programs = {
	programs_due, load_programs, adopt_programs, unload_programs, NULL};

/* ---- samples: the kubelet ---- */

struct request {
	struct host host;
	struct kubelet_seen seen;
};

static void *dns_sample_request(void *self, const void *, bool now)
{
	struct dns_sensor *sensor = self;
	struct request *request;

	if (!sensor->watch || !sensor->config.cluster_auto ||
		(!now && now_us() < sensor->next_sample_us))
		return NULL;
	sensor->next_sample_us = next_turn_us(now_us(), SAMPLE_EVERY_US);
	request = must(calloc(1, sizeof(*request)));
	request->host = *sensor->host;
	return request;
}

static void dns_sample(void *data, const struct wait *)
{
	struct request *request = data;

	kubelet_read(&request->host, &request->seen);
}

static void dns_sample_adopt(void *self, void *data)
{
	struct request *request = data;
	struct dns_sensor *sensor = self;
	const struct kubelet_values *values = &request->seen.values;

	if (sensor) {
		struct dns_facts *facts = &sensor->facts;

		facts->n_kubelet = 0;
		for (size_t i = 0; i < values->n_cluster_dns; i++)
			facts->n_kubelet += dns_address_parse(
				values->cluster_dns[i], &facts->kubelet[facts->n_kubelet]);
		/* The next poll passes domains and addresses to the kernel. */
		sensor->refreshed_at_us = 0;
	}
	free(request);
}

static void dns_configure(void *self, const struct config *config)
{
	struct config_fault_list none = {0}; /* it was validated */
	struct dns_sensor *sensor = self;

	dns_config_read(&sensor->config, config, &none);
	sensor->refreshed_at_us = sensor->next_sample_us = 0;
	sensor->paused = false;
}

static void dns_close(void *self, void *memory)
{
	struct dns_sensor *sensor = self;

	dns_memory_clear(memory);
	dns_kernel_close(sensor->unattached);
	dns_kernel_close(sensor->kernel);
	dns_pairs_clear(&sensor->pairs);
	dns_server_table_clear(&sensor->seen.table);
	free(sensor);
}

const struct tuner_tables dns_tables = {
	.summary = "Counts the DNS queries of this node by server and workload, and compares them "
		   "with the limits of cloud resolvers for one machine.",
	.limits = dns_limits,
	.entries = dns_entries,
	.conditions = dns_conditions,
	.metric_rows = dns_metric_rows,
	.capabilities = dns_capabilities,
	.view = &dns_view,
};

const struct tuner_ops dns_tuner = {
	.name = "dns",
	.tables = &dns_tables,
	.validate = dns_config_validate,
	.open = dns_open,
	.configure = dns_configure,
	.sense = dns_sense,
	.bpf = &dns_programs,
	.tasks[TASK_SAMPLE] = {dns_sample_request, dns_sample, dns_sample_adopt, NULL},
	.memory_size = sizeof(struct dns_memory),
	.decide = dns_decide,
	.document = dns_make_document,
	.metrics = dns_put_metrics,
	.pause = dns_pause,
	.close = dns_close,
};
