/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <headroom/condition.h>

TEST(since_changes_only_with_the_status)
{
	static const struct {
		enum condition_status status;
		const char *reason;
		uint64_t at;
		bool changed;
		uint64_t since;
	} steps[] = {
		{CONDITION_FALSE, "within-limit", 10, true, 10}, /* the first one */
		{CONDITION_FALSE, "within-limit", 20, false, 10},
		{CONDITION_TRUE, "near-full", 30, true, 30},
		{CONDITION_TRUE, "entries-refused", 40, false, 30},
		{CONDITION_UNKNOWN, "counters-unavailable", 50, true, 50},
		{CONDITION_FALSE, "within-limit", 60, true, 60},
	};
	struct condition condition = {0};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct condition_reading reading = {
			.status = steps[i].status, .reason = steps[i].reason};

		assert_int_equal(
			condition_observe(&condition, &reading, steps[i].at), steps[i].changed);
		assert_int_equal(condition.since_us, steps[i].since);
		assert_string_equal(condition.now.reason, steps[i].reason);
	}
}
