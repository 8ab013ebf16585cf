/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/dns/dns.h"

#define NS UINT64_C(1000000000)

/* The seconds that result from the bins of the kernel, and all seconds over the budget. */
struct counted {
	struct dns_seconds seconds;
	uint64_t budget, over;
};

/* Spreads n queries evenly over the time. */
static void burst(struct counted *counted, uint64_t begin_ns, uint64_t length_ns, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		counted->seconds.fresh[(begin_ns + length_ns / n * i) / DNS_BIN_NS % DNS_BINS]++;
}

/* Returns false when the poll is too late to separate the seconds. */
static bool poll_at(struct counted *counted, uint64_t now_ns)
{
	bool in_time = dns_seconds_update(&counted->seconds, now_ns, counted->budget);

	counted->over += counted->seconds.over;
	return in_time;
}

static void poll_each_second(struct counted *counted, uint64_t from_ns, uint64_t to_ns)
{
	for (uint64_t now = from_ns; now <= to_ns; now += NS)
		assert_true(poll_at(counted, now));
}

static uint64_t observations_above(const struct counted *counted, double bound)
{
	uint64_t n = counted->seconds.counts[DNS_SECOND_BOUNDS];

	for (size_t i = 0; i < DNS_SECOND_BOUNDS; i++)
		n += dns_second_bounds[i] > bound ? counted->seconds.counts[i] : 0;
	return n;
}

/* 1,500 queries in a second that begins anywhere, in a minute without other queries. */
TEST(a_burst_shows_wherever_its_second_begins)
{
	for (uint64_t offset = 0; offset < NS; offset += 7919 * 1000) {
		struct counted counted = {.budget = 1024};
		uint64_t begin = 1000 * NS + offset;

		poll_at(&counted, 990 * NS);
		poll_each_second(&counted, 991 * NS, begin - 1);
		burst(&counted, begin, NS, 1500);
		poll_each_second(&counted, begin + NS, begin + 60 * NS);
		assert_in_range(dns_seconds_peak(&counted.seconds), 1500 * 98 / 100, 1500);
		assert_in_range(counted.over, 1, 2);
		assert_in_range(observations_above(&counted, 1000), 1, 2);
	}
}

/* Scenario dns-over-budget-for-ten-seconds has a load over the budget. */
TEST(a_steady_load_at_the_budget_is_not_over_it)
{
	struct counted counted = {.budget = 160};

	poll_at(&counted, 120 * NS);
	for (uint64_t second = 120; second < 130; second++) {
		burst(&counted, second * NS, NS, 160);
		poll_at(&counted, (second + 1) * NS);
	}
	assert_int_equal(counted.seconds.last, 160);
	assert_int_equal(counted.over, 0);
}

TEST(a_poll_leaves_the_current_bin)
{
	struct counted counted = {0};

	poll_at(&counted, 50 * NS);
	burst(&counted, 50 * NS, 1, 3);
	poll_at(&counted, 50 * NS + 2);
	assert_int_equal(counted.seconds.last, 0);
	burst(&counted, 50 * NS + 3, 1, 4);
	poll_at(&counted, 50 * NS + DNS_BIN_NS);
	assert_int_equal(counted.seconds.last, 7);
	assert_int_equal(counted.seconds.poll_peak, 7);
	/* A poll within the same bin changes nothing. */
	poll_at(&counted, 50 * NS + DNS_BIN_NS + 1);
	assert_int_equal(counted.seconds.last, 7);
}

TEST(every_second_is_observed_once)
{
	struct counted counted = {0};

	poll_at(&counted, 1000 * NS);
	assert_in_range(observations_above(&counted, -1), 3, 4); /* the four seconds of the bins */
	memset(counted.seconds.counts, 0, sizeof(counted.seconds.counts));
	/* Polls at irregular times. */
	for (uint64_t now = 1000 * NS; now < 1100 * NS; now += 1377 * 1000 * 1000) {
		burst(&counted, now, 1, now % 3 == 0);
		poll_at(&counted, now);
	}
	poll_at(&counted, 1100 * NS);
	assert_int_equal(observations_above(&counted, -1), 100);
	/* An idle hour counts too. */
	assert_true(poll_at(&counted, 1102 * NS));
	assert_true(poll_at(&counted, 4702 * NS));
	assert_int_equal(observations_above(&counted, -1), 100 + 3602);
}

TEST(a_late_poll_is_reported_and_spread)
{
	struct counted counted = {.budget = 100};

	poll_at(&counted, 100 * NS);
	/* The latest poll at which no bin was reused. */
	burst(&counted, 100 * NS, 3 * NS, 30);
	assert_true(poll_at(&counted, 100 * NS + 63 * DNS_BIN_NS));
	assert_in_range(dns_seconds_peak(&counted.seconds), 9, 11);
	/* Twelve seconds of 80 a second: three in each bin would look like 240. */
	burst(&counted, 104 * NS, 12 * NS, 960);
	assert_false(poll_at(&counted, 116 * NS));
	assert_in_range(dns_seconds_peak(&counted.seconds), 72, 96);
	assert_int_equal(counted.over, 0);
}

TEST(a_minute_without_a_poll_has_no_peak)
{
	struct counted counted = {.budget = 100};

	poll_at(&counted, 100 * NS);
	burst(&counted, 101 * NS, NS, 5000);
	assert_false(poll_at(&counted, 300 * NS));
	assert_int_equal(dns_seconds_peak(&counted.seconds), 0);
	assert_int_equal(counted.over, 0);
	/* The next poll counts as before. */
	burst(&counted, 300 * NS, NS, 48);
	assert_true(poll_at(&counted, 301 * NS));
	assert_int_equal(dns_seconds_peak(&counted.seconds), 48);
}

/* Each of the two bursts is below the budget. */
TEST(two_bursts_within_a_second_count_together_in_every_phase)
{
	for (uint64_t apart = 950; apart < 995; apart += 4)
		for (uint64_t phase = 0; phase < 1000; phase += 13) {
			struct counted counted = {.budget = 800};
			uint64_t begin = 500 * NS + phase * 1000000;

			poll_at(&counted, 499 * NS);
			burst(&counted, begin, NS / 1000, 450);
			burst(&counted, begin + apart * 1000000, NS / 1000, 450);
			poll_each_second(&counted, 500 * NS, 504 * NS);
			if (counted.over != 1 || dns_seconds_peak(&counted.seconds) < 880)
				fail_msg("%" PRIu64 " ms apart in phase %" PRIu64 ": %u", apart,
					phase, dns_seconds_peak(&counted.seconds));
		}
}

TEST(a_short_burst_over_the_budget_is_one_second)
{
	for (uint64_t phase = 0; phase < 1000; phase += 7) {
		struct counted counted = {.budget = 500};

		poll_at(&counted, 699 * NS);
		for (uint64_t i = 0; i < 5; i++) {
			/* And some queries all the time. */
			burst(&counted, (700 + 2 * i) * NS + phase * 1000000, NS / 10, 900);
			burst(&counted, (700 + 2 * i) * NS, 2 * NS, 60);
			poll_each_second(&counted, (701 + 2 * i) * NS, (702 + 2 * i) * NS);
		}
		poll_each_second(&counted, 711 * NS, 713 * NS);
		assert_int_equal(counted.over, 5);
	}
}

/* Sixteen bins, not seventeen. */
TEST(uneven_steady_loads_are_not_over_the_budget)
{
	struct counted counted = {.budget = 1024};
	unsigned seed = 3;

	poll_at(&counted, 2000 * NS);
	for (uint64_t bin = 0; bin < 60 * DNS_BINS_PER_SECOND; bin++) {
		burst(&counted, 2000 * NS + bin * DNS_BIN_NS, DNS_BIN_NS,
			40 + (uint32_t)rand_r(&seed) % 31);
		if (bin % 16 == 15)
			poll_at(&counted, 2000 * NS + (bin + 1) * DNS_BIN_NS);
	}
	assert_int_equal(counted.over, 0);
	assert_in_range(dns_seconds_peak(&counted.seconds), 850, 1023);
}
