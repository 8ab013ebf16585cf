/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/toml.h"

static char *parse(const char *text)
{
	cJSON *document = NULL;
	char why[TOML_WHY_MAX] = "", *printed;

	if (toml_parse(text, strlen(text), &document, why) < 0)
		return must(strdup(why));
	printed = must(cJSON_PrintUnformatted(document));
	cJSON_Delete(document);
	return printed;
}

static void expect(const char *text, const char *wanted)
{
	_cleanup_free_ char *printed = parse(text);

	assert_string_equal(printed, wanted);
}

TEST(each_spelling_of_a_document_has_the_same_facts)
{
	static const char *const spellings[] = {
		"[[r]]\nname = \"a\"\non = true\n[r.sub]\nn = [1, 2]\n",
		"[[r]]\n'name' = 'a' # x\n\"on\" = true\nsub.n = [ # x\n 1,\n 2,\n]\n",
		"r = [{name = \"\\u0061\", on = true, sub = {n = [1, 2]}}]\n",
		"\xef\xbb\xbfr = [\r\n  {\"name\" = '''a''', on=true, sub.\"n\" = [1,2]}]\r\n",
		"[[ \"r\" ]]\nname = \"\"\"\na\"\"\"\non = true\nsub = {n = [+1, 2]}\n",
		"[[r]]\nname = \"\"\"\\\n   a\"\"\"\non = true\n[r . sub]\nn = [1, 0_2]\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
		expect(spellings[i],
			"{\"r\":[{\"name\":\"a\",\"on\":true,\"sub\":{\"n\":[1,2]}}]}");
}

TEST(values_that_json_lacks_are_their_text)
{
	expect("a = 0x1F\nb = 1979-05-27 07:32:00Z\nc = -inf\nd = 1e2\ne = 07:32:00\n",
		"{\"a\":\"0x1F\",\"b\":\"1979-05-27 07:32:00Z\",\"c\":\"-inf\",\"d\":100,"
		"\"e\":\"07:32:00\"}");
	expect("s = \"\\t\\\"\\\\\\U0001F600\"\nl = 'C:\\x'\n",
		"{\"s\":\"\\t\\\"\\\\\xf0\x9f\x98\x80\",\"l\":\"C:\\\\x\"}");
	expect("[a.b]\nx = 1\n[a]\ny = 2\n[[a.list]]\n[[a.list]]\nz.q = 1\n",
		"{\"a\":{\"b\":{\"x\":1},\"y\":2,\"list\":[{},{\"z\":{\"q\":1}}]}}");
	expect("", "{}");
}

TEST(what_is_no_toml_is_refused_with_its_position)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{"a = 1\na = 2\n", "2:1: this key is there twice"},
		{"[a]\n[a]\n", "2:1: this table is there twice"},
		{"a = {b = 1}\n[a.c]\n", "2:2: this is not a table that can be extended"},
		{"a = 1\na.b = 2\n", "2:1: this is not a table that can be extended"},
		{"[[a]]\n[a]\n", "2:1: this table is there twice"},
		{"a = [1\n2]\n", "2:1: a comma is expected here"},
		{"a = many\n", "1:5: a value is expected here"},
		{"a = truely\n", "1:5: a value is expected here"},
		{"a = \"\\q\"\n", "1:6: an escape that TOML does not have"},
		{"a = \"\\ud800\"\n", "1:6: an escape that TOML does not have"},
		{"a = \"\\u0000\"\n", "1:6: an escape that TOML does not have"},
		{"a = \"x\n", "1:5: a string without its closing quote"},
		{"a = [1, x]\n", "1:9: a value is expected here"},
		{"a = {b 1}\n", "1:8: = is expected here"},
		{"a = \"b\" \"c\"\n", "1:8: the end of the line is expected here"},
		{"= 1\n", "1:1: a name is expected here"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(rows[i].text, rows[i].why);
}

TEST(deep_brackets_and_names_are_refused)
{
	char text[4096] = "a = ";
	_cleanup_free_ char *why = NULL;

	memset(text + 4, '[', 1000);
	memset(text + 1004, ']', 1000);
	why = parse(text);
	assert_string_equal(why, "1:70: too many brackets");
	for (size_t i = 0; i < 2000; i += 2)
		memcpy(text + i, "a.", 2);
	strcpy(text + 2000, "a = 1");
	free(why);
	why = parse(text);
	assert_string_equal(why, "1:131: too long a name");
}
