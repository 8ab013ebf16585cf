/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/sense.h"

/* An address that has sent nothing for this long may be removed. */
#define IDLE_NS     (UINT64_C(600) * 1000000000)
#define FORGET_MOST 16 /* in one poll */

/* One reading of the kernel's source addresses. */
struct reading {
	struct dns_sensor *sensor;
	uint64_t now_ns, budget;
	uint32_t bins[DNS_BINS]; /* of all sources */
	struct dns_key idle[FORGET_MOST];
	size_t n_idle, n;
};

static struct dns_sender *sender_of(struct dns_seen *seen, const struct dns_key *source)
{
	unsigned i = 0;

	while (i < seen->n_senders && !dns_address_equal(&seen->senders[i].source, source))
		i++;
	if (i == seen->n_senders && i < ARRAY_SIZE(seen->senders))
		seen->senders[seen->n_senders++] = (struct dns_sender){.source = *source};
	return i < seen->n_senders ? &seen->senders[i] : NULL;
}

static void take_source(void *userdata, const void *source, const void *live)
{
	const struct dns_source *counts = live;
	const struct dns_key *key = source;
	struct reading *reading = userdata;
	struct dns_sender *sender = NULL;

	reading->n++;
	for (size_t i = 0; i < DNS_BINS; i++)
		reading->bins[i] += counts->bins[i];
	/* Sources without room in the kernel are in the sum, but of no one address. */
	if (key->family != 0)
		sender = sender_of(&reading->sensor->seen, key);
	if (!sender)
		return;
	sender->packets = counts->packets;
	(void)dns_seconds_take(&sender->seconds, counts->bins, reading->now_ns, reading->budget);
	if (counts->last_ns != 0 && reading->now_ns > counts->last_ns + IDLE_NS &&
		reading->n_idle < FORGET_MOST)
		reading->idle[reading->n_idle++] = *key;
}

/* Pods come and go: half of the room is kept free for new ones. Their packets stay in the sum. */
static void forget_idle(const struct reading *reading)
{
	struct dns_sensor *sensor = reading->sensor;
	struct dns_seen *seen = &sensor->seen;

	for (size_t i = 0; reading->n > DNS_SOURCES_MAX / 2 && i < reading->n_idle; i++) {
		struct dns_sender *sender = sender_of(seen, &reading->idle[i]);

		if (!dns_bpf_forget(
			    sensor->bpf, DNS_MAP_SOURCES, &reading->idle[i], sensor->now_us))
			continue;
		for (size_t bin = 0; bin < DNS_BINS; bin++)
			sensor->forgotten[bin] += sender->seconds.seen[bin];
		*sender = seen->senders[--seen->n_senders];
	}
}

static int by_packets(const void *a, const void *b)
{
	const struct dns_sender *x = a, *y = b;

	return (x->packets < y->packets) - (x->packets > y->packets);
}

void dns_link_local_read(struct dns_sensor *sensor)
{
	const struct dns_server_table *table = &sensor->seen.table;
	struct reading reading = {.sensor = sensor, .now_ns = sensor->now_us * 1000};

	if (!dns_bpf_control(sensor->bpf)->watching)
		return;
	for (size_t i = 0; i < table->n; i++)
		if (table->servers[i]->budget.link_local)
			reading.budget =
				MAX(reading.budget, table->servers[i]->budget.max[DNS_PACKETS]);
	memcpy(reading.bins, sensor->forgotten, sizeof(reading.bins));
	if (dns_bpf_each(sensor->bpf, DNS_MAP_SOURCES, take_source, &reading) < 0)
		return;
	(void)dns_seconds_take(
		&sensor->seen.link_local, reading.bins, reading.now_ns, reading.budget);
	forget_idle(&reading);
	qsort(sensor->seen.senders, sensor->seen.n_senders, sizeof(struct dns_sender), by_packets);
}
