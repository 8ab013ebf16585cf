/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include <search.h>

/* The kernel's servers, the zero key and the pinned servers. */
#define SERVERS_MAX (DNS_SERVERS_MAX + 1 + DNS_PINNED_MAX)

/* A server without queries for this long loses its label to any server with queries. */
#define LABEL_IDLE_US (600 * USEC_PER_SEC)

const char *const dns_role_names[DNS_ROLES + 1] = {[DNS_LOCAL] = "local",
	[DNS_CLUSTER] = "cluster",
	[DNS_UPSTREAM] = "upstream",
	[DNS_NO_ROLE] = ""};

bool dns_budget_is_set(const struct dns_budget *budget)
{
	return budget->max[DNS_QUERIES] || budget->max[DNS_PACKETS] || budget->max[DNS_PENDING];
}

/* The key is the first member of a server. */
static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct dns_key));
}

struct dns_server_state *dns_server_find(
	const struct dns_server_table *table, const struct dns_key *key)
{
	struct dns_server_state **found = tfind(key, &table->tree, by_key);

	return found ? *found : NULL;
}

struct dns_server_state *dns_server_get(struct dns_server_table *table, const struct dns_key *key)
{
	struct dns_server_state *server = dns_server_find(table, key);

	if (server || table->n == SERVERS_MAX)
		return server;
	server = must(calloc(1, sizeof(*server)));
	server->key = *key;
	server->role = DNS_UPSTREAM;
	dns_address_text(key, server->name);
	*add_element(&table->servers, &table->n, &table->allocated) = server;
	must(tsearch(server, &table->tree, by_key));
	return server;
}

static void release(void *data)
{
	struct dns_server_state *server = data;

	free(server->label);
	free(server);
}

void dns_server_remove(struct dns_server_table *table, size_t i)
{
	struct dns_server_state *server = table->servers[i];

	table->servers[i] = table->servers[--table->n];
	tdelete(server, &table->tree, by_key);
	release(server);
}

void dns_server_table_clear(struct dns_server_table *table)
{
	tdestroy(table->tree, release);
	free(table->servers);
	*table = (struct dns_server_table){0};
}

uint64_t dns_queries(const struct dns_totals *totals)
{
	return totals->queries[DNS_UDP] + totals->queries[DNS_TCP];
}

static struct dns_totals *reported_of(
	struct dns_server_table *table, const struct dns_server_state *server)
{
	return server->label ? &server->label->reported : &table->others;
}

/* Adds the members of more that rose above before, which may be NULL. */
static bool add_totals(
	struct dns_totals *to, const struct dns_totals *more, const struct dns_totals *before)
{
	static const struct dns_totals none;
	const __u64 *new = (const __u64 *)more, *old = (const __u64 *)(before ? before : &none);
	__u64 *sum = (__u64 *)to;
	bool rose = false;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*sum); i++) {
		/* A counter may fall a little if the kernel writes during the reading. */
		if (new[i] <= old[i])
			continue;
		sum[i] += new[i] - old[i];
		rose = true;
	}
	return rose;
}

/* The kernel's counters with the sums that only user space needs. */
static struct dns_totals totals_of(const struct dns_server *counts)
{
	struct dns_totals totals = counts->totals;

	totals.packets = totals.queries[DNS_UDP] + totals.other_packets;
	for (size_t i = 0; i < DNS_LATENCY_BUCKETS; i++)
		totals.answered += totals.latency[i];
	return totals;
}

void dns_server_add_others(struct dns_server_table *table, const struct dns_server_state *server,
	const struct dns_server *counts)
{
	const struct dns_totals totals = totals_of(counts);

	add_totals(&table->others, &totals, server ? &server->totals : NULL);
}

uint64_t dns_server_update(struct dns_server_table *table, struct dns_server_state *server,
	const struct dns_server *counts, uint64_t now)
{
	const struct dns_totals before = server->totals, totals = totals_of(counts);
	struct dns_slot *slot;
	uint64_t queries;

	dns_minute_pass(server, now);
	if (add_totals(&server->totals, &totals, &before))
		server->changed_at_us = now;
	queries = dns_queries(&server->totals) - dns_queries(&before);
	slot = &server->slots[server->slot % DNS_SLOTS];
	slot->queries += queries;
	table->malformed += server->totals.malformed - before.malformed;
	/* First the label: the queries that earn it are its first ones. */
	if (queries > 0)
		dns_label_claim(table, server, now);
	add_totals(reported_of(table, server), &server->totals, &before);
	dns_server_add_unknown(table, server, server->totals.displaced - before.displaced);
	/* Sent more than a timeout ago: not later than the queries were counted. */
	dns_server_add_unanswered(table, server, server->totals.expired - before.expired,
		now - MIN(now, 2 * DNS_TIMEOUT_NS / 1000));
	/* After 2^32 queries, a month of 100,000 per second, a bin counts one packet too many. */
	for (size_t i = 0; i < DNS_BINS; i++) {
		server->query_bins[i] = (uint32_t)counts->bins[i];
		server->packet_bins[i] = (uint32_t)(counts->bins[i] / DNS_BIN_PACKET);
	}
	for (size_t i = 0; i < DNS_RCODES; i++)
		slot->responses[i] += (uint32_t)(server->totals.responses[i] - before.responses[i]);
	return queries;
}

void dns_server_add_unanswered(struct dns_server_table *table, struct dns_server_state *server,
	uint64_t n, uint64_t sent_us)
{
	uint64_t slot = MIN(sent_us / DNS_SLOT_US, server->slot);

	server->totals.unanswered += n;
	reported_of(table, server)->unanswered += n;
	/* The slot that has the queries, so that a minute never has more unanswered than sent. */
	if (server->slot - slot < DNS_SLOTS)
		server->slots[slot % DNS_SLOTS].unanswered += n;
}

void dns_server_add_unknown(
	struct dns_server_table *table, struct dns_server_state *server, uint64_t n)
{
	table->unknown += n;
	server->totals.unknown += n;
	reported_of(table, server)->unknown += n;
	server->slots[server->slot % DNS_SLOTS].unknown += n;
}

void dns_minute_pass(struct dns_server_state *server, uint64_t now)
{
	uint64_t slot = now / DNS_SLOT_US;

	if (slot > server->slot + DNS_SLOTS)
		server->slot = slot - DNS_SLOTS;
	while (server->slot < slot)
		server->slots[++server->slot % DNS_SLOTS] = (struct dns_slot){0};
	server->slots[server->slot % DNS_SLOTS].pending =
		MAX(server->slots[server->slot % DNS_SLOTS].pending, server->pending);
}

struct dns_slot dns_minute(const struct dns_server_state *server)
{
	struct dns_slot minute = {.pending = server->pending};

	for (size_t i = 0; i < DNS_SLOTS; i++) {
		minute.queries += server->slots[i].queries;
		minute.unanswered += server->slots[i].unanswered;
		minute.unknown += server->slots[i].unknown;
		minute.pending = MAX(minute.pending, server->slots[i].pending);
		for (size_t k = 0; k < DNS_RCODES; k++)
			minute.responses[k] += server->slots[i].responses[k];
	}
	return minute;
}

uint64_t dns_failures(const struct dns_slot *minute)
{
	return (uint64_t)minute->responses[DNS_FORMERR] + minute->responses[DNS_SERVFAIL] +
	       minute->responses[DNS_NOTIMP] + minute->responses[DNS_REFUSED];
}

uint64_t dns_answers(const struct dns_slot *minute)
{
	uint64_t sum = 0;

	for (int i = 0; i < DNS_RCODES; i++)
		sum += minute->responses[i];
	return sum;
}

/* A server with a budget always has a label. */
static uint64_t weight(const struct dns_server_state *server)
{
	return server->pinned || dns_budget_is_set(&server->budget) ? UINT64_MAX / 4
								    : dns_minute(server).queries;
}

/* Series must be stable: only a much busier server gets the label of another that is not idle. */
void dns_label_claim(struct dns_server_table *table, struct dns_server_state *server, uint64_t now)
{
	struct dns_server_state **least = table->labelled;
	uint64_t mine = weight(server), its;

	if (server->label || server->key.family == 0)
		return;
	if (table->n_labels < DNS_LABELS) {
		least = &table->labelled[table->n_labels++];
	} else {
		/* The label of the least busy server; among equals, of the one idle longest. */
		its = weight(*least);
		for (size_t k = 1; k < DNS_LABELS; k++) {
			struct dns_server_state **at = &table->labelled[k];
			uint64_t that = weight(*at);

			if (that > its ||
				(that == its && (*at)->changed_at_us >= (*least)->changed_at_us))
				continue;
			least = at;
			its = that;
		}
		if (mine <= 2 * its + 60 &&
			(mine == 0 || its > 0 || now - (*least)->changed_at_us <= LABEL_IDLE_US))
			return;
		/* The sum of all series never falls. */
		add_totals(&table->others, &(*least)->label->reported, NULL);
		free(steal((*least)->label));
	}
	server->label = must(calloc(1, sizeof(*server->label)));
	server->label->since_us = now;
	*least = server;
}
