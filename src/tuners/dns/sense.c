/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "workload/cgroup.h"

/* Files and addresses rarely change, and reading them costs some 100 us. */
#define REFRESH_EVERY_US (60 * USEC_PER_SEC)
/* But a new server may be an address that the node just got. */
#define UNCLASSIFIED_EVERY_US (5 * USEC_PER_SEC)

#define PRUNE_EVERY_US (10 * USEC_PER_SEC)

/* When the kernel's room is half used up, servers without queries for this long are removed. */
#define IDLE_US (60 * USEC_PER_SEC)
/* When it is used up: longer than a query waits for its answer. */
#define IDLE_FULL_US (DNS_TIMEOUT_NS / 1000)

#define SAMPLES_PER_SECOND 40

void dns_sensor_open(struct dns_sensor *sensor, const struct host *host)
{
	char why[TUNER_WHY_MAX];

	sensor->host = host;
	sensor->cgroups = cgroups_open(host, cgroup_root_open(host, why, sizeof(why)));
	copy_text(sensor->env.cloud, sizeof(sensor->env.cloud), dns_cloud_detect(host));
}

void dns_sensor_close(struct dns_sensor *sensor)
{
	dns_bpf_close(sensor->bpf);
	free(sensor->clients.clients);
	dns_server_table_clear(&sensor->seen.table);
	cgroups_close(sensor->cgroups);
}

static void take_server(void *userdata, const void *key, const void *live)
{
	const struct dns_server *counts = live;
	struct dns_sensor *sensor = userdata;
	struct dns_server_table *table = &sensor->seen.table;
	bool is_new = !dns_server_find(table, key);
	struct dns_server_state *server = dns_server_get(table, key);
	struct dns_totals totals = dns_totals_of(counts);

	if (!server)
		return;
	/* A server that begins to answer names of the cluster is of the cluster. */
	if (is_new || (server->totals.cluster_answers == 0 && totals.cluster_answers > 0)) {
		server->totals.cluster_answers = totals.cluster_answers;
		dns_classify(sensor, server);
	}
	if (is_new) {
		dns_label_offer(table, server);
		sensor->unclassified = true;
	}
	sensor->sent += dns_server_take(table, server, &totals, sensor->now_us);
	dns_split_bins(counts, server->query_bins, server->packet_bins);
}

/* Time passes for those too that could not be read. */
static void read_servers(struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;
	uint64_t now_ns = sensor->now_us * 1000;
	bool late = false;

	sensor->sent = 0;
	(void)dns_bpf_each(sensor->bpf, DNS_MAP_SERVERS, take_server, sensor);
	for (size_t i = 0; i < table->n; i++) {
		struct dns_server_state *server = table->servers[i];
		uint64_t qps = server->budget.sustained ? 0 : server->budget.max[DNS_QUERIES];

		dns_minute_pass(server, sensor->now_us);
		late |= !dns_seconds_take(&server->queries, server->query_bins, now_ns, qps);
		(void)dns_seconds_take(&server->packets, server->packet_bins, now_ns,
			server->budget.max[DNS_PACKETS]);
		if (server->label)
			history_observe(
				&server->label->history, sensor->now_us, server->queries.poll_peak);
	}
	sensor->coarse += late;
}

static void take_pending(void *userdata, const struct dns_pending *query, bool unanswered)
{
	struct dns_sensor *sensor = userdata;
	struct dns_server_table *table = &sensor->seen.table;
	struct dns_key key = dns_server_of(query), rest = {0};
	struct dns_server_state *server = dns_server_find(table, &key);

	/* Servers that found no room in the kernel are counted as one. */
	if (!server)
		server = dns_server_find(table, &rest);
	sensor->pending += !unanswered;
	if (server && unanswered)
		dns_server_take_unanswered(table, server, 1);
	else if (server)
		dns_server_take_pending(server, server->pending + 1);
}

static void take_sample(void *userdata, const struct dns_sample *sample)
{
	struct dns_sensor *sensor = userdata;
	struct dns_server_state *server = dns_server_find(&sensor->seen.table, &sample->server);
	struct dns_label *label = server ? server->label : NULL;
	char text[DNS_SAMPLE_NAME * 4];
	uint32_t type;

	if (label && !label->names)
		label->names = calloc(1, sizeof(*label->names));
	if (!label || !label->names)
		return;
	(void)dns_sample_name(sample, text, sizeof(text), &type);
	dns_names_add(label->names, text, type);
}

/* Every name of few queries, a fixed number each second of many. */
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
	dns_bpf_drain_samples(sensor->bpf, take_sample, sensor);
	for (size_t i = 0; i < table->n; i++) {
		struct dns_label *label = table->servers[i]->label;

		if (label && label->names && !sensor->config.names)
			free(steal(label->names));
		else if (label && label->names)
			dns_names_fade(label->names, sensor->now_us);
	}
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

		if (server->pinned || server->label || server->key.family == 0 ||
			server->pending > 0 ||
			sensor->now_us - server->changed_at_us < (full ? IDLE_FULL_US : IDLE_US) ||
			!dns_bpf_forget(sensor->bpf, DNS_MAP_SERVERS, &server->key, sensor->now_us))
			continue;
		dns_server_remove(table, server);
		sensor->clients.prune = true;
	}
}

void dns_sense(struct dns_sensor *sensor, uint64_t now)
{
	struct dns_server_table *table = &sensor->seen.table;
	uint64_t age = now - sensor->refreshed_at_us;

	sensor->seen.watched = sensor->bpf != NULL;
	sensor->now_us = now;
	if (!sensor->bpf)
		return;
	dns_bpf_reuse(sensor->bpf, now);
	if (sensor->refreshed_at_us == 0 || age >= REFRESH_EVERY_US ||
		(sensor->unclassified && age >= UNCLASSIFIED_EVERY_US))
		dns_refresh(sensor);
	read_servers(sensor);
	if (sensor->sent > 0 || sensor->pending > 0) {
		for (size_t i = 0; i < table->n; i++)
			table->servers[i]->pending = 0;
		sensor->pending = 0;
		dns_bpf_sweep(sensor->bpf, now * 1000, take_pending, sensor);
	}
	dns_link_local_read(sensor);
	dns_clients_read(sensor);
	read_names(sensor);
	prune(sensor);
	dns_label_assign(table, now);
}
