/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "tuners/table.h"

#include <ctype.h>

/* A sentence begins with a capital letter, ends with a full stop and has single spaces. */
static void expect_sentence(const char *name, const char *text)
{
	if (!text || (islower((unsigned char)text[0]) && !starts_with(text, "headroom ")))
		fail_msg("%s: does not begin as a sentence", name);
	if (!strchr(".)", text[strlen(text) - 1]))
		fail_msg("%s: does not end as a sentence", name);
	if (strstr(text, "  ") || strpbrk(text, "\n\t"))
		fail_msg("%s: odd white space", name);
}

static void check_metric(const struct explanation *entry)
{
	const char *total = strstr(entry->name, "_total");

	if (!starts_with(entry->name, "headroom_") && !starts_with(entry->name, "process_"))
		fail_msg("%s: the prefix is missing", entry->name);
	if (streq(entry->detail, "counter") != (total && streq(total, "_total")))
		fail_msg("%s: _total is for counters", entry->name);
}

TEST(every_entry_has_help_and_a_source)
{
	size_t n;
	_cleanup_free_ struct explanation *entries = all_entries(&n);

	for (const struct explanation *entry = entries; entry < entries + n; entry++) {
		/* The settings of a profile have sources instead of help. */
		if (!entry->row && !(entry->detail && streq(entry->kind, "setting")))
			expect_sentence(entry->name, entry->help);
		if (streq(entry->kind, "metric"))
			check_metric(entry);
		else if (entry->condition)
			assert_true(isupper((unsigned char)entry->name[0]) &&
				    entry->condition->reasons);
		else if (streq(entry->kind, "limit") &&
			 (!entry->unit || !entry->breaks || !entry->now || !entry->severity))
			fail_msg("%s: no unit, no effect, no cure or no severity", entry->name);
		else if (!streq(entry->kind, "tuner") && !streq(entry->kind, "reason") &&
			 !entry->source && !entry->detail)
			fail_msg("%s: no source", entry->name);
	}
	assert_null(entry_help("tuner", "no-such-tuner"));
}

TEST(a_slug_finds_its_reason)
{
	for (int i = REASON_NONE + 1; i < REASONS; i++) {
		const struct reason_row *row = &reason_rows[i];
		const char *act = reason_act_text((enum reason)i);

		assert_in_range(strlen(row->slug), 2, 32);
		assert_int_equal(reason_parse(row->slug), i);
		if ((row->act == ACT_NOBODY) != !act || (row->retry && !strstr(act, "retries")))
			fail_msg("%s: who must act?", row->slug);
	}
	assert_int_equal(reason_parse("no-such-reason"), REASON_NONE);
	assert_int_equal(reason_parse(""), REASON_NONE);
}

TEST(every_capability_has_a_reason)
{
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct capability_row *row = all_tables[i]->capabilities;
			row && row->name; row++) {
			assert_true(starts_with(row->name, "CAP_"));
			assert_true(row->why && row->why[0]);
			assert_int_equal(row->use == CAPABILITY_TO_SET, row->setting != NULL);
		}
}
