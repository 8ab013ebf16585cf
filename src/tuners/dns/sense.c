/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/util.h"
#include "tuners/dns/counts.h"

#include <errno.h>
#include <stdlib.h>

/* Files and addresses change seldom, and reading them costs some 100 us. */
#define REFRESH_EVERY_US (60 * USEC_PER_SEC)
/* But who is new may be an address that the node just got. */
#define STRANGERS_EVERY_US (5 * USEC_PER_SEC)

#define LABEL_EVERY_US (10 * USEC_PER_SEC)
#define PRUNE_EVERY_US (10 * USEC_PER_SEC)

/* When the kernel's room for servers is half used up, who was not asked for so long goes. */
#define IDLE_US       (60 * USEC_PER_SEC)
#define IDLE_LABEL_US (600 * USEC_PER_SEC)

#define SAMPLES_PER_SECOND 40

int dns_sensor_open(struct dns_sensor *sensor, const struct host *host)
{
	*sensor = (struct dns_sensor){.host = host};
	sensor->who = dns_who_open(host, NULL);
	if (!sensor->who)
		return -ENOMEM;
	sensor->cloud = dns_cloud_detect(host);
	return 0;
}

void dns_sensor_close(struct dns_sensor *sensor)
{
	dns_bpf_close(sensor->bpf);
	dns_askers_clear(&sensor->askers);
	dns_book_clear(&sensor->book);
	dns_roles_clear(&sensor->roles);
	if (sensor->who)
		dns_who_close(sensor->who);
}

static struct dns_totals totals_of(const struct dns_server *counts)
{
	struct dns_totals totals = {
		.retransmissions = counts->retransmissions,
		.edns = counts->edns,
		.malformed = counts->malformed,
		.packets = dns_server_packets(counts),
		.dot_packets = counts->dot_packets,
		.evicted = counts->evicted,
		.answered = dns_server_answered(counts),
		.late = counts->late,
		.truncated = counts->truncated,
		.cluster_answers = counts->cluster_answers,
		.latency_ns = counts->latency_ns,
	};

	memcpy(totals.queries, counts->queries, sizeof(totals.queries));
	memcpy(totals.responses, counts->responses, sizeof(totals.responses));
	memcpy(totals.latency, counts->latency, sizeof(totals.latency));
	return totals;
}

static struct dns_server_state *meet(struct dns_sensor *sensor, const struct dns_key *key)
{
	struct dns_server_state *server = dns_book_find(&sensor->book, key);

	if (server)
		return server;
	server = dns_book_get(&sensor->book, key);
	if (!server)
		return NULL;
	dns_surroundings_place(sensor, server);
	dns_book_offer(&sensor->book, server);
	sensor->strangers = true;
	return server;
}

/* What had been counted before belongs to no second that is shown. */
static void begin_packets(struct dns_server_state *server, const uint32_t *bins)
{
	server->packets = calloc(1, sizeof(*server->packets));
	if (server->packets && server->queries.next > 0)
		memcpy(server->packets->seen, bins, sizeof(server->packets->seen));
}

static void count_seconds(struct dns_sensor *sensor, struct dns_server_state *server,
	const uint32_t *queries, const uint32_t *packets)
{
	uint64_t qps = server->budget.sustained ? 0 : server->budget.qps;
	uint64_t now_ns = sensor->now_us * 1000;

	if (!server->packets && server->label >= 0)
		begin_packets(server, packets);
	if (!dns_seconds_look(&server->queries, queries, now_ns, qps))
		sensor->late = true;
	if (server->packets)
		(void)dns_seconds_look(server->packets, packets, now_ns, server->budget.pps);
}

/* Who begins to answer names of the cluster is of the cluster. */
static bool may_change_role(const struct dns_server_state *server, const struct dns_totals *totals)
{
	return server->totals.cluster_answers == 0 && totals->cluster_answers > 0;
}

static void take_server(void *userdata, const struct dns_key *key, const struct dns_server *counts)
{
	struct dns_sensor *sensor = userdata;
	struct dns_server_state *server = meet(sensor, key);
	struct dns_totals totals = totals_of(counts);
	struct dns_bins bins;
	uint64_t queries, evicted;
	bool place;

	if (!server)
		return;
	queries = dns_queries(&server->totals);
	evicted = totals.evicted - MIN(totals.evicted, server->totals.evicted);
	place = may_change_role(server, &totals);
	server->seen = true;
	server->totals.cluster_answers =
		MAX(server->totals.cluster_answers, totals.cluster_answers);
	if (place)
		dns_surroundings_place(sensor, server);
	dns_minute_pass(server, sensor->now_us);
	dns_book_take(&sensor->book, server, &totals, sensor->now_us);
	dns_book_take_unanswered(&sensor->book, server, evicted);
	dns_server_bins(counts, &bins);
	count_seconds(sensor, server, bins.queries, bins.packets);
	sensor->asked += dns_queries(&server->totals) - queries;
}

/* Time passes for those too that nobody has asked yet. */
static void pass_unseen(struct dns_sensor *sensor)
{
	static const uint32_t none[DNS_BINS];

	for (size_t i = 0; i < sensor->book.n; i++) {
		struct dns_server_state *server = sensor->book.servers[i];

		if (server->seen)
			continue;
		dns_minute_pass(server, sensor->now_us);
		count_seconds(sensor, server, server->queries.seen,
			server->packets ? server->packets->seen : none);
	}
}

static void look_at_servers(struct dns_sensor *sensor)
{
	sensor->asked = 0;
	sensor->late = false;
	for (size_t i = 0; i < sensor->book.n; i++)
		sensor->book.servers[i]->seen = false;
	(void)dns_bpf_each_server(sensor->bpf, take_server, sensor);
	pass_unseen(sensor);
	sensor->coarse += sensor->late;
}

static void take_pending(void *userdata, const struct dns_pending *query, bool unanswered)
{
	struct dns_sensor *sensor = userdata;
	struct dns_key key = dns_pending_server(query), rest = {0};
	struct dns_server_state *server = dns_book_find(&sensor->book, &key);

	/* What found no room in the kernel is counted as one. */
	if (!server)
		server = dns_book_find(&sensor->book, &rest);
	sensor->pending += !unanswered;
	if (!server)
		return;
	if (unanswered)
		dns_book_take_unanswered(&sensor->book, server, 1);
	else
		server->pending++;
}

static void sweep(struct dns_sensor *sensor)
{
	if (sensor->asked == 0 && sensor->pending == 0)
		return;
	for (size_t i = 0; i < sensor->book.n; i++)
		sensor->book.servers[i]->pending = 0;
	sensor->pending = 0;
	dns_bpf_sweep(sensor->bpf, sensor->now_us * 1000, take_pending, sensor);
}

static void take_sample(void *userdata, const struct dns_sample *sample)
{
	struct dns_sensor *sensor = userdata;
	struct dns_server_state *server = dns_book_find(&sensor->book, &sample->server);
	char text[DNS_SAMPLE_NAME * 4];
	struct dns_label *label;

	if (!server || server->label < 0)
		return;
	label = &sensor->book.labels[server->label];
	if (!label->names)
		label->names = calloc(1, sizeof(*label->names));
	if (!label->names)
		return;
	(void)dns_sample_name(sample, text, sizeof(text));
	dns_names_add(label->names, text, sample->type);
}

/* Few queries: every name. Many: so many a second, whatever comes. */
static void steer_samples(struct dns_sensor *sensor)
{
	double seconds = (double)(sensor->now_us - sensor->sampled_at_us) / (double)USEC_PER_SEC;
	double rate = sensor->sampled_at_us == 0 ? 0 : (double)sensor->asked / MAX(seconds, 0.1);
	uint64_t one_in = (uint64_t)(rate / SAMPLES_PER_SECOND) + 1;

	dns_bpf_sample(sensor->bpf, one_in, SAMPLES_PER_SECOND);
	sensor->one_in = one_in;
	sensor->sampled_at_us = sensor->now_us;
}

static void look_at_names(struct dns_sensor *sensor)
{
	if (!sensor->config.names) {
		if (sensor->one_in > 0)
			dns_bpf_sample(sensor->bpf, 0, 0);
		sensor->one_in = 0;
		for (size_t i = 0; i < DNS_LABELS; i++) {
			free(sensor->book.labels[i].names);
			sensor->book.labels[i].names = NULL;
		}
		return;
	}
	steer_samples(sensor);
	dns_bpf_drain_samples(sensor->bpf, take_sample, sensor);
	for (size_t i = 0; i < DNS_LABELS; i++)
		if (sensor->book.labels[i].names)
			dns_names_fade(sensor->book.labels[i].names, sensor->now_us);
}

static void prune(struct dns_sensor *sensor)
{
	struct dns_book *book = &sensor->book;

	if (book->n < DNS_SERVERS_MAX / 2 || sensor->now_us - sensor->pruned_at_us < PRUNE_EVERY_US)
		return;
	sensor->pruned_at_us = sensor->now_us;
	for (size_t i = book->n; i-- > 0;) {
		struct dns_server_state *server = book->servers[i];
		uint64_t idle = sensor->now_us - server->changed_at_us;

		if (server->pinned || server->key.family == 0 || server->pending > 0 ||
			idle < (server->label >= 0 ? IDLE_LABEL_US : IDLE_US))
			continue;
		if (!dns_bpf_forget_server(sensor->bpf, &server->key, sensor->now_us))
			continue;
		dns_book_remove(book, server);
		sensor->askers.prune = true;
	}
}

static void refresh(struct dns_sensor *sensor, struct dns_seen *seen)
{
	uint64_t age = sensor->now_us - sensor->refreshed_at_us;

	if (sensor->refreshed_at_us == 0 || age >= REFRESH_EVERY_US ||
		(sensor->strangers && age >= STRANGERS_EVERY_US))
		dns_surroundings_read(sensor, seen);
}

void dns_sense(struct dns_sensor *sensor, struct dns_seen *seen, uint64_t now)
{
	seen->watched = sensor->bpf != NULL;
	seen->book = &sensor->book;
	sensor->now_us = now;
	if (!sensor->bpf)
		return;
	dns_bpf_use_again(sensor->bpf, sensor->now_us);
	refresh(sensor, seen);
	look_at_servers(sensor);
	sweep(sensor);
	dns_link_local_look(sensor, seen);
	dns_askers_read(
		&sensor->askers, sensor->bpf, sensor->who, &sensor->roles, seen, sensor->now_us);
	look_at_names(sensor);
	prune(sensor);
	if (now - sensor->labelled_at_us >= LABEL_EVERY_US) {
		dns_book_label(&sensor->book, now);
		sensor->labelled_at_us = now;
	}
	seen->coarse = sensor->coarse;
}
