/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/util.h"

#include <headroom/daemon.h>

#define HOUR UINT64_C(3600)
#define DAY  (24 * HOUR)
#define NOW  (100 * DAY)

/* The ages of restarts in seconds, the oldest first. */
#define AGES(...) {__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)

static const struct {
	const char *what;
	enum restart_policy policy;
	const char *unit;
	bool busy, open;
	uint64_t ages[RESTARTS_A_DAY];
	size_t n;
	enum reason reason;
	uint64_t wait_s; /* UINT64_MAX: never */
} cases[] = {
	/* The policy. */
	{"never", RESTART_NEVER, "u", false, false, {0}, 0, REASON_RESTART_PENDING, UINT64_MAX},
	{"never, busy, without a unit", RESTART_NEVER, "", true, true, {0}, 0,
		REASON_RESTART_PENDING, UINT64_MAX},
	{"now", RESTART_NOW, "u", false, false, {0}, 0, REASON_NONE, 0},
	{"now although busy", RESTART_NOW, "u", true, false, {0}, 0, REASON_NONE, 0},
	{"idle", RESTART_WHEN_IDLE, "u", false, false, {0}, 0, REASON_NONE, 0},
	{"not idle", RESTART_WHEN_IDLE, "u", true, false, {0}, 0, REASON_RESTART_PENDING, 0},
	{"undo although busy", RESTART_TO_UNDO, "u", true, false, {0}, 0, REASON_NONE, 0},
	/* A restart needs a unit, and no other restart under way. */
	{"no unit", RESTART_NOW, "", false, false, {0}, 0, REASON_RESTART_REFUSED, HOUR},
	{"no unit to undo", RESTART_TO_UNDO, "", false, false, {0}, 0, REASON_RESTART_REFUSED,
		HOUR},
	{"an open restart", RESTART_NOW, "u", false, true, AGES(10), REASON_RESTART_REFUSED, 60},
	{"an open restart while busy", RESTART_WHEN_IDLE, "u", true, true, AGES(10),
		REASON_RESTART_REFUSED, 60},
	/* The budget keeps one restart for an undo. */
	{"the second of an hour", RESTART_NOW, "u", false, false, AGES(10), REASON_NONE, 0},
	{"the third of an hour", RESTART_NOW, "u", false, false, AGES(600, 10),
		REASON_RESTARTED_TOO_OFTEN, HOUR - 600},
	{"the third of an hour to undo", RESTART_TO_UNDO, "u", false, false, AGES(600, 10),
		REASON_NONE, 0},
	{"the fourth of an hour to undo", RESTART_TO_UNDO, "u", false, false, AGES(900, 600, 10),
		REASON_RESTARTED_TOO_OFTEN, HOUR - 900},
	{"an hour later", RESTART_NOW, "u", false, false, AGES(HOUR, 10), REASON_NONE, 0},
	{"the fourth of a day", RESTART_NOW, "u", false, false, AGES(9 * HOUR, 6 * HOUR, 3 * HOUR),
		REASON_NONE, 0},
	{"the fifth of a day", RESTART_NOW, "u", false, false,
		AGES(9 * HOUR, 8 * HOUR, 6 * HOUR, 3 * HOUR), REASON_RESTARTED_TOO_OFTEN,
		15 * HOUR},
	{"the fifth of a day to undo", RESTART_TO_UNDO, "u", false, false,
		AGES(9 * HOUR, 8 * HOUR, 6 * HOUR, 3 * HOUR), REASON_NONE, 0},
	{"the sixth of a day to undo", RESTART_TO_UNDO, "u", false, false,
		AGES(9 * HOUR, 8 * HOUR, 7 * HOUR, 6 * HOUR, 3 * HOUR), REASON_RESTARTED_TOO_OFTEN,
		15 * HOUR},
	{"a day later", RESTART_NOW, "u", false, false, AGES(DAY, 8 * HOUR, 6 * HOUR, 3 * HOUR),
		REASON_NONE, 0},
	/* The budget comes before a busy daemon. */
	{"too often while busy", RESTART_WHEN_IDLE, "u", true, false, AGES(600, 10),
		REASON_RESTARTED_TOO_OFTEN, HOUR - 600},
	/* At most once an hour when idle. */
	{"idle within an hour", RESTART_WHEN_IDLE, "u", false, false, AGES(600),
		REASON_RESTART_PENDING, HOUR - 600},
	{"busy within an hour", RESTART_WHEN_IDLE, "u", true, false, AGES(600),
		REASON_RESTART_PENDING, 0},
	{"idle after an hour", RESTART_WHEN_IDLE, "u", false, false, AGES(HOUR), REASON_NONE, 0},
};

TEST(one_rule_decides_about_restarts)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct restart_history history = {.open = cases[i].open, .n_times = cases[i].n};
		struct daemon daemon = {.busy = cases[i].busy};
		bool any = cases[i].n > 0 || cases[i].open;
		uint64_t wait_us = 1;

		print_message("%s\n", cases[i].what);
		set_text(daemon.unit, cases[i].unit);
		for (size_t k = 0; k < cases[i].n; k++)
			history.times[k].at_s = NOW - cases[i].ages[k];
		assert_int_equal(
			may_restart(&daemon, any ? &history : NULL, cases[i].policy, NOW, &wait_us),
			cases[i].reason);
		assert_int_equal(wait_us, cases[i].wait_s == UINT64_MAX
						  ? UINT64_MAX
						  : cases[i].wait_s * USEC_PER_SEC);
	}
}

TEST(after_the_clock_was_set_back_restarts_count_from_now_on)
{
	struct restart_history history = {0};
	struct daemon daemon = {.unit = "u"};
	uint64_t wait_us;

	restart_add(&history, NOW + 50 * DAY);
	restart_add(&history, NOW + 50 * DAY);
	restart_set_clock(&history, NOW);
	assert_int_equal(may_restart(&daemon, &history, RESTART_NOW, NOW + HOUR - 1, &wait_us),
		REASON_RESTARTED_TOO_OFTEN);
	assert_int_equal(wait_us, USEC_PER_SEC);
	assert_int_equal(
		may_restart(&daemon, &history, RESTART_NOW, NOW + HOUR, &wait_us), REASON_NONE);
}

TEST(the_newest_restarts_are_kept)
{
	char why[SETTING_WHY_MAX];
	struct restart_history history = {.unit = "containerd.service"};

	for (uint64_t i = 0; i < RESTARTS_A_DAY + 2; i++)
		restart_add(&history, NOW + i);
	assert_int_equal(history.n_times, RESTARTS_A_DAY);
	assert_int_equal(history.times[0].at_s, NOW + 2);
	assert_int_equal(restarts_today(&history, NOW + DAY + 3), RESTARTS_A_DAY - 2);
	restart_describe(&history, NOW + 10, REASON_RESTARTED_TOO_OFTEN, why);
	assert_string_equal(why, "containerd.service was restarted 5 times within a day");
	restart_describe(NULL, NOW, REASON_NONE, why);
	assert_string_equal(why, "");
}
