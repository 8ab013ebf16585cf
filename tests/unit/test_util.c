/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

TEST(copied_text_is_cut_to_its_room)
{
	static const struct {
		size_t size;
		const char *src, *expected;
		bool whole;
	} cases[] = {
		{8, "", "", true},
		{8, "1234567", "1234567", true},
		{8, "12345678", "1234567", false},
		{1, "x", "", false},
		{1, "", "", true},
	};
	char overlapping[8] = "abcdef";

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char dst[8] = "#######";

		assert_int_equal(copy_text(dst, cases[i].size, cases[i].src), cases[i].whole);
		assert_string_equal(dst, cases[i].expected);
	}
	assert_true(copy_text(overlapping, sizeof(overlapping), overlapping + 2));
	assert_string_equal(overlapping, "cdef");
}

TEST(an_array_grows_and_keeps_what_it_had)
{
	size_t allocated = 0;
	int *numbers = NULL;

	for (size_t n = 0; n < 100; n++) {
		assert_int_equal(grow_array(&numbers, n, &allocated, sizeof(*numbers)), 0);
		assert_true(allocated > n);
		assert_int_equal(numbers[n], 0);
		numbers[n] = (int)n;
	}
	for (int i = 0; i < 100; i++)
		assert_int_equal(numbers[i], i);
	/* An element that is used again is zeroed again. */
	assert_int_equal(grow_array(&numbers, 50, &allocated, sizeof(*numbers)), 0);
	assert_int_equal(numbers[50], 0);
	assert_int_equal(numbers[49], 49);
	free(numbers);
}

TEST(clocks_advance)
{
	uint64_t before = now_us();

	usleep(2000);
	assert_in_range(now_us() - before, 2000, 10 * USEC_PER_SEC);
	assert_true(realtime_us() > UINT64_C(1600000000) * USEC_PER_SEC);
}

TEST(prefixes_and_equality)
{
	assert_true(starts_with("/sys/x", "/sys/"));
	assert_true(starts_with("", ""));
	assert_false(starts_with("/sy", "/sys/"));
	assert_true(streq("a", "a"));
	assert_false(streq("a", "A"));
}
