/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#define BIN_US (DNS_BIN_NS / 1000)

struct dns_uses dns_uses_of(const struct dns_seen *seen, const struct dns_server_state *server)
{
	const struct dns_seconds *queries = &server->queries;
	const struct dns_seconds *packets =
		server->budget.link_local ? &seen->link_local : &server->packets;
	const struct dns_slot minute = dns_minute(server);
	const double pending = (double)server->pending;
	struct dns_uses uses = {
		.last = {queries->last, packets->last, pending},
		.poll_peak = {queries->poll_peak, packets->poll_peak, pending},
		.minute_peak = {dns_seconds_peak(queries), dns_seconds_peak(packets),
			(double)minute.pending},
	};

	if (server->budget.sustained)
		uses.last[DNS_QUERIES] = uses.poll_peak[DNS_QUERIES] =
			uses.minute_peak[DNS_QUERIES] = (double)minute.queries / 60;
	return uses;
}

double dns_share(const struct dns_budget *budget, const double used[static DNS_NUMBERS])
{
	double share = 0;

	if (!dns_budget_is_set(budget))
		return used[DNS_QUERIES];
	for (int i = 0; i < DNS_NUMBERS; i++)
		if (budget->max[i] > 0)
			share = MAX(share, used[i] / (double)budget->max[i]);
	return share;
}

void dns_second_observe(const struct dns_seen *seen, struct dns_server_state *server, uint64_t now)
{
	struct dns_second *second;
	struct dns_uses uses;
	double share;

	if (!server->label)
		return;
	second = &server->label->seconds[now / DNS_SECOND_SLOT_US % DNS_SECONDS];
	if (second->found_us / DNS_SECOND_SLOT_US != now / DNS_SECOND_SLOT_US)
		*second = (struct dns_second){0};
	uses = dns_uses_of(seen, server);
	share = dns_share(&server->budget, uses.poll_peak);
	if (share <= second->share)
		return;
	*second = (struct dns_second){.share = share,
		.found_us = now,
		.queries = server->budget.sustained ? (uint32_t)uses.poll_peak[DNS_QUERIES]
						    : server->queries.poll_peak,
		.packets = (uint32_t)uses.poll_peak[DNS_PACKETS],
		.end = server->queries.busiest_end};
	if (second->queries > 0)
		memcpy(second->bins, server->queries.busiest, sizeof(second->bins));
}

double dns_second_total(const struct dns_second *second)
{
	return second->of_packets ? second->packets : second->queries;
}

double dns_second_within(const struct dns_second *second, const struct dns_reading *reading)
{
	uint64_t first = second->end - MIN(second->end, (uint64_t)ARRAY_SIZE(second->bins));
	double both = 0;

	for (size_t i = 0; i < ARRAY_SIZE(second->bins); i++) {
		uint64_t begin = MAX((first + i) * BIN_US, reading->begin_us);
		uint64_t end = MIN((first + i + 1) * BIN_US, reading->end_us);

		if (begin < end)
			both += second->bins[i] * (double)(end - begin) / (double)BIN_US;
	}
	return both;
}

bool dns_second_meets(const struct dns_second *second, const struct dns_reading *reading)
{
	uint64_t end = (second->end + 1) * BIN_US;
	uint64_t begin = end - MIN(end, (ARRAY_SIZE(second->bins) + 2) * BIN_US);

	return reading->begin_us < end && reading->end_us > begin;
}

const struct dns_second *dns_busiest_second(const struct dns_label *label, uint64_t now)
{
	const struct dns_second *busiest = NULL;

	for (size_t i = 0; label && i < DNS_SECONDS; i++) {
		const struct dns_second *second = &label->seconds[i];

		if (second->found_us > 0 && now - second->found_us < DNS_SECOND_AGE_US &&
			(!busiest || second->share > busiest->share))
			busiest = second;
	}
	return busiest;
}
