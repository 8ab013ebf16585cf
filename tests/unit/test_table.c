/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/table.h"

#include <ctype.h>

/* A sentence of a table: it begins large, ends with a full stop, and has no odd white space. */
static void expect_sentence(const char *name, const char *text)
{
	if (!text || (islower((unsigned char)text[0]) && !starts_with(text, "headroom ")))
		fail_msg("%s: does not begin as a sentence", name);
	if (!strchr(".)", text[strlen(text) - 1]))
		fail_msg("%s: does not end as a sentence", name);
	if (strstr(text, "  ") || strpbrk(text, "\n\t"))
		fail_msg("%s: odd white space", name);
}

TEST(conditions_are_described)
{
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct condition_type *row = all_tables[i]->conditions; row && row->name;
			row++) {
			assert_true(isupper((unsigned char)row->name[0]));
			assert_non_null(row->reasons);
			expect_sentence(row->name, row->help);
		}
}

static void check_reason(const struct entry *entry, void *userdata)
{
	size_t len = strlen(entry->name);

	(void)userdata;
	if (!streq(entry->kind, "reason"))
		return;
	assert_in_range(len, 2, 32);
	assert_int_equal(strspn(entry->name, "abcdefghijklmnopqrstuvwxyz-"), len);
	/* Of two rows with one slug only the first would be found. */
	if (entry_help("reason", entry->name) != entry->help)
		fail_msg("%s: another table has this slug", entry->name);
	expect_sentence(entry->name, entry->help);
}

TEST(reasons_have_one_meaning_each)
{
	each_entry(check_reason, NULL);
	assert_null(entry_help("reason", "no-such-reason"));
	assert_null(entry_help("reason", ""));
}

TEST(metrics_are_named_as_prometheus_asks)
{
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct metric_row *row = all_tables[i]->metric_rows; row && row->name;
			row++) {
			const char *total = strstr(row->name, "_total");

			if (!starts_with(row->name, "headroom_") &&
				!starts_with(row->name, "process_"))
				fail_msg("%s: without our prefix", row->name);
			if ((row->type == METRIC_COUNTER) != (total && streq(total, "_total")))
				fail_msg("%s: _total is for counters", row->name);
			expect_sentence(row->name, row->help);
		}
}

TEST(limits_say_what_of_what_and_whence)
{
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct limit_row *row = all_tables[i]->limits; row && row->name; row++) {
			expect_sentence(row->name, row->help);
			if (!row->unit || !row->source)
				fail_msg("%s: no unit or source", row->name);
			assert_int_equal(!row->used.path, !row->max.path);
			assert_int_equal(!row->used.path, !row->used.field);
		}
}

TEST(explanations_say_what_and_whence)
{
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct explanation *row = all_tables[i]->explanations; row && row->name;
			row++) {
			expect_sentence(row->name, row->what);
			if (!row->kind || !row->source)
				fail_msg("%s: no kind or source", row->name);
		}
}

TEST(capabilities_say_why)
{
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct capability_row *row = all_tables[i]->capabilities;
			row && row->name; row++) {
			assert_true(starts_with(row->name, "CAP_"));
			assert_true(row->why && row->why[0]);
			assert_int_equal(row->use == CAPABILITY_TO_SET, row->setting != NULL);
		}
}
