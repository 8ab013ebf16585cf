/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#define MINUTE_BINS (60 * DNS_BINS_PER_SECOND)

/* The outer bins count together if they have at most 15/12 of the mean of the 15 between them. */
#define EDGE_SHARE 12

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

/* Adds a bin that has ended. */
static void push(struct dns_seconds *seconds, uint32_t count, uint64_t budget)
{
	const size_t size = ARRAY_SIZE(seconds->window);
	uint64_t first, between;
	uint32_t peak;

	seconds->window[seconds->next++ % ARRAY_SIZE(seconds->window)] = count;
	/* The oldest bin of the window is before the last 16 bins. */
	first = seconds->window[seconds->next % ARRAY_SIZE(seconds->window)];
	seconds->last += count - (uint32_t)first;
	/* The busiest second that ended in this bin. */
	between = seconds->last - count;
	peak = seconds->last + ((first + count) * EDGE_SHARE <= between ? (uint32_t)first : 0);
	if (peak > seconds->poll_peak) {
		seconds->poll_peak = peak;
		seconds->busiest_end = seconds->next;
		for (size_t i = 0; i < size; i++)
			seconds->busiest[i] = seconds->window[(seconds->next + i) % size];
		seconds->busiest[0] = peak - seconds->last;
	}
	seconds->current = MAX(seconds->current, peak);
	if (budget > 0 && peak > budget && seconds->next >= seconds->over_until) {
		seconds->over++;
		seconds->over_until = seconds->next + DNS_BINS_PER_SECOND;
	}
	if (seconds->next % DNS_BINS_PER_SECOND == 0)
		end_second(seconds);
}

bool dns_seconds_update(struct dns_seconds *seconds, const uint32_t bins[static DNS_BINS],
	uint64_t now_ns, uint64_t budget)
{
	uint64_t until = now_ns / DNS_BIN_NS;
	bool in_time;

	/* At the first poll the bins have the time since the server's first query. */
	if (seconds->next == 0)
		seconds->next = until < DNS_BINS ? 0 : until - (DNS_BINS - 1);
	in_time = until < seconds->next + DNS_BINS;
	seconds->poll_peak = 0;
	seconds->over = 0;
	if (seconds->last == 0 && seconds->current == 0 &&
		memcmp(seconds->seen, bins, sizeof(seconds->seen)) == 0) {
		/* Idle since the last poll: only count the seconds. */
		memset(seconds->window, 0, sizeof(seconds->window));
		while (seconds->next < until)
			if (++seconds->next % DNS_BINS_PER_SECOND == 0)
				end_second(seconds);
		return true;
	}
	if (until > seconds->next + MINUTE_BINS) {
		/* After a minute without a poll all shown seconds are too old. */
		memmove(seconds->seen, bins, sizeof(seconds->seen));
		memset(seconds->window, 0, sizeof(seconds->window));
		memset(seconds->peaks, 0, sizeof(seconds->peaks));
		seconds->last = seconds->current = 0;
		seconds->next = until;
		return false;
	}
	while (seconds->next < until) {
		size_t i = seconds->next % DNS_BINS;
		uint32_t rest = bins[i] - seconds->seen[i];
		/* How often this index is used until now. */
		uint64_t laps = (until - seconds->next + DNS_BINS - 1) / DNS_BINS;
		uint32_t share = rest / (uint32_t)laps;

		/* A falling counter was not read in full: the next poll reads it. */
		share = rest > INT32_MAX ? 0 : share;
		seconds->seen[i] += share;
		push(seconds, share, budget);
	}
	seconds->poll_peak = MAX(seconds->poll_peak, seconds->last);
	return in_time;
}

uint32_t dns_seconds_peak(const struct dns_seconds *seconds)
{
	uint32_t peak = seconds->current;

	for (size_t i = 0; i < DNS_PEAKS; i++)
		peak = MAX(peak, seconds->peaks[i]);
	return peak;
}
