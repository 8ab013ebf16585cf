/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <headroom/limit.h>

#include "base/json.h"

#define SECOND USEC_PER_SEC

static void observe(struct limit *limit, uint64_t seconds, uint64_t used, uint64_t max)
{
	struct limit_reading reading = {.name = "x", .unit = "entries", .used = used, .max = max};

	limit_observe(limit, &reading, seconds * SECOND);
}

#define LIMIT_TEST(name) TEST_OF(limit, limit, (void), (void), name)

LIMIT_TEST(readings_at_one_moment_give_no_rate)
{
	observe(limit, 5, 10, 100);
	observe(limit, 5, 90, 100);
	assert_true(limit->rate == 0);
	assert_true(limit_full_in_seconds(limit) < 0);
	assert_int_equal(limit->now.used, 90);
	observe(limit, 6, 40, 100);
	assert_int_equal(limit->now.used, 40);
	assert_int_equal(limit->peak.used, 90); /* the peak stays */
}

TEST(the_rate_of_steady_growth_does_not_depend_on_the_interval)
{
	for (uint64_t interval = 1; interval <= 6; interval += 5) {
		struct limit limit = {0};

		for (uint64_t t = 0; t <= 120; t += interval)
			observe(&limit, 1 + t, 10 * t, 2200);
		assert_float_equal(limit.rate, 10, 0.01);
		assert_int_equal(limit.now.used, 1200);
		assert_float_equal(limit_full_in_seconds(&limit), 100, 0.2);
	}
}

/* Minute 1 begins at second 60. */
LIMIT_TEST(each_minute_of_the_last_hour_keeps_its_peak)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = cJSON_CreateObject();
	const cJSON *minutes;

	observe(limit, 60, 5, 1000);
	observe(limit, 70, 0, 1000);
	observe(limit, 61 * 60, 7, 1000); /* the first minute was an hour ago */
	observe(limit, 61 * 60 + 1, 3, 1000);
	history_json(object, &limit->history);
	minutes = json_at(object, "history");
	assert_int_equal(cJSON_GetArraySize(minutes), HISTORY_MINUTES);
	assert_float_equal(json_number_at(minutes, "59"), 7, 0);
	for (int i = 0; i < HISTORY_MINUTES - 1; i++)
		assert_true(cJSON_IsNull(cJSON_GetArrayItem(minutes, i)));
	observe(limit, 62 * 60, 0, 1000);
	cJSON_Delete(cJSON_DetachItemFromObject(object, "history"));
	history_json(object, &limit->history);
	assert_float_equal(json_number_at(object, "history/58"), 7, 0);
	assert_true(cJSON_IsNumber(json_at(object, "history/59")));
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

TEST(headroom_and_the_time_until_full_follow_room_and_rate)
{
	static const struct {
		uint64_t used, max;
		double rate, full_in, headroom;
		bool flow;
	} cases[] = {
		{60, 100, 10, 4, 0.4, false},
		{60, 100, 10, -1, 0.4, true}, /* a rate is not a level that fills up */
		{60, 100, 0, -1, 0.4, false},
		{60, 100, -10, -1, 0.4, false},
		{60, 100, 0.05, -1, 0.4, false}, /* normal variation */
		{50, 100, 10, -1, 0.5, false},   /* half full is not worth a warning */
		{100, 100, 1, 0, 0, false},
		{150, 100, 1, 0, 0, false}, /* someone lowered the maximum */
		{100, 100, 0, -1, 0, false},
		{0, 100, 0, -1, 1, false},
		{1, 0, 1, 0, 0, false},
		{0, 0, 0, -1, 0, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct limit limit = {.rate = cases[i].rate,
			.now = {.used = cases[i].used, .max = cases[i].max, .flow = cases[i].flow},
			.seen_at_us = 60 * SECOND};

		assert_float_equal(limit_full_in_seconds(&limit), cases[i].full_in, 1e-9);
		assert_float_equal(limit_headroom(&limit), cases[i].headroom, 1e-9);
	}
}

LIMIT_TEST(growth_for_a_minute_gives_the_time_until_full)
{
	for (uint64_t t = 0; t <= 150; t++) {
		observe(limit, 1 + t, 600 + (t < 30 ? 0 : t - 30), 1000);
		assert_int_equal(limit_full_in_seconds(limit) >= 0, t > 90);
	}
	/* After the growth ends, new growth has to last a minute again. */
	for (uint64_t t = 0; t <= 120; t++)
		observe(limit, 152 + t, 720, 1000);
	assert_true(limit_full_in_seconds(limit) < 0);
	observe(limit, 280, 800, 1000);
	assert_true(limit_full_in_seconds(limit) < 0);
}

LIMIT_TEST(hits_before_the_agent_are_separate_and_a_peak_has_its_time)
{
	struct limit_reading reading = {.name = "x", .used = 5, .max = 10, .hits = 7};

	limit_observe(limit, &reading, 1 * SECOND);
	reading.hits = 9;
	reading.peak = 12; /* between two readings */
	limit_observe(limit, &reading, 2 * SECOND);
	reading.peak = 0;
	limit_observe(limit, &reading, 3 * SECOND);
	assert_int_equal(limit->hits_before, 7);
	assert_int_equal(limit->now.hits, 9);
	assert_int_equal(limit->peak.used, 12);
	assert_int_equal(limit->peak.at_us, 2 * SECOND);
}

LIMIT_TEST(no_hits_that_the_agent_counts_are_from_before_it)
{
	struct limit_reading reading = {
		.name = "x", .used = 9, .max = 10, .hits = 21, .own_hits = true};

	limit_observe(limit, &reading, 1 * SECOND);
	assert_int_equal(limit->hits_before, 0);
	assert_int_equal(limit->now.hits, 21);
}

LIMIT_TEST(a_peak_keeps_the_users_that_were_counted_right_after_it)
{
	struct limit_user user = {0};
	struct limit_reading reading = {
		.name = "x", .used = 9, .max = 10, .top = &user, .n_top = 1};

	user.used = 2; /* counted before the burst */
	limit_observe(limit, &reading, 1 * SECOND);
	user.used = 7; /* by a late tick */
	limit_observe(limit, &reading, 5 * SECOND);
	assert_int_equal(limit->peak.top[0].used, 7);
	set_text(user.workload.name, "found later");
	limit_observe(limit, &reading, 50 * SECOND);
	assert_string_equal(limit->peak.top[0].workload.name, "found later");
	reading.used = user.used = 8;
	limit_observe(limit, &reading, 55 * SECOND);
	assert_int_equal(limit->peak.top[0].used, 7);
	assert_int_equal(limit->peak.n_top, 1);
	limit_release(limit);
}

/* Entries that are gone before they are counted. */
LIMIT_TEST(a_peak_names_nobody_who_was_counted_when_less_was_used)
{
	struct limit_user user = {.used = 1};
	struct limit_reading reading = {
		.name = "x", .used = 3, .max = 100, .top = &user, .n_top = 1};

	limit_observe(limit, &reading, 1 * SECOND);
	/* A burst between two readings, and one whose users are not counted yet. */
	for (int i = 0; i < 2; i++) {
		reading.peak = i == 0 ? 80 : 0;
		reading.used = i == 0 ? 3 : 90;
		limit_observe(limit, &reading, (uint64_t)(2 + i) * SECOND);
		assert_int_equal(limit->peak.used, i == 0 ? 80 : 90);
		assert_int_equal(limit->peak.n_top, 0);
	}
	user.used = 2; /* of the time after the burst */
	reading.used = 4;
	limit_observe(limit, &reading, 4 * SECOND);
	assert_int_equal(limit->peak.n_top, 0);
	reading.used = 95;
	limit_observe(limit, &reading, 5 * SECOND);
	user.used = 80;
	limit_observe(limit, &reading, 7 * SECOND);
	assert_int_equal(limit->peak.n_top, 1);
	assert_int_equal(limit->peak.top[0].used, 80);
	limit_release(limit);
}

LIMIT_TEST(a_peak_names_who_reached_it_between_two_readings)
{
	struct limit_user user = {.used = 1};
	struct limit_reading reading = {
		.name = "x", .used = 3, .max = 100, .top = &user, .n_top = 1};

	limit_observe(limit, &reading, 1 * SECOND);
	reading.used = 90;
	user.used = 85;
	limit_observe(limit, &reading, 2 * SECOND);
	assert_int_equal(limit->peak.n_top, 1);
	assert_int_equal(limit->peak.top[0].used, 85);
	limit_release(limit);
}

LIMIT_TEST(the_peak_of_a_flow_has_its_name_and_the_users_of_the_busiest_second)
{
	struct limit_user top[] = {{.used = 3}, {.used = 8}, {.used = 1}};
	struct limit_reading reading = {.name = "queries",
		.flow = true,
		.used = 4,
		.peak = 9,
		.busiest = 9,
		.top = top,
		.n_top = 1,
		.n_busiest = 2};

	limit_observe(limit, &reading, 5 * SECOND);
	assert_string_equal(limit->peak.name, "queries");
	assert_int_equal(limit->peak.used, 9);
	assert_int_equal(limit->peak.n_top, 2);
	assert_int_equal(limit->peak.top[0].used, 8);
	assert_int_equal(limit->peak.top[1].used, 1);
	limit_release(limit);
}

/* A slot is used again after an hour: its old number does not belong to the new minute. */
TEST(histories_are_merged_by_minute)
{
	const uint64_t minute = 60 * SECOND, first = 600, last = first + HISTORY_MINUTES;
	struct history history = {0}, other = {0};

	history_observe(&history, first * minute, 5);
	history_observe(&history, (last - 1) * minute, 6);
	history_observe(&other, (last - 2) * minute, 8);
	history_observe(&other, (last + 1) * minute, 7);
	history_merge(&history, &other);
	assert_int_equal(history.minute, last + 1);
	assert_int_equal(history.slot[first % HISTORY_MINUTES], 0);
	assert_int_equal(history.slot[(last - 2) % HISTORY_MINUTES], 9);
	assert_int_equal(history.slot[(last - 1) % HISTORY_MINUTES], 7);
	assert_int_equal(history.slot[(last + 1) % HISTORY_MINUTES], 8);
	history_merge(&history, &(struct history){0});
	assert_int_equal(history.minute, last + 1);
}
