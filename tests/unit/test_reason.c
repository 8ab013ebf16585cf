/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "model/reason.h"

#include <ctype.h>

static void sentences_are_sentences(void **state)
{
	(void)state;
	for (const struct reason *reason = reason_table; reason->slug; reason++) {
		size_t len = strlen(reason->sentence);

		if (!isupper((unsigned char)reason->sentence[0]) && reason->sentence[0] != '/' &&
			!starts_with(reason->sentence, "headroom "))
			fail_msg("%s: begins small", reason->slug);
		if (reason->sentence[len - 1] != '.')
			fail_msg("%s: does not end", reason->slug);
		if (strstr(reason->sentence, "  ") || strpbrk(reason->sentence, "\n\t"))
			fail_msg("%s: odd blanks", reason->slug);
	}
}

static void slugs_are_slugs_and_differ(void **state)
{
	(void)state;
	for (const struct reason *reason = reason_table; reason->slug; reason++) {
		size_t len = strlen(reason->slug);

		assert_in_range(len, 2, 32);
		assert_int_equal(strspn(reason->slug, "abcdefghijklmnopqrstuvwxyz-"), len);
		assert_ptr_equal(reason_sentence(reason->slug), reason->sentence);
	}
}

static void an_unknown_slug_has_no_sentence(void **state)
{
	(void)state;
	assert_null(reason_sentence("no-such-reason"));
	assert_null(reason_sentence(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sentences_are_sentences),
		cmocka_unit_test(slugs_are_slugs_and_differ),
		cmocka_unit_test(an_unknown_slug_has_no_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
