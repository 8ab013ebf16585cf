/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/log.h"

/* Files and addresses rarely change, and reading them costs about 100 us. */
#define REFRESH_EVERY_US (60 * USEC_PER_SEC)
/* A new server may be a new address of the node. */
#define UNCLASSIFIED_EVERY_US (5 * USEC_PER_SEC)

#define PRUNE_EVERY_US (10 * USEC_PER_SEC)

/* When the kernel's table is half full, servers without queries for this long are removed. */
#define IDLE_US (60 * USEC_PER_SEC)
/* The same for a full table: a query waits no longer for its answer. */
#define IDLE_FULL_US (DNS_TIMEOUT_NS / 1000)

/* The same for addresses that send link-local packets. */
#define SENDER_IDLE_NS (UINT64_C(600) * NSEC_PER_SEC)

#define SAMPLES_PER_SECOND 40

/* Link-local services of AWS that share one budget of packets: metadata, DNS, NTP. */
static const char *const link_local[] = {"169.254.169.254", "169.254.169.253", "169.254.169.123",
	"fd00:ec2::254", "fd00:ec2::253", "fd00:ec2::123"};

/* Sets the role, and watches the packets that share the server's budget. */
static void classify(struct dns_sensor *sensor, struct dns_server_state *server)
{
	struct dns_key address;

	dns_set_role(&sensor->config, &sensor->env, server);
	if (!server->budget.link_local || server->budget.max[DNS_PACKETS] == 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(link_local); i++)
		if (dns_address_parse(link_local[i], &address))
			dns_watch_add(dns_bpf_control(sensor->bpf), &address);
	dns_watch_add(dns_bpf_control(sensor->bpf), &server->key);
}

/* Adds a server with a budget before its first query. */
static const struct dns_server_state *pin(struct dns_sensor *sensor, const struct dns_key *key)
{
	const struct dns_host_env *env = &sensor->env;
	struct dns_budget budget = dns_config_budget(
		&sensor->config, env, key, dns_address_in(env->servers, env->n_servers, key));
	struct dns_server_state *server;

	server = dns_budget_is_set(&budget) ? dns_server_get(&sensor->seen.table, key) : NULL;
	if (!server)
		return NULL;
	server->pinned = true;
	/* Without a slot, queries to a thousand other servers could hide its queries. */
	dns_bpf_expect_server(sensor->bpf, key);
	classify(sensor, server);
	dns_label_claim(&sensor->seen.table, server, sensor->now_us);
	return server;
}

/* Reads the node's files and devices, and updates the BPF parameters that depend on them. */
static void refresh(struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;
	struct dns_suffixes suffixes = {0};

	sensor->refreshed_at_us = sensor->now_us;
	sensor->unclassified = false;
	dns_host_env_read(&sensor->env, sensor->host);
	/* Cluster domains first: a search list may repeat them, and the first class stays. */
	for (size_t i = 0; i < sensor->config.n_domains; i++)
		dns_suffix_add(&suffixes, sensor->config.domains[i], DNS_SUFFIX_CLUSTER);
	for (size_t i = 0; i < sensor->env.n_search; i++)
		dns_suffix_add(&suffixes, sensor->env.search[i], DNS_SUFFIX_SEARCH);
	dns_bpf_control(sensor->bpf)->suffixes = suffixes;
	for (size_t i = 0; i < table->n; i++) {
		table->servers[i]->pinned = false;
		classify(sensor, table->servers[i]);
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
	for (size_t i = 0; i < sensor->env.n_servers; i++)
		pin(sensor, &sensor->env.servers[i]);
}

static void read_server(void *userdata, const void *key, const void *live)
{
	/* A copy: the kernel may count the first answer to a cluster name at any time. */
	const struct dns_server counts = *(const struct dns_server *)live;
	uint64_t cluster_answers = counts.totals.cluster_answers;
	struct dns_sensor *sensor = userdata;
	struct dns_server_table *table = &sensor->seen.table;
	size_t known = table->n;
	struct dns_server_state *server = dns_server_get(table, key);
	bool is_new = table->n > known;

	if (!server)
		return;
	/* A server that starts to answer cluster names becomes the cluster's DNS. */
	if (is_new || (server->totals.cluster_answers == 0 && cluster_answers > 0)) {
		server->totals.cluster_answers = cluster_answers;
		classify(sensor, server);
	}
	if (is_new) {
		dns_label_claim(table, server, sensor->now_us);
		sensor->unclassified = true;
	}
	sensor->sent += dns_server_update(table, server, &counts, sensor->now_us);
}

static void read_pending(void *userdata, const struct dns_key *key, const struct dns_pending *query,
	enum dns_end end)
{
	static const struct dns_key rest; /* counts servers without a slot */
	struct dns_sensor *sensor = userdata;
	struct dns_server_table *table = &sensor->seen.table;
	struct dns_server_state *server = key ? dns_server_find(table, key) : NULL;

	if (!server)
		server = dns_server_find(table, &rest);
	sensor->pending += end == DNS_END_NONE;
	if (server && end == DNS_END_UNANSWERED)
		dns_server_add_unanswered(table, server, 1, query->sent_ns / 1000);
	else if (server && end == DNS_END_UNKNOWN)
		dns_server_add_unknown(table, server, 1);
	else if (server)
		server->pending++;
}

/* A reading of the source addresses. */
struct reading {
	struct dns_sensor *sensor;
	uint64_t now_ns, budget;
	uint32_t bins[DNS_BINS]; /* of all sources */
};

static void read_source(void *userdata, const void *source, const void *live)
{
	const struct dns_source *counts = live;
	const struct dns_key *key = source;
	struct reading *reading = userdata;
	struct dns_seen *seen = &reading->sensor->seen;
	unsigned i = 0;

	for (size_t bin = 0; bin < DNS_BINS; bin++)
		reading->bins[bin] += counts->bins[bin];
	while (i < seen->n_senders && !dns_address_equal(&seen->senders[i].source, key))
		i++;
	/* The sum includes sources without a slot. */
	if (key->family == 0 || i == ARRAY_SIZE(seen->senders))
		return;
	if (i == seen->n_senders)
		seen->senders[seen->n_senders++] = (struct dns_sender){.source = *key};
	seen->senders[i].packets = counts->packets;
	seen->senders[i].last_ns = counts->last_ns;
	(void)dns_seconds_update(
		&seen->senders[i].seconds, counts->bins, reading->now_ns, reading->budget);
}

static int by_packets(const void *a, const void *b)
{
	const struct dns_sender *x = a, *y = b;

	return (x->packets < y->packets) - (x->packets > y->packets);
}

/* The packets that share the budget of a cloud's link-local services. */
static void read_link_local(struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;
	struct reading reading = {.sensor = sensor, .now_ns = sensor->now_us * 1000};
	struct dns_seen *seen = &sensor->seen;

	/* If reading fails, the seconds of the last poll must not count again. */
	seen->link_local.over = 0;
	for (unsigned i = 0; i < seen->n_senders; i++)
		seen->senders[i].seconds.over = 0;
	if (!dns_bpf_control(sensor->bpf)->watching)
		return;
	for (size_t i = 0; i < table->n; i++) {
		const struct dns_budget *budget = &table->servers[i]->budget;

		if (budget->link_local)
			reading.budget = MAX(reading.budget, budget->max[DNS_PACKETS]);
	}
	memcpy(reading.bins, sensor->forgotten, sizeof(reading.bins));
	if (dns_bpf_each(sensor->bpf, DNS_MAP_SOURCES, read_source, &reading) < 0)
		return;
	(void)dns_seconds_update(&seen->link_local, reading.bins, reading.now_ns, reading.budget);
	/* Keep half of the slots free for new pods. The sum keeps the packets of removed ones. */
	for (size_t i = seen->n_senders; i-- > 0 && seen->n_senders >= DNS_SOURCES_MAX / 2;) {
		struct dns_sender *sender = &seen->senders[i];

		/* last_ns is 0 until the kernel has counted the first packet. */
		if (sender->last_ns == 0 || reading.now_ns <= sender->last_ns + SENDER_IDLE_NS ||
			!dns_bpf_forget(sensor->bpf, DNS_MAP_SOURCES, &sender->source,
				sensor->now_us, NULL))
			continue;
		for (size_t bin = 0; bin < DNS_BINS; bin++)
			sensor->forgotten[bin] += sender->seconds.seen[bin];
		*sender = seen->senders[--seen->n_senders];
	}
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
	struct dns_control *control = dns_bpf_control(sensor->bpf);
	double seconds = (double)(sensor->now_us - sensor->sampled_at_us) / (double)USEC_PER_SEC;
	double rate = sensor->sampled_at_us == 0 ? 0 : (double)sensor->sent / MAX(seconds, 0.1);

	sensor->sampled_at_us = sensor->now_us;
	control->samples_most =
		__atomic_load_n(&control->samples, __ATOMIC_RELAXED) + SAMPLES_PER_SECOND;
	control->sample_share =
		sensor->config.names ? (uint32_t)(UINT32_MAX / (rate / SAMPLES_PER_SECOND + 1)) : 0;
	dns_bpf_drain_samples(sensor->bpf, add_sample, sensor);
	for (size_t i = 0; i < table->n_labels; i++) {
		struct dns_names *names = &table->labelled[i]->label->names;

		if (sensor->config.names)
			dns_names_fade(names, sensor->now_us);
		else if (names->n > 0)
			*names = (struct dns_names){0};
	}
}

static void add_others(void *userdata, const void *, const void *counts)
{
	struct dns_sensor *sensor = userdata;

	dns_server_add_others(&sensor->seen.table, NULL, counts);
}

static void prune(struct dns_sensor *sensor)
{
	struct dns_server_table *table = &sensor->seen.table;
	uint64_t lost = dns_bpf_control(sensor->bpf)->lost_servers;
	bool full = lost > sensor->lost_servers;

	sensor->lost_servers = lost;
	if (!full && (table->n < DNS_SERVERS_MAX / 2 ||
			     sensor->now_us - sensor->pruned_at_us < PRUNE_EVERY_US))
		return;
	sensor->pruned_at_us = sensor->now_us;
	for (size_t i = table->n; i-- > 0;) {
		struct dns_server_state *server = table->servers[i];
		struct dns_server last = {0};

		if (server->pinned || server->label || server->key.family == 0 ||
			server->pending > 0 ||
			sensor->now_us - server->changed_at_us < (full ? IDLE_FULL_US : IDLE_US) ||
			!dns_bpf_forget(
				sensor->bpf, DNS_MAP_SERVERS, &server->key, sensor->now_us, &last))
			continue;
		dns_server_add_others(table, server, &last);
		dns_server_remove(table, i);
		sensor->clients.prune = true;
	}
}

void dns_sense(void *self, uint64_t now)
{
	struct dns_sensor *sensor = self;
	struct dns_server_table *table = &sensor->seen.table;
	uint64_t age = now - sensor->refreshed_at_us;
	bool late = false;

	sensor->seen.watched = sensor->bpf != NULL;
	sensor->now_us = now;
	if (!sensor->bpf)
		return;
	dns_bpf_reuse(sensor->bpf, now, add_others, sensor);
	if (sensor->refreshed_at_us == 0 || age >= REFRESH_EVERY_US ||
		(sensor->unclassified && age >= UNCLASSIFIED_EVERY_US))
		refresh(sensor);
	sensor->sent = 0;
	(void)dns_bpf_each(sensor->bpf, DNS_MAP_SERVERS, read_server, sensor);
	/* Time passes even if reading fails. */
	for (size_t i = 0; i < table->n; i++) {
		struct dns_server_state *server = table->servers[i];
		uint64_t qps = server->budget.sustained ? 0 : server->budget.max[DNS_QUERIES];

		dns_minute_pass(server, now);
		late |= !dns_seconds_update(&server->queries, server->query_bins, now * 1000, qps);
		(void)dns_seconds_update(&server->packets, server->packet_bins, now * 1000,
			server->budget.max[DNS_PACKETS]);
		if (server->label)
			history_observe(&server->label->history, now, server->queries.poll_peak);
	}
	sensor->coarse += late;
	if (sensor->sent > 0 || sensor->pending > 0) {
		for (size_t i = 0; i < table->n; i++)
			table->servers[i]->pending = 0;
		sensor->pending = 0;
		dns_bpf_sweep(sensor->bpf, now * 1000, read_pending, sensor);
	}
	read_link_local(sensor);
	for (size_t i = 0; i < table->n_labels; i++)
		dns_second_observe(&sensor->seen, table->labelled[i], now);
	dns_clients_read(sensor);
	read_names(sensor);
	prune(sensor);
}
