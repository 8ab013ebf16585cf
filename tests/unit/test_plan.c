/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"
#include "kill.h"

#include <headroom/plan.h>

#define ROUNDS 20000

/* Three values in order; from few, so that equal ones are frequent, or from many. */
static void random_triple(uint64_t *seed, uint64_t triple[3])
{
	uint64_t range = next_random(seed) % 2 ? 6 : 200000;

	for (int i = 0; i < 3; i++) {
		uint64_t value = next_random(seed) % range;
		int j = i;

		for (; j > 0 && triple[j - 1] > value; j--)
			triple[j] = triple[j - 1];
		triple[j] = value;
	}
}

static void add_threshold(struct plan *plan, int family, int level, uint64_t old, uint64_t new)
{
	struct change *change = plan_add(plan, NULL, "", "", "", "");

	assert_non_null(change);
	change->target =
		(struct value_target){.kind = VALUE_NEIGHTBL, .family = family, .level = level};
	snprintf(change->old, sizeof(change->old), "%" PRIu64, old);
	snprintf(change->new, sizeof(change->new), "%" PRIu64, new);
}

/* Only what differs, in any order, as a plan may come. */
static void add_triple(
	struct plan *plan, int family, uint64_t *seed, const uint64_t old[3], const uint64_t new[3])
{
	int first = (int)(next_random(seed) % 3);
	int step = next_random(seed) % 2 ? 1 : 2;

	for (int i = 0; i < 3; i++) {
		int level = (first + i * step) % 3;

		if (old[level] != new[level])
			add_threshold(plan, family, level + 1, old[level], new[level]);
	}
}

static void assert_ordered(const uint64_t now[3], const uint64_t old[3], const uint64_t new[3])
{
	if (now[0] > now[1] || now[1] > now[2])
		fail_msg("%" PRIu64 " %" PRIu64 " %" PRIu64 " on the way from %" PRIu64 " %" PRIu64
			 " %" PRIu64 " to %" PRIu64 " %" PRIu64 " %" PRIu64,
			now[0], now[1], now[2], old[0], old[1], old[2], new[0], new[1], new[2]);
}

TEST(thresholds_never_cross)
{
	static const int families[2] = {AF_INET, AF_INET6};
	uint64_t seed = 42;
	struct plan plan = {0};

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t old[2][3], new[2][3], now[2][3];

		plan.n = 0;
		for (int f = 0; f < 2; f++) {
			random_triple(&seed, old[f]);
			random_triple(&seed, new[f]);
			memcpy(now[f], old[f], sizeof(now[f]));
			add_triple(&plan, families[f], &seed, old[f], new[f]);
		}
		plan_sort(&plan);
		for (size_t i = 0; i < plan.n; i++) {
			int f = plan.changes[i].target.family == AF_INET ? 0 : 1;

			now[f][plan.changes[i].target.level - 1] =
				strtoull(plan.changes[i].new, NULL, 10);
			assert_ordered(now[f], old[f], new[f]);
		}
		assert_memory_equal(now, new, sizeof(new));
	}
	plan_clear(&plan);
}

TEST(other_changes_keep_their_order_before_thresholds)
{
	static const char *const expected[] = {"b", "a", "c", "3", "1"};
	struct plan plan = {0};

	add_threshold(&plan, AF_INET, 1, 1, 2);
	for (size_t i = 0; i < 3; i++)
		assert_non_null(plan_add(&plan, NULL, expected[i], "", "", ""));
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
