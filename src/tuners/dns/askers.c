/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/askers.h"

#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Reading, sorting and naming cost up to a microsecond a row: the more, the more seldom. */
#define FEW_ROWS  256  /* every second */
#define MANY_ROWS 2048 /* every ten; between the two, every two */

/* Beyond half of the kernel's room, rows that did not change for so long make place. */
#define IDLE_US (60 * USEC_PER_SEC)

/* What is smoothed forgets half of the past in so many seconds. */
#define HALF_LIFE 20.0

/* Whose workload is looked up, of one server. */
#define CANDIDATES 64

static int by_identity(const void *a, const void *b)
{
	const struct dns_asker *x = a, *y = b;
	int order = memcmp(&x->server, &y->server, sizeof(x->server));

	if (order == 0)
		order = (x->cgroup > y->cgroup) - (x->cgroup < y->cgroup);
	return order != 0 ? order : memcmp(&x->source, &y->source, sizeof(x->source));
}

size_t dns_askers_merge(struct dns_asker *rows, size_t n)
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

static const struct dns_asker *before(const struct dns_askers *askers, const struct dns_asker *now)
{
	const struct dns_asker *old = askers->n_old == 0 ? NULL
							 : bsearch(now, askers->old, askers->n_old,
								   sizeof(*now), by_identity);

	/* What begins anew was forgotten in between. */
	return old && old->queries <= now->queries ? old : NULL;
}

void dns_askers_rate(struct dns_askers *askers, uint64_t now)
{
	bool first = askers->read_at_us == 0;
	double seconds = (double)(now - askers->read_at_us) / (double)USEC_PER_SEC;
	double keep = first ? 0 : exp2(-seconds / HALF_LIFE);

	for (size_t i = 0; i < askers->n; i++) {
		struct dns_asker *asker = &askers->askers[i];
		const struct dns_asker *old = before(askers, asker);
		uint64_t asked = asker->queries - (old ? old->queries : 0);

		asker->changed_at_us = asked > 0 || !old ? now : old->changed_at_us;
		asker->per_second = first ? 0 : (double)asked / seconds;
		asker->smooth = keep * (old ? old->smooth : 0) + (1 - keep) * asker->per_second;
	}
	askers->read_at_us = now;
}

/* Adds what came since the last reading to the role of each server. */
static void take_search(const struct dns_askers *askers, struct dns_seen *seen, double seconds)
{
	uint64_t queries[DNS_ROLES] = {0}, failed[DNS_ROLES] = {0};
	double keep = exp2(-seconds / HALF_LIFE);

	for (size_t i = 0; i < askers->n; i++) {
		const struct dns_asker *asker = &askers->askers[i], *old = before(askers, asker);
		const struct dns_server_state *server = dns_book_find(seen->book, &asker->server);
		enum dns_role role = server ? server->role : DNS_UPSTREAM;

		queries[role] += asker->expanded - (old ? MIN(old->expanded, asker->expanded) : 0);
		failed[role] += asker->failed - (old ? MIN(old->failed, asker->failed) : 0);
	}
	for (int role = 0; role < DNS_ROLES; role++) {
		struct dns_search *search = &seen->search[role];

		search->queries += queries[role];
		search->failed += failed[role];
		if (seconds <= 0)
			continue;
		search->queries_per_second = keep * search->queries_per_second +
					     (1 - keep) * (double)queries[role] / seconds;
		search->failed_per_second = keep * search->failed_per_second +
					    (1 - keep) * (double)failed[role] / seconds;
	}
}

static int by_use(const void *a, const void *b)
{
	const struct dns_user *x = a, *y = b;

	if (x->per_second != y->per_second)
		return x->per_second < y->per_second ? 1 : -1;
	return (x->queries < y->queries) - (x->queries > y->queries);
}

void dns_askers_tell(struct dns_label *label, struct dns_user *users, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < kept && !dns_who_same(&users[k].workload, &users[i].workload))
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
	if (kept > 0)
		qsort(users, kept, sizeof(*users), by_use);
	label->n_users = (unsigned)MIN(kept, DNS_TOP);
	memcpy(label->users, users, label->n_users * sizeof(*users));
}

static int by_rate(const void *a, const void *b)
{
	const struct dns_asker *x = *(const struct dns_asker *const *)a;
	const struct dns_asker *y = *(const struct dns_asker *const *)b;

	if (x->smooth != y->smooth)
		return x->smooth < y->smooth ? 1 : -1;
	return (x->queries < y->queries) - (x->queries > y->queries);
}

/* The busiest askers of one server. */
static size_t candidates_of(const struct dns_askers *askers, const struct dns_key *server,
	const struct dns_asker **all, const struct dns_asker *found[static CANDIDATES])
{
	size_t n = 0;

	for (size_t i = 0; i < askers->n; i++)
		if (dns_address_equal(&askers->askers[i].server, server))
			all[n++] = &askers->askers[i];
	if (n > 0)
		qsort(all, n, sizeof(*all), by_rate);
	n = MIN(n, CANDIDATES);
	memcpy(found, all, n * sizeof(*all));
	return n;
}

struct candidates {
	const struct dns_asker *askers[DNS_LABELS][CANDIDATES];
	size_t n[DNS_LABELS];
	uint64_t cgroups[DNS_LABELS * CANDIDATES];
	size_t n_cgroups;
	struct dns_user users[CANDIDATES];
};

static void choose(const struct dns_askers *askers, const struct dns_book *book, uint64_t root,
	const struct dns_asker **all, struct candidates *chosen)
{
	for (size_t l = 0; l < DNS_LABELS; l++) {
		if (!book->labels[l].server)
			continue;
		chosen->n[l] =
			candidates_of(askers, &book->labels[l].server->key, all, chosen->askers[l]);
		for (size_t i = 0; i < chosen->n[l]; i++)
			if (chosen->askers[l][i]->cgroup != root)
				chosen->cgroups[chosen->n_cgroups++] = chosen->askers[l][i]->cgroup;
	}
}

static void name_users(const struct dns_askers *askers, struct dns_who *who,
	const struct dns_roles *roles, uint64_t root, struct dns_book *book)
{
	const struct dns_asker **all = calloc(askers->n + 1, sizeof(const struct dns_asker *));
	struct candidates *chosen = calloc(1, sizeof(*chosen));

	/* Without memory the users of before are told of until there is some. */
	if (all && chosen) {
		choose(askers, book, root, all, chosen);
		dns_who_learn(who, chosen->cgroups, chosen->n_cgroups, askers->read_at_us);
	}
	for (size_t l = 0; all && chosen && l < DNS_LABELS; l++) {
		const struct dns_server_state *server = book->labels[l].server;
		bool upstream = server && server->role == DNS_UPSTREAM;

		for (size_t i = 0; i < chosen->n[l]; i++) {
			const struct dns_asker *asker = chosen->askers[l][i];

			chosen->users[i] = (struct dns_user){
				.workload = dns_who_find(
					who, asker->cgroup, root, &asker->source, roles),
				.queries = asker->queries,
				.per_second = asker->per_second,
				.smooth = asker->smooth,
				.serves = upstream &&
					  dns_who_serves(who, asker->cgroup, askers->read_at_us),
			};
		}
		dns_askers_tell(&book->labels[l], chosen->users, chosen->n[l]);
	}
	free(all);
	free(chosen);
}

static void add_forwarder(struct dns_seen *seen, const struct dns_user *user)
{
	unsigned i = 0;

	while (i < seen->n_forwarders &&
		!dns_who_same(&seen->forwarders[i].workload, &user->workload))
		i++;
	if (i == DNS_FORWARDERS)
		return;
	if (i == seen->n_forwarders)
		seen->forwarders[seen->n_forwarders++] =
			(struct dns_forwarder){.workload = user->workload,
				.expected = dns_who_is_node_cache(&user->workload)};
	seen->forwarders[i].per_second += user->smooth;
}

static int by_forwarded(const void *a, const void *b)
{
	const struct dns_forwarder *x = a, *y = b;

	return (x->per_second < y->per_second) - (x->per_second > y->per_second);
}

void dns_askers_forwarders(struct dns_seen *seen)
{
	seen->n_forwarders = 0;
	for (size_t l = 0; l < DNS_LABELS; l++) {
		const struct dns_label *label = &seen->book->labels[l];

		if (!label->server || label->server->role != DNS_UPSTREAM)
			continue;
		for (unsigned i = 0; i < label->n_users; i++)
			if (label->users[i].serves ||
				dns_who_is_forwarder(&label->users[i].workload))
				add_forwarder(seen, &label->users[i]);
	}
	if (seen->n_forwarders > 0)
		qsort(seen->forwarders, seen->n_forwarders, sizeof(seen->forwarders[0]),
			by_forwarded);
}

static void take_row(void *userdata, const struct dns_row_key *key, const struct dns_row *live)
{
	struct dns_askers *askers = userdata;
	const struct dns_row counts = *live;
	struct dns_asker *asker;

	if (grow_array(&askers->askers, askers->n, &askers->allocated, sizeof(*asker)) < 0)
		return;
	asker = &askers->askers[askers->n++];
	asker->server = key->server;
	asker->cgroup = key->cgroup;
	asker->queries = counts.queries;
	if (key->suffix != DNS_SUFFIX_NONE) {
		asker->expanded = counts.queries;
		asker->failed = counts.nxdomain;
	}
	if (key->source_family == 0)
		return;
	asker->source.family = key->source_family;
	memcpy(asker->source.address, key->source, sizeof(asker->source.address));
}

struct idle_rows {
	const struct dns_askers *askers;
	const struct dns_book *book;
	struct dns_row_key *keys;
	size_t n, allocated;
};

static void take_idle(void *userdata, const struct dns_row_key *key, const struct dns_row *counts)
{
	struct idle_rows *idle = userdata;
	struct dns_asker sought = {.server = key->server, .cgroup = key->cgroup};
	const struct dns_asker *asker;

	(void)counts;
	if (key->source_family > 0) {
		sought.source.family = key->source_family;
		memcpy(sought.source.address, key->source, sizeof(sought.source.address));
	}
	asker = bsearch(
		&sought, idle->askers->askers, idle->askers->n, sizeof(sought), by_identity);
	if (!asker || (dns_book_find(idle->book, &key->server) &&
			      idle->askers->read_at_us - asker->changed_at_us < IDLE_US))
		return;
	if (grow_array(&idle->keys, idle->n, &idle->allocated, sizeof(*key)) == 0)
		idle->keys[idle->n++] = *key;
}

/* Makes room in the kernel. What the removed rows had counted is in the servers' totals. */
static void prune(struct dns_askers *askers, struct dns_bpf *bpf, const struct dns_book *book)
{
	struct idle_rows idle = {.askers = askers, .book = book};

	if (askers->n == 0 || (askers->rows < DNS_ROWS_MAX / 2 && !askers->prune))
		return;
	askers->prune = false;
	(void)dns_bpf_each_row(bpf, take_idle, &idle);
	for (size_t i = 0; i < idle.n; i++)
		(void)dns_bpf_forget_row(bpf, &idle.keys[i], askers->read_at_us);
	free(idle.keys);
}

static void swap_readings(struct dns_askers *askers)
{
	struct dns_askers was = *askers;

	askers->askers = was.old;
	askers->n = was.n_old;
	askers->allocated = was.old_allocated;
	askers->old = was.askers;
	askers->n_old = was.n;
	askers->old_allocated = was.allocated;
}

static bool is_due(const struct dns_askers *askers, uint64_t now)
{
	uint64_t seconds = askers->rows > MANY_ROWS ? 10 : askers->rows > FEW_ROWS ? 2 : 1;

	/* A look a little early is better than the next one a second late. */
	return askers->read_at_us == 0 ||
	       now - askers->read_at_us + USEC_PER_SEC / 2 >= seconds * USEC_PER_SEC;
}

/* What is there in part only would look as if the rest began anew: then that of before stays. */
static bool read_rows(struct dns_askers *askers, struct dns_bpf *bpf)
{
	swap_readings(askers);
	askers->n = 0;
	if (dns_bpf_each_row(bpf, take_row, askers) < 0) {
		swap_readings(askers);
		return false;
	}
	askers->rows = askers->n;
	askers->n = dns_askers_merge(askers->askers, askers->n);
	return true;
}

void dns_askers_read(struct dns_askers *askers, struct dns_bpf *bpf, struct dns_who *who,
	const struct dns_roles *roles, struct dns_seen *seen, uint64_t now)
{
	double seconds = askers->read_at_us == 0
				 ? 0
				 : (double)(now - askers->read_at_us) / (double)USEC_PER_SEC;

	if (!is_due(askers, now) || !read_rows(askers, bpf))
		return;
	dns_askers_rate(askers, now);
	take_search(askers, seen, seconds);
	prune(askers, bpf, seen->book);
	name_users(askers, who, roles, dns_bpf_control(bpf)->root_cgroup, seen->book);
	dns_askers_forwarders(seen);
}

void dns_askers_clear(struct dns_askers *askers)
{
	free(askers->askers);
	free(askers->old);
	*askers = (struct dns_askers){0};
}
