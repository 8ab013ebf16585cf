/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include <search.h>

/* A server without queries for this long loses its label to any server with queries. */
#define LABEL_IDLE_US (600 * USEC_PER_SEC)

const char *const dns_role_names[DNS_ROLES + 1] = {[DNS_LOCAL] = "local",
	[DNS_CLUSTER] = "cluster",
	[DNS_UPSTREAM] = "upstream",
	[DNS_NO_ROLE] = ""};

const char *const dns_service_names[DNS_SERVICES] = {
	[DNS_METADATA] = "metadata", [DNS_TIME] = "time"};

/* The address is the first member of a server. */
static int by_address(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct dns_address));
}

struct dns_server_state *dns_server_find(
	const struct dns_server_table *table, const struct dns_address *address)
{
	struct dns_server_state **found = tfind(address, &table->tree, by_address);

	return found ? *found : NULL;
}

struct dns_server_state *dns_server_get(
	struct dns_server_table *table, const struct dns_address *address)
{
	static const struct dns_address rest;
	struct dns_server_state *server = dns_server_find(table, address);

	if (server)
		return server;
	/* The last one counts the rest. */
	if (table->n >= DNS_SERVERS - 1 && dns_address_is_set(address))
		return dns_server_get(table, &rest);
	server = must(calloc(1, sizeof(*server)));
	server->address = *address;
	server->service = DNS_NO_SERVICE;
	server->role = dns_address_is_set(address) ? DNS_UPSTREAM : DNS_NO_ROLE;
	dns_address_text(address, server->name);
	*add_element(&table->servers, &table->n, &table->allocated) = server;
	must(tsearch(server, &table->tree, by_address));
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
	tdelete(server, &table->tree, by_address);
	release(server);
}

void dns_server_table_clear(struct dns_server_table *table)
{
	tdestroy(table->tree, release);
	free(table->servers);
	*table = (struct dns_server_table){0};
}

uint64_t dns_queries(const struct dns_counters *counters)
{
	return counters->queries[DNS_UDP] + counters->queries[DNS_TCP];
}

static struct dns_totals *reported_of(
	struct dns_server_table *table, const struct dns_server_state *server)
{
	return server->label ? &server->label->reported : &table->others;
}

/* True if any member of more is not 0. */
static bool add_totals(struct dns_totals *to, const struct dns_totals *more)
{
	const __u64 *each = (const __u64 *)more;
	__u64 *sum = (__u64 *)to, any = 0;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*sum); i++) {
		sum[i] += each[i];
		any |= each[i];
	}
	return any;
}

uint64_t dns_server_add(struct dns_server_table *table, struct dns_server_state *server,
	const struct dns_counters *more, uint64_t now)
{
	struct dns_totals totals = {.counters = *more};
	uint64_t queries = dns_queries(more);
	struct dns_slot *slot;

	totals.packets = more->queries[DNS_UDP] + more->other_packets;
	for (size_t i = 0; i < DNS_LATENCY_BUCKETS; i++)
		totals.answered += more->latency[i];
	dns_minute_pass(server, now);
	if (add_totals(&server->totals, &totals))
		server->changed_at_us = now;
	slot = &server->slots[server->slot % DNS_SLOTS];
	slot->queries += queries;
	for (size_t i = 0; i < DNS_RCODES; i++)
		slot->responses[i] += more->responses[i];
	table->malformed += more->malformed;
	if (server->role == DNS_NO_ROLE)
		table->lost += queries;
	/* First the label: the queries that earn it are its first ones. */
	if (queries > 0)
		dns_label_claim(table, server, now);
	add_totals(reported_of(table, server), &totals);
	return queries;
}

static void add_ends(struct dns_ends *to, const struct dns_ends *more)
{
	to->unanswered += more->unanswered;
	to->not_followed += more->not_followed;
	to->superseded += more->superseded;
}

void dns_server_add_ends(struct dns_server_table *table, struct dns_server_state *server,
	const struct dns_ends *ends, uint64_t sent_us)
{
	uint64_t slot = MIN(sent_us / DNS_SLOT_US, server->slot);

	add_ends(&server->totals.ends, ends);
	add_ends(&reported_of(table, server)->ends, ends);
	table->not_followed += ends->not_followed;
	/* The slot that has the queries, so that a minute never has more unanswered than sent. */
	if (server->slot - slot < DNS_SLOTS)
		add_ends(&server->slots[slot % DNS_SLOTS].ends, ends);
}

void dns_server_find_pending_peak(struct dns_server_state *server, uint64_t from, uint64_t until)
{
	uint64_t first = MAX(from, until - MIN(until, (uint64_t)DNS_BINS - 1));
	/* Backwards from now: each bin has the change of the number. */
	int64_t pending = (int64_t)server->pending;

	server->pending_peak = server->pending;
	if (server->label)
		server->label->pending_end = until + 1;
	for (uint64_t bin = until; server->label && bin >= first && bin > 0; bin--) {
		pending -= (int32_t)server->label->pending_bins[bin % DNS_BINS];
		if (pending <= (int64_t)server->pending_peak)
			continue;
		server->pending_peak = (uint64_t)pending;
		server->label->pending_end = bin;
	}
}

void dns_minute_pass(struct dns_server_state *server, uint64_t now)
{
	uint64_t slot = now / DNS_SLOT_US;

	if (slot > server->slot + DNS_SLOTS)
		server->slot = slot - DNS_SLOTS;
	while (server->slot < slot)
		server->slots[++server->slot % DNS_SLOTS] = (struct dns_slot){0};
	server->slots[server->slot % DNS_SLOTS].pending =
		MAX(server->slots[server->slot % DNS_SLOTS].pending, server->pending_peak);
}

struct dns_slot dns_minute(const struct dns_server_state *server)
{
	struct dns_slot minute = {.pending = server->pending_peak};

	for (size_t i = 0; i < DNS_SLOTS; i++) {
		minute.queries += server->slots[i].queries;
		add_ends(&minute.ends, &server->slots[i].ends);
		minute.pending = MAX(minute.pending, server->slots[i].pending);
		for (size_t k = 0; k < DNS_RCODES; k++)
			minute.responses[k] += server->slots[i].responses[k];
	}
	return minute;
}

uint64_t dns_answers(const __u64 responses[static DNS_RCODES])
{
	uint64_t sum = 0;

	for (int i = 0; i < DNS_RCODES; i++)
		sum += responses[i];
	return sum;
}

uint64_t dns_failures(const __u64 responses[static DNS_RCODES])
{
	return dns_answers(responses) - responses[DNS_NOERROR] - responses[DNS_NXDOMAIN] -
	       responses[DNS_RCODE_OTHER];
}

uint64_t dns_lost(const struct dns_slot *minute)
{
	return minute->ends.unanswered +
	       (dns_answers(minute->responses) == 0 ? minute->ends.not_followed : 0);
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
	uint64_t wanted = weight(server), lowest;

	if (server->label || server->role == DNS_NO_ROLE)
		return;
	if (table->n_labels < DNS_LABELS) {
		least = &table->labelled[table->n_labels++];
	} else {
		/* The label of the least busy server; among equals, of the one idle longest. */
		lowest = weight(*least);
		for (size_t k = 1; k < DNS_LABELS; k++) {
			struct dns_server_state **at = &table->labelled[k];
			uint64_t other = weight(*at);

			if (other > lowest || (other == lowest && (*at)->changed_at_us >=
									  (*least)->changed_at_us))
				continue;
			least = at;
			lowest = other;
		}
		if (wanted <= 2 * lowest + 60 &&
			(wanted == 0 || lowest > 0 ||
				now - (*least)->changed_at_us <= LABEL_IDLE_US))
			return;
		free(steal((*least)->label));
	}
	server->label = must(calloc(1, sizeof(*server->label)));
	server->label->since_us = now;
	*least = server;
}

void dns_set_role(const struct dns_config *config, const struct dns_facts *facts,
	struct dns_server_state *server)
{
	const struct dns_address *address = &server->address;
	const struct dns_budget before = server->budget;

	/* Pods keep their resolv.conf when the node's moves on. */
	server->listed =
		server->listed || dns_address_in(facts->servers, facts->n_servers, address);
	server->budget = dns_config_budget(config, facts, address, server->listed);
	if (!dns_address_is_set(address))
		server->role = DNS_NO_ROLE;
	else if (dns_address_is_loopback(address) ||
		 dns_address_in(facts->node, facts->n_node, address))
		server->role = DNS_LOCAL;
	else if (dns_address_in(config->cluster, config->n_cluster, address) ||
		 (config->cluster_auto &&
			 dns_address_in(facts->kubelet, facts->n_kubelet, address)) ||
		 (server->totals.counters.cluster_answers > 0 &&
			 !dns_budget_is_set(&server->budget)))
		server->role = DNS_CLUSTER;
	else
		server->role = DNS_UPSTREAM;
	if (server->role != DNS_UPSTREAM)
		server->budget = (struct dns_budget){0};
	/* Their shares are of the budget before. */
	if (server->label && memcmp(before.max, server->budget.max, sizeof(before.max)) != 0)
		memset(server->label->seconds, 0, sizeof(server->label->seconds));
}
