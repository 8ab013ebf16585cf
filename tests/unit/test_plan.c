/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <headroom/plan.h>

static void add_threshold(struct plan *plan, int family, int level, unsigned old, unsigned new)
{
	struct change *change = plan_add(plan, NULL, "", "", "", "");

	change->target =
		(struct value_target){.kind = VALUE_NEIGHTBL, .family = family, .level = level};
	snprintf(change->old, sizeof(change->old), "%u", old);
	snprintf(change->new, sizeof(change->new), "%u", new);
}

/* Writes triple n of all triples of four values. Returns false after the last one. */
static bool triple(unsigned n, unsigned values[3])
{
	for (int i = 0; i < 3; i++, n /= 4)
		values[i] = n % 4 * 5;
	return n == 0;
}

static bool is_ordered(const unsigned values[3])
{
	return values[0] <= values[1] && values[1] <= values[2];
}

/* The plan has the levels that differ, of both families and in any order. */
static void check_way(const unsigned old[3], const unsigned new[3], int first, int step)
{
	unsigned now[2][3];
	struct plan plan = {0};

	for (int i = 0; i < 6; i++) {
		int level = (first + i * step) % 3, family = i / 3 ? AF_INET6 : AF_INET;

		now[i / 3][level] = old[level];
		if (old[level] != new[level])
			add_threshold(&plan, family, level + 1, old[level], new[level]);
	}
	plan_sort(&plan);
	for (size_t i = 0; i < plan.n; i++) {
		unsigned *values = now[plan.changes[i].target.family == AF_INET6];

		values[plan.changes[i].target.level - 1] =
			(unsigned)strtoul(plan.changes[i].new, NULL, 10);
		if (!is_ordered(values))
			fail_msg("%u %u %u on the way from %u %u %u to %u %u %u", values[0],
				values[1], values[2], old[0], old[1], old[2], new[0], new[1],
				new[2]);
	}
	for (int f = 0; f < 2; f++)
		assert_memory_equal(now[f], new, sizeof(now[f]));
	plan_clear(&plan);
}

TEST(thresholds_never_cross)
{
	unsigned old[3], new[3];

	for (unsigned from = 0; triple(from, old); from++)
		for (unsigned to = 0; is_ordered(old) && triple(to, new); to++)
			for (int way = 0; is_ordered(new) && way < 6; way++)
				check_way(old, new, way % 3, 1 + way / 3);
}

TEST(other_changes_keep_their_order_before_thresholds)
{
	static const char *const expected[] = {"b", "a", "c", "3", "1"};
	struct plan plan = {0};

	add_threshold(&plan, AF_INET, 1, 1, 2);
	for (size_t i = 0; i < 3; i++)
		plan_add(&plan, NULL, expected[i], "", "", "");
	add_threshold(&plan, AF_INET, 3, 1, 2);
	copy_text(plan.changes[0].name, SETTING_NAME_MAX, "1");
	copy_text(plan.changes[4].name, SETTING_NAME_MAX, "3");
	plan_sort(&plan);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		assert_string_equal(plan.changes[i].name, expected[i]);
	plan_clear(&plan);
	assert_null(plan.changes);
	assert_int_equal(plan.n, 0);
}
