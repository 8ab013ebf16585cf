/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include "config/duration.h"

#include <errno.h>

static void takes_one_number_and_its_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t us;
	} good[] = {
		{"500ms", 500000},
		{"20s", 20000000},
		{"30m", 1800000000},
		{"2h", UINT64_C(7200000000)},
		{"0s", 0},
		{"0ms", 0},
		{"5124095576h", UINT64_C(5124095576) * 3600000000},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		uint64_t us = 7;

		assert_int_equal(duration_parse(good[i].text, &us), 0);
		assert_true(us == good[i].us);
	}
}

static void refuses_anything_else(void **state)
{
	static const char *const bad[] = {"", "s", "30", "30 m", " 30m", "30m ", "1h30m", "1.5h",
		"-1s", "+1s", "01s", "1S", "1min", "1us", "1d", "0x1s", "1e3s", "ms"};
	uint64_t us = 7;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(duration_parse(bad[i], &us), -EINVAL);
	assert_int_equal(duration_parse("5124095577h", &us), -ERANGE);
	assert_int_equal(duration_parse("18446744073709551616ms", &us), -ERANGE);
	assert_int_equal(duration_parse("100000000000000000000000000s", &us), -ERANGE);
	assert_true(us == 7);
}

static void is_written_as_it_is_read(void **state)
{
	static const struct {
		uint64_t us;
		const char *text;
	} cases[] = {
		{0, "0s"},
		{500000, "500ms"},
		{1000000, "1s"},
		{90000000, "90s"},
		{1800000000, "30m"},
		{UINT64_C(7200000000), "2h"},
		{1234, "1ms"},
	};
	char text[DURATION_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(duration_format(text, cases[i].us), cases[i].text);
}

static void stands_in_a_file(void **state)
{
	_cleanup_loaded_ struct loaded plain = load_text("");
	_cleanup_loaded_ struct loaded given = load_text("watch: {timeout: 90s}\n");
	_cleanup_loaded_ struct loaded word = load_text("watch: {timeout: off}\n");

	(void)state;
	assert_loaded(&plain);
	assert_true(config_duration(plain.config, "watch.timeout") == 1800000000);
	assert_int_equal(config_choice(plain.config, "watch.timeout"), -1);
	assert_loaded(&given);
	assert_true(config_duration(given.config, "watch.timeout") == 90000000);
	assert_string_equal(config_text(given.config, "watch.timeout"), "90s");
	assert_int_not_equal(config_checksum(plain.config), config_checksum(given.config));
	assert_loaded(&word);
	assert_true(config_duration(word.config, "watch.timeout") == 0);
	assert_int_equal(config_choice(word.config, "watch.timeout"), 0);
}

static void faults_tell_what_to_write(void **state)
{
	static const struct {
		const char *text;
		const char *words;
	} cases[] = {
		{"watch: {timeout: 30}\n", "\"30\" is no time with a unit: write a whole number "
					   "with its unit, as in 500ms, 20s, 30m or 2h, from 1s to "
					   "24h, or off"},
		{"watch: {timeout: 1h30m}\n", "no time with a unit"},
		{"watch: {timeout: 999ms}\n", "out of range"},
		{"watch: {timeout: 25h}\n", "out of range"},
		{"watch: {timeout: 99999999999999999999h}\n", "out of range"},
		{"watch: {timeout: {}}\n", "cannot be a map"},
		{"watch: {timeout: [1s]}\n", "cannot be a list"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_loaded_ struct loaded loaded = load_text(cases[i].text);

		assert_one_fault(&loaded, 1, 18, cases[i].words);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_one_number_and_its_unit),
		cmocka_unit_test(refuses_anything_else),
		cmocka_unit_test(is_written_as_it_is_read),
		cmocka_unit_test(stands_in_a_file),
		cmocka_unit_test(faults_tell_what_to_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
