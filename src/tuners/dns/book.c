/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "base/util.h"

#include <stdlib.h>

/* The kernel's servers, the one for the rest, and those that are watched before they are asked. */
#define BOOK_MAX (DNS_SERVERS_MAX + 1 + DNS_PINNED_MAX)

/* Who was not asked for so long gives its label to anybody who is. */
#define LABEL_IDLE_US (600 * USEC_PER_SEC)

_Static_assert(sizeof(struct dns_totals) % sizeof(uint64_t) == 0, "nothing but uint64_t");
#define TOTALS_WORDS (sizeof(struct dns_totals) / sizeof(uint64_t))

/* FNV-1a. Whoever makes keys collide on purpose makes a walk through a thousand of them. */
static size_t hash_of(const struct dns_key *key)
{
	const uint8_t *bytes = (const uint8_t *)key;
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < sizeof(*key); i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return hash ^ (hash >> 16);
}

static uint16_t *place_of(const struct dns_book *book, const struct dns_key *key)
{
	size_t i = hash_of(key) % ARRAY_SIZE(book->index);

	while (book->index[i] > 0 &&
		!dns_address_equal(&book->servers[book->index[i] - 1]->key, key))
		i = (i + 1) % ARRAY_SIZE(book->index);
	return (uint16_t *)&book->index[i];
}

struct dns_server_state *dns_book_find(const struct dns_book *book, const struct dns_key *key)
{
	uint16_t place = *place_of(book, key);

	return place > 0 ? book->servers[place - 1] : NULL;
}

struct dns_server_state *dns_book_get(struct dns_book *book, const struct dns_key *key)
{
	struct dns_server_state *server = dns_book_find(book, key);

	if (server || book->n == BOOK_MAX ||
		grow_array(&book->servers, book->n, &book->allocated, sizeof(*book->servers)) < 0)
		return server;
	server = calloc(1, sizeof(*server));
	if (!server)
		return NULL;
	server->key = *key;
	server->role = DNS_UPSTREAM;
	server->label = -1;
	dns_address_text(key, server->name);
	*place_of(book, key) = (uint16_t)(book->n + 1);
	book->servers[book->n++] = server;
	return server;
}

static void clear_label(struct dns_label *label)
{
	if (label->server)
		label->server->label = -1;
	free(label->names);
	*label = (struct dns_label){0};
}

static void release(struct dns_book *book, struct dns_server_state *server)
{
	if (server->label >= 0)
		clear_label(&book->labels[server->label]);
	free(server->packets);
	free(server);
}

void dns_book_remove(struct dns_book *book, struct dns_server_state *server)
{
	size_t i = *place_of(book, &server->key);

	if (i == 0)
		return;
	release(book, server);
	book->servers[i - 1] = book->servers[--book->n];
	memset(book->index, 0, sizeof(book->index));
	for (i = 0; i < book->n; i++)
		*place_of(book, &book->servers[i]->key) = (uint16_t)(i + 1);
}

void dns_book_clear(struct dns_book *book)
{
	for (size_t i = 0; i < book->n; i++)
		release(book, book->servers[i]);
	free(book->servers);
	*book = (struct dns_book){0};
}

uint64_t dns_queries(const struct dns_totals *totals)
{
	return totals->queries[DNS_UDP] + totals->queries[DNS_TCP];
}

static struct dns_totals *told_of(struct dns_book *book, const struct dns_server_state *server)
{
	return server->label >= 0 ? &book->labels[server->label].told : &book->others[server->role];
}

static uint64_t risen(uint64_t now, uint64_t before)
{
	return now - MIN(now, before);
}

bool dns_book_take(struct dns_book *book, struct dns_server_state *server,
	const struct dns_totals *totals, uint64_t now)
{
	const uint64_t *fresh = (const uint64_t *)totals;
	uint64_t *old = (uint64_t *)&server->totals;
	uint64_t *told = (uint64_t *)told_of(book, server);
	uint64_t queries = dns_queries(&server->totals);
	bool rose = false;

	book->evicted += risen(totals->evicted, server->totals.evicted);
	book->malformed += risen(totals->malformed, server->totals.malformed);
	for (size_t i = 0; i < TOTALS_WORDS; i++) {
		/* A counter that is read while the kernel writes may seem to go back a little. */
		if (fresh[i] <= old[i])
			continue;
		told[i] += fresh[i] - old[i];
		old[i] = fresh[i];
		rose = true;
	}
	if (rose)
		server->changed_at_us = now;
	server->slots[server->slot % DNS_SLOTS].queries += dns_queries(&server->totals) - queries;
	return rose;
}

void dns_book_take_unanswered(struct dns_book *book, struct dns_server_state *server, uint64_t n)
{
	server->totals.unanswered += n;
	told_of(book, server)->unanswered += n;
	server->slots[server->slot % DNS_SLOTS].unanswered += n;
}

void dns_minute_pass(struct dns_server_state *server, uint64_t now)
{
	uint64_t slot = now / DNS_SLOT_US;

	if (slot > server->slot + DNS_SLOTS)
		server->slot = slot - DNS_SLOTS;
	while (server->slot < slot) {
		server->slot++;
		memset(&server->slots[server->slot % DNS_SLOTS], 0, sizeof(server->slots[0]));
	}
}

uint64_t dns_minute_queries(const struct dns_server_state *server)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < DNS_SLOTS; i++)
		sum += server->slots[i].queries;
	return sum;
}

uint64_t dns_minute_unanswered(const struct dns_server_state *server)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < DNS_SLOTS; i++)
		sum += server->slots[i].unanswered;
	return sum;
}

uint64_t dns_minute_pending(const struct dns_server_state *server)
{
	uint64_t most = server->pending;

	for (size_t i = 0; i < DNS_SLOTS; i++)
		most = MAX(most, server->slots[i].pending);
	return most;
}

/* What has a budget to tell of is never in the rest. */
static uint64_t weight(const struct dns_server_state *server)
{
	return server->pinned ||
			       (server->role == DNS_UPSTREAM && dns_budget_is_set(&server->budget))
		       ? UINT64_MAX / 4
		       : dns_minute_queries(server);
}

static bool is_lighter(const struct dns_server_state *a, const struct dns_server_state *b)
{
	uint64_t x = weight(a), y = weight(b);

	return x != y ? x < y : a->changed_at_us < b->changed_at_us;
}

static struct dns_label *lightest(struct dns_book *book)
{
	struct dns_label *least = &book->labels[0];

	for (size_t i = 0; i < DNS_LABELS; i++) {
		struct dns_label *label = &book->labels[i];

		if (!label->server)
			return label;
		if (is_lighter(label->server, least->server))
			least = label;
	}
	return least;
}

/*
 * A series that comes and goes is of no use: only who is much busier takes another's place, or
 * anybody that of who was not asked for long.
 */
static bool deserves(
	const struct dns_server_state *server, const struct dns_label *label, uint64_t now)
{
	uint64_t mine = weight(server), its;

	if (!label->server)
		return server->pinned || dns_queries(&server->totals) > 0;
	its = weight(label->server);
	return mine > 2 * its + 60 ||
	       (mine > 0 && its == 0 && now - label->server->changed_at_us > LABEL_IDLE_US);
}

static void give(struct dns_book *book, struct dns_label *label, struct dns_server_state *server)
{
	clear_label(label);
	label->server = server;
	server->label = (int)(label - book->labels);
}

void dns_book_offer(struct dns_book *book, struct dns_server_state *server)
{
	struct dns_label *label = lightest(book);

	if (!label->server && server->label < 0 && server->key.family != 0)
		give(book, label, server);
}

void dns_book_label(struct dns_book *book, uint64_t now)
{
	struct dns_label *label = lightest(book);

	for (size_t i = 0; i < book->n; i++) {
		struct dns_server_state *server = book->servers[i];

		if (server->label >= 0 || server->key.family == 0 || !deserves(server, label, now))
			continue;
		give(book, label, server);
		label = lightest(book);
	}
}
