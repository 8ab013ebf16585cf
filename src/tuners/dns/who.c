/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "base/text.h"
#include "workload/process.h"

#include <sys/stat.h>

/* The busiest cgroups, or addresses without one, whose workloads are looked up. */
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
		known->packets += user->packets;
		known->smooth += user->smooth;
		known->failures += user->failures;
		known->unanswered += user->unanswered;
		known->serves = known->serves || user->serves;
	} else if (*n < max) {
		list[(*n)++] = *user;
	}
}

static bool has_cgroup(const struct dns_pair *pair)
{
	return pair->cgroup != 0 && pair->cgroup != CGROUP_ROOT_INODE;
}

/*
 * The queries of the workload that has the client's source address now, without the queries
 * of earlier owners. To a service beside DNS: the packets.
 */
static uint64_t queries_of_owner(struct dns_pair_state *pair, const struct workload *workload)
{
	bool is_service = pair->server->service != DNS_NO_SERVICE;
	uint64_t queries = is_service ? pair->packets_sent : pair->queries, owner;

	/* The cgroup's, or not known yet. */
	if (workload->kind == WORKLOAD_UNIT)
		return queries - pair->before_label;
	/* The new owner is unknown: it has the queries since the last known one. */
	if (workload->kind == WORKLOAD_NETNS)
		return queries - MAX(pair->until_owner, pair->before_label);
	/* Never 0. A container may get a name, but it keeps its id. */
	owner = hash_text(HASH_START, workload->id[0] ? workload->id : workload->name) | 1;
	if (pair->owner && pair->owner != owner)
		pair->before_owner = pair->until_owner;
	pair->owner = owner;
	pair->until_owner = queries;
	return queries - MAX(pair->before_owner, pair->before_label);
}

/* Returns the workload with a source address. */
static struct workload at_address(const struct dns_sensor *sensor, const struct dns_address *source)
{
	struct workload workload = {.kind = WORKLOAD_HOST, .name = "host"};
	char text[DNS_ADDRESS_TEXT];

	if (!dns_address_is_set(source) || dns_address_is_loopback(source) ||
		dns_address_in(sensor->facts.node, sensor->facts.n_node, source))
		return workload;
	dns_address_text(source, text);
	if (names_at_address(sensor->names, text, &workload))
		return workload;
	workload = (struct workload){.kind = WORKLOAD_NETNS};
	set_text(workload.name, text);
	return workload;
}

/*
 * Returns the workload of a client. dockerd forwards queries of containers from sockets in their
 * namespaces: the container with the source address has sent them, not the unit.
 */
static struct workload who_of(const struct dns_sensor *sensor, const struct dns_pair *pair)
{
	struct workload workload, owner;

	if (!has_cgroup(pair))
		return at_address(sensor, &pair->source);
	workload = cgroups_find(sensor->cgroups, pair->cgroup);
	if (workload.kind != WORKLOAD_UNIT)
		return workload;
	owner = at_address(sensor, &pair->source);
	return owner.kind == WORKLOAD_POD || owner.kind == WORKLOAD_CONTAINER ||
			       (owner.kind == WORKLOAD_NETNS &&
				       streq(workload.name, "docker.service"))
		       ? owner
		       : workload;
}

/* Whether it is a DNS server by its name or, in a container, by a UDP socket on port 53. */
static bool process_serves(const struct host *host, pid_t pid, bool in_container)
{
	static const char *const servers[] = {"coredns", "kube-dns", "node-cache", "dnsmasq",
		"unbound", "named", "pdns_recursor", "kresd"};
	static const char *const sockets[] = {"net/udp", "net/udp6"};
	char path[64], full[PATH_MAX];
	struct stat theirs, ours;
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
		(stat(host_path(host, path, full), &theirs) == 0 &&
			stat("/proc/self/net/udp", &ours) == 0 && theirs.st_ino == ours.st_ino))
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

static bool serves(const struct dns_sensor *sensor, struct dns_pair_state *pair,
	const struct workload *workload)
{
	uint64_t now = sensor->now_us;
	pid_t pid;

	if (pair->serves_at_us > 0 && now - pair->serves_at_us < SERVES_EVERY_US)
		return pair->serves;
	pid = cgroups_process(sensor->cgroups, pair->pair.cgroup);
	pair->serves =
		pid > 0 && process_serves(sensor->host, pid, workload->kind != WORKLOAD_UNIT);
	/* The next poll checks a cgroup again that is not found yet. */
	pair->serves_at_us = pid > 0 ? now : 0;
	return pair->serves;
}

/* Finds the cgroups of the clients of the last minute, all at once. */
static void learn_cgroups(struct dns_sensor *sensor)
{
	const struct dns_pairs *pairs = &sensor->pairs;
	_cleanup_free_ uint64_t *wanted = must(calloc(pairs->n + 1, sizeof(*wanted)));
	size_t n = 0;

	for (size_t i = 0; i < pairs->n; i++)
		if (has_cgroup(&pairs->pairs[i].pair) &&
			sensor->now_us - pairs->pairs[i].changed_at_us < RECENT_US)
			wanted[n++] = pairs->pairs[i].pair.cgroup;
	cgroups_learn(sensor->cgroups, wanted, n, sensor->now_us);
}

/* A client of the server, its number in the order, and the sums of its cgroup. */
struct candidate {
	struct dns_pair_state *pair;
	double rank, sum;
	uint64_t cgroup, queries;
};

static int by_cgroup(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return (x->cgroup > y->cgroup) - (x->cgroup < y->cgroup);
}

/* The clients of a cgroup are together. */
static int by_sum(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->sum != y->sum)
		return x->sum < y->sum ? 1 : -1;
	if (x->queries != y->queries)
		return x->queries < y->queries ? 1 : -1;
	if (x->cgroup != y->cgroup)
		return by_cgroup(a, b);
	return (x->rank < y->rank) - (x->rank > y->rank);
}

static bool is_of(const struct candidate *a, const struct candidate *b)
{
	return a == b || (a->cgroup == b->cgroup && has_cgroup(&a->pair->pair));
}

/* Sorts the clients by the sums of their cgroups: a proxy sends from the addresses of many pods. */
static void sort_clients(struct candidate *clients, size_t n)
{
	for (size_t i = 0; i < n; i++)
		clients[i].cgroup = clients[i].pair->pair.cgroup;
	qsort(clients, n, sizeof(*clients), by_cgroup);
	for (size_t i = 0, end = 0; i < n; i = end) {
		uint64_t queries = 0;
		double sum = 0;

		for (; end < n && is_of(&clients[i], &clients[end]); end++) {
			sum += clients[end].rank;
			queries += clients[end].pair->queries;
		}
		for (size_t k = i; k < end; k++) {
			clients[k].sum = sum;
			clients[k].queries = queries;
		}
	}
	qsort(clients, n, sizeof(*clients), by_sum);
}

/*
 * Finds the workloads of the first clients, adds up their numbers, and sorts them by the rate. A
 * server NULL: they serve nothing.
 */
static unsigned find_users(struct dns_sensor *sensor, const struct dns_server_state *server,
	struct candidate *clients, size_t n, bool in_second, struct dns_user *users)
{
	const struct candidate *first = clients;
	unsigned kept = 0, found = 0;
	bool does_serve = false;

	sort_clients(clients, n);
	for (size_t i = 0; i < n; i++) {
		struct dns_pair_state *pair = clients[i].pair;
		struct dns_user user = {
			.per_second = in_second ? clients[i].rank : pair->per_second,
			.packets = pair->packets,
			.smooth = pair->smooth,
			.failures = pair->failures,
			.unanswered = pair->unanswered,
			.pair = pair->pair,
		};

		if (i == 0 || !is_of(first, &clients[i])) {
			first = &clients[i];
			if (found++ == CANDIDATES)
				break;
		}
		user.workload = who_of(sensor, &pair->pair);
		user.queries = queries_of_owner(pair, &user.workload);
		if (first == &clients[i])
			does_serve = server && has_cgroup(&pair->pair) &&
				     server->role == DNS_UPSTREAM &&
				     serves(sensor, pair, &user.workload);
		user.serves = does_serve;
		dns_user_add(users, &kept, CANDIDATES, &user);
	}
	qsort(users, kept, sizeof(*users), dns_user_by_rate);
	return kept;
}

/* Returns the part of the pair in the second, in the unit of the second. */
static double count_in_second(const struct dns_server_state *server,
	const struct dns_second *second, const struct dns_pair_state *pair, uint64_t now_ns)
{
	uint64_t sum = 0;

	/* The mean of a minute counts. */
	if (second->number == DNS_QUERIES && server->budget.sustained)
		return pair->smooth;
	if (!pair->bins)
		return second->number == DNS_PENDING ? pair->waiting : 0;
	if (second->number == DNS_PENDING) {
		int64_t pending = pair->waiting;

		for (uint64_t bin = second->end; bin <= now_ns / DNS_BIN_NS; bin++)
			pending -= (int16_t)pair->bins->rose[bin % DNS_BINS][DNS_PENDING];
		return (double)pending;
	}
	for (uint64_t bin = second->begin; bin < second->end; bin++)
		sum += pair->bins->rose[bin % DNS_BINS][second->number];
	return (double)sum;
}

/* Finds the clients of a second at the poll that found it; later only their present names. */
static void name_second(struct dns_sensor *sensor, const struct dns_server_state *server,
	struct dns_second *second, struct candidate *clients, struct dns_user *users)
{
	const struct dns_pairs *pairs = &sensor->pairs;
	bool link_local = server->budget.link_local && second->number == DNS_PACKETS;
	unsigned kept;
	size_t n = 0;

	for (unsigned i = 0; i < second->n_users; i++) {
		struct workload *known = &second->users[i].workload;
		struct workload now = who_of(sensor, &second->users[i].pair);

		/*
		 * A later owner of the address did not send these queries. A name stays when the
		 * runtime has forgotten it.
		 */
		if (known->kind == WORKLOAD_NETNS || known->kind == WORKLOAD_UNIT ||
			(streq(known->id, now.id) && workload_is_named(&now)))
			*known = now;
	}
	if (second->known)
		return;
	for (size_t i = 0; i < pairs->n; i++) {
		struct dns_pair_state *pair = &pairs->pairs[i];
		double count;

		if (pair->server != server && !(link_local && pair->server->watched))
			continue;
		count = count_in_second(server, second, pair, sensor->now_us * 1000);
		if (count >= 0.5)
			clients[n++] = (struct candidate){.pair = pair, .rank = count};
		if (pair->queries == 0)
			second->not_dns += link_local ? count : 0;
	}
	kept = find_users(sensor, server, clients, n, true, users);
	second->n_users = MIN(kept, (unsigned)LIMIT_TOP_MAX);
	memcpy(second->users, users, second->n_users * sizeof(*users));
	second->known = true;
}

/* The clients of a server as they are now, and those with most failures and without answers. */
static void name_now(struct dns_sensor *sensor, struct dns_server_state *server,
	struct candidate *clients, struct dns_user *users)
{
	static const size_t ranks[] = {offsetof(struct dns_pair_state, smooth),
		offsetof(struct dns_pair_state, failures),
		offsetof(struct dns_pair_state, unanswered)};
	struct dns_label *label = server->label;

	for (size_t r = 0; r < ARRAY_SIZE(ranks); r++) {
		unsigned n_users;
		size_t n = 0;

		for (size_t i = 0; i < sensor->pairs.n; i++) {
			struct dns_pair_state *pair = &sensor->pairs.pairs[i];
			double rank = *(float *)((char *)pair + ranks[r]);

			if (pair->server == server && pair->queries > 0 && (r == 0 || rank > 0))
				clients[n++] = (struct candidate){.pair = pair, .rank = rank};
		}
		n_users = find_users(sensor, server, clients, n, r > 0, users);
		if (r == 0) {
			label->n_users = MIN(n_users, (unsigned)DNS_TOP);
			memcpy(label->users, users, label->n_users * sizeof(*users));
		} else {
			*(r == 1 ? &label->failing : &label->waiting) =
				n_users > 0 ? users[0] : (struct dns_user){0};
		}
	}
}

/* The clients of a service beside DNS, by the packets of the last second. */
static void name_service(struct dns_sensor *sensor, enum dns_service service,
	struct candidate *clients, struct dns_user *users)
{
	struct dns_service_state *state = &sensor->seen.services[service];
	size_t n = 0;

	for (size_t i = 0; i < sensor->pairs.n; i++) {
		struct dns_pair_state *pair = &sensor->pairs.pairs[i];

		if (pair->server->service == service && pair->packets_sent > 0)
			clients[n++] = (struct candidate){.pair = pair, .rank = pair->packets};
	}
	state->n_users = MIN(find_users(sensor, NULL, clients, n, true, users), (unsigned)DNS_TOP);
	memcpy(state->users, users, state->n_users * sizeof(*users));
}

void dns_name_users(struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;
	_cleanup_free_ struct candidate *clients =
		must(calloc(sensor->pairs.n + 1, sizeof(*clients)));
	_cleanup_free_ struct dns_user *users = must(calloc(CANDIDATES, sizeof(*users)));

	learn_cgroups(sensor);
	for (int service = 0; service < DNS_SERVICES; service++)
		name_service(sensor, service, clients, users);
	for (size_t s = 0; s < table->n_labels; s++) {
		struct dns_server_state *server = table->labelled[s];

		name_now(sensor, server, clients, users);
		for (size_t i = 0; i < DNS_SECONDS; i++)
			if (server->label->seconds[i].found_us > 0)
				name_second(
					sensor, server, &server->label->seconds[i], clients, users);
	}
}
