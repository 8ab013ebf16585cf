/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/log.h"

TEST(advice_displaces_no_warning)
{
	struct log_event events[LOG_EVENTS];
	const struct log_event old = {.at_us = 1, .level = LOG_WARNING, .text = "of before"};
	size_t n, found = 0;

	log_warning("table", "full");
	log_recall(&old);
	for (int i = 0; i < 100; i++)
		log_notice("advice", "comes and goes");
	n = log_recent(events);
	assert_int_equal(n, LOG_KEPT + 2);
	for (size_t i = 0; i < n; i++)
		found += strcmp(events[i].text, "table: full") == 0;
	assert_int_equal(found, 1);
	assert_string_equal(events[n - 1].text, "of before");
	for (size_t i = 1; i < n; i++)
		assert_true(events[i].at_us <= events[i - 1].at_us);
}

TEST(each_kind_has_an_id_and_a_help)
{
	for (size_t i = 0; i < LOG_KINDS; i++) {
		assert_int_equal(strspn(log_kinds[i].id, "0123456789abcdef"), 32);
		assert_int_equal(strlen(log_kinds[i].id), 32);
		assert_true(log_kinds[i].help[0]);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(log_kinds[i].id, log_kinds[k].id);
	}
}

TEST(recalled_lines_displace_none_of_this_process)
{
	struct log_event events[LOG_EVENTS];
	const struct log_event old = {.at_us = 1, .level = LOG_WARNING, .text = "of before"};
	size_t n;

	for (int i = 0; i < LOG_KEPT; i++)
		log_warning("table", "%d", i);
	log_recall(&old);
	n = log_recent(events);
	assert_string_equal(events[0].text, "table: 19");
	for (size_t i = 0; i < n; i++)
		assert_string_not_equal(events[i].text, "of before");
}
