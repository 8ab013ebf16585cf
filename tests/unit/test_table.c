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

static void check_metric(const struct metric_row *row)
{
	const char *total = strstr(row->name, "_total");

	if (!starts_with(row->name, "headroom_") && !starts_with(row->name, "process_"))
		fail_msg("%s: the prefix is missing", row->name);
	if ((row->type == METRIC_COUNTER) != (total && streq(total, "_total")))
		fail_msg("%s: _total is for counters", row->name);
}

TEST(every_entry_has_help_and_a_source)
{
	size_t n;
	_cleanup_free_ struct help_entry *entries = all_entries(&n);

	for (const struct help_entry *entry = entries; entry < entries + n; entry++) {
		if (entry->kind != ENTRY_OPTION)
			expect_sentence(entry->name, entry->help);
		if (!entry_kind_names[entry->kind])
			fail_msg("%s: its kind has no name", entry->name);
		if (entry->kind == ENTRY_METRIC)
			check_metric(entry->metric);
		else if (entry->kind == ENTRY_CONDITION)
			assert_true(isupper((unsigned char)entry->name[0]) &&
				    entry->condition->reasons);
		else if (entry->kind == ENTRY_LIMIT &&
			 (!entry->unit || !entry->limit->breaks || !entry->limit->cure_help ||
				 !entry->limit->severity))
			fail_msg("%s: no unit, no effect, no cure or no severity", entry->name);
		else if (entry->kind != ENTRY_TUNER && entry->kind != ENTRY_REASON &&
			 !entry->source && !entry_detail(entry))
			fail_msg("%s: no source", entry->name);
	}
}

TEST(rows_are_found_by_name)
{
	assert_string_equal(limit_row_find("neighbor/ipv4")->name, "neighbor/ipv4");
	assert_string_equal(limit_row_find("dns/10.0.0.2/pending")->name, "dns/*/pending");
	assert_null(limit_row_of(tuner_find("thp")->tables, "neighbor/ipv4"));
	assert_null(limit_row_find("no-such-limit"));
	assert_string_equal(condition_type_find("ConfigInvalid")->name, "ConfigInvalid");
	assert_null(condition_type_find("NoSuchCondition"));
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
