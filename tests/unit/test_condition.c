/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <headroom/condition.h>

#include <ctype.h>

static void since_moves_with_the_status_alone(void **state)
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

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct condition_reading reading = {.type = CONDITION_NEIGHBOR_TABLE_PRESSURE,
			.status = steps[i].status,
			.reason = steps[i].reason};

		assert_int_equal(
			condition_observe(&condition, &reading, steps[i].at), steps[i].changed);
		assert_int_equal(condition.since_us, steps[i].since);
		assert_string_equal(condition.now.reason, steps[i].reason);
	}
}

static void every_type_is_described(void **state)
{
	(void)state;
	for (int i = 0; i < CONDITION_TYPES; i++) {
		enum condition_type type = (enum condition_type)i, found;
		const char *name = condition_name(type), *sentence = condition_sentence(type);

		assert_non_null(name);
		assert_true(isupper((unsigned char)name[0]));
		assert_true(condition_by_name(name, &found));
		assert_int_equal(found, type);
		assert_non_null(sentence);
		assert_true(isupper((unsigned char)sentence[0]));
		assert_int_equal(sentence[strlen(sentence) - 1], '.');
	}
}

static void an_unknown_name_is_not_found(void **state)
{
	enum condition_type type = CONDITION_AGENT_DEGRADED;

	(void)state;
	assert_false(condition_by_name("neighbortablepressure", &type));
	assert_false(condition_by_name("", &type));
	assert_int_equal(type, CONDITION_AGENT_DEGRADED);
}

static void names_and_severities(void **state)
{
	(void)state;
	assert_string_equal(condition_status_name(CONDITION_TRUE), "True");
	assert_string_equal(condition_status_name(CONDITION_FALSE), "False");
	assert_string_equal(condition_status_name(CONDITION_UNKNOWN), "Unknown");
	assert_int_equal(condition_severity(CONDITION_NEIGHBOR_TABLE_OVERFLOW), SEVERITY_CRITICAL);
	assert_int_equal(condition_severity(CONDITION_NEIGHBOR_TABLE_PRESSURE), SEVERITY_WARNING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(since_moves_with_the_status_alone),
		cmocka_unit_test(every_type_is_described),
		cmocka_unit_test(an_unknown_name_is_not_found),
		cmocka_unit_test(names_and_severities),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
