/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/edit.h"

#define CRI "plugins.\"io.containerd.grpc.v1.cri\""

struct edit {
	const char *what, *text, *expected; /* NULL: error is expected */
	int error;
};

static void check(enum edit_format format, const struct edit *edits, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_(file_bytes_clear) struct file_bytes text = {0};
		char why[EDIT_WHY_MAX] = "";
		int r;

		text_copy(&text, edits[i].text, strlen(edits[i].text));
		r = edit_set(format, &text, CRI, "max-downloads", "10", why);
		assert_int_equal(r, edits[i].error);
		assert_int_equal(r < 0, why[0] != '\0');
		assert_int_equal(strlen(text.bytes), text.len);
		if (!streq(text.bytes, r < 0 ? edits[i].text : edits[i].expected))
			fail_msg("%s: %s", edits[i].what, text.bytes);
	}
}

TEST(a_toml_key_is_replaced_or_follows_its_table)
{
	static const struct edit edits[] = {
		{"replaced", "[" CRI "]\n max-downloads\t= 3 # c\nx = 1\n",
			"[" CRI "]\n max-downloads\t= 10 # c\nx = 1\n", 0},
		{"other quotes and blanks",
			"[ 'plugins' . 'io.containerd.grpc.v1.cri' ]\n"
			"\"max-downloads\" = '''\n3'''\n",
			"[ 'plugins' . 'io.containerd.grpc.v1.cri' ]\n\"max-downloads\" = 10\n", 0},
		{"a dotted key", "plugins.'io.containerd.grpc.v1.cri'.max-downloads = 3\n",
			"plugins.'io.containerd.grpc.v1.cri'.max-downloads = 10\n", 0},
		{"after the header", "[" CRI "] # c\n[x]\n",
			"[" CRI "] # c\nmax-downloads = 10\n[x]\n", 0},
		{"after the last key, as it is indented",
			"[" CRI "]\n  a = [\n  1, # ]\n  ]\n\n[x]\n",
			"[" CRI "]\n  a = [\n  1, # ]\n  ]\n  max-downloads = 10\n\n[x]\n", 0},
		{"beside dotted keys", CRI ".a = 1\n[x]\n",
			CRI ".a = 1\n" CRI ".max-downloads = 10\n[x]\n", 0},
		{"not into a table within", "[" CRI ".x]\na = 1\n",
			"[" CRI ".x]\na = 1\n\n# Added by headroom\n[" CRI
			"]\nmax-downloads = 10\n",
			0},
		{"not into an array of tables", "[[" CRI "]]\n",
			"[[" CRI "]]\n\n# Added by headroom\n[" CRI "]\nmax-downloads = 10\n", 0},
		{"not into a string", "a = '''\n[" CRI "]\nmax-downloads = 3\n'''\n",
			"a = '''\n[" CRI "]\nmax-downloads = 3\n'''\n\n# Added by headroom\n[" CRI
			"]\nmax-downloads = 10\n",
			0},
		{"not into a comment", "# [" CRI "]\n",
			"# [" CRI "]\n\n# Added by headroom\n[" CRI "]\nmax-downloads = 10\n", 0},
		{"lines of Windows", "\xef\xbb\xbf[" CRI "]\r\nx = 1\r\n",
			"\xef\xbb\xbf[" CRI "]\r\nx = 1\r\nmax-downloads = 10\r\n", 0},
		{"no line break at the end", "[" CRI "]\nx = 1",
			"[" CRI "]\nx = 1\nmax-downloads = 10", 0},
		{"nothing at all", "", "# Added by headroom\n[" CRI "]\nmax-downloads = 10\n", 0},
		{"an inline table", "plugins = { x = 1 }\n", NULL, -EEXIST},
		{"a bracket that does not end", "a = [1,\n", NULL, -EBADMSG},
		{"no value", "a =\n", NULL, -EBADMSG},
		{"text after a header", "[a] b\n", NULL, -EBADMSG},
		{"a control character", "a = 1\n\x01\n", NULL, -EBADMSG},
	};

	check(EDIT_TOML, edits, ARRAY_SIZE(edits));
}

TEST(a_json_key_is_replaced_or_follows_the_last)
{
	static const struct edit edits[] = {
		{"replaced", "{ \"max-downloads\" : 3 , \"b\": [1, {\"max-downloads\": 4}] }",
			"{ \"max-downloads\" : 10 , \"b\": [1, {\"max-downloads\": 4}] }", 0},
		{"in the style of the last line", "{\n\t\"a\": {},\n\t\"b\":  \"}\"\n}\n",
			"{\n\t\"a\": {},\n\t\"b\":  \"}\",\n\t\"max-downloads\": 10\n}\n", 0},
		{"on one line", "{\"a\": 1}", "{\"a\": 1, \"max-downloads\": 10}", 0},
		{"without any blank", "{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":2,\"max-downloads\":10}",
			0},
		{"lines of Windows", "\xef\xbb\xbf{\r\n  \"a\": 1\r\n}",
			"\xef\xbb\xbf{\r\n  \"a\": 1,\r\n  \"max-downloads\": 10\r\n}", 0},
		{"braces on two lines", "{\n}\n", "{\n    \"max-downloads\": 10\n}\n", 0},
		{"nothing at all", " \n", "{\n    \"max-downloads\": 10\n}\n", 0},
		{"the key twice", "{\"max-downloads\": 1, \"max-downloads\": 2}", NULL, -EBADMSG},
		{"the key with an escape", "{\"max\\u002ddownloads\": 1}",
			"{\"max\\u002ddownloads\": 10}", 0},
		{"a number of C", "{\"a\": 01}", NULL, -EBADMSG},
		{"a line break in a text", "{\"a\": \"\n\"}", NULL, -EBADMSG},
		{"a comment", "{ // c\n}", NULL, -EBADMSG},
		{"text after it", "{} x", NULL, -EBADMSG},
		{"no end", "{\"a\": [1, 2}", NULL, -EBADMSG},
		{"UTF-16", "\xff\xfe{", NULL, -EBADMSG},
	};

	check(EDIT_JSON, edits, ARRAY_SIZE(edits));
}

TEST(an_added_table_is_removed_with_its_last_key)
{
	static const char *const keys[] = {"a", "b"};

	for (size_t first = 0; first < 2; first++) {
		_cleanup_(file_bytes_clear) struct file_bytes text = {0};
		char why[EDIT_WHY_MAX] = "";

		text_copy(&text, "x = 1\n", 6);
		for (size_t i = 0; i < 4; i++)
			assert_int_equal(
				edit_set(EDIT_TOML, &text, CRI, keys[i < 2 ? i : (first + i) % 2],
					i < 2 ? "1" : NULL, why),
				0);
		assert_string_equal(text.bytes, "x = 1\n");
	}
}
