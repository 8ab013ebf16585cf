/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

/* A row costs up to 1 us, so a larger number of rows is read less often. */
#define FEW_ROWS  256  /* up to this number every second, up to the next every 2 s */
#define MANY_ROWS 2048 /* above this number every 10 s */
/* More often if a second used this share of a budget. */
#define URGENT 0.7

/* When the kernel's table is half full, rows without queries for this long are removed. */
#define IDLE_US (60 * USEC_PER_SEC)

/* Half-life of smoothed rates in seconds. */
#define HALF_LIFE 20.0

/* Server, source and cgroup without padding. */
static int by_identity(const void *a, const void *b)
{
	return memcmp(a, b, offsetof(struct dns_client, counts));
}

static void add_counts(struct dns_client_counts *to, const struct dns_client_counts *more)
{
	to->queries += more->queries;
	to->expanded += more->expanded;
	to->failed += more->failed;
	to->failures += more->failures;
}

/* Sorts new clients into the list and merges those with the same identity. */
static void merge(struct dns_clients *clients)
{
	size_t kept = 0;

	if (clients->n > clients->sorted)
		qsort(clients->clients, clients->n, sizeof(*clients->clients), by_identity);
	for (size_t i = 0; i < clients->n; i++) {
		struct dns_client *client = &clients->clients[i];

		if (kept > 0 && by_identity(&client[0], &clients->clients[kept - 1]) == 0)
			add_counts(&clients->clients[kept - 1].now, &client->now);
		else if (client->now.queries > 0)
			clients->clients[kept++] = *client;
	}
	clients->n = clients->sorted = kept;
}

/*
 * Updates the rates of the clients and forgets clients without a row. Adds the queries with a
 * search domain to seen, by the role of the server.
 */
static void rate(struct dns_clients *clients, struct dns_seen *seen, uint64_t now)
{
	const struct smoothing smoothing = smoothing_since(clients->read_at_us, now, HALF_LIFE);
	const struct dns_server_state *server = NULL;
	struct dns_search before[DNS_ROLES];
	unsigned reading = ++clients->reading % DNS_READINGS;

	clients->readings[reading] = (struct dns_reading){clients->read_at_us, now};
	merge(clients);
	memcpy(before, seen->search, sizeof(before));
	for (size_t i = 0; i < clients->n; i++) {
		struct dns_client *client = &clients->clients[i];
		struct dns_search *search;
		uint64_t sent, failures;

		if (!server || !dns_address_equal(&server->key, &client->server))
			server = dns_server_find(&seen->table, &client->server);
		search = &seen->search[server && server->role < DNS_ROLES ? server->role
									  : DNS_UPSTREAM];
		/* A smaller count belongs to a row that was removed and added again. */
		if (client->now.queries < client->counts.queries)
			*client = (struct dns_client){.server = client->server,
				.source = client->source,
				.cgroup = client->cgroup,
				.now = client->now};
		/* The server's counters began with its label. */
		if (server && server->label && server->label->since_us > clients->read_at_us)
			client->before_label = client->counts.queries;
		sent = client->now.queries - client->counts.queries;
		search->queries +=
			client->now.expanded - MIN(client->counts.expanded, client->now.expanded);
		search->failed +=
			client->now.failed - MIN(client->counts.failed, client->now.failed);
		if (sent > 0)
			client->changed_at_us = now;
		client->per_second = (double)sent / smoothing.seconds;
		client->smooth = smooth(&smoothing, client->smooth, (double)sent);
		client->sent[reading] = (uint32_t)MIN(sent, (uint64_t)UINT32_MAX);
		failures =
			client->now.failures - MIN(client->counts.failures, client->now.failures);
		client->failures = smooth(&smoothing, client->failures, (double)failures);
		client->counts = client->now;
		client->now = (struct dns_client_counts){0};
	}
	for (int role = 0; role < DNS_ROLES; role++) {
		struct dns_search *search = &seen->search[role];
		double queries = (double)(search->queries - before[role].queries);
		double failed = (double)(search->failed - before[role].failed);

		search->queries_per_second =
			smooth(&smoothing, search->queries_per_second, queries);
		search->failed_per_second = smooth(&smoothing, search->failed_per_second, failed);
	}
	clients->read_at_us = now;
}

struct reading {
	struct dns_sensor *sensor;
	bool full; /* remove idle rows and rows of removed servers */
	size_t rows;
	struct dns_row_key *idle;
	size_t n_idle, allocated;
};

static void read_row(void *userdata, const void *key, const void *live)
{
	const struct dns_row counts = *(const struct dns_row *)live;
	const struct dns_row_key *row = key;
	struct reading *reading = userdata;
	struct dns_sensor *sensor = reading->sensor;
	struct dns_clients *clients = &sensor->clients;
	bool expanded = row->suffix != DNS_SUFFIX_NONE;
	struct dns_client_counts more = {counts.queries, expanded ? counts.queries : 0,
		expanded ? counts.nxdomain : 0, counts.failures};
	struct dns_client *client, wanted = {.server = row->server,
					   .source.family = row->source_family,
					   .cgroup = row->cgroup};
	struct dns_row_key *idle;

	if (row->source_family)
		memcpy(wanted.source.address, row->source, sizeof(wanted.source.address));
	client = clients->sorted == 0 ? NULL
				      : bsearch(&wanted, clients->clients, clients->sorted,
						sizeof(wanted), by_identity);
	if (!client) {
		client = add_element(&clients->clients, &clients->n, &clients->allocated);
		*client = wanted;
	}
	add_counts(&client->now, &more);
	reading->rows++;
	if (!reading->full || client->changed_at_us == 0 ||
		(sensor->now_us - client->changed_at_us < IDLE_US &&
			dns_server_find(&sensor->seen.table, &row->server)))
		return;
	idle = add_element(&reading->idle, &reading->n_idle, &reading->allocated);
	*idle = *row;
}

/* A budget is nearly used up in a second that has just been found: its clients are wanted now. */
static bool is_urgent(const struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;

	for (size_t i = 0; i < table->n_labels; i++) {
		const struct dns_second *second =
			dns_busiest_second(table->labelled[i]->label, sensor->now_us);

		if (second && second->found_us == sensor->now_us && second->share > URGENT &&
			dns_budget_is_set(&table->labelled[i]->budget))
			return true;
	}
	return false;
}

void dns_clients_read(struct dns_sensor *sensor)
{
	struct dns_clients *clients = &sensor->clients;
	uint64_t age = clients->read_at_us == 0 ? 0 : sensor->now_us - clients->read_at_us;
	uint64_t every = clients->rows > MANY_ROWS ? 10 : clients->rows > FEW_ROWS ? 2 : 1;
	struct reading reading = {
		.sensor = sensor, .full = clients->rows >= DNS_ROWS_MAX / 2 || clients->prune};

	/* Read up to half a second early rather than at the next poll, a second later. */
	if (clients->read_at_us > 0 && age + USEC_PER_SEC / 2 < every * USEC_PER_SEC &&
		!is_urgent(sensor))
		return;
	if (dns_bpf_each(sensor->bpf, DNS_MAP_ROWS, read_row, &reading) < 0)
		return;
	clients->rows = reading.rows;
	clients->prune = false;
	rate(clients, &sensor->seen, sensor->now_us);
	for (size_t i = 0; i < reading.n_idle; i++)
		(void)dns_bpf_forget(
			sensor->bpf, DNS_MAP_ROWS, &reading.idle[i], sensor->now_us, NULL);
	free(reading.idle);
	dns_name_users(sensor);
}
