/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the counts of all pairs once in a poll, and adds the increase to their servers. Nobody
 * searches for unanswered queries: a query that its quarter second still counts after the timeout
 * is unanswered.
 */

#include "tuners/dns/dns.h"

/* A quarter is settled when its last query has timed out. */
#define SETTLED_AFTER (DNS_TIMEOUT_NS / DNS_QUARTER_NS + 1)

/* Half-life of smoothed rates in seconds. */
#define HALF_LIFE 20.0

#define PRUNE_EVERY_US (10 * USEC_PER_SEC)
/* When there is little room, pairs and servers without queries for this long are removed. */
#define IDLE_US (60 * USEC_PER_SEC)
/* The same without any room: a query waits no longer for its answer. */
#define IDLE_FULL_US (DNS_TIMEOUT_NS / 1000)
/* The same for addresses that send link-local packets. */
#define SENDER_IDLE_US (600 * USEC_PER_SEC)

struct poll {
	struct dns_sensor *sensor;
	struct smoothing smoothing;
	uint64_t from, until;          /* bins that ended since the last poll */
	uint64_t quarter, now_quarter; /* the next one to settle; the current one */
};

static struct dns_server_state *server_of(
	struct dns_sensor *sensor, const struct dns_address *address)
{
	struct dns_server_table *table = &sensor->seen.table;
	size_t known = table->n;
	struct dns_server_state *server = dns_server_get(table, address);

	if (table->n == known)
		return server;
	dns_classify(sensor, server);
	/* Packets to the metadata service make it no DNS server. */
	if (!server->watched)
		dns_label_claim(table, server, sensor->now_us);
	sensor->unclassified = true;
	return server;
}

static struct dns_pair_state *state_of(struct dns_sensor *sensor, const struct dns_pair *pair)
{
	struct dns_pairs *pairs = &sensor->pairs;
	struct dns_pair_state *state = find_keyed(&pairs->index, pairs->pairs, pairs->n, pair);

	if (!state) {
		state = add_element(&pairs->pairs, &pairs->n, &pairs->allocated);
		state->pair = *pair;
	}
	/* A server that had no room may have some now. */
	if (!state->server ||
		(state->server->role == DNS_NO_ROLE && dns_address_is_set(&pair->server)))
		state->server = server_of(sensor, &pair->server);
	return state;
}

/* Returns the address in the list of senders; NULL when it is full. */
static struct dns_sender *sender_of(struct dns_seen *seen, const struct dns_address *source)
{
	unsigned i = 0;

	while (i < seen->n_senders && !dns_address_equal(&seen->senders[i].source, source))
		i++;
	if (i == DNS_SENDERS)
		return NULL;
	if (i == seen->n_senders)
		seen->senders[seen->n_senders++] = (struct dns_sender){.source = *source};
	return &seen->senders[i];
}

static void add_watched(struct dns_seen *seen, const struct dns_pair_state *state, uint64_t bin,
	uint32_t packets, uint64_t now)
{
	struct dns_sender *sender = sender_of(seen, &state->pair.source);

	seen->link_local.fresh[bin % DNS_BINS] += packets;
	if (state->server->service != DNS_NO_SERVICE)
		seen->services[state->server->service].seconds.fresh[bin % DNS_BINS] += packets;
	if (!sender)
		return;
	sender->seconds.fresh[bin % DNS_BINS] += packets;
	sender->packets += packets;
	sender->changed_at_us = now;
}

/* Reads the numbers of the kernel's bin, modulo 2^16. */
static void read_bin(const struct dns_counts *counts, size_t i, uint16_t now[static DNS_NUMBERS])
{
	now[DNS_QUERIES] = (uint16_t)counts->bins[i];
	now[DNS_PACKETS] = (uint16_t)(counts->bins[i] / DNS_BIN_PACKET);
	now[DNS_PENDING] = (uint16_t)counts->pending[i];
}

/*
 * Reads the bins that ended, for a server with a label. Each index is used once, unless the poll is
 * late.
 */
static void read_bins(const struct poll *poll, struct dns_pair_state *state,
	const struct dns_counts *counts, bool is_new)
{
	struct dns_label *label = state->server->label;
	uint64_t from = MAX(poll->from, poll->until - MIN(poll->until, (uint64_t)DNS_BINS));
	const size_t current = poll->until % DNS_BINS;
	struct dns_pair_bins *bins = state->bins;

	if (!bins) {
		bins = state->bins = must(calloc(1, sizeof(*bins)));
		for (size_t i = 0; i < DNS_BINS && !is_new; i++)
			read_bin(counts, i, bins->seen[i]);
	}
	for (uint64_t bin = from; bin < poll->until; bin++) {
		size_t i = bin % DNS_BINS;
		uint64_t laps = (bin - poll->from) / DNS_BINS + 1;
		uint16_t now[DNS_NUMBERS], *rose = bins->rose[i], packets;

		read_bin(counts, i, now);
		for (int k = 0; k < DNS_NUMBERS; k++)
			rose[k] = (uint16_t)(now[k] - bins->seen[i][k]);
		memcpy(bins->seen[i], now, sizeof(now));
		packets = rose[DNS_PACKETS];
		if (label) {
			label->queries.fresh[i] += rose[DNS_QUERIES];
			label->packets.fresh[i] += packets;
			label->pending_bins[i] += (uint32_t)(int16_t)rose[DNS_PENDING];
		}
		rose[DNS_QUERIES] = (uint16_t)(rose[DNS_QUERIES] / laps);
		rose[DNS_PACKETS] = (uint16_t)(packets / laps);
		if (state->server->watched && packets > 0)
			add_watched(&poll->sensor->seen, state, bin, packets, poll->sensor->now_us);
	}
	/* Only the pending queries of the current bin count already. */
	bins->rose[current][DNS_PENDING] =
		(uint16_t)(counts->pending[current] - bins->seen[current][DNS_PENDING]);
	if (label)
		label->pending_bins[current] += (uint32_t)(int16_t)bins->rose[current][DNS_PENDING];
}

/* Counts the queries of the quarters whose timeout is over. Returns those without an answer. */
static uint64_t settle(
	const struct poll *poll, struct dns_pair_state *state, const struct dns_counts *counts)
{
	struct dns_server_table *table = &poll->sensor->seen.table;
	uint64_t lost = 0;

	if (poll->sensor->pairs.forget_pending)
		memcpy(state->settled, counts->quarters, sizeof(state->settled));
	for (uint64_t q = poll->quarter; q + SETTLED_AFTER <= poll->now_quarter; q++) {
		const struct dns_quarter *now = &counts->quarters[q % DNS_QUARTERS];
		struct dns_quarter *settled = &state->settled[q % DNS_QUARTERS];
		uint32_t waiting = now->waiting - settled->waiting;
		uint32_t superseded = now->superseded - settled->superseded;
		struct dns_ends ends = {0};

		if (waiting > INT32_MAX || superseded > INT32_MAX || waiting + superseded == 0)
			continue;
		settled->waiting += waiting;
		settled->superseded += superseded;
		ends.not_followed = MIN(waiting, state->doubt);
		ends.unanswered = waiting - ends.not_followed;
		ends.superseded = superseded;
		state->doubt -= (uint32_t)ends.not_followed;
		lost += waiting;
		dns_server_add_ends(table, state->server, &ends, q * DNS_QUARTER_NS / 1000);
	}
	state->waiting = 0;
	for (size_t i = 0; i < DNS_QUARTERS; i++)
		state->waiting += counts->quarters[i].waiting - state->settled[i].waiting;
	if (state->waiting == 0 || state->waiting > INT32_MAX)
		state->waiting = state->doubt = 0;
	state->server->pending += state->waiting;
	return lost;
}

static void add_search(struct dns_seen *seen, const struct dns_server_state *server,
	const struct dns_counters *more)
{
	struct dns_rate *search = seen->search[MIN(server->role, DNS_UPSTREAM)];

	search[DNS_EXPANDED].n += more->expanded;
	search[DNS_EXPANDED_FAILED].n += more->expanded_nxdomain;
	search[DNS_OTHER_NXDOMAIN].n += more->responses[DNS_NXDOMAIN] -
					MIN(more->expanded_nxdomain, more->responses[DNS_NXDOMAIN]);
}

/* Computes the increase since the last poll, and remembers the new counters. */
static struct dns_counters increase_of(
	struct dns_pair_state *state, const struct dns_counters *counters)
{
	struct dns_counters more;
	__u64 *increase = (__u64 *)&more;

	for (size_t i = 0; i < ARRAY_SIZE(state->counters); i++) {
		uint32_t rose = (uint32_t)((const __u64 *)counters)[i] - state->counters[i];

		/* A counter may seem to fall if the kernel writes during the reading. */
		increase[i] = rose > INT32_MAX ? 0 : rose;
		state->counters[i] += (uint32_t)increase[i];
	}
	more.latency_ns = counters->latency_ns - MIN(state->latency_ns, counters->latency_ns);
	state->latency_ns += more.latency_ns;
	return more;
}

static void read_pair(void *userdata, const void *pair, const void *live)
{
	const struct dns_counts *counts = live;
	const struct poll *poll = userdata;
	struct dns_sensor *sensor = poll->sensor;
	size_t known = sensor->pairs.n;
	struct dns_pair_state *state = state_of(sensor, pair);
	struct dns_server_state *server = state->server;
	struct dns_counters more = increase_of(state, &counts->counters);
	uint64_t sent = dns_queries(&more), unanswered;
	bool is_new = sensor->pairs.n > known;
	bool is_clusters = server->totals.counters.cluster_answers > 0;

	server->pairs++;
	state->queries += sent;
	if (server->watched && server->service != DNS_NO_SERVICE) {
		state->packets_sent += more.queries[DNS_UDP] + more.other_packets;
		sensor->seen.services[server->service].packets +=
			more.queries[DNS_UDP] + more.other_packets;
	}
	state->doubt += (uint32_t)more.not_followed;
	sensor->sent += dns_server_add(&sensor->seen.table, server, &more, sensor->now_us);
	/* A server that starts to answer cluster names becomes the cluster's DNS. */
	if (!is_clusters && more.cluster_answers > 0)
		dns_classify(sensor, server);
	add_search(&sensor->seen, server, &more);
	if (server->label || server->watched)
		read_bins(poll, state, counts, is_new);
	else /* they would hold all queries until the server gets a label again */
		free(steal(state->bins));
	unanswered = settle(poll, state, counts);
	/* The server's counters began with its label. */
	if (server->label && server->label->since_us != state->label_since_us) {
		state->label_since_us = server->label->since_us;
		state->before_label = state->queries - sent;
	}
	if (sent > 0 || more.other_packets > 0 || is_new)
		state->changed_at_us = sensor->now_us;
	state->per_second = (float)((double)sent / poll->smoothing.seconds);
	state->packets = (float)((double)(more.queries[DNS_UDP] + more.other_packets) /
				 poll->smoothing.seconds);
	state->smooth = (float)smooth(&poll->smoothing, state->smooth, (double)sent);
	state->failures = (float)smooth(
		&poll->smoothing, state->failures, (double)dns_failures(more.responses));
	state->unanswered = (float)smooth(&poll->smoothing, state->unanswered, (double)unanswered);
}

void dns_pairs_read(struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;
	struct dns_pairs *pairs = &sensor->pairs;
	struct poll poll = {.sensor = sensor,
		.smoothing = smoothing_since(pairs->read_at_us, sensor->now_us, HALF_LIFE),
		.until = sensor->now_us * 1000 / DNS_BIN_NS,
		.now_quarter = sensor->now_us * 1000 / DNS_QUARTER_NS};

	poll.from = pairs->bin ? pairs->bin : poll.until - MIN(poll.until, (uint64_t)DNS_BINS - 1);
	/* After a late poll newer queries use the index of earlier quarters, and settle it. */
	poll.quarter = poll.now_quarter + 1 - MIN(poll.now_quarter + 1, (uint64_t)DNS_QUARTERS);
	poll.quarter = MAX(poll.quarter, pairs->quarter);
	for (size_t i = 0; i < table->n; i++) {
		struct dns_server_state *server = table->servers[i];

		server->pairs = server->pending = 0;
		if (server->label)
			memset(server->label->pending_bins, 0, sizeof(server->label->pending_bins));
	}
	sensor->sent = 0;
	if (dns_kernel_each_pair(sensor->kernel, read_pair, &poll) == 0) {
		pairs->forget_pending = false;
		pairs->read_at_us = sensor->now_us;
		pairs->bin = poll.until;
		pairs->quarter = poll.now_quarter + 1 - MIN(poll.now_quarter + 1, SETTLED_AFTER);
	}
	for (size_t i = 0; i < table->n; i++)
		dns_server_find_pending_peak(table->servers[i], poll.from, poll.until);
	for (int i = 0; i < DNS_ROLES * DNS_EXPANSIONS; i++) {
		struct dns_rate *rate = &sensor->seen.search[0][0] + i;

		rate->per_second =
			smooth(&poll.smoothing, rate->per_second, (double)(rate->n - rate->before));
		rate->before = rate->n;
	}
}

void dns_pairs_clear(struct dns_pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++)
		free(pairs->pairs[i].bins);
	free(pairs->pairs);
	free(pairs->index.positions);
}

void dns_pairs_prune(struct dns_sensor *sensor)
{
	struct dns_seen *seen = &sensor->seen;
	struct dns_server_table *table = &seen->table;
	struct dns_pairs *pairs = &sensor->pairs;
	uint64_t lost_pairs = dns_kernel_control(sensor->kernel)->lost_pairs, now = sensor->now_us;
	bool full = lost_pairs > sensor->lost_pairs || table->lost > sensor->lost_servers;
	uint64_t idle = full ? IDLE_FULL_US : IDLE_US;
	size_t kept = 0;

	sensor->lost_pairs = lost_pairs;
	sensor->lost_servers = table->lost;
	for (unsigned i = seen->n_senders; i-- > 0 && seen->n_senders >= DNS_SENDERS / 2;)
		if (now - seen->senders[i].changed_at_us > SENDER_IDLE_US)
			seen->senders[i] = seen->senders[--seen->n_senders];
	/* A reading that failed has not counted the pairs of each server. */
	if (pairs->read_at_us != now)
		return;
	if (!full && ((pairs->n < DNS_PAIRS_MAX / 2 && table->n < DNS_SERVERS / 2) ||
			     now - sensor->pruned_at_us < PRUNE_EVERY_US))
		return;
	sensor->pruned_at_us = now;
	for (size_t i = 0; i < pairs->n; i++) {
		const struct dns_pair_state *state = &pairs->pairs[i];

		if (dns_address_is_set(&state->pair.source) && state->waiting == 0 &&
			now - state->changed_at_us > idle &&
			dns_kernel_remove_pair(sensor->kernel, &state->pair)) {
			state->server->pairs--;
			free(state->bins);
		} else {
			pairs->pairs[kept++] = *state;
		}
	}
	if (kept < pairs->n)
		index_reset(&pairs->index);
	pairs->n = kept;
	for (size_t i = table->n; i-- > 0;) {
		const struct dns_server_state *server = table->servers[i];

		if (!server->pinned && !server->label && server->pairs == 0 &&
			dns_address_is_set(&server->address))
			dns_server_remove(table, i);
	}
}
