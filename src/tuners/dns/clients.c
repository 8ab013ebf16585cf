/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "workload/process.h"

#include <math.h>
#include <sys/stat.h>

/* A row costs up to 1 us, so a larger number of rows is read less often. */
#define FEW_ROWS  256  /* up to this number every second, up to the next every 2 s */
#define MANY_ROWS 2048 /* above this number every 10 s */

/* When the kernel's table is half full, rows without queries for this long are removed. */
#define IDLE_US (60 * USEC_PER_SEC)

/* Half-life of smoothed rates in seconds. */
#define HALF_LIFE 20.0

/* The busiest clients of a server, whose workloads are looked up. */
#define CANDIDATES 64

#define SERVES_EVERY_US (60 * USEC_PER_SEC)

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
	/* Rates begin with the second reading. */
	double seconds = clients->read_at_us == 0
				 ? INFINITY
				 : (double)(now - clients->read_at_us) / (double)USEC_PER_SEC;
	double keep = exp2(-seconds / HALF_LIFE);
	const struct dns_server_state *server = NULL;
	struct dns_search before[DNS_ROLES];

	merge(clients);
	memcpy(before, seen->search, sizeof(before));
	for (size_t i = 0; i < clients->n; i++) {
		struct dns_client *client = &clients->clients[i];
		struct dns_search *search;
		uint64_t sent;

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
		client->per_second = (double)sent / seconds;
		client->smooth = keep * client->smooth + (1 - keep) * client->per_second;
		client->counts = client->now;
		client->now = (struct dns_client_counts){0};
	}
	for (int role = 0; role < DNS_ROLES; role++) {
		struct dns_search *search = &seen->search[role];
		double queries = (double)(search->queries - before[role].queries);
		double failed = (double)(search->failed - before[role].failed);

		search->queries_per_second =
			keep * search->queries_per_second + (1 - keep) * queries / seconds;
		search->failed_per_second =
			keep * search->failed_per_second + (1 - keep) * failed / seconds;
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

void dns_user_add(struct dns_user *list, unsigned *n, unsigned max, const struct dns_user *user)
{
	const struct workload *workload = &user->workload;
	unsigned i = 0;

	while (i < *n && (list[i].workload.kind != workload->kind ||
				 !streq(list[i].workload.namespace, workload->namespace) ||
				 !streq(list[i].workload.name, workload->name) ||
				 !streq(list[i].workload.id, workload->id)))
		i++;
	if (i < *n) {
		list[i].queries += user->queries;
		list[i].per_second += user->per_second;
		list[i].smooth += user->smooth;
		list[i].serves = list[i].serves || user->serves;
	} else if (i < max) {
		list[(*n)++] = *user;
	}
}

/*
 * The queries of the workload that has the client's source address now, without the queries
 * of earlier owners, and since the server has its label.
 */
static uint64_t queries_of_owner(struct dns_client *client, const struct workload *workload)
{
	const char *const parts[] = {workload->id, workload->namespace, workload->name};
	uint64_t queries = client->counts.queries;
	uint64_t owner = UINT64_C(14695981039346656037) + workload->kind;

	if (client->source.family == 0)
		return queries - client->before_label;
	/* The new owner is unknown: it has the queries since the last known one. */
	if (workload->kind == WORKLOAD_NETNS)
		return queries - MAX(client->until_owner, client->before_label);
	/* FNV-1a; never 0. */
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		for (const char *p = parts[i]; *p; p++)
			owner = (owner ^ (unsigned char)*p) * UINT64_C(1099511628211);
	owner |= 1;
	if (client->owner && client->owner != owner)
		client->before_owner = client->until_owner;
	client->owner = owner;
	client->until_owner = queries;
	return queries - MAX(client->before_owner, client->before_label);
}

/* The workload with a source address, for clients in the root cgroup. */
static struct workload at_address(const struct dns_sensor *sensor, const struct dns_key *source)
{
	struct workload workload = {.kind = WORKLOAD_HOST, .name = "host"};
	char text[DNS_ADDRESS_TEXT];

	if (source->family == 0 || dns_address_is_loopback(source) ||
		dns_address_in(sensor->env.node, sensor->env.n_node, source))
		return workload;
	dns_address_text(source, text);
	if (names_at_address(sensor->host->names, text, &workload))
		return workload;
	workload = (struct workload){.kind = WORKLOAD_NETNS};
	copy_text(workload.name, sizeof(workload.name), text);
	return workload;
}

/* Whether it is a DNS server by its name or, in a container, by a UDP socket on port 53. */
static bool process_serves(const struct host *host, pid_t pid, bool in_container)
{
	static const char *const servers[] = {"coredns", "kube-dns", "node-cache", "dnsmasq",
		"unbound", "named", "pdns_recursor", "kresd"};
	static const char *const sockets[] = {"net/udp", "net/udp6"};
	char path[64], full[PATH_MAX];
	struct stat its, ours;
	unsigned port;

	for (size_t i = 0; i < ARRAY_SIZE(servers); i++)
		if (process_is_named(host->root, pid, servers[i]))
			return true;
	/*
	 * The file lists the sockets of the whole network namespace, and the node's namespace has
	 * stub resolvers. It is also this agent's namespace: its files have the same inodes.
	 */
	snprintf(path, sizeof(path), "/proc/%d/net/udp", (int)pid);
	if (!in_container ||
		(stat(host_path(host, path, full), &its) == 0 &&
			stat("/proc/self/net/udp", &ours) == 0 && its.st_ino == ours.st_ino))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		_cleanup_free_ char *text = NULL;
		char *state = NULL, *line;

		if (process_read(host->root, pid, sockets[i], &text, NULL) < 0)
			continue;
		/* "  12: 00000000:0035 00000000:0000 07 ..." */
		for (line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
			if (sscanf(line, " %*u: %*[0-9A-F]:%x", &port) == 1 && port == 53)
				return true;
	}
	return false;
}

static bool serves(const struct dns_sensor *sensor, struct dns_client *client,
	const struct workload *workload, uint64_t now)
{
	pid_t pid;

	if (client->serves_at_us > 0 && now - client->serves_at_us < SERVES_EVERY_US)
		return client->serves;
	pid = cgroups_process(sensor->cgroups, client->cgroup);
	client->serves =
		pid > 0 && process_serves(sensor->host, pid, workload->kind != WORKLOAD_UNIT);
	/* The next reading checks a cgroup again that is not found yet. */
	client->serves_at_us = pid > 0 ? now : 0;
	return client->serves;
}

static int by_rate(const void *a, const void *b)
{
	const struct dns_client *x = *(struct dns_client *const *)a;
	const struct dns_client *y = *(struct dns_client *const *)b;

	if (x->smooth != y->smooth)
		return x->smooth < y->smooth ? 1 : -1;
	return (x->counts.queries < y->counts.queries) - (x->counts.queries > y->counts.queries);
}

static void name_users(struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;
	const struct dns_clients *clients = &sensor->clients;
	uint64_t root = dns_bpf_control(sensor->bpf)->root_cgroup;
	_cleanup_free_ struct dns_client **all = must(calloc(clients->n + 1, sizeof(*all)));
	_cleanup_free_ struct dns_user *users = must(calloc(CANDIDATES, sizeof(*users)));
	struct dns_client *chosen[DNS_LABELS][CANDIDATES];
	uint64_t wanted[DNS_LABELS * CANDIDATES];
	size_t n_chosen[DNS_LABELS], n_wanted = 0;

	/* The busiest clients of each server. */
	for (size_t s = 0; s < table->n_labels; s++) {
		size_t n = 0;

		for (size_t i = 0; i < clients->n; i++)
			if (dns_address_equal(
				    &clients->clients[i].server, &table->labelled[s]->key))
				all[n++] = &clients->clients[i];
		qsort(all, n, sizeof(*all), by_rate);
		n_chosen[s] = MIN(n, CANDIDATES);
		for (size_t i = 0; i < n_chosen[s]; i++) {
			chosen[s][i] = all[i];
			if (all[i]->cgroup != root)
				wanted[n_wanted++] = all[i]->cgroup;
		}
	}
	cgroups_learn(sensor->cgroups, wanted, n_wanted, clients->read_at_us);
	for (size_t s = 0; s < table->n_labels; s++) {
		const struct dns_server_state *server = table->labelled[s];
		struct dns_label *label = server->label;
		unsigned kept = 0;

		for (size_t i = 0; i < n_chosen[s]; i++) {
			struct dns_client *client = chosen[s][i];
			struct dns_user user;
			bool known = client->cgroup != root;

			user.per_second = client->per_second;
			user.smooth = client->smooth;
			user.workload = known ? cgroups_find(sensor->cgroups, client->cgroup)
					      : at_address(sensor, &client->source);
			user.queries = queries_of_owner(client, &user.workload);
			user.serves = known && server->role == DNS_UPSTREAM &&
				      serves(sensor, client, &user.workload, clients->read_at_us);
			dns_user_add(users, &kept, CANDIDATES, &user);
		}
		qsort(users, kept, sizeof(*users), by_use);
		label->n_users = MIN(kept, DNS_TOP);
		memcpy(label->users, users, label->n_users * sizeof(*users));
	}
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
	struct dns_client_counts more = {
		counts.queries, expanded ? counts.queries : 0, expanded ? counts.nxdomain : 0};
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

void dns_clients_read(struct dns_sensor *sensor)
{
	struct dns_clients *clients = &sensor->clients;
	uint64_t age = clients->read_at_us == 0 ? 0 : sensor->now_us - clients->read_at_us;
	uint64_t every = clients->rows > MANY_ROWS ? 10 : clients->rows > FEW_ROWS ? 2 : 1;
	struct reading reading = {
		.sensor = sensor, .full = clients->rows >= DNS_ROWS_MAX / 2 || clients->prune};

	/* Read up to half a second early rather than at the next poll, a second later. */
	if (clients->read_at_us > 0 && age + USEC_PER_SEC / 2 < every * USEC_PER_SEC)
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
	name_users(sensor);
}
