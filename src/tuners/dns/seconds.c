/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#define MINUTE_BINS (60 * DNS_BINS_PER_SECOND)

/*
 * The outer bins of a window count both if they have at most 15/12 of the mean of the 15 between
 * them, or if each has more than four times this mean.
 */
#define EDGE_SHARE 12
#define EDGE_BURST 4

const double dns_second_bounds[DNS_SECOND_BOUNDS] = {0, 50, 100, 200, 500, 1000};

static void end_second(struct dns_seconds *seconds)
{
	size_t bucket = 0;

	while (bucket < DNS_SECOND_BOUNDS && seconds->current > dns_second_bounds[bucket])
		bucket++;
	seconds->counts[bucket]++;
	seconds->sum += seconds->current;
	seconds->peaks[seconds->next / DNS_BINS_PER_SECOND % DNS_PEAKS] = seconds->current;
	seconds->current = 0;
}

/*
 * Counts a second over the budget. begin is the first bin of the present one. A counted second is
 * the latest that holds the excess, so that a short burst counts once; of a steady load, it begins
 * where the one before ended.
 */
static void count_over(struct dns_seconds *seconds, uint64_t begin, uint64_t budget)
{
	const bool follows = seconds->over_next >= begin;
	uint64_t sum = 0, before = 0, bin = seconds->next, n;

	if (follows && seconds->next < seconds->over_next + DNS_BINS_PER_SECOND)
		return;
	begin = MAX(begin, seconds->over_next);
	while (bin > begin && sum <= budget)
		sum += seconds->window[--bin % DNS_WINDOW];
	if (sum <= budget)
		return;
	n = seconds->next - bin;
	for (uint64_t earlier = begin; earlier < bin; earlier++)
		before += seconds->window[earlier % DNS_WINDOW];
	/* A burst has more than twice the rate of the bins before it. */
	if (follows && 2 * before * n >= sum * (bin - begin))
		bin = begin;
	seconds->over++;
	seconds->over_next = bin + DNS_BINS_PER_SECOND;
}

/* Adds a bin that has ended. */
static void push(struct dns_seconds *seconds, uint32_t count, uint64_t budget)
{
	uint64_t first, between, begin;
	uint32_t peak;
	bool both;

	seconds->window[seconds->next++ % DNS_WINDOW] = count;
	/* The oldest bin of the window is before the last 16 bins. */
	first = seconds->window[seconds->next % DNS_WINDOW];
	seconds->last += count - (uint32_t)first;
	between = seconds->last - count;
	both = (first + count) * EDGE_SHARE <= between ||
	       MIN(first, (uint64_t)count) * (DNS_WINDOW - 2) > EDGE_BURST * between;
	peak = seconds->last + (both ? (uint32_t)first : 0);
	begin = seconds->next - MIN(seconds->next, (uint64_t)(both ? DNS_WINDOW : DNS_WINDOW - 1));
	/* The busiest second that ended in this bin. */
	if (peak > seconds->poll_peak) {
		seconds->poll_peak = peak;
		seconds->begin = begin;
		seconds->end = seconds->next;
	}
	seconds->current = MAX(seconds->current, peak);
	if (budget > 0 && peak > budget)
		count_over(seconds, begin, budget);
	if (seconds->next % DNS_BINS_PER_SECOND == 0)
		end_second(seconds);
}

bool dns_seconds_update(struct dns_seconds *seconds, uint64_t now_ns, uint64_t budget)
{
	uint32_t *fresh = seconds->fresh;
	uint64_t until = now_ns / DNS_BIN_NS, now, ended;
	uint32_t any = 0;
	bool in_time;

	/* At the first poll the bins have the time since the server's first query. */
	if (seconds->next == 0)
		seconds->next = until < DNS_BINS ? 0 : until - (DNS_BINS - 1);
	in_time = until < seconds->next + DNS_BINS;
	seconds->poll_peak = 0;
	seconds->over = 0;
	for (size_t i = 0; i < DNS_BINS; i++)
		any |= fresh[i];
	if (seconds->last == 0 && seconds->current == 0 && !any) {
		/* Idle since the last poll: only count the seconds. */
		memset(seconds->window, 0, sizeof(seconds->window));
		now = until / DNS_BINS_PER_SECOND;
		ended = now - seconds->next / DNS_BINS_PER_SECOND;
		seconds->counts[0] += ended;
		for (uint64_t i = 0; i < MIN(ended, DNS_PEAKS); i++)
			seconds->peaks[(now - i) % DNS_PEAKS] = 0;
		seconds->next = until;
		return true;
	}
	if (until > seconds->next + MINUTE_BINS) {
		/* After a minute without a poll all shown seconds are too old. */
		memset(fresh, 0, sizeof(seconds->fresh));
		memset(seconds->window, 0, sizeof(seconds->window));
		memset(seconds->peaks, 0, sizeof(seconds->peaks));
		seconds->last = seconds->current = 0;
		seconds->next = until;
		return false;
	}
	while (seconds->next < until) {
		size_t i = seconds->next % DNS_BINS;
		/* How often this index is used until now. */
		uint64_t laps = (until - seconds->next + DNS_BINS - 1) / DNS_BINS;
		uint32_t share = fresh[i] / (uint32_t)laps;

		fresh[i] -= share;
		push(seconds, share, budget);
	}
	if (seconds->last > seconds->poll_peak) {
		seconds->poll_peak = seconds->last;
		seconds->end = until;
		seconds->begin = until - DNS_BINS_PER_SECOND;
	}
	return in_time;
}

uint32_t dns_seconds_peak(const struct dns_seconds *seconds)
{
	uint32_t peak = seconds->current;

	for (size_t i = 0; i < DNS_PEAKS; i++)
		peak = MAX(peak, seconds->peaks[i]);
	return peak;
}

struct dns_uses dns_uses_of(const struct dns_seen *seen, const struct dns_server_state *server)
{
	static const struct dns_seconds none;
	const struct dns_seconds *queries = server->label ? &server->label->queries : &none;
	const struct dns_seconds *packets = server->budget.link_local ? &seen->link_local
					    : server->label           ? &server->label->packets
								      : &none;
	const struct dns_slot minute = dns_minute(server);
	const double pending = (double)server->pending;
	const double pending_peak = (double)server->pending_peak;
	struct dns_uses uses = {
		.last = {queries->last, packets->last, pending},
		.poll_peak = {queries->poll_peak, packets->poll_peak, pending_peak},
		.minute_peak = {dns_seconds_peak(queries), dns_seconds_peak(packets),
			(double)minute.pending},
	};

	if (server->budget.sustained)
		uses.last[DNS_QUERIES] = uses.poll_peak[DNS_QUERIES] =
			uses.minute_peak[DNS_QUERIES] = (double)minute.queries / 60;
	return uses;
}

double dns_share(const struct dns_budget *budget, const double used[static DNS_NUMBERS],
	enum dns_number *number)
{
	double share = 0;

	*number = DNS_QUERIES;
	if (!dns_budget_is_set(budget))
		return used[DNS_QUERIES];
	for (int i = 0; i < DNS_NUMBERS; i++) {
		if (budget->max[i] == 0 || used[i] / (double)budget->max[i] <= share)
			continue;
		share = used[i] / (double)budget->max[i];
		*number = (enum dns_number)i;
	}
	return share;
}

void dns_second_observe(const struct dns_seen *seen, struct dns_server_state *server, uint64_t now)
{
	const struct dns_seconds *seconds;
	struct dns_second *second;
	enum dns_number number;
	struct dns_uses uses;
	double share;

	second = &server->label->seconds[now / DNS_SECOND_SLOT_US % DNS_SECONDS];
	if (second->found_us / DNS_SECOND_SLOT_US != now / DNS_SECOND_SLOT_US)
		*second = (struct dns_second){0};
	uses = dns_uses_of(seen, server);
	share = dns_share(&server->budget, uses.poll_peak, &number);
	if (share <= second->share)
		return;
	seconds = number != DNS_PACKETS       ? &server->label->queries
		  : server->budget.link_local ? &seen->link_local
					      : &server->label->packets;
	*second = (struct dns_second){.share = share,
		.number = number,
		.found_us = now,
		.begin = seconds->begin,
		.end = seconds->end};
	if (number == DNS_PENDING)
		second->end = server->label->pending_end;
	memcpy(second->used, uses.poll_peak, sizeof(second->used));
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
