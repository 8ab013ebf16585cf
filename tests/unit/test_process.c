/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/process.h"

#include <errno.h>

static void the_start_is_field_22(void **state)
{
	uint64_t us = 7;
	char text[128];

	(void)state;
	assert_int_equal(
		process_start(
			"1 (a) b) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 300 23\n", &us),
		0);
	assert_int_equal(us, 300 * process_tick_us());
	snprintf(text, sizeof(text), "1 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 %llu",
		42ULL);
	assert_int_equal(process_start(text, &us), 0);
	assert_int_equal(us, 42 * process_tick_us());
}

static void what_is_no_such_file_is_refused(void **state)
{
	static const char *const texts[] = {"", ")", "1 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
		"1 (a S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23",
		"1 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 -1 23",
		"1 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 5x 23",
		"1 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 9999999999999999999 23",
		"1 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 99999999999999999999 23"};
	uint64_t us = 7;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (process_start(texts[i], &us) != -EBADMSG)
			fail_msg("taken: %s", texts[i]);
	assert_int_equal(us, 7);
}

static void a_time_since_boot_is_a_time_of_day(void **state)
{
	uint64_t before = realtime_us(), now = realtime_of_boottime(UINT64_MAX);

	(void)state;
	assert_true(now >= before);
	assert_true(realtime_of_boottime(0) < now);
	assert_true(realtime_of_boottime(0) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_start_is_field_22),
		cmocka_unit_test(what_is_no_such_file_is_refused),
		cmocka_unit_test(a_time_since_boot_is_a_time_of_day),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
