/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <headroom/limit.h>

#define SECOND USEC_PER_SEC

static void observe(struct limit *limit, uint64_t seconds, uint64_t used, uint64_t max)
{
	struct limit_reading reading = {.name = "x", .unit = "entries", .used = used, .max = max};

	limit_observe(limit, &reading, seconds * SECOND);
}

#define LIMIT_TEST(name) TEST_OF(limit, limit, (void), (void), name)

LIMIT_TEST(the_first_reading_has_no_rate)
{
	observe(limit, 100, 900, 1000);
	assert_true(limit->rate == 0);
	assert_true(limit_full_in_seconds(limit) < 0);
	assert_float_equal(limit_headroom(limit), 0.1, 1e-9);
	assert_int_equal(limit->peak, 900);
}

LIMIT_TEST(steady_growth_gives_its_rate)
{
	for (uint64_t t = 0; t <= 120; t++)
		observe(limit, 1 + t, 10 * t, 2200);
	assert_float_equal(limit->rate, 10, 0.01);
	assert_float_equal(limit_full_in_seconds(limit), 100, 0.2);
}

LIMIT_TEST(the_rate_of_a_burst_halves_in_ten_seconds)
{
	double burst;

	observe(limit, 1, 0, 1000);
	observe(limit, 2, 100, 1000);
	burst = limit->rate;
	assert_true(burst > 0);
	observe(limit, 12, 100, 1000);
	assert_float_equal(limit->rate, burst / 2, 1e-9);
}

TEST(the_rate_is_independent_of_the_interval)
{
	struct limit often = {0}, seldom = {0};

	for (uint64_t t = 0; t <= 60; t++)
		observe(&often, 1 + t, 5 * t, 10000);
	for (uint64_t t = 0; t <= 60; t += 6)
		observe(&seldom, 1 + t, 5 * t, 10000);
	assert_float_equal(often.rate, seldom.rate, 1e-6);
}

LIMIT_TEST(two_readings_at_one_moment_give_no_rate)
{
	observe(limit, 5, 10, 100);
	observe(limit, 5, 90, 100);
	assert_true(limit->rate == 0);
	assert_int_equal(limit->now.used, 90);
}

TEST(the_time_until_full_follows_room_and_rate)
{
	static const struct {
		uint64_t used, max;
		double rate, full_in;
	} cases[] = {
		{50, 100, 10, 5},
		{50, 100, 0, -1},
		{50, 100, -10, -1},
		{50, 100, 0.05, -1}, /* breathing */
		{100, 100, 1, 0},
		{150, 100, 1, 0}, /* the maximum was lowered below what is there */
		{100, 100, 0, -1},
		{0, 0, 1, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct limit limit = {
			.rate = cases[i].rate, .now = {.used = cases[i].used, .max = cases[i].max}};

		assert_float_equal(limit_full_in_seconds(&limit), cases[i].full_in, 1e-9);
	}
}

TEST(headroom_is_the_unused_share)
{
	static const struct {
		uint64_t used, max;
		double headroom;
	} cases[] = {
		{0, 100, 1}, {25, 100, 0.75}, {100, 100, 0}, {101, 100, 0}, {0, 0, 0}, {5, 0, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct limit limit = {.now = {.used = cases[i].used, .max = cases[i].max}};

		assert_float_equal(limit_headroom(&limit), cases[i].headroom, 1e-9);
	}
}

LIMIT_TEST(the_peak_is_kept)
{
	static const uint64_t used[] = {5, 90, 3, 40};

	for (size_t i = 0; i < ARRAY_SIZE(used); i++)
		observe(limit, 1 + i, used[i], 100);
	assert_int_equal(limit->peak, 90);
	assert_int_equal(limit->now.used, 40);
}

LIMIT_TEST(a_flow_never_fills_up_and_keeps_peaks_between_readings)
{
	struct limit_reading reading = {
		.name = "dns/192.0.2.1", .unit = "queries/s", .max = 1000, .flow = true};

	for (uint64_t t = 1; t <= 20; t++) {
		reading.used = 40 * t;
		reading.peak = t == 5 ? 950 : 0;
		limit_observe(limit, &reading, t * SECOND);
	}
	assert_true(limit->rate > 20);
	assert_true(limit_full_in_seconds(limit) < 0);
	assert_int_equal(limit->peak, 950);
}
