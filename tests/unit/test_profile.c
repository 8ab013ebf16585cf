/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include "config/value.h"

static const struct profile *find_profile(const char *name)
{
	for (const struct profile *profile = profile_table; profile->name; profile++)
		if (streq(profile->name, name))
			return profile;
	return NULL;
}

static void words_are_the_names(void **state)
{
	size_t n = 0;

	(void)state;
	for (; profile_table[n].name; n++) {
		assert_non_null(profile_table[n].sentence);
		assert_string_equal(profile_table[n].name, profile_words[n]);
	}
	assert_null(profile_words[n]);
}

static void sysctl_rows_are_written_as_they_are_used(void **state)
{
	(void)state;
	for (const struct profile_row *row = profile_rows; row->name; row++) {
		char name[SETTING_NAME_MAX], value[SETTING_VALUE_MAX], why[VALUE_WHY_MAX];

		if (!starts_with(row->name, "sysctl."))
			continue;
		assert_int_equal(sysctl_name_parse(row->name + strlen("sysctl."), name, why), 0);
		assert_string_equal(name, row->name + strlen("sysctl."));
		assert_int_equal(sysctl_value_parse(row->value, value, why), 0);
		assert_string_equal(value, row->value);
		assert_true(sysctl_value_is_numeric(value));
	}
}

static void every_row_has_a_source_and_stands_once(void **state)
{
	(void)state;
	for (const struct profile_row *row = profile_rows; row->name; row++) {
		assert_non_null(find_profile(row->profile));
		assert_true(strlen(row->source) > 20);
		for (const struct profile_row *other = profile_rows; other != row; other++)
			assert_false(streq(other->profile, row->profile) &&
				     streq(other->name, row->name));
	}
}

static void each_profile_loads(void **state)
{
	(void)state;
	for (const struct profile *profile = profile_table; profile->name; profile++) {
		char text[64];
		size_t rows = 0, n;

		for (const struct profile_row *row = profile_rows; row->name; row++)
			rows += streq(row->profile, profile->name) &&
				starts_with(row->name, "sysctl.");
		snprintf(text, sizeof(text), "profile: %s\n", profile->name);
		_cleanup_loaded_ struct loaded loaded = load_text(text);
		assert_loaded(&loaded);
		config_sysctls(loaded.config, &n);
		assert_int_equal(n, rows);
		if (streq(profile->name, "minimal"))
			assert_int_equal(n, 0);
	}
}

static void a_file_wins_over_the_profile(void **state)
{
	_cleanup_loaded_ struct loaded loaded =
		load_text("profile: lxd-host\nneighbor: {ipv4: {gc_thresh3: 9000}}\n"
			  "sysctl: {fs.aio-max-nr: 1000000}\n");
	size_t n;
	const struct config_sysctl *sysctls = config_sysctls(loaded.config, &n);

	(void)state;
	assert_loaded(&loaded);
	assert_int_equal(config_count(loaded.config, "neighbor.ipv4.gc_thresh3", 0), 9000);
	assert_string_equal(sysctls[0].name, "fs.aio-max-nr");
	assert_string_equal(sysctls[0].value, "1000000");
	for (size_t i = 1; i < n; i++)
		assert_true(strcmp(sysctls[i - 1].name, sysctls[i].name) < 0);
}

static void the_place_of_a_profile_value_is_its_name(void **state)
{
	_cleanup_loaded_ struct loaded loaded = load_text("profile: lxd-host\n");
	struct config_place place = config_where(loaded.config, "neighbor.ipv4.gc_thresh3");

	(void)state;
	assert_string_equal(place.file, "profile lxd-host");
	assert_int_equal(place.line, 0);
	assert_int_equal(config_count(loaded.config, "neighbor.ipv4.gc_thresh3", 0), 100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_the_names),
		cmocka_unit_test(sysctl_rows_are_written_as_they_are_used),
		cmocka_unit_test(every_row_has_a_source_and_stands_once),
		cmocka_unit_test(each_profile_loads),
		cmocka_unit_test(a_file_wins_over_the_profile),
		cmocka_unit_test(the_place_of_a_profile_value_is_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
