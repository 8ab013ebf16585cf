/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/util.h"
#include "workload/names.h"

#include <math.h>
#include <stdlib.h>

/* Reading, sorting and naming cost up to a microsecond a row: the more rows, the less often. */
#define FEW_ROWS  256  /* every second */
#define MANY_ROWS 2048 /* every ten; between the two, every two */

/* When the kernel's room is half used up, rows without queries for this long are removed. */
#define IDLE_US (60 * USEC_PER_SEC)

/* Seconds in which smoothed rates forget half of the past. */
#define HALF_LIFE 20.0

/* Clients of one server whose workload is looked up. */
#define CANDIDATES 64

#define SERVES_EVERY_US (60 * USEC_PER_SEC)

static int by_identity(const void *a, const void *b)
{
	const struct dns_client *x = a, *y = b;
	int order = memcmp(&x->server, &y->server, sizeof(x->server));

	if (order == 0)
		order = (x->cgroup > y->cgroup) - (x->cgroup < y->cgroup);
	return order != 0 ? order : memcmp(&x->source, &y->source, sizeof(x->source));
}

size_t dns_clients_merge(struct dns_client *rows, size_t n)
{
	size_t kept = 0;

	if (n == 0)
		return 0;
	qsort(rows, n, sizeof(*rows), by_identity);
	for (size_t i = 1; i < n; i++) {
		if (by_identity(&rows[kept], &rows[i]) == 0) {
			rows[kept].queries += rows[i].queries;
			rows[kept].expanded += rows[i].expanded;
			rows[kept].failed += rows[i].failed;
		} else {
			rows[++kept] = rows[i];
		}
	}
	return kept + 1;
}

static const struct dns_client *find(
	const struct dns_reading *reading, const struct dns_client *wanted)
{
	return reading->n == 0 ? NULL
			       : bsearch(wanted, reading->clients, reading->n, sizeof(*wanted),
					 by_identity);
}

void dns_clients_rate(struct dns_clients *clients, struct dns_seen *seen, uint64_t now)
{
	static const struct dns_client unknown;
	bool first = clients->read_at_us == 0;
	double seconds = first ? 0 : (double)(now - clients->read_at_us) / (double)USEC_PER_SEC;
	double keep = first ? 0 : exp2(-seconds / HALF_LIFE);
	uint64_t expanded[DNS_ROLES] = {0}, failed[DNS_ROLES] = {0};

	for (size_t i = 0; i < clients->now.n; i++) {
		struct dns_client *client = &clients->now.clients[i];
		const struct dns_client *found = find(&clients->old, client);
		/* A count that begins anew was forgotten in between. */
		bool known = found && found->queries <= client->queries;
		const struct dns_client *old = known ? found : &unknown;
		const struct dns_server_state *server =
			dns_server_find(seen->table, &client->server);
		enum dns_role role = server ? server->role : DNS_UPSTREAM;
		uint64_t sent = client->queries - old->queries;

		expanded[role] += client->expanded - MIN(old->expanded, client->expanded);
		failed[role] += client->failed - MIN(old->failed, client->failed);
		client->changed_at_us = sent > 0 || !known ? now : old->changed_at_us;
		client->per_second = first ? 0 : (double)sent / seconds;
		client->smooth = keep * old->smooth + (1 - keep) * client->per_second;
		client->owner = old->owner;
		client->before_owner = old->before_owner;
		client->until_owner = old->until_owner;
		client->serves = old->serves;
		client->serves_at_us = old->serves_at_us;
	}
	for (int role = 0; role < DNS_ROLES; role++) {
		struct dns_search *search = &seen->search[role];

		search->queries += expanded[role];
		search->failed += failed[role];
		if (first)
			continue;
		search->queries_per_second = keep * search->queries_per_second +
					     (1 - keep) * (double)expanded[role] / seconds;
		search->failed_per_second = keep * search->failed_per_second +
					    (1 - keep) * (double)failed[role] / seconds;
	}
	clients->read_at_us = now;
}

static int by_use(const void *a, const void *b)
{
	const struct dns_user *x = a, *y = b;

	if (x->per_second != y->per_second)
		return x->per_second < y->per_second ? 1 : -1;
	return (x->queries < y->queries) - (x->queries > y->queries);
}

void dns_label_take_users(struct dns_label *label, struct dns_user *users, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < kept && !dns_workload_same(&users[k].workload, &users[i].workload))
			k++;
		if (k == kept) {
			users[kept++] = users[i];
			continue;
		}
		users[k].queries += users[i].queries;
		users[k].per_second += users[i].per_second;
		users[k].smooth += users[i].smooth;
		users[k].serves = users[k].serves || users[i].serves;
	}
	qsort(users, kept, sizeof(*users), by_use);
	label->n_users = (unsigned)MIN(kept, DNS_TOP);
	memcpy(label->users, users, label->n_users * sizeof(*users));
}

static uint64_t hash_of(const struct workload *workload)
{
	const char *const parts[] = {workload->id, workload->namespace, workload->name};
	uint64_t hash = UINT64_C(14695981039346656037) + workload->kind;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (const char *p = parts[i]; *p; p++)
			hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
	return hash | 1;
}

uint64_t dns_client_queries(struct dns_client *client, const struct workload *workload)
{
	uint64_t owner;

	if (client->source.family == 0)
		return client->queries;
	/* No known owner now: what came since the last one is of one not known yet. */
	if (workload->kind == WORKLOAD_NETNS)
		return client->queries - client->until_owner;
	owner = hash_of(workload);
	if (client->owner && client->owner != owner)
		client->before_owner = client->until_owner;
	client->owner = owner;
	client->until_owner = client->queries;
	return client->queries - client->before_owner;
}

/* The workload that has a source address, for cgroups that tell nothing. */
static struct workload at_address(const struct dns_sensor *sensor, const struct dns_key *source)
{
	struct workload workload = {.kind = WORKLOAD_HOST, .name = "host"};
	char text[DNS_ADDRESS_TEXT];

	if (source->family == 0 || dns_address_is_loopback(source) ||
		dns_host_env_is_node(&sensor->env, source))
		return workload;
	dns_address_text(source, text);
	if (names_at_address(sensor->host->names, text, &workload))
		return workload;
	workload = (struct workload){.kind = WORKLOAD_NETNS};
	copy_text(workload.name, sizeof(workload.name), text);
	return workload;
}

static bool serves(const struct dns_sensor *sensor, struct dns_client *client,
	const struct workload *workload, uint64_t now)
{
	pid_t pid;

	if (client->serves_at_us > 0 && now - client->serves_at_us < SERVES_EVERY_US)
		return client->serves;
	pid = cgroups_process(sensor->cgroups, client->cgroup);
	client->serves =
		pid > 0 && dns_process_serves(sensor->host, pid, workload->kind != WORKLOAD_UNIT);
	/* A cgroup that is not found yet is checked again with the next reading. */
	client->serves_at_us = pid > 0 ? now : 0;
	return client->serves;
}

static int by_rate(const void *a, const void *b)
{
	const struct dns_client *x = *(struct dns_client *const *)a;
	const struct dns_client *y = *(struct dns_client *const *)b;

	if (x->smooth != y->smooth)
		return x->smooth < y->smooth ? 1 : -1;
	return (x->queries < y->queries) - (x->queries > y->queries);
}

struct candidates {
	struct dns_client *clients[DNS_LABELS][CANDIDATES];
	size_t n[DNS_LABELS];
	uint64_t cgroups[DNS_LABELS * CANDIDATES];
	size_t n_cgroups;
	struct dns_user users[CANDIDATES];
};

/* The busiest clients of each server with a label; all has room for every client. */
static void choose(const struct dns_clients *clients, const struct dns_server_table *table,
	uint64_t root, struct dns_client **all, struct candidates *chosen)
{
	for (size_t l = 0; l < DNS_LABELS; l++) {
		size_t n = 0;

		if (!table->labels[l].server)
			continue;
		for (size_t i = 0; i < clients->now.n; i++)
			if (dns_address_equal(
				    &clients->now.clients[i].server, &table->labels[l].server->key))
				all[n++] = &clients->now.clients[i];
		qsort(all, n, sizeof(*all), by_rate);
		chosen->n[l] = MIN(n, CANDIDATES);
		memcpy(chosen->clients[l], all, chosen->n[l] * sizeof(*all));
		for (size_t i = 0; i < chosen->n[l]; i++)
			if (all[i]->cgroup != root)
				chosen->cgroups[chosen->n_cgroups++] = all[i]->cgroup;
	}
}

static void name_users(struct dns_sensor *sensor)
{
	const struct dns_clients *clients = &sensor->clients;
	struct dns_server_table *table = &sensor->table;
	uint64_t root = dns_bpf_control(sensor->bpf)->root_cgroup;
	_cleanup_free_ struct dns_client **all = calloc(clients->now.n + 1, sizeof(*all));
	_cleanup_free_ struct candidates *chosen = calloc(1, sizeof(*chosen));

	/* Without memory the users of before are reported until there is some. */
	if (!all || !chosen)
		return;
	choose(clients, table, root, all, chosen);
	cgroups_learn(sensor->cgroups, chosen->cgroups, chosen->n_cgroups, clients->read_at_us);
	for (size_t l = 0; l < DNS_LABELS; l++) {
		for (size_t i = 0; i < chosen->n[l]; i++) {
			struct dns_client *client = chosen->clients[l][i];
			struct dns_user *user = &chosen->users[i];
			bool known = client->cgroup != root;

			user->workload = known ? cgroups_find(sensor->cgroups, client->cgroup)
					       : at_address(sensor, &client->source);
			user->queries = dns_client_queries(client, &user->workload);
			user->per_second = client->per_second;
			user->smooth = client->smooth;
			user->serves = known && table->labels[l].server->role == DNS_UPSTREAM &&
				       serves(sensor, client, &user->workload, clients->read_at_us);
		}
		dns_label_take_users(&table->labels[l], chosen->users, chosen->n[l]);
	}
}

static struct dns_client client_of(const struct dns_row_key *key)
{
	struct dns_client client = {
		.server = key->server, .source.family = key->source_family, .cgroup = key->cgroup};

	if (key->source_family)
		memcpy(client.source.address, key->source, sizeof(client.source.address));
	return client;
}

static void take_row(void *userdata, const void *row, const void *live)
{
	const struct dns_row counts = *(const struct dns_row *)live;
	const struct dns_row_key *key = row;
	struct dns_clients *clients = userdata;
	struct dns_client *client;

	if (grow_array(&clients->now.clients, clients->now.n, &clients->now.allocated,
		    sizeof(*client)) < 0)
		return;
	client = &clients->now.clients[clients->now.n++];
	*client = client_of(key);
	client->queries = counts.queries;
	if (key->suffix == DNS_SUFFIX_NONE)
		return;
	client->expanded = counts.queries;
	client->failed = counts.nxdomain;
}

struct idle_rows {
	const struct dns_clients *clients;
	const struct dns_server_table *table;
	struct dns_row_key *keys;
	size_t n, allocated;
};

static void take_idle(void *userdata, const void *row, const void *counts)
{
	const struct dns_row_key *key = row;
	struct idle_rows *idle = userdata;
	struct dns_client wanted = client_of(key);
	const struct dns_client *client = find(&idle->clients->now, &wanted);

	(void)counts;
	if (!client || (dns_server_find(idle->table, &key->server) &&
			       idle->clients->read_at_us - client->changed_at_us < IDLE_US))
		return;
	if (grow_array(&idle->keys, idle->n, &idle->allocated, sizeof(*key)) == 0)
		idle->keys[idle->n++] = *key;
}

/* Makes room in the kernel. What the removed rows had counted is in the servers' totals. */
static void prune(
	struct dns_clients *clients, struct dns_bpf *bpf, const struct dns_server_table *table)
{
	struct idle_rows idle = {.clients = clients, .table = table};

	if (clients->now.n == 0 || (clients->rows < DNS_ROWS_MAX / 2 && !clients->prune))
		return;
	clients->prune = false;
	(void)dns_bpf_each(bpf, DNS_MAP_ROWS, take_idle, &idle);
	for (size_t i = 0; i < idle.n; i++)
		(void)dns_bpf_forget(bpf, DNS_MAP_ROWS, &idle.keys[i], clients->read_at_us);
	free(idle.keys);
}

static void swap_readings(struct dns_clients *clients)
{
	struct dns_reading was = clients->now;

	clients->now = clients->old;
	clients->old = was;
}

void dns_clients_read(struct dns_sensor *sensor, struct dns_seen *seen)
{
	struct dns_clients *clients = &sensor->clients;
	uint64_t age = clients->read_at_us == 0 ? 0 : sensor->now_us - clients->read_at_us;
	uint64_t every = clients->rows > MANY_ROWS ? 10 : clients->rows > FEW_ROWS ? 2 : 1;

	/* A reading a little early is better than the next one a second late. */
	if (clients->read_at_us > 0 && age + USEC_PER_SEC / 2 < every * USEC_PER_SEC)
		return;
	swap_readings(clients);
	clients->now.n = 0;
	/* An incomplete reading would look as if the rest began anew: the one before stays. */
	if (dns_bpf_each(sensor->bpf, DNS_MAP_ROWS, take_row, clients) < 0) {
		swap_readings(clients);
		return;
	}
	clients->rows = clients->now.n;
	clients->now.n = dns_clients_merge(clients->now.clients, clients->now.n);
	dns_clients_rate(clients, seen, sensor->now_us);
	prune(clients, sensor->bpf, seen->table);
	name_users(sensor);
	dns_forwarders_list(seen);
}

void dns_clients_clear(struct dns_clients *clients)
{
	free(clients->now.clients);
	free(clients->old.clients);
	*clients = (struct dns_clients){0};
}
