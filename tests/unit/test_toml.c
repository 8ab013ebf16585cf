/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/toml.h"

#include <errno.h>

#define CRI "plugins.\"io.containerd.grpc.v1.cri\""

TEST(values_are_found_however_they_are_spelled)
{
	static const struct {
		const char *text, *table, *key, *value;
		enum toml_type type;
		size_t line;
	} cases[] = {
		{"a = 1", "", "a", "1", TOML_INTEGER, 1},
		{"\xef\xbb\xbf"
		 "a = 1",
			"", "a", "1", TOML_INTEGER, 1},
		{"\n# a = 2\n\"a\"\t=\t0x_1", "", "a", NULL, 0, 0},
		{"\r\n\t'a' = 0x1F # c\r\n", "", "a", "31", TOML_INTEGER, 2},
		{"a = -1_000", "", "a", "-1000", TOML_INTEGER, 1},
		{"a = true", "", "a", "true", TOML_BOOLEAN, 1},
		{"a = 1.5e3", "", "a", "1.5e3", TOML_FLOAT, 1},
		{"a = 1979-05-27 07:32:00Z", "", "a", "1979-05-27 07:32:00Z", TOML_DATE, 1},
		{"a = \"x\\ty\\u00e9\\\"\"", "", "a", "x\ty\xc3\xa9\"", TOML_STRING, 1},
		{"a = '\\x'", "", "a", "\\x", TOML_STRING, 1},
		{"a = \"\"\"\nx\\\n   y\"\"\"\"", "", "a", "xy\"", TOML_STRING, 1},
		{"a = '''\r\nx\r\n'''", "", "a", "x\r\n", TOML_STRING, 1},
		{"a = [ 1, # one\n 2,\n]", "", "a", "[ 1, # one\n 2,\n]", TOML_ARRAY, 1},
		{"[" CRI "]\nk = 1", CRI, "k", "1", TOML_INTEGER, 2},
		{"[ plugins . 'io.containerd.grpc.v1.cri' ]\nk = 1", CRI, "k", "1", TOML_INTEGER,
			2},
		{"[plugins]\n[plugins.'io.containerd.grpc.v1.cri'.x]\nk = 2\n"
		 "[plugins.'io.containerd.grpc.v1.cri']\nk = 1",
			CRI, "k", "1", TOML_INTEGER, 5},
		{CRI ".k = 1\n[plugins.other]\nk = 2", CRI, "k", "1", TOML_INTEGER, 1},
		{"[plugins]\n'io.containerd.grpc.v1.cri'.r.k = 1", CRI ".r", "k", "1", TOML_INTEGER,
			2},
		{"[plugins]\n'io.containerd.grpc.v1.cri' = { a = [{k = 9}], r = { k = 1 } }",
			CRI ".r", "k", "1", TOML_INTEGER, 2},
		{"[[a]]\nk = 1\n[a.b]\nk = 2\n[b]\nk = 3", "b", "k", "3", TOML_INTEGER, 6},
		{"s = \"\"\"\n[b]\nk = 1\n\"\"\"\n[b]\nk = 2", "b", "k", "2", TOML_INTEGER, 6},
		{"\"a.b\" = 1\na.b = 2", "", "\"a.b\"", "1", TOML_INTEGER, 1},
		{"\"a\\u002eb\" = 1", "", "'a.b'", "1", TOML_INTEGER, 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(toml_value_clear) struct toml_value value = {0};
		struct toml_error error;
		int r = toml_get(cases[i].text, strlen(cases[i].text), cases[i].table, cases[i].key,
			&value, &error);

		if (r != (cases[i].value ? 0 : -EBADMSG))
			fail_msg("%s: %d", cases[i].text, r);
		if (!cases[i].value)
			continue;
		assert_string_equal(value.text, cases[i].value);
		assert_int_equal(value.type, cases[i].type);
		assert_int_equal(value.line, cases[i].line);
		assert_in_range(value.at + value.len, 1, strlen(cases[i].text));
	}
}

TEST(what_is_no_key_is_told_apart)
{
	static const struct {
		const char *text, *table, *key;
		int result;
		size_t line, column;
	} cases[] = {
		{"", "", "a", -ENOENT, 0, 0},
		{"[t]\na = 1", "", "a", -ENOENT, 0, 0},
		{"a = 1", "t", "a", -ENOENT, 0, 0},
		{"# a = 1", "", "a", -ENOENT, 0, 0},
		{"t = 1", "t", "a", -EEXIST, 1, 1},
		{"[t.a]", "t", "a", -EEXIST, 1, 1},
		{"\n t.a.b = 1", "t", "a", -EEXIST, 2, 2},
		{"t = { a = { } }", "t", "a", -EEXIST, 1, 7},
		{"[[t]]\na = 1", "t", "a", -EEXIST, 1, 1},
		{"t = [ { a = 1 } ]", "t", "a", -EEXIST, 1, 1},
		{"a = 1\na = 2", "", "a", -EBADMSG, 2, 1},
		{"[t]\n[t]\n", "t", "a", -EBADMSG, 2, 1},
		{"a = 1", "t.", "a", -EINVAL, 0, 0},
		{"a = 1", "", "", -EINVAL, 0, 0},
		{"a = 1", "", "a b", -EINVAL, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct toml_value value;
		struct toml_error error = {0};
		int r = toml_get(cases[i].text, strlen(cases[i].text), cases[i].table, cases[i].key,
			&value, &error);

		if (r != cases[i].result || error.line != cases[i].line ||
			error.column != cases[i].column)
			fail_msg("%s: %d %zu:%zu %s", cases[i].text, r, error.line, error.column,
				error.message);
	}
}

TEST(faults_have_a_place)
{
	static const struct {
		const char *text;
		size_t line, column;
	} cases[] = {
		{"a", 1, 2},
		{"a =", 1, 4},
		{"a = 1 b", 1, 7},
		{"\n[a", 2, 3},
		{"[a]]", 1, 4},
		{"a = [1", 1, 7},
		{"a = [1 2]", 1, 8},
		{"a = {b = 1,}", 1, 12},
		{"a = {\nb = 1}", 1, 6},
		{"a = \"x", 1, 5},
		{"a = \"x\ny\"", 1, 7},
		{"a = '''x", 1, 5},
		{"a = \"\\q\"", 1, 7},
		{"a = \"\\ud800\"", 1, 12},
		{"a = 01", 1, 5},
		{"a = 1__0", 1, 5},
		{"a = 9223372036854775808", 1, 5},
		{"a = .5", 1, 5},
		{"a = 1979-5-27", 1, 5},
		{"a = yes", 1, 5},
		{"= 1", 1, 1},
		{"a.= 1", 1, 3},
		{"'''a''' = 1", 1, 1},
		{"a = 1\rb = 2", 1, 6},
		{"a = [[[[[", 1, 10},
		{"\"a\xff\" = 1", 1, 1},
		{"ok = 1\r\n\r\n  x y = 1\r\n", 3, 5},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct toml_error error = {0};
		char *out = NULL;
		int r = toml_check(cases[i].text, strlen(cases[i].text), &error);

		if (r != -EBADMSG || error.line != cases[i].line || error.column != cases[i].column)
			fail_msg("%s: %d %zu:%zu %s", cases[i].text, r, error.line, error.column,
				error.message);
		assert_true(error.message[0] != '\0');
		assert_int_equal(toml_set(cases[i].text, strlen(cases[i].text), "", "new", "1",
					 &out, NULL, NULL),
			-EBADMSG);
		assert_null(out);
	}
}

TEST(limits_hold)
{
	_cleanup_free_ char *text = calloc(1, TOML_TEXT_MAX + 2);

	assert_non_null(text);
	memset(text, '\n', TOML_TEXT_MAX + 1);
	assert_int_equal(toml_check(text, TOML_TEXT_MAX, NULL), 0);
	assert_int_equal(toml_check(text, TOML_TEXT_MAX + 1, NULL), -EFBIG);
	memcpy(text, "a=", 2);
	memset(text + 2, '[', 100000);
	assert_int_equal(toml_check(text, TOML_TEXT_MAX, NULL), -EBADMSG);
	memset(text, 'a', 100000);
	assert_int_equal(toml_check(text, TOML_TEXT_MAX, NULL), -EBADMSG);
}

TEST(one_key_changes_and_nothing_else)
{
	static const struct {
		const char *text, *table, *key, *literal, *expected;
	} cases[] = {
		/* in place, comment and blanks kept */
		{"  a\t=  1\t# c\n", "", "a", "2", "  a\t=  2\t# c\n"},
		{"a = [1,\n2] # c", "", "a", "[]", "a = [] # c"},
		{"t = {a=1,b=2}", "t", "b", "\"x\"", "t = {a=1,b=\"x\"}"},
		{"a = 1 # c", "", "a", "[1,\n2]", "a = [1,\n2] # c"},
		/* the same value, spelled otherwise */
		{"a = 0x0A", "", "a", "10", "a = 0x0A"},
		{"a = 'x'", "", "a", "\"x\"", "a = 'x'"},
		{"a = '1'", "", "a", "1", "a = 1"},
		/* below the last key of the table */
		{"[t]\n\n  a = 1 # c\n\n# of u\n[u]\n", "t", "b", "2",
			"[t]\n\n  a = 1 # c\n  b = 2\n\n# of u\n[u]\n"},
		{"[t]\r\na = 1\r\n", "t", "b", "2", "[t]\r\na = 1\r\nb = 2\r\n"},
		{"[t]\na = '''\nx\n'''", "t", "b", "2", "[t]\na = '''\nx\n'''\nb = 2"},
		{"[t] # c", "t", "b", "2", "[t] # c\nb = 2"},
		{"  [t]\n", "t", "b", "2", "  [t]\n    b = 2\n"},
		{"a = 1\n[t]\n", "", "b", "2", "a = 1\nb = 2\n[t]\n"},
		{"# c\n[t]\n", "", "b", "2", "b = 2\n# c\n[t]\n"},
		{"\xef\xbb\xbf[t]\n", "", "b", "2",
			"\xef\xbb\xbf"
			"b = 2\n[t]\n"},
		/* where a header would be refused */
		{"[p]\n  x.a = 1\n[q]\n", "p.x", "b", "2", "[p]\n  x.a = 1\n  x.b = 2\n[q]\n"},
		{"p.x.a = 1", "p.x", "b", "2", "p.x.a = 1\np.x.b = 2"},
		{"p = { x = 1 }", "p", "b", "2", "p = { x = 1, b = 2 }"},
		{"p = {}", "p", "b", "2", "p = {b = 2}"},
		{"p = { }", "p", "b", "2", "p = { b = 2 }"},
		{"p = { x = { } }", "p.x.y", "b", "2", "p = { x = { y.b = 2 } }"},
		/* a table of its own */
		{"", "p.'x.y'", "b", "2", "[p.\"x.y\"] # added by headroom\nb = 2\n"},
		{"a = 1\n", "p", "b", "2", "a = 1\n\n[p] # added by headroom\nb = 2\n"},
		{"a = 1", "p", "b", "2", "a = 1\n\n[p] # added by headroom\nb = 2"},
		{"a = 1\r\n", "p", "b", "2", "a = 1\r\n\r\n[p] # added by headroom\r\nb = 2\r\n"},
		{"[p.x]\n", "p", "b", "2", "[p.x]\n\n[p] # added by headroom\nb = 2\n"},
		{"[p]\nx.a = 1\n", "p.x.y", "b", "2",
			"[p]\nx.a = 1\n\n[p.x.y] # added by headroom\nb = 2\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *out = NULL;
		size_t len = strlen(cases[i].text);

		assert_int_equal(toml_set(cases[i].text, len, cases[i].table, cases[i].key,
					 cases[i].literal, &out, &len, NULL),
			0);
		assert_string_equal(out, cases[i].expected);
		assert_int_equal(len, strlen(cases[i].expected));
	}
}

TEST(what_is_no_literal_is_refused)
{
	static const char *const literals[] = {
		"", "1 ", " 1", "1 # c", "x", "\"x", "1\n2", "1, 2", "[1,\n2", "}"};

	for (size_t i = 0; i < ARRAY_SIZE(literals); i++) {
		char *out = NULL;

		if (toml_set("", 0, "", "a", literals[i], &out, NULL, NULL) != -EINVAL)
			fail_msg("'%s'", literals[i]);
		assert_null(out);
	}
}

TEST(a_removed_key_takes_its_line)
{
	static const struct {
		const char *text, *table, *key, *expected;
	} cases[] = {
		{"a = 1\nb = 2 # c\nc = 3\n", "", "b", "a = 1\nc = 3\n"},
		{"a = 1\nb = [\n1\n]\n", "", "b", "a = 1\n"},
		{"a = 1\r\nb = 2", "", "b", "a = 1"},
		{"b = 2", "", "b", ""},
		{"\xef\xbb\xbf"
		 "b = 2\n",
			"", "b", "\xef\xbb\xbf"},
		{"t = { a = 1, b = 2 , c = 3 }", "t", "b", "t = { a = 1 , c = 3 }"},
		{"t = { b = 2, c = 3 }", "t", "b", "t = { c = 3 }"},
		{"t = { b = 2 }", "t", "b", "t = { }"},
		/* a header stays, unless it was added */
		{"\n[t]\nb = 2\n", "t", "b", "\n[t]\n"},
		{"\n\n[t] # added by headroom\nb = 2\n", "t", "b", "\n"},
		{"\n\n[t] # added by headroom\nb = 2\nc = 3\n", "t", "b",
			"\n\n[t] # added by headroom\nc = 3\n"},
		/* what others wrote around an added table stays */
		{"a = 1\n# mine\n[t] # added by headroom\nb = 2\n# too\n[u]\n", "t", "b",
			"a = 1\n# mine\n# too\n[u]\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *out = NULL;

		assert_int_equal(toml_remove(cases[i].text, strlen(cases[i].text), cases[i].table,
					 cases[i].key, &out, NULL, NULL),
			0);
		assert_string_equal(out, cases[i].expected);
	}
	assert_int_equal(toml_remove("a = 1", 5, "", "b", &(char *){NULL}, NULL, NULL), -ENOENT);
}

TEST(strings_survive_quoting)
{
	static const char *const strings[] = {"", "x", "a\"b\\c", "tab\tline\nreturn\r", "\x01\x7f",
		"\xc3\xa9\xf0\x9f\x98\x80", "# [x]"};

	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		_cleanup_(toml_value_clear) struct toml_value value = {0};
		_cleanup_free_ char *literal = NULL, *out = NULL;
		size_t len;

		assert_int_equal(toml_quote(strings[i], &literal), 0);
		assert_int_equal(toml_set("", 0, "t", "k", literal, &out, &len, NULL), 0);
		assert_int_equal(toml_get(out, len, "t", "k", &value, NULL), 0);
		assert_string_equal(value.text, strings[i]);
	}
	assert_int_equal(toml_quote("\xff", &(char *){NULL}), -EINVAL);
}

TEST(arrays_of_strings_come_apart)
{
	char **strings = NULL;
	size_t n = 0;

	assert_int_equal(toml_strings("[ \"a\\n\", # c\n 'b', ]", &strings, &n), 0);
	assert_int_equal(n, 2);
	assert_string_equal(strings[0], "a\n");
	assert_string_equal(strings[1], "b");
	toml_strings_free(strings, n);
	assert_int_equal(toml_strings("[]", &strings, &n), 0);
	assert_int_equal(n, 0);
	toml_strings_free(strings, n);
	assert_int_equal(toml_strings("[1]", &strings, &n), -EINVAL);
	assert_int_equal(toml_strings("[[\"a\"]]", &strings, &n), -EINVAL);
	assert_int_equal(toml_strings("\"a\"", &strings, &n), -EINVAL);
	assert_int_equal(toml_strings("[\"a\"", &strings, &n), -EINVAL);
}

struct walked {
	char text[1024];
};

static int append_value(const char *path, const struct toml_value *value, void *userdata)
{
	struct walked *walked = userdata;
	size_t used = strlen(walked->text);

	snprintf(walked->text + used, sizeof(walked->text) - used, "%s=%s@%zu\n", path, value->text,
		value->line);
	return 0;
}

TEST(a_walk_names_every_value)
{
	static const char text[] =
		"a.b = [1, ['x'],\n {c = 2}]\n[\"d e\"]\n[[f]]\n[f.g]\nh = []\n[[f]]\n";
	static const char expected[] = "a.b[0]=1@1\na.b[1][0]=x@1\na.b[1]=[...]@1\na.b[2].c=2@2\n"
				       "a.b[2]={}@2\na.b=[...]@1\n\"d e\"={}@3\nf[0]={}@4\n"
				       "f[0].g={}@5\nf[0].g.h=[]@6\nf[1]={}@7\n";
	struct walked walked = {0};

	assert_int_equal(toml_walk(text, strlen(text), append_value, &walked, NULL), 0);
	assert_string_equal(walked.text, expected);
}
