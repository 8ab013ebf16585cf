/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/text.h"

TEST(foreign_text_cannot_steer_a_terminal)
{
	static const struct {
		const char *foreign, *printed;
	} cases[] = {
		{"eth0", "eth0"},
		{"\033[2Jgone", "?[2Jgone"},
		{"a\nb\rc\td\177", "a?b?c?d?"},
		{"\xc2\x9b"
		 "31m",
			"??31m"}, /* CSI as one C1 character */
		{"\x9b"
		 "31m",
			"?31m"}, /* and as a byte that is no UTF-8 */
		{"M\xc3\xbcller \xe2\x82\xac", "M\xc3\xbcller \xe2\x82\xac"},
		{"a\xe2\x80\xae"
		 "b\xe2\x81\xa6"
		 "c",
			"a???b???c"}, /* right to left */
		{"a\xe2\x80\xa8z", "a???z"},
		{"cut \xe2\x82", "cut ??"},
		{"", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[64];

		copy_text(text, sizeof(text), cases[i].foreign);
		text_make_printable(text);
		assert_string_equal(text, cases[i].printed);
	}
}

TEST(times_and_durations_are_readable)
{
	static const struct {
		double seconds;
		const char *text;
	} cases[] = {{-1, "0 s"}, {45, "45 s"}, {720, "12 min"}, {12000, "3 h 20 min"},
		{352800, "4 d 2 h"}, {1e30, "9999 d 0 h"}};
	char text[TIME_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		duration_text(cases[i].seconds, text);
		assert_string_equal(text, cases[i].text);
	}
	time_text(UINT64_C(1714564800000000), text);
	assert_string_equal(text, "2024-05-01T12:00:00Z");
}
