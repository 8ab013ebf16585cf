/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

#include "base/util.h"

/* An address that has sent nothing for this long may be removed. */
#define IDLE_NS     (UINT64_C(600) * 1000000000)
#define FORGET_MOST 16 /* in one poll */

/* One reading of the kernel's source addresses. */
struct reading {
	struct dns_seen *seen;
	uint64_t now_ns, budget;
	uint32_t bins[DNS_BINS]; /* of all sources */
	bool any_old;            /* a source that is not known yet may have sent for long */
	struct dns_key idle[FORGET_MOST];
	size_t n_idle, n;
};

/*
 * The source's sender; for a new one a free element, or that of the one that sent least. What it
 * had been sending before it replaced another belongs to no second that is shown.
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

static void take_source(void *userdata, const void *source, const void *live)
{
	const struct dns_source *counts = live;
	const struct dns_key *key = source;
	struct reading *reading = userdata;
	bool idle = key->family != 0 && counts->last_ns != 0 &&
		    reading->now_ns > counts->last_ns + IDLE_NS;
	/* Sources without room in the kernel are in the sum, but of no one address. */
	struct dns_sender *sender =
		key->family == 0 ? NULL : sender_of(reading->seen, key, counts, reading->any_old);

	reading->n++;
	if (idle && reading->n_idle < FORGET_MOST)
		reading->idle[reading->n_idle++] = *key;
	for (size_t i = 0; i < DNS_BINS; i++)
		reading->bins[i] += counts->bins[i];
	if (!sender)
		return;
	sender->packets = counts->packets;
	(void)dns_seconds_take(&sender->seconds, counts->bins, reading->now_ns, reading->budget);
}

/* Pods come and go: half of the room is kept free for new ones. Their packets stay in the sum. */
static void forget_idle(struct dns_sensor *sensor, const struct reading *reading)
{
	struct dns_seen *seen = reading->seen;

	for (size_t i = 0; reading->n > DNS_SOURCES_MAX / 2 && i < reading->n_idle; i++) {
		struct dns_source counts;

		if (!dns_bpf_forget_source(sensor->bpf, &reading->idle[i], &counts))
			continue;
		for (size_t bin = 0; bin < DNS_BINS; bin++)
			sensor->forgotten[bin] += counts.bins[bin];
		sensor->sources_forgotten = true;
		for (unsigned k = 0; k < seen->n_senders; k++)
			if (dns_address_equal(&seen->senders[k].source, &reading->idle[i]))
				seen->senders[k] = seen->senders[--seen->n_senders];
	}
}

void dns_link_local_read(struct dns_sensor *sensor, struct dns_seen *seen)
{
	struct reading reading = {.seen = seen,
		.now_ns = sensor->now_us * 1000,
		.any_old = sensor->sources_forgotten};

	if (sensor->n_watched == 0)
		return;
	for (size_t i = 0; i < sensor->table.n; i++)
		if (sensor->table.servers[i]->budget.link_local)
			reading.budget = MAX(reading.budget, sensor->table.servers[i]->budget.pps);
	memcpy(reading.bins, sensor->forgotten, sizeof(reading.bins));
	if (dns_bpf_each(sensor->bpf, DNS_MAP_SOURCES, take_source, &reading) == 0) {
		(void)dns_seconds_take(
			&sensor->link_local, reading.bins, reading.now_ns, reading.budget);
		forget_idle(sensor, &reading);
	}
	seen->link_local = &sensor->link_local;
}
