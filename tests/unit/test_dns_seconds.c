/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/dns/dns.h"

#define NS UINT64_C(1000000000)

/* What the kernel does: counts into the bin of the moment. */
static void count(uint32_t bins[static DNS_BINS], uint64_t at_ns, uint32_t n)
{
	bins[at_ns / DNS_BIN_NS % DNS_BINS] += n;
}

/* n queries, spread evenly over the time from begin on. */
static void burst(uint32_t bins[static DNS_BINS], uint64_t begin_ns, uint64_t length_ns, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		count(bins, begin_ns + length_ns / n * i, 1);
}

static uint64_t observations_above(const struct dns_seconds *seconds, double bound)
{
	uint64_t n = 0;

	for (size_t i = 0; i < DNS_SECOND_BOUNDS; i++)
		n += dns_second_bounds[i] > bound ? seconds->counts[i] : 0;
	return n + seconds->counts[DNS_SECOND_BOUNDS];
}

/* 1,500 queries within a second that begins anywhere, in a minute with nothing else. */
TEST(a_burst_shows_wherever_its_second_begins)
{
	for (uint64_t offset = 0; offset < NS; offset += 7919 * 1000) {
		struct dns_seconds seconds = {0};
		uint32_t bins[DNS_BINS] = {0};
		uint64_t begin = 1000 * NS + offset, end = begin + 60 * NS;

		dns_seconds_take(&seconds, bins, 990 * NS, 1024);
		for (uint64_t now = 991 * NS; now < begin; now += NS)
			assert_true(dns_seconds_take(&seconds, bins, now, 1024));
		burst(bins, begin, NS, 1500);
		/* Not all of it is over at the first poll; to be exact, none of it may be lost. */
		for (uint64_t now = begin + NS; now <= end; now += NS)
			assert_true(dns_seconds_take(&seconds, bins, now, 1024));
		assert_in_range(dns_seconds_peak(&seconds), 1500 * 98 / 100, 1500);
		assert_in_range(seconds.over, 1, 2);
		assert_in_range(observations_above(&seconds, 1000), 1, 2);
	}
}

/* Within one bin's edge the sliding second holds all of it. */
TEST(a_shorter_burst_counts_in_full)
{
	for (uint64_t offset = 0; offset < NS; offset += 13 * 1000 * 1000) {
		struct dns_seconds seconds = {0};
		uint32_t bins[DNS_BINS] = {0};
		uint64_t begin = 1000 * NS + offset;

		dns_seconds_take(&seconds, bins, 999 * NS, 1024);
		burst(bins, begin, NS - DNS_BIN_NS, 1500);
		for (uint64_t now = begin + NS; now <= begin + 60 * NS; now += NS)
			dns_seconds_take(&seconds, bins, now, 1024);
		assert_int_equal(dns_seconds_peak(&seconds), 1500);
		assert_int_equal(seconds.over, 1);
		/* And forgotten a few seconds after that minute. */
		for (uint64_t now = begin + 61 * NS; now <= begin + 66 * NS; now += NS)
			dns_seconds_take(&seconds, bins, now, 1024);
		assert_int_equal(dns_seconds_peak(&seconds), 0);
		assert_int_equal(seconds.over, 1);
	}
}

TEST(a_steady_load_is_over_once_a_second)
{
	struct dns_seconds seconds = {0};
	uint32_t bins[DNS_BINS] = {0};

	dns_seconds_take(&seconds, bins, 100 * NS, 100);
	for (uint64_t second = 100; second < 110; second++) {
		burst(bins, second * NS, NS, 160);
		dns_seconds_take(&seconds, bins, (second + 1) * NS, 100);
	}
	assert_int_equal(seconds.last, 160);
	assert_int_equal(seconds.poll_peak, 160);
	assert_int_equal(dns_seconds_peak(&seconds), 160);
	assert_in_range(seconds.over, 10, 11);
	/* At the budget is not over it. */
	dns_seconds_take(&seconds, bins, 120 * NS, 160);
	seconds.over = 0;
	for (uint64_t second = 120; second < 130; second++) {
		burst(bins, second * NS, NS, 160);
		dns_seconds_take(&seconds, bins, (second + 1) * NS, 160);
	}
	assert_int_equal(seconds.over, 0);
}

TEST(a_poll_leaves_the_current_bin)
{
	struct dns_seconds seconds = {0};
	uint32_t bins[DNS_BINS] = {0};

	dns_seconds_take(&seconds, bins, 50 * NS, 0);
	count(bins, 50 * NS + 1, 3);
	dns_seconds_take(&seconds, bins, 50 * NS + 2, 0);
	assert_int_equal(seconds.last, 0);
	count(bins, 50 * NS + 3, 4);
	dns_seconds_take(&seconds, bins, 50 * NS + DNS_BIN_NS, 0);
	assert_int_equal(seconds.last, 7);
	assert_int_equal(seconds.poll_peak, 7);
	/* A poll within the same bin changes nothing. */
	dns_seconds_take(&seconds, bins, 50 * NS + DNS_BIN_NS + 1, 0);
	assert_int_equal(seconds.last, 7);
}

TEST(every_second_is_observed_once)
{
	struct dns_seconds seconds = {0};
	uint32_t bins[DNS_BINS] = {0};

	dns_seconds_take(&seconds, bins, 1000 * NS, 0);
	assert_in_range(observations_above(&seconds, -1), 3, 4); /* the bins' own four seconds */
	memset(seconds.counts, 0, sizeof(seconds.counts));
	/* Polls at any distance. */
	for (uint64_t now = 1000 * NS; now < 1100 * NS; now += 1377 * 1000 * 1000) {
		count(bins, now, now % 3 == 0);
		dns_seconds_take(&seconds, bins, now, 0);
	}
	dns_seconds_take(&seconds, bins, 1100 * NS, 0);
	assert_int_equal(observations_above(&seconds, -1), 100);
	/* An idle hour too. */
	assert_true(dns_seconds_take(&seconds, bins, 1102 * NS, 0));
	assert_true(dns_seconds_take(&seconds, bins, 4702 * NS, 0));
	assert_int_equal(observations_above(&seconds, -1), 100 + 3602);
}

TEST(a_late_poll_is_reported_and_spread)
{
	struct dns_seconds seconds = {0};
	uint32_t bins[DNS_BINS] = {0};

	dns_seconds_take(&seconds, bins, 100 * NS, 100);
	/* The last moment at which nothing has gone round. */
	burst(bins, 100 * NS, 3 * NS, 30);
	assert_true(dns_seconds_take(&seconds, bins, 100 * NS + 63 * DNS_BIN_NS, 100));
	assert_in_range(dns_seconds_peak(&seconds), 9, 11);
	/* Twelve seconds of 80 a second: three in each bin would look like 240. */
	burst(bins, 104 * NS, 12 * NS, 960);
	assert_false(dns_seconds_take(&seconds, bins, 116 * NS, 100));
	assert_in_range(dns_seconds_peak(&seconds), 72, 96);
	assert_int_equal(seconds.over, 0);
}

TEST(after_a_minute_without_a_poll_nothing_is_invented)
{
	struct dns_seconds seconds = {0};
	uint32_t bins[DNS_BINS] = {0};

	dns_seconds_take(&seconds, bins, 100 * NS, 100);
	burst(bins, 101 * NS, NS, 5000);
	assert_false(dns_seconds_take(&seconds, bins, 300 * NS, 100));
	assert_int_equal(dns_seconds_peak(&seconds), 0);
	assert_int_equal(seconds.over, 0);
	/* From there on it counts as before. */
	burst(bins, 300 * NS, NS, 48);
	assert_true(dns_seconds_take(&seconds, bins, 301 * NS, 100));
	assert_int_equal(dns_seconds_peak(&seconds), 48);
}

/* A sum that misses one of its parts for a moment makes no second of four billion. */
TEST(counters_that_seem_to_fall_are_ignored)
{
	struct dns_seconds seconds = {0};
	uint32_t bins[DNS_BINS] = {0}, part[DNS_BINS] = {0};

	dns_seconds_take(&seconds, bins, 100 * NS, 10);
	burst(bins, 100 * NS, 4 * NS, 640);
	for (int second = 101; second <= 104; second++)
		dns_seconds_take(&seconds, bins, (uint64_t)second * NS, 1000);
	dns_seconds_take(&seconds, part, 105 * NS, 1000);
	assert_int_equal(seconds.poll_peak, 160);
	assert_int_equal(seconds.last, 0);
	burst(bins, 105 * NS, NS, 16);
	dns_seconds_take(&seconds, bins, 106 * NS, 1000);
	assert_int_equal(seconds.last, 16);
	assert_int_equal(seconds.over, 0);
}

TEST(counters_may_wrap)
{
	struct dns_seconds seconds = {0};
	uint32_t bins[DNS_BINS] = {0};

	memset(bins, 0xff, sizeof(bins));
	dns_seconds_take(&seconds, bins, 100 * NS, 0);
	memcpy(seconds.seen, bins, sizeof(seconds.seen));
	memset(seconds.window, 0, sizeof(seconds.window));
	memset(seconds.peaks, 0, sizeof(seconds.peaks));
	seconds.last = seconds.current = 0;
	burst(bins, 100 * NS, NS, 320);
	dns_seconds_take(&seconds, bins, 101 * NS, 0);
	assert_int_equal(seconds.last, 320);
}
