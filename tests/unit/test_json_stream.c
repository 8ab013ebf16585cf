/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/json_stream.h"

struct found {
	unsigned int n;
	char texts[1024]; /* one after the other, each ended by a line break */
	int returns;
};

static int on_object(const char *text, size_t len, void *userdata)
{
	struct found *found = userdata;

	assert_int_equal(strlen(text), len);
	assert_true(strlen(found->texts) + len + 2 < sizeof(found->texts));
	strcat(strcat(found->texts, text), "\n");
	found->n++;
	return found->returns;
}

/* In pieces of so many bytes. */
static int feed(struct json_stream *stream, const char *text, size_t piece, struct found *found)
{
	size_t len = strlen(text);
	int r = 0;

	for (size_t at = 0; at < len && r == 0; at += piece)
		r = json_stream_feed(stream, text + at, MIN(piece, len - at), on_object, found);
	return r;
}

TEST(cuts_anywhere)
{
	static const char sequence[] = "{\"a\":\"}{\\\"\\\\\"}\r\n {}{\"b\":[{},{\"c\":1}]} \n";
	static const char list[] = " [ {\"a\":\"]\"} ,\n{\"b\":[1,[2]]},{}\n] \n";

	for (size_t piece = 1; piece < sizeof(list) + 10; piece++) {
		struct json_stream stream = {.max = 100};
		struct found found = {0};

		assert_int_equal(feed(&stream, sequence, piece, &found), 0);
		assert_string_equal(
			found.texts, "{\"a\":\"}{\\\"\\\\\"}\n{}\n{\"b\":[{},{\"c\":1}]}\n");
		assert_true(json_stream_is_whole(&stream));
		json_stream_clear(&stream);

		stream.list = true;
		found = (struct found){0};
		assert_false(json_stream_is_whole(&stream));
		assert_int_equal(feed(&stream, list, piece, &found), 0);
		assert_string_equal(found.texts, "{\"a\":\"]\"}\n{\"b\":[1,[2]]}\n{}\n");
		assert_true(json_stream_is_whole(&stream));
		json_stream_clear(&stream);
	}
}

TEST(refuses_what_is_between_objects)
{
	static const struct {
		bool list;
		const char *text;
	} cases[] = {{false, "x"}, {false, "[{}]"}, {false, "{},{}"}, {false, "{}}"}, {false, "1"},
		{true, "{}"}, {true, "[[{}]]"}, {true, "[{}]]"}, {true, "[{}],"}, {true, "[1]"},
		{true, "]"}, {true, ",[{}]"}, {true, "[{}]{}"}, {true, "[{}][{}]"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct json_stream stream = {.list = cases[i].list, .max = 100};
		struct found found = {0};

		if (feed(&stream, cases[i].text, 100, &found) != -EBADMSG)
			fail_msg("takes %s", cases[i].text);
		json_stream_clear(&stream);
	}
}

TEST(holds_no_more_than_it_may)
{
	struct json_stream stream = {.max = 10};
	struct found found = {0};

	assert_int_equal(feed(&stream, "{\"a\":1234}{\"b\":5678}", 3, &found), 0);
	assert_int_equal(found.n, 2);
	assert_int_equal(feed(&stream, "{\"a\":12345}", 3, &found), -EFBIG);
	json_stream_clear(&stream);
	assert_int_equal(feed(&stream, "{\"a\":12345}", 100, &found), -EFBIG);
	json_stream_clear(&stream);
	assert_true(stream.max == 10 && !stream.list);
}

TEST(ends_with_its_owners_error)
{
	struct json_stream stream = {.max = 10};
	struct found found = {.returns = -ECANCELED};

	assert_int_equal(feed(&stream, "{}{}", 100, &found), -ECANCELED);
	assert_int_equal(found.n, 1);
	json_stream_clear(&stream);
}
