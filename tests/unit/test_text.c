/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/json.h"
#include "base/text.h"

#include <math.h>

TEST(foreign_text_cannot_steer_a_terminal)
{
	static const struct {
		const char *foreign, *printed;
	} cases[] = {
		{"eth0", "eth0"},
		{"\033[2Jgone", "?[2Jgone"},
		{"a\nb\rc\td\177", "a?b?c?d?"},
		{"\23331m", "?31m"}, /* CSI as a byte that is not UTF-8 */
		{"M\xc3\xbcller \xe2\x82\xac", "M\xc3\xbcller \xe2\x82\xac"},
		{"a\u202eb\u2066c", "a?b?c"}, /* right to left */
		{"cut \xe2\x82", "cut ??"},
		{"\xc2\x9b\xe2\x80\xa8\xf0\x9f\x98\x80", "??\xf0\x9f\x98\x80"},
		{"", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[64];

		set_text(text, cases[i].foreign);
		text_make_printable(text);
		assert_string_equal(text, cases[i].printed);
	}
}

TEST(the_lines_of_a_document_stay_lines_whatever_is_replaced)
{
	cJSON *document = cJSON_Parse("{\"keep\": \"a\u202eb\\nc\u2066\\n\", \"x\": \"a\\nb\"}");

	json_make_lines_printable(document, "keep");
	assert_string_equal(json_text_at(document, "keep"), "a?b\nc?\n");
	assert_string_equal(json_text_at(document, "x"), "a?b");
	cJSON_Delete(document);
}

TEST(disks_are_decimal_memory_is_binary_and_other_units_have_no_prefix)
{
	static const struct {
		double value;
		const char *unit, *text;
	} cases[] = {{999, "bytes", "999 bytes"}, {20000, "bytes", "20.0 kB"},
		{999999, "bytes", "1.0 MB"}, {270.6e9, "bytes", "270.6 GB"},
		{1023, "memory", "1023 bytes"}, {1536, "memory", "1.5 KiB"},
		{1024.0 * 1024 * 1024, "memory", "1.0 GiB"}, {60, "entries", "60 entries"},
		{1234567, "", "1234567"}};
	char text[AMOUNT_MAX], use[USE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(
			amount_text(cases[i].value, cases[i].unit, text), cases[i].text);
	assert_string_equal(use_text(205.1e9, 270.6e9, "bytes", use), "205.1 GB of 270.6 GB");
	assert_string_equal(use_text(60, 100, "entries", use), "60 of 100 entries");
	assert_string_equal(use_text(60, 0, "entries", use), "60 entries of unknown");
}

TEST(a_share_is_full_only_at_its_maximum)
{
	static const struct {
		double share;
		const char *text;
	} cases[] = {{0, "0 %"}, {0.001, "<1 %"}, {0.42, "42 %"}, {0.9999, "99 %"}, {1, "100 %"},
		{1.63, "163 %"}};
	char text[SHARE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(share_text(cases[i].share, text), cases[i].text);
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

TEST(only_valid_sequences_are_characters)
{
	static const struct {
		const char *text;
		size_t len; /* 0: the first byte is replaced */
	} cases[] = {
		{"a", 1}, {"\xc3\xa9", 2}, {"\xf0\x9f\x98\x80", 4}, {"\x80", 0},
		{"\xc0\xaf", 0},         /* overlong */
		{"\xe0\x80\xaf", 0},     /* overlong */
		{"\xed\xa0\x80", 0},     /* surrogate */
		{"\xf4\x90\x80\x80", 0}, /* above U+10FFFF */
		{"\xe2\x82", 0},         /* cut */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *next = cases[i].text, *bytes;
		size_t len;

		bytes = utf8_next(&next, &len);
		assert_string_equal(bytes, cases[i].len ? cases[i].text : UTF8_REPLACEMENT);
		assert_int_equal(len, cases[i].len ? cases[i].len : strlen(UTF8_REPLACEMENT));
		assert_ptr_equal(next, cases[i].text + (cases[i].len ? cases[i].len : 1));
	}
}

TEST(copies_replace_invalid_bytes_and_are_cut_between_characters)
{
	static const char *const cases[][2] = {{"a\377b", "a" UTF8_REPLACEMENT "b"},
		{"123456789", "1234567"}, {"12345\xe2\x82\xac", "12345"},
		{"\xe2\x82", UTF8_REPLACEMENT UTF8_REPLACEMENT}};
	char text[8];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		utf8_copy(text, sizeof(text), cases[i][0]);
		assert_string_equal(text, cases[i][1]);
	}
}

TEST(a_time_has_a_zone_and_may_have_fractions)
{
	static const char *const bad[] = {"", "2026-05-01", "2026-05-01T04:00:00",
		"2026-05-01T04:00Z", "2026-05-01T04:00:00+0200", "2026-05-01T04:00:00Zx",
		"26-05-01T04:00:00Z", "2026-13-01T04:00:00Z", "1960-05-01T04:00:00Z",
		"2026-05-01T04:00:00+02:0x", "tomorrow"};
	static const char *const good[] = {"2026-05-01T04:00:00Z", "2026-05-01T06:30:00.25+02:30",
		"2026-04-30T23:00:00-05:00"};
	uint64_t time_us = 7;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (time_parse(bad[i], &time_us) == 0)
			fail_msg("%s", bad[i]);
	assert_int_equal(time_us, 7);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(time_parse(good[i], &time_us), 0);
		assert_int_equal(time_us, UINT64_C(1777608000000000));
	}
}

TEST(a_time_that_went_through_json_has_the_same_text)
{
	static const double times[] = {0.0002395, 0.0215, 1.25};
	char text[TIME_TEXT_MAX], other[TIME_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		latency_text(nextafter(times[i], 0), text);
		latency_text(nextafter(times[i], 2), other);
		assert_string_equal(text, other);
	}
}

TEST(a_path_before_a_text_is_cut)
{
	assert_string_equal(
		text_after_path("/a/b.toml:3:1: no value", "/a/b.toml"), "3:1: no value");
	assert_string_equal(
		text_after_path("/a/b.toml: Is a directory", "/a/b.toml"), "Is a directory");
	assert_string_equal(text_after_path("/a/b.toml2:3", "/a/b.toml"), "/a/b.toml2:3");
	assert_string_equal(text_after_path("a text", ""), "a text");
}

TEST(a_secret_is_gone_before_a_text_is_cut)
{
	char text[40], quoted[TEXT_QUOTE_MAX];

	copy_public(text, sizeof(text),
		"get https://a-rather-long-user-name:a-password@example.org/x?key=1 failed");
	assert_string_equal(text, "get https://example.org/x failed");
	assert_string_equal(
		text_quote(quoted,
			"https://a-user-name-that-is-longer-than-the-quoted-text-may-be:pw@h/"),
		"\"https://h/\"");
}

TEST(a_password_with_characters_that_urls_forbid_is_hidden)
{
	static const struct {
		const char *text, *shown;
	} urls[] = {{"get https://bob:p/ss@host/v2: refused", "get https://host/v2: refused"},
		{"Can't convert http://bob:p?w#x@host:5000/a(string)",
			"Can't convert http://host:5000/a(string)"},
		{"https://bob:123456/7@a:5000/b", "https://a:5000/b"},
		{"https://host/cb#access_token=abc d", "https://host/cb d"},
		{"https://host:5000/v2/a@b ftp://u:p/@c", "https://host:5000/v2/a@b ftp://c"},
		{"http://[fd00::1]:5000/a@b", "http://[fd00::1]:5000/a@b"},
		{"https://a:b/c@sha256:d", "https://a:b/c@sha256:d"},
		{"see https://host:port/path", "see https://host:port/path"}};

	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		char text[80];

		copy_public(text, sizeof(text), urls[i].text);
		assert_string_equal(text, urls[i].shown);
	}
}

TEST(a_quoted_address_has_no_password)
{
	static const struct {
		const char *text, *shown;
	} values[] = {{"bob:pass@host", "\"host\""}, {"https:/bob:pass@host", "\"https:/host\""},
		{"https://bob:a b\"c@host/x", "\"https://host/x\""},
		{"host:5000/a:1@sha256:01", "\"host:5000/a:1@sha256:01\""},
		{"inotify/instances@uid:1", "\"inotify/instances@uid:1\""}, {"3k", "\"3k\""}};
	char quoted[TEXT_QUOTE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		assert_string_equal(text_quote(quoted, values[i].text), values[i].shown);
}
