/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/util.h"
#include "workload/cgroup.h"

#include <errno.h>
#include <stdlib.h>

/* Files and addresses rarely change, and reading them costs some 100 us. */
#define REFRESH_EVERY_US (60 * USEC_PER_SEC)
/* But a new server may be an address that the node just got. */
#define UNCLASSIFIED_EVERY_US (5 * USEC_PER_SEC)

#define LABEL_EVERY_US (10 * USEC_PER_SEC)
#define PRUNE_EVERY_US (10 * USEC_PER_SEC)

/* When the kernel's room is half used up, servers without queries for this long are removed. */
#define IDLE_US       (60 * USEC_PER_SEC)
#define IDLE_LABEL_US (600 * USEC_PER_SEC)

#define SAMPLES_PER_SECOND 40

int dns_sensor_open(struct dns_sensor *sensor, const struct host *host)
{
	char why[TUNER_WHY_MAX];

	*sensor = (struct dns_sensor){.host = host};
	sensor->cgroups = cgroups_open(host, cgroup_root_open(host, why, sizeof(why)));
	if (!sensor->cgroups)
		return -ENOMEM;
	copy_text(sensor->env.cloud, sizeof(sensor->env.cloud), dns_cloud_detect(host));
	return 0;
}

void dns_sensor_close(struct dns_sensor *sensor)
{
	dns_bpf_close(sensor->bpf);
	dns_clients_clear(&sensor->clients);
	dns_server_table_clear(&sensor->table);
	dns_host_env_clear(&sensor->env);
	if (sensor->cgroups)
		cgroups_close(sensor->cgroups);
}

static void count_seconds(struct dns_sensor *sensor, struct dns_server_state *server,
	const uint32_t *queries, const uint32_t *packets)
{
	uint64_t qps = server->budget.sustained ? 0 : server->budget.qps;
	uint64_t now_ns = sensor->now_us * 1000;

	if (!server->packets && server->label >= 0) {
		server->packets = calloc(1, sizeof(*server->packets));
		/* What had been counted before belongs to no second that is shown. */
		if (server->packets && server->queries.next > 0)
			memcpy(server->packets->seen, packets, sizeof(server->packets->seen));
	}
	if (!dns_seconds_take(&server->queries, queries, now_ns, qps))
		sensor->late = true;
	if (server->packets)
		(void)dns_seconds_take(server->packets, packets, now_ns, server->budget.pps);
}

static void take_server(void *userdata, const void *key, const void *live)
{
	const struct dns_server *counts = live;
	struct dns_sensor *sensor = userdata;
	bool is_new = !dns_server_find(&sensor->table, key);
	struct dns_server_state *server = dns_server_get(&sensor->table, key);
	struct dns_totals totals = dns_totals_of(counts);
	uint32_t queries[DNS_BINS], packets[DNS_BINS];

	if (!server)
		return;
	/* A server that begins to answer names of the cluster is of the cluster. */
	if (is_new || (server->totals.cluster_answers == 0 && totals.cluster_answers > 0)) {
		server->totals.cluster_answers = totals.cluster_answers;
		dns_classify(sensor, server);
	}
	if (is_new) {
		dns_label_offer(&sensor->table, server);
		sensor->unclassified = true;
	}
	server->seen = true;
	sensor->sent += dns_server_take(&sensor->table, server, &totals, sensor->now_us);
	dns_split_bins(counts, queries, packets);
	count_seconds(sensor, server, queries, packets);
}

static void read_servers(struct dns_sensor *sensor)
{
	static const uint32_t none[DNS_BINS];

	sensor->sent = 0;
	sensor->late = false;
	for (size_t i = 0; i < sensor->table.n; i++)
		sensor->table.servers[i]->seen = false;
	(void)dns_bpf_each(sensor->bpf, DNS_MAP_SERVERS, take_server, sensor);
	/* Time passes for those too that got no query yet. */
	for (size_t i = 0; i < sensor->table.n; i++) {
		struct dns_server_state *server = sensor->table.servers[i];

		if (server->seen)
			continue;
		dns_minute_pass(server, sensor->now_us);
		count_seconds(sensor, server, server->queries.seen,
			server->packets ? server->packets->seen : none);
	}
	sensor->coarse += sensor->late;
}

static void take_pending(void *userdata, const struct dns_pending *query, bool unanswered)
{
	struct dns_sensor *sensor = userdata;
	struct dns_key key = dns_server_of(query), rest = {0};
	struct dns_server_state *server = dns_server_find(&sensor->table, &key);

	/* Servers that found no room in the kernel are counted as one. */
	if (!server)
		server = dns_server_find(&sensor->table, &rest);
	sensor->pending += !unanswered;
	if (server && unanswered)
		dns_server_take_unanswered(&sensor->table, server, 1);
	else if (server)
		dns_server_take_pending(server, server->pending + 1);
}

static void take_sample(void *userdata, const struct dns_sample *sample)
{
	struct dns_sensor *sensor = userdata;
	struct dns_server_state *server = dns_server_find(&sensor->table, &sample->server);
	char text[DNS_SAMPLE_NAME * 4];
	struct dns_label *label;

	if (!server || server->label < 0)
		return;
	label = &sensor->table.labels[server->label];
	if (!label->names)
		label->names = calloc(1, sizeof(*label->names));
	if (!label->names)
		return;
	(void)dns_sample_name(sample, text, sizeof(text));
	dns_names_add(label->names, text, sample->type);
}

/* Every name of few queries, a fixed number each second of many. */
static void read_names(struct dns_sensor *sensor)
{
	double seconds = (double)(sensor->now_us - sensor->sampled_at_us) / (double)USEC_PER_SEC;
	double rate = sensor->sampled_at_us == 0 ? 0 : (double)sensor->sent / MAX(seconds, 0.1);

	if (!sensor->config.names) {
		if (sensor->one_in > 0)
			dns_bpf_sample(sensor->bpf, 0, 0);
		sensor->one_in = 0;
		for (size_t i = 0; i < DNS_LABELS; i++)
			free(steal(sensor->table.labels[i].names));
		return;
	}
	sensor->one_in = (uint64_t)(rate / SAMPLES_PER_SECOND) + 1;
	sensor->sampled_at_us = sensor->now_us;
	dns_bpf_sample(sensor->bpf, sensor->one_in, SAMPLES_PER_SECOND);
	dns_bpf_drain_samples(sensor->bpf, take_sample, sensor);
	for (size_t i = 0; i < DNS_LABELS; i++)
		if (sensor->table.labels[i].names)
			dns_names_fade(sensor->table.labels[i].names, sensor->now_us);
}

static void prune(struct dns_sensor *sensor)
{
	struct dns_server_table *table = &sensor->table;

	if (table->n < DNS_SERVERS_MAX / 2 ||
		sensor->now_us - sensor->pruned_at_us < PRUNE_EVERY_US)
		return;
	sensor->pruned_at_us = sensor->now_us;
	for (size_t i = table->n; i-- > 0;) {
		struct dns_server_state *server = table->servers[i];
		uint64_t idle = sensor->now_us - server->changed_at_us;

		if (server->pinned || server->key.family == 0 || server->pending > 0 ||
			idle < (server->label >= 0 ? IDLE_LABEL_US : IDLE_US))
			continue;
		if (!dns_bpf_forget(sensor->bpf, DNS_MAP_SERVERS, &server->key, sensor->now_us))
			continue;
		dns_server_remove(table, server);
		sensor->clients.prune = true;
	}
}

void dns_sense(struct dns_sensor *sensor, struct dns_seen *seen, uint64_t now)
{
	uint64_t age = now - sensor->refreshed_at_us;

	seen->watched = sensor->bpf != NULL;
	seen->table = &sensor->table;
	sensor->now_us = now;
	if (!sensor->bpf)
		return;
	dns_bpf_reuse(sensor->bpf, now);
	if (sensor->refreshed_at_us == 0 || age >= REFRESH_EVERY_US ||
		(sensor->unclassified && age >= UNCLASSIFIED_EVERY_US))
		dns_refresh(sensor, seen);
	read_servers(sensor);
	if (sensor->sent > 0 || sensor->pending > 0) {
		for (size_t i = 0; i < sensor->table.n; i++)
			sensor->table.servers[i]->pending = 0;
		sensor->pending = 0;
		dns_bpf_sweep(sensor->bpf, now * 1000, take_pending, sensor);
	}
	dns_link_local_read(sensor, seen);
	dns_clients_read(sensor, seen);
	read_names(sensor);
	prune(sensor);
	if (now - sensor->labelled_at_us < LABEL_EVERY_US)
		return;
	dns_label_assign(&sensor->table, now);
	sensor->labelled_at_us = now;
}
