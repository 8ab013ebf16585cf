/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/util.h"

/* An address that has sent nothing for so long may go. */
#define IDLE_NS        (UINT64_C(600) * 1000000000)
#define FORGET_AT_ONCE 16

/* The packets that share the budget of a cloud's link-local services, by the address they are from.
 */

struct link_local {
	struct dns_seen *seen;
	uint64_t now_ns, budget;
	uint32_t bins[DNS_BINS]; /* of all sources */
	bool any_old;            /* who has no place yet may have sent for long */
	struct dns_key idle[FORGET_AT_ONCE];
	size_t n_idle, n;
};

/*
 * The source's place; for a new one a free place, or that of who has sent least. What it had been
 * sending before it got another's belongs to no second that is shown.
 */
static struct dns_sender *sender_of(struct dns_seen *seen, const struct dns_key *source,
	const struct dns_source *counts, bool old)
{
	struct dns_sender *least = &seen->senders[0];
	bool replaces = seen->n_senders == DNS_SENDERS;

	for (unsigned i = 0; i < seen->n_senders; i++) {
		if (dns_address_equal(&seen->senders[i].source, source))
			return &seen->senders[i];
		if (seen->senders[i].packets < least->packets)
			least = &seen->senders[i];
	}
	if (!replaces)
		least = &seen->senders[seen->n_senders++];
	else if (least->packets >= counts->packets)
		return NULL;
	*least = (struct dns_sender){.source = *source};
	if (replaces || old)
		memcpy(least->seconds.seen, counts->bins, sizeof(least->seconds.seen));
	return least;
}

static void take_source(void *userdata, const struct dns_key *key, const struct dns_source *counts)
{
	struct link_local *all = userdata;
	bool idle =
		key->family != 0 && counts->last_ns != 0 && all->now_ns > counts->last_ns + IDLE_NS;
	/* What found no room is of the sum, but of no one address. */
	struct dns_sender *sender =
		key->family == 0 ? NULL : sender_of(all->seen, key, counts, all->any_old);

	all->n++;
	if (idle && all->n_idle < FORGET_AT_ONCE)
		all->idle[all->n_idle++] = *key;
	for (size_t i = 0; i < DNS_BINS; i++)
		all->bins[i] += counts->bins[i];
	if (!sender)
		return;
	sender->packets = counts->packets;
	(void)dns_seconds_look(&sender->seconds, counts->bins, all->now_ns, all->budget);
}

static void forget_sender(struct dns_seen *seen, const struct dns_key *source)
{
	for (unsigned i = 0; i < seen->n_senders; i++)
		if (dns_address_equal(&seen->senders[i].source, source)) {
			seen->senders[i] = seen->senders[--seen->n_senders];
			return;
		}
}

/* Pods come and go: half of the room is for those that may come. Their packets stay in the sum. */
static void forget_idle(struct dns_sensor *sensor, const struct link_local *all)
{
	if (all->n <= DNS_SOURCES_MAX / 2)
		return;
	for (size_t i = 0; i < all->n_idle; i++) {
		struct dns_source counts;

		if (!dns_bpf_forget_source(sensor->bpf, &all->idle[i], &counts))
			continue;
		for (size_t bin = 0; bin < DNS_BINS; bin++)
			sensor->gone[bin] += counts.bins[bin];
		forget_sender(all->seen, &all->idle[i]);
		sensor->sources_gone = true;
	}
}

void dns_link_local_look(struct dns_sensor *sensor, struct dns_seen *seen)
{
	struct link_local all = {
		.seen = seen, .now_ns = sensor->now_us * 1000, .any_old = sensor->sources_gone};

	if (sensor->n_watched == 0)
		return;
	for (size_t i = 0; i < sensor->book.n; i++)
		if (sensor->book.servers[i]->budget.link_local)
			all.budget = MAX(all.budget, sensor->book.servers[i]->budget.pps);
	memcpy(all.bins, sensor->gone, sizeof(all.bins));
	if (dns_bpf_each_source(sensor->bpf, take_source, &all) == 0) {
		(void)dns_seconds_look(&sensor->link_local, all.bins, all.now_ns, all.budget);
		forget_idle(sensor, &all);
	}
	seen->link_local = &sensor->link_local;
}
