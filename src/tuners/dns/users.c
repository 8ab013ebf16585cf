/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/text.h"
#include "workload/process.h"

#include <sys/stat.h>

/* The busiest clients of a server, whose workloads are looked up. */
#define CANDIDATES 64

#define SERVES_EVERY_US (60 * USEC_PER_SEC)

/* The cgroups of clients without queries for this long are not searched. */
#define RECENT_US (60 * USEC_PER_SEC)

int dns_user_by_rate(const void *a, const void *b)
{
	const struct dns_user *x = a, *y = b;

	if (x->per_second != y->per_second)
		return x->per_second < y->per_second ? 1 : -1;
	return (x->queries < y->queries) - (x->queries > y->queries);
}

const struct dns_user *dns_user_find(
	const struct dns_user *list, unsigned n, const struct workload *workload)
{
	for (unsigned i = 0; i < n; i++)
		if (workload_equal(&list[i].workload, workload))
			return &list[i];
	return NULL;
}

void dns_user_add(struct dns_user *list, unsigned *n, unsigned max, const struct dns_user *user)
{
	struct dns_user *known = (struct dns_user *)dns_user_find(list, *n, &user->workload);

	if (known) {
		known->queries += user->queries;
		known->per_second += user->per_second;
		known->smooth += user->smooth;
		known->serves = known->serves || user->serves;
	} else if (*n < max) {
		list[(*n)++] = *user;
	}
}

/*
 * The queries of the workload that has the client's source address now, without the queries
 * of earlier owners.
 */
static uint64_t queries_of_owner(struct dns_client *client, const struct workload *workload)
{
	const char *const parts[] = {workload->id, workload->namespace, workload->name};
	uint64_t queries = client->counts.queries;
	uint64_t owner = HASH_START + workload->kind;

	if (client->source.family == 0)
		return queries - client->before_label;
	/* The new owner is unknown: it has the queries since the last known one. */
	if (workload->kind == WORKLOAD_NETNS)
		return queries - MAX(client->until_owner, client->before_label);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		owner = hash_text(owner, parts[i]);
	owner |= 1; /* never 0 */
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
	if (names_at_address(sensor->names, text, &workload))
		return workload;
	workload = (struct workload){.kind = WORKLOAD_NETNS};
	set_text(workload.name, text);
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

static int by_second(const void *a, const void *b)
{
	const struct dns_client *x = *(struct dns_client *const *)a;
	const struct dns_client *y = *(struct dns_client *const *)b;

	return (x->in_second < y->in_second) - (x->in_second > y->in_second);
}

/*
 * Computes the queries of each client in the second. A burst is not spread evenly over its bin: the
 * queries that one of two readings cannot have had were in the other one.
 */
static void count_in_second(const struct dns_clients *clients, const struct dns_second *second,
	struct dns_client **all, size_t n)
{
	double within[DNS_READINGS], sums[DNS_READINGS] = {0}, rest = 0;

	for (unsigned r = 0; r < DNS_READINGS; r++) {
		double spread = dns_second_within(second, &clients->readings[r]);

		for (size_t i = 0; i < n; i++)
			sums[r] += all[i]->sent[r];
		within[r] = MIN(spread, sums[r]);
		rest += spread - within[r];
	}
	for (unsigned r = 0; r < DNS_READINGS; r++) {
		double more = MIN(rest, sums[r] - within[r]);

		if (!dns_second_meets(second, &clients->readings[r]))
			continue;
		within[r] += more;
		rest -= more;
	}
	for (size_t i = 0; i < n; i++) {
		all[i]->in_second = 0;
		for (unsigned r = 0; r < DNS_READINGS; r++)
			if (sums[r] > 0)
				all[i]->in_second += within[r] / sums[r] * all[i]->sent[r];
	}
}

/* Finds the cgroups of the clients of the last minute, all at once. */
static void learn_cgroups(struct dns_sensor *sensor)
{
	const struct dns_clients *clients = &sensor->clients;
	const struct dns_control *control = dns_bpf_control(sensor->bpf);
	_cleanup_free_ uint64_t *wanted = must(calloc(clients->n + 1, sizeof(*wanted)));
	size_t n = 0;

	for (size_t i = 0; i < clients->n; i++)
		if (clients->clients[i].cgroup != control->root_cgroup &&
			clients->read_at_us - clients->clients[i].changed_at_us < RECENT_US)
			wanted[n++] = clients->clients[i].cgroup;
	if (cgroups_learn(sensor->cgroups, wanted, n, clients->read_at_us))
		for (size_t i = 0; i < DNS_ENDED; i++)
			cgroups_name(
				sensor->cgroups, control->ended[i].cgroup, control->ended[i].path);
}

static struct workload workload_of(
	const struct dns_sensor *sensor, uint64_t cgroup, const struct dns_key *source)
{
	return cgroup == dns_bpf_control(sensor->bpf)->root_cgroup
		       ? at_address(sensor, source)
		       : cgroups_find(sensor->cgroups, cgroup);
}

/* Finds the workloads of the first clients, adds up their numbers, and sorts them by the rate. */
static unsigned find_users(struct dns_sensor *sensor, const struct dns_server_state *server,
	struct dns_client **first, size_t n, bool in_second, struct dns_user *users)
{
	unsigned kept = 0;

	for (size_t i = 0; i < MIN(n, CANDIDATES); i++) {
		struct dns_client *client = first[i];
		struct dns_user user = {
			.per_second = in_second ? client->in_second : client->per_second,
			.smooth = client->smooth,
			.failures = client->failures,
			.cgroup = client->cgroup,
			.source = client->source,
			.workload = workload_of(sensor, client->cgroup, &client->source),
		};

		user.queries = queries_of_owner(client, &user.workload);
		user.serves = client->source.family == 0 && server->role == DNS_UPSTREAM &&
			      serves(sensor, client, &user.workload, sensor->clients.read_at_us);
		dns_user_add(users, &kept, CANDIDATES, &user);
	}
	qsort(users, kept, sizeof(*users), dns_user_by_rate);
	return kept;
}

/*
 * The senders of the packets that share the budget, if most of the packets are not queries, or if
 * the budget is of a single address. Their seconds are known at the poll that found the second.
 */
static unsigned find_senders(const struct dns_sensor *sensor, const struct dns_server_state *server,
	const struct dns_second *second, struct dns_user *users)
{
	const struct dns_seen *seen = &sensor->seen;
	unsigned kept = 0;

	if (!server->budget.link_local || second->found_us != sensor->now_us ||
		(second->packets < 2 * second->queries && sensor->env.uplinks <= 1))
		return 0;
	for (unsigned i = 0; i < seen->n_senders; i++) {
		const struct dns_sender *sender = &seen->senders[i];
		const struct dns_user user = {.per_second = sender->seconds.poll_peak,
			.workload = at_address(sensor, &sender->source),
			.cgroup = dns_bpf_control(sensor->bpf)->root_cgroup,
			.source = sender->source};

		if (user.per_second > 0)
			dns_user_add(users, &kept, CANDIDATES, &user);
	}
	qsort(users, kept, sizeof(*users), dns_user_by_rate);
	return kept;
}

/* Finds the clients of a second, or only their present names. */
static void name_second(struct dns_sensor *sensor, const struct dns_server_state *server,
	struct dns_second *second, struct dns_client **all, size_t n)
{
	_cleanup_free_ struct dns_user *users = NULL;
	unsigned kept;

	for (unsigned i = 0; i < second->n_users; i++)
		second->users[i].workload =
			workload_of(sensor, second->users[i].cgroup, &second->users[i].source);
	if (second->known)
		return;
	users = must(calloc(CANDIDATES, sizeof(*users)));
	kept = find_senders(sensor, server, second, users);
	second->of_packets = kept > 0;
	if (kept == 0) {
		count_in_second(&sensor->clients, second, all, n);
		/* The mean of a minute counts. */
		for (size_t i = 0; server->budget.sustained && i < n; i++)
			all[i]->in_second = all[i]->smooth;
		qsort(all, n, sizeof(*all), by_second);
		kept = find_users(sensor, server, all, n, true, users);
	}
	while (kept > 0 && users[kept - 1].per_second < 0.5)
		kept--;
	second->n_users = MIN(kept, (unsigned)LIMIT_TOP_MAX);
	memcpy(second->users, users, second->n_users * sizeof(*users));
	second->known = true;
}

static int by_failures(const void *a, const void *b)
{
	const struct dns_client *x = *(struct dns_client *const *)a;
	const struct dns_client *y = *(struct dns_client *const *)b;

	return (x->failures < y->failures) - (x->failures > y->failures);
}

void dns_name_users(struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;
	const struct dns_clients *clients = &sensor->clients;
	_cleanup_free_ struct dns_client **all = must(calloc(clients->n + 1, sizeof(*all)));
	_cleanup_free_ struct dns_user *users = must(calloc(CANDIDATES, sizeof(*users)));

	learn_cgroups(sensor);
	for (size_t s = 0; s < table->n_labels; s++) {
		const struct dns_server_state *server = table->labelled[s];
		struct dns_label *label = server->label;
		size_t n = 0, failing = 0;

		for (size_t i = 0; i < clients->n; i++) {
			if (!dns_address_equal(&clients->clients[i].server, &server->key))
				continue;
			all[n++] = &clients->clients[i];
			failing += clients->clients[i].failures > 0;
		}
		label->failing.failures = 0;
		if (failing > 0) {
			qsort(all, n, sizeof(*all), by_failures);
			(void)find_users(sensor, server, all, 1, false, &label->failing);
		}
		qsort(all, n, sizeof(*all), by_rate);
		label->n_users =
			MIN(find_users(sensor, server, all, n, false, users), (unsigned)DNS_TOP);
		memcpy(label->users, users, label->n_users * sizeof(*users));
		for (size_t i = 0; i < DNS_SECONDS; i++)
			if (label->seconds[i].found_us > 0)
				name_second(sensor, server, &label->seconds[i], all, n);
	}
}
