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
	assert_true(set_text(overlapping, overlapping + 2));
	assert_string_equal(overlapping, "cdef");
}

TEST(an_array_grows_and_keeps_its_elements)
{
	size_t n = 0, allocated = 0;
	int *numbers = NULL;

	for (int i = 0; i < 100; i++) {
		int *added = add_element(&numbers, &n, &allocated);

		assert_int_equal(n, i + 1);
		assert_in_range(n, 1, allocated);
		assert_int_equal(*added, 0);
		*added = i;
	}
	for (int i = 0; i < 100; i++)
		assert_int_equal(numbers[i], i);
	/* A reused element is zeroed. */
	n = 50;
	add_element(&numbers, &n, &allocated);
	assert_int_equal(numbers[50], 0);
	assert_int_equal(numbers[49], 49);
	free(numbers);
}

TEST(an_index_finds_elements_that_were_added_since)
{
	struct {
		char name[8];
	} *names = NULL;
	struct element_index index = {0};
	size_t n = 0, allocated = 0;

	assert_null(find_indexed(&index, names, n, "0"));
	for (int i = 0; i < 100; i++) {
		__typeof__(names) added = add_element(&names, &n, &allocated);

		snprintf(added->name, sizeof(added->name), "%d", i / 2);
		assert_ptr_equal(find_indexed(&index, names, n, added->name), &names[i / 2 * 2]);
	}
	assert_ptr_equal(find_indexed(&index, names, n, "7"), &names[14]);
	assert_null(find_indexed(&index, names, n, "50"));
	free(index.positions);
	free(names);
}

TEST(an_index_finds_elements_by_keys_of_bytes_and_forgets_them)
{
	struct {
		uint64_t key[2];
	} *rows = NULL;
	struct element_index index = {0};
	size_t n = 0, allocated = 0;

	for (uint64_t i = 0; i < 100; i++) {
		const uint64_t key[2] = {i % 7, i};

		assert_null(find_keyed(&index, rows, n, &key));
		memcpy(add_element(&rows, &n, &allocated)->key, key, sizeof(key));
		assert_ptr_equal(find_keyed(&index, rows, n, &key), &rows[i]);
	}
	rows[0] = rows[99];
	index_reset(&index);
	assert_ptr_equal(find_keyed(&index, rows, 1, &rows[99].key), &rows[0]);
	assert_null(find_keyed(&index, rows, 1, &rows[1].key));
	free(index.positions);
	free(rows);
}

static int by_first_digit(const void *a, const void *b)
{
	return *(const int *)a / 10 - *(const int *)b / 10;
}

TEST(the_first_elements_are_kept_in_order_and_equal_ones_as_they_came)
{
	static const int given[] = {52, 31, 71, 33, 12, 91, 11, 32}, wanted[] = {12, 11, 31, 33};
	int kept[4];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(given); i++)
		keep_first(kept, &n, ARRAY_SIZE(kept), sizeof(kept[0]), &given[i], by_first_digit);
	assert_int_equal(n, ARRAY_SIZE(kept));
	assert_memory_equal(kept, wanted, sizeof(wanted));
}

TEST(a_rate_begins_at_zero_and_is_halfway_after_its_half_life)
{
	struct smoothing first = smoothing_since(0, 50 * USEC_PER_SEC, 10);
	struct smoothing later = smoothing_since(50 * USEC_PER_SEC, 60 * USEC_PER_SEC, 10);

	assert_true(smooth(&first, 0, 1000) == 0);
	assert_true(smooth(&later, 0, 1000) == 50);
	first = smoothing_since(50 * USEC_PER_SEC, 50 * USEC_PER_SEC, 10);
	assert_true(smooth(&first, 7, 1000) == 7);
}

TEST(only_plain_decimal_counts_are_accepted)
{
	static const struct {
		const char *text;
		int result;
		uint64_t value;
	} cases[] = {
		{"0", 0, 0}, {"80000", 0, 80000}, {"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0}, {"", -EINVAL, 0}, {"007", -EINVAL, 0},
		{"-1", -EINVAL, 0}, {" 1", -EINVAL, 0}, {"1 ", -EINVAL, 0}, {"80k", -EINVAL, 0},
		{"0x10", -EINVAL, 0}, {"1e3", -EINVAL, 0},
		{"\xd9\xa1", -EINVAL, 0}, /* an Arabic digit */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t value = 12345;

		if (parse_count(cases[i].text, &value) != cases[i].result)
			fail_msg("'%s'", cases[i].text);
		assert_true(value == (cases[i].result == 0 ? cases[i].value : 12345));
	}
}
