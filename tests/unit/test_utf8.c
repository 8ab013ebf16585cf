/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/utf8.h"

TEST(only_valid_sequences_have_a_length)
{
	assert_int_equal(utf8_length("a"), 1);
	assert_int_equal(utf8_length(""), 1);
	assert_int_equal(utf8_length("\xc3\xa9"), 2);
	assert_int_equal(utf8_length("\xe2\x82\xac"), 3);
	assert_int_equal(utf8_length("\xf0\x9f\x98\x80"), 4);
	assert_int_equal(utf8_length("\x80"), 0);
	assert_int_equal(utf8_length("\xc0\xaf"), 0);         /* overlong */
	assert_int_equal(utf8_length("\xe0\x80\xaf"), 0);     /* overlong */
	assert_int_equal(utf8_length("\xed\xa0\x80"), 0);     /* surrogate */
	assert_int_equal(utf8_length("\xf4\x90\x80\x80"), 0); /* above U+10FFFF */
	assert_int_equal(utf8_length("\xe2\x82"), 0);         /* cut */
	assert_int_equal(utf8_length("\xff"), 0);
}

TEST(copies_replace_invalid_bytes)
{
	char text[8];

	utf8_copy(text, sizeof(text),
		"a\xff"
		"b");
	assert_string_equal(text, "a" UTF8_REPLACEMENT "b");
	utf8_copy(text, sizeof(text), "123456789");
	assert_string_equal(text, "1234567");
	utf8_copy(text, sizeof(text), "12345\xe2\x82\xac");
	assert_string_equal(text, "12345"); /* not a part of a character */
	utf8_copy(text, sizeof(text), "\xe2\x82");
	assert_string_equal(text, UTF8_REPLACEMENT UTF8_REPLACEMENT);
}
