/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

/* An order for values that value_compare() refuses: they are not lists of the same length. */
#define TEXT 9

#define LONG_WORD                                                                                \
	"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
	"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct {
	const char *a, *b;
	int order; /* of a to b */
	bool equal;
	const char *max; /* NULL: refused */
} pairs[] = {
	{"1", "1", 0, true, "1"},
	{"1", "2", -1, false, "2"},
	{"10", "9", 1, false, "10"},
	{"-1", "0", -1, false, "0"},
	{"-2", "-1", -1, false, "-1"},
	{"-0", "0", 0, true, "-0"},
	{"18446744073692774399", "18446744073692774398", 1, false, "18446744073692774399"},
	{"18446744073709551615", "-1", 1, false, "18446744073709551615"},
	{"18446744073709551616", "1", TEXT, false, NULL}, /* wider than any sysctl: text */
	{"4096 87380 6291456", "4096\t87380\t6291456", 0, true, "4096 87380 6291456"},
	{" 4096 87380 6291456\n", "4096 87380 6291456", 0, true, "4096 87380 6291456"},
	{"4096 87380 6291456", "4096 131072 6291456", -1, false, "4096 131072 6291456"},
	{"4096 131072 1", "4096 87380 6291456", 2, false, "4096 131072 6291456"},
	{"1 -1", "-1 1", 2, false, "1 1"},
	{"1 2", "1", TEXT, false, NULL},
	{"1 2 3", "1 2 x", TEXT, false, NULL},
	{"", "", TEXT, true, NULL},
	{"", "1", TEXT, false, NULL},
	{"always", "never", TEXT, false, NULL},
	{"cubic  reno", " cubic reno", TEXT, true, NULL},
	{"cubic", "cubic reno", TEXT, false, NULL},
	{"010", "8", TEXT, false, NULL}, /* no octal numbers */
	{"+1", "1", TEXT, false, NULL},
	{"-", "-", TEXT, true, NULL},
	{"|/bin/core %p", "|/bin/core %P", TEXT, false, NULL},
	{LONG_WORD, LONG_WORD, TEXT, true, NULL},
	{LONG_WORD "1", LONG_WORD "2", TEXT, false, NULL},
};

static void compare_pair(const char *a, const char *b, int order)
{
	int got = 7;
	int r = value_compare(NULL, a, b, &got);

	if (r != (order == TEXT ? -EINVAL : 0) || got != (order == TEXT ? 7 : order))
		fail_msg("'%s' to '%s': %d, order %d", a, b, r, got);
}

TEST(integers_and_lists_of_integers_have_an_order)
{
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		int mirrored = pairs[i].order == TEXT || pairs[i].order == 2 ? pairs[i].order
									     : -pairs[i].order;

		compare_pair(pairs[i].a, pairs[i].b, pairs[i].order);
		compare_pair(pairs[i].b, pairs[i].a, mirrored);
		if (value_equal(pairs[i].a, pairs[i].b) != pairs[i].equal ||
			value_equal(pairs[i].b, pairs[i].a) != pairs[i].equal)
			fail_msg("'%s' and '%s'", pairs[i].a, pairs[i].b);
	}
}

TEST(the_maximum_is_taken_field_by_field)
{
	char out[SETTING_VALUE_MAX] = "1 9";

	assert_int_equal(value_max(NULL, out, "2 3", out), 0);
	assert_string_equal(out, "2 9");
	for (size_t i = 0; i < 2 * ARRAY_SIZE(pairs); i++) {
		const char *a = pairs[i / 2].a, *b = pairs[i / 2].b, *max = pairs[i / 2].max;

		strcpy(out, "untouched");
		assert_int_equal(
			value_max(NULL, i % 2 ? a : b, i % 2 ? b : a, out), max ? 0 : -EINVAL);
		assert_true(value_equal(out, max ? max : "untouched"));
	}
}

/* The original is 1024; 4096 was written, then 8192 was recorded. */
static const struct value_record record = {
	.name = "x", .original = "1024", .before = "4096", .wanted = "8192"};

TEST(values_that_are_not_in_the_record_are_foreign)
{
	/* With 4096 the agent was killed between recording and writing. */
	static const char *const ours[] = {"1024", "4096", "8192", " 8192\n"};

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		assert_false(value_is_foreign(&record, ours[i]));
	assert_true(value_is_foreign(&record, "8193"));
	assert_true(value_is_foreign(&record, ""));
}

TEST(a_floor_is_the_original_or_a_higher_value_of_the_administrator)
{
	static const struct value_record text = {
		.original = "always", .before = "always", .wanted = "never"};
	static const struct value_record fields = {
		.original = "1 50 3", .before = "1 50 3", .wanted = "9 50 9"};
	static const struct value_record chosen = {
		.original = "1024", .before = "8192", .chosen = "9000", .wanted = "12000"};
	static const struct {
		const struct value_record *record;
		const char *actual, *floor;
	} cases[] = {
		{NULL, "1024", "1024"},
		{NULL, "", ""},
		{&record, "1024", "1024"},
		{&record, "8192", "1024"}, /* our value is not the floor */
		{&record, "4096", "1024"},
		{&record, "9000", "9000"}, /* the administrator raised it later */
		{&record, "5000", "5000"},
		{&record, "512", "1024"},
		{&record, "", "1024"},
		{&text, "madvise", "always"},
		{&fields, "2 40 8", "2 50 8"},
		{&chosen, "12000", "9000"}, /* and we raised it further */
		{&chosen, "1024", "1024"},  /* the administrator took that back */
		{&chosen, "7000", "7000"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char floor[SETTING_VALUE_MAX] = "#";

		value_floor(NULL, cases[i].record, cases[i].actual, floor);
		assert_string_equal(floor, cases[i].floor);
	}
}

TEST(the_configuration_beats_a_choice_which_beats_the_default)
{
	static const struct {
		struct choice choice;
		const char *wanted;
		enum reason reason;
	} cases[] = {
		{{"80000", REASON_DEFAULT, .node = "128"}, "80000", REASON_DEFAULT},
		{{"80000", REASON_DEFAULT, .node = "90000"}, "90000", REASON_ADMINISTRATOR_HIGHER},
		{{"80000", REASON_DEFAULT, .node = "0", .chosen = REASON_CHOSEN_ON_NODE}, "0",
			REASON_CHOSEN_ON_NODE},
		{{"80000", REASON_CONFIGURED, .configured = true, .node = "0",
			 .chosen = REASON_CHOSEN_ON_NODE},
			"80000", REASON_CONFIGURED},
		{{"70", REASON_CONFIGURED, .configured = true, .node = "90"}, "90",
			REASON_ADMINISTRATOR_HIGHER},
		{{"70", REASON_CONFIGURED, .configured = true, .exact = true, .node = "90"}, "70",
			REASON_CONFIGURED},
		{{"never", REASON_DEFAULT, .node = "always"}, "never", REASON_DEFAULT},
		{{"never", REASON_DEFAULT, .node = "madvise", .chosen = REASON_CHOSEN_ON_NODE},
			"madvise", REASON_CHOSEN_ON_NODE},
		{{"5 5", REASON_PROFILE, .node = "1 9"}, "5 9", REASON_ADMINISTRATOR_HIGHER},
		{{"5", REASON_PROFILE}, "5", REASON_PROFILE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char wanted[SETTING_VALUE_MAX];

		assert_int_equal(value_choose(&cases[i].choice, wanted), cases[i].reason);
		assert_string_equal(wanted, cases[i].wanted);
	}
}

TEST(a_number_with_a_meaning_is_compared_by_it)
{
	static const struct meaning meanings[] = {
		{"0", NO_BOUND, 29}, {"0", 3}, {"-", NO_BOUND}, {"max", NO_BOUND}, {0}};
	static const struct {
		unsigned version;
		const char *a, *b;
		int order;
	} cases[] = {
		{28, "0", "10", -1},
		{28, "0", "3", 0},
		{29, "0", "10", 1},
		{29, "-1", "10", 1},
		{29, "-7", "10", 1},
		{29, "0", "max", 0},
		{28, "4 max", "4 7", 1},
		{28, "0", "max", -1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct meaning *rows = meanings_since(meanings, cases[i].version);
		char max[SETTING_VALUE_MAX];
		int order = TEXT;

		assert_int_equal(value_compare(rows, cases[i].a, cases[i].b, &order), 0);
		assert_int_equal(order, cases[i].order);
		assert_int_equal(value_max(rows, cases[i].b, cases[i].a, max), 0);
		assert_string_equal(max, cases[i].order > 0 ? cases[i].a : cases[i].b);
	}
	assert_int_equal(value_compare(NULL, "max", "7", &(int){0}), -EINVAL);
}
