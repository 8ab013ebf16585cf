/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "cli/screen.h"
#include "model/node.h"
#include "tuners/table.h"

#define CONDITION(type, status, severity, reason, message)                          \
	"{\"type\":\"" type "\",\"status\":\"" status "\",\"severity\":\"" severity \
	"\",\"reason\":\"" reason "\",\"message\":\"" message "\"}"

static const char document[] =
	"{\"node\":{\"name\":\"n\",\"version\":\"1\",\"verdict\":\"warning\"},\"limits\":["
	"{\"name\":\"neighbor/ipv4\",\"used\":60,\"max\":100,\"unit\":\"entries\",\"peak\":120,"
	"\"peak_at\":\"2024-05-01T12:00:00Z\",\"hits\":9,\"hits_before\":7,\"bound\":\"exact\","
	"\"severity\":\"critical\",\"full_in_seconds\":7500}],"
	"\"tuners\":[{\"name\":\"thp\",\"mode\":\"off\",\"state\":\"off\"},"
	"{\"name\":\"dns\",\"mode\":\"enforce\",\"state\":\"active\"}],\"conditions\":[" CONDITION(
		"NeighborTablePressure", "True", "warning", "near-full",
		"60 of 100") "," CONDITION("SettingFailed", "False", "warning", "none-failed",
		"") "," CONDITION("AgentDegraded", "False", "warning", "all-active",
		"") "," CONDITION("DNSBudgetPressure", "False", "warning", "no-budget",
		"") "," CONDITION("DNSBudgetExceeded", "False", "critical", "no-budget",
		"") "," CONDITION("KubeletSerialPulls", "Unknown", "advice", "no-kubelet",
		"") "," CONDITION("TransparentHugePagesActive", "Unknown", "warning", "tuner-off",
		"") "]}";

static char *drawn(int width, bool color)
{
	cJSON *status = cJSON_Parse(document);
	struct screen screen = {.color = color, .bars = color, .width = width};
	char *text = NULL;
	size_t len = 0;

	assert_non_null(status);
	screen.out = open_memstream(&text, &len);
	print_status(&screen, status, false);
	fclose(screen.out);
	cJSON_Delete(status);
	return text;
}

TEST(limits_come_first_then_problems_and_what_is_well_is_a_number)
{
	_cleanup_free_ char *text = drawn(INT_MAX, false);

	assert_string_equal(text,
		"n  headroom 1  warning\n"
		"\n"
		"Limits\n"
		"  neighbor/ipv4       60 of 100 entries  60 %  peak 120 at 2024-05-01T12:00:00Z"
		"  hits 2 (9 since boot)  full in 2 h 5 min\n"
		"\n"
		"Conditions\n"
		"  warning  NeighborTablePressure        near-full\n"
		"           60 of 100\n"
		"  2 OK\n"
		"  not applicable: DNS budgets (no cloud resolver), kubelet (none)\n"
		"\n"
		"Settings\n"
		"  dns        enforce  active\n");
}

TEST(the_bar_has_the_colour_of_the_severity)
{
	_cleanup_free_ char *text = drawn(INT_MAX, true);

	assert_non_null(strstr(text, "neighbor/ipv4       \033[31m█"));
}

TEST(lines_are_wrapped_to_columns_and_never_cut)
{
	_cleanup_free_ char *text = drawn(60, false);

	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		assert_true(strcspn(line, "\n") <= 60);
	assert_non_null(strstr(text, "since"));
	assert_int_equal(setenv("COLUMNS", "77", 1), 0);
	assert_int_equal(screen_open().width, 77);
	assert_int_equal(unsetenv("COLUMNS"), 0);
	if (!screen_open().bars)
		assert_int_equal(screen_open().width, INT_MAX);
}

struct word_search {
	const char *word;
	bool found;
};

static void match(const struct entry *entry, void *userdata)
{
	struct word_search *search = userdata;

	search->found = search->found || streq(entry->name, search->word);
}

static void assert_explained(const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct word_search search = {.word = words[i]};

		each_entry(match, &search);
		if (!search.found)
			fail_msg("explain does not know %s", words[i]);
	}
}

TEST(every_word_that_status_prints_is_explained)
{
	static const char *const others[] = {"OK", "peak", "hits"};

	assert_explained(others, ARRAY_SIZE(others));
	assert_explained(mode_names, MODE_RELEASED + 1);
	assert_explained(setting_state_names, SETTING_OBSERVED + 1);
	assert_explained(tuner_state_names, TUNER_OFF + 1);
	assert_explained(condition_status_names, CONDITION_UNKNOWN + 1);
	assert_explained(severity_names, SEVERITY_ADVICE + 1);
	assert_explained(verdict_names, VERDICT_CRITICAL + 1);
}
