/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/docker_config.h"
#include "runtime/docker_keys.h"

#include <dirent.h>
#include <errno.h>

#define KEY     "max-concurrent-downloads"
#define MIRRORS "registry-mirrors"

/* Sets or, with a NULL value, takes out; the caller frees. */
static char *set(const char *text, size_t len, const char *key, const char *value, size_t *out_len)
{
	struct docker_config_fault fault = {0};
	char *out = NULL;
	int r = docker_config_set(text, len, key, value, &out, out_len, &fault);

	if (r < 0)
		fail_msg("%d at %u:%u: %s: %s", r, fault.line, fault.column, fault.message, text);
	assert_int_equal(strlen(out), *out_len);
	return out;
}

static void assert_set(const char *before, const char *key, const char *value, const char *expected)
{
	size_t len;
	_cleanup_free_ char *after = set(before, strlen(before), key, value, &len);

	assert_string_equal(after, expected);
}

TEST(keeps_the_style_of_the_file)
{
	static const char *const cases[][2] = {
		{"", "{\n    \"" KEY "\": 10\n}\n"},
		{" \n", "{\n    \"" KEY "\": 10\n}\n"},
		{"{}", "{\"" KEY "\": 10}"},
		{"{ }\n", "{\"" KEY "\": 10 }\n"},
		{"{\n}\n", "{\n    \"" KEY "\": 10\n}\n"},
		{"{\r\n}\r\n", "{\r\n    \"" KEY "\": 10\r\n}\r\n"},
		{"\xef\xbb\xbf", "\xef\xbb\xbf{\n    \"" KEY "\": 10\n}\n"},
		{"{\"a\":1}", "{\"a\":1,\"" KEY "\":10}"},
		{"{\"a\": 1}", "{\"a\": 1, \"" KEY "\": 10}"},
		{"{ \"a\": 1 }", "{ \"a\": 1, \"" KEY "\": 10 }"},
		{"{\"a\":1,\"b\":2}\n", "{\"a\":1,\"b\":2,\"" KEY "\":10}\n"},
		{"{\n\t\"a\": 1\n}\n", "{\n\t\"a\": 1,\n\t\"" KEY "\": 10\n}\n"},
		{"{\r\n  \"a\": 1\r\n}", "{\r\n  \"a\": 1,\r\n  \"" KEY "\": 10\r\n}"},
		{"{\n  \"a\": 1,\n\n\n  \"b\" : {\n  }\n}",
			"{\n  \"a\": 1,\n\n\n  \"b\" : {\n  },\n  \"" KEY "\": 10\n}"},
		{"{\n  \"a\": 1, \"b\": 2\n}", "{\n  \"a\": 1, \"b\": 2, \"" KEY "\": 10\n}"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_set(cases[i][0], KEY, "10", cases[i][1]);
}

TEST(replaces_a_value_in_its_place)
{
	assert_set("{\"a\": 1, \"" KEY "\" : 3 , \"b\": 2}", KEY, "10",
		"{\"a\": 1, \"" KEY "\" : 10 , \"b\": 2}");
	assert_set("{\n  \"" MIRRORS "\": [\n    \"https://a\"\n  ],\n  \"b\": 2\n}", MIRRORS,
		"[\"http://m/\",\"https://a\"]",
		"{\n  \"" MIRRORS "\": [\"http://m/\",\"https://a\"],\n  \"b\": 2\n}");
	/* However it is written: the same value is no change. */
	assert_set("{\"" KEY "\":10}", KEY, "10", "{\"" KEY "\":10}");
	assert_set("{\"" MIRRORS "\":[ \"https:\\/\\/a\" ]}", MIRRORS, "[\"https://a\"]",
		"{\"" MIRRORS "\":[ \"https:\\/\\/a\" ]}");
	/* A key inside another object is another key. */
	assert_set("{\"x\":{\"" KEY "\":1}}", KEY, "10", "{\"x\":{\"" KEY "\":1},\"" KEY "\":10}");
}

TEST(takes_a_key_out)
{
	assert_set("{\"" KEY "\": 10}", KEY, NULL, "{}");
	assert_set("{\n  \"" KEY "\": 10\n}\n", KEY, NULL, "{\n}\n");
	assert_set("{\n  \"" KEY "\": 10,\n  \"b\": 2\n}\n", KEY, NULL, "{\n  \"b\": 2\n}\n");
	assert_set("{\n  \"a\": 1,\n  \"" KEY "\": 10,\n  \"b\": 2\n}\n", KEY, NULL,
		"{\n  \"a\": 1,\n  \"b\": 2\n}\n");
	assert_set("{\n  \"a\": 1,\n  \"" KEY "\": 10\n}\n", KEY, NULL, "{\n  \"a\": 1\n}\n");
	assert_set("{\"a\":1}", KEY, NULL, "{\"a\":1}");
	assert_set("", KEY, NULL, "");
	/* dockerd takes the last of doubles: with one left the old value would run. */
	assert_set("{\"" KEY "\":1,\"a\":1,\"" KEY "\":2,\"b\":1,\"" KEY "\":3}", KEY, NULL,
		"{\"a\":1,\"b\":1}");
	assert_set("{\"" KEY "\":1,\"" KEY "\":2}", KEY, NULL, "{}");
	assert_set("{\"max\\u002dconcurrent-downloads\":1,\"b\":1}", KEY, NULL, "{\"b\":1}");
}

TEST(tells_the_value)
{
	static const char text[] = "{\"a\" : [1, 2] , \"" KEY "\":1,\"" KEY "\": 7 }";
	_cleanup_free_ char *value = NULL, *list = NULL;
	unsigned int count = 0;
	char *none = NULL;

	assert_int_equal(docker_config_get(text, strlen(text), KEY, &value, NULL), 0);
	assert_string_equal(value, "7");
	assert_int_equal(docker_config_get(text, strlen(text), "a", &list, NULL), 0);
	assert_string_equal(list, "[1, 2]");
	assert_int_equal(docker_config_get(text, strlen(text), "b", &none, NULL), -ENOENT);
	assert_int_equal(docker_config_get("", 0, KEY, &none, NULL), -ENOENT);
	assert_int_equal(docker_config_get("{", 1, KEY, &none, NULL), -EINVAL);
	assert_null(none);
	assert_int_equal(docker_config_get_count(text, strlen(text), KEY, &count, NULL), 0);
	assert_int_equal(count, 7);
	assert_int_equal(docker_config_get_count(text, strlen(text), "a", &count, NULL), -ERANGE);
}

TEST(takes_whole_numbers_as_counts_only)
{
	static const char *const bad[] = {
		"-1", "1.0", "1e1", "\"10\"", "null", "2147483648", "[10]", "true"};
	char text[128];
	unsigned int count = 42;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(text, sizeof(text), "{\"" KEY "\": %s}", bad[i]);
		assert_int_equal(
			docker_config_get_count(text, strlen(text), KEY, &count, NULL), -ERANGE);
	}
	assert_int_equal(count, 42);
}

/* Whether it is a daemon.json at all: it need not have the key. */
static int check(const char *text, size_t len, struct docker_config_fault *fault)
{
	_cleanup_free_ char *value = NULL;
	int r = docker_config_get(text, len, "no such key", &value, fault);

	assert_null(value);
	return r == -ENOENT ? 0 : r;
}

TEST(says_what_is_wrong_and_where)
{
	static const struct {
		const char *text;
		unsigned int line, column;
		const char *message;
	} cases[] = {
		{"[]", 1, 1, "'{' should be here"},
		{"{\n  // mine\n  \"a\": 1\n}", 2, 3, "JSON has no comments: take this one out"},
		{"# mine\n{}", 1, 1, "JSON has no comments: take this one out"},
		{"{\"a\": 1 /* b */}", 1, 9, "JSON has no comments: take this one out"},
		{"{\"a\": 1,\n}", 2, 1, "no ',' before '}'"},
		{"{\"a\": [1,\n]}", 2, 1, "no ',' before ']'"},
		{"{'a': 1}", 1, 2, "JSON wants double quotes"},
		{"{a: 1}", 1, 2, "a key in double quotes should be here"},
		{"{\"a\" 1}", 1, 6, "':' should be here"},
		{"{\"a\": 1\n \"b\": 2}", 2, 2, "',' or '}' should be here"},
		{"{\"a\": [1 2]}", 1, 10, "',' or ']' should be here"},
		{"{\"a\": 1", 1, 8, "the file ends too early"},
		{"{\"a\": ", 1, 7, "the file ends too early"},
		{"{\"a", 1, 4, "a string without its closing quote"},
		{"{\"a\nb\": 1}", 1, 4,
			"a string must not hold a line break or a control character"},
		{"{\"a\": \"\\x\"}", 1, 9, "no escape of JSON: a backslash is written \\\\"},
		{"{\"a\": \"\\u12\"}", 1, 12, "\\u wants four hexadecimal digits"},
		{"{\"a\": True}", 1, 7, "a value should be here"},
		{"{\"a\": 010}", 1, 8, "a number must not begin with 0"},
		{"{\"a\": +1}", 1, 7, "a value should be here"},
		{"{\"a\": 1.}", 1, 9, "a digit should be here"},
		{"{\"a\": 1e}", 1, 9, "a digit should be here"},
		{"{\"a\": -}", 1, 8, "a digit should be here"},
		{"{}\n{}", 2, 1, "nothing may follow the closing brace"},
		{"{\"a\": \"\xff\"}", 1, 8, "not UTF-8"},
		{"\xff\xfe{\0}\0", 1, 1, "UTF-16: save the file as UTF-8"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct docker_config_fault fault = {0};
		size_t len = strlen(cases[i].text);
		char *out = NULL;
		size_t out_len = 7;

		assert_int_equal(check(cases[i].text, len, &fault), -EINVAL);
		assert_string_equal(fault.message, cases[i].message);
		assert_int_equal(fault.line, cases[i].line);
		assert_int_equal(fault.column, cases[i].column);
		assert_int_equal(
			docker_config_set(cases[i].text, len, KEY, "10", &out, &out_len, NULL),
			-EINVAL);
		assert_null(out);
		assert_int_equal(out_len, 7);
	}
}

TEST(refuses_what_no_daemon_json_is)
{
	_cleanup_free_ char *deep = calloc(1, 1024), *large = malloc(DOCKER_CONFIG_MAX + 1);
	struct docker_config_fault fault = {0};
	char *out = NULL;
	size_t len;

	strcpy(deep, "{\"a\":");
	memset(deep + 5, '[', 200);
	memset(deep + 205, ']', 200);
	strcat(deep, "}");
	assert_int_equal(check(deep, strlen(deep), &fault), -EINVAL);
	assert_string_equal(fault.message, "nested too deeply");
	memset(large, ' ', DOCKER_CONFIG_MAX + 1);
	assert_int_equal(check(large, DOCKER_CONFIG_MAX + 1, &fault), -EFBIG);
	assert_int_equal(check("{\0}", 3, &fault), -EINVAL);
	assert_string_equal(fault.message, "a NUL byte");
	/* Nor is anything but one value set, under anything but a plain key. */
	assert_int_equal(docker_config_set("{}", 2, KEY, "1, \"x\": 2", &out, &len, NULL), -EINVAL);
	assert_int_equal(docker_config_set("{}", 2, KEY, "", &out, &len, NULL), -EINVAL);
	assert_int_equal(docker_config_set("{}", 2, "a\"b", "1", &out, &len, NULL), -EINVAL);
	assert_int_equal(docker_config_set("{}", 2, "", "1", &out, &len, NULL), -EINVAL);
	assert_null(out);
}

static bool is_blank(const char *text)
{
	return text[strspn(text, " \t\r\n\xef\xbb\xbf")] == '\0';
}

/* Setting a key and taking it out again gives every byte back, where the key was not there before.
 */
static void round_trip(const char *name, const char *text, size_t len, const char *key)
{
	_cleanup_free_ char *with = NULL, *again = NULL, *without = NULL, *had = NULL;
	size_t with_len, again_len, without_len;
	const char *value = streq(key, KEY) ? "10" : "[\"http://127.0.0.1:30020\"]";

	with = set(text, len, key, value, &with_len);
	again = set(with, with_len, key, value, &again_len);
	assert_string_equal(again, with);
	without = set(with, with_len, key, NULL, &without_len);
	if (docker_config_get(text, len, key, &had, NULL) == 0) {
		_cleanup_free_ char *back = set(with, with_len, key, had, &again_len);

		if (!streq(back, text))
			fail_msg("%s: not as before: %s", name, back);
	} else if (is_blank(text)) {
		assert_non_null(strstr(without, "{\n}\n"));
	} else if (!streq(without, text)) {
		fail_msg("%s: not as before: %s", name, without);
	}
}

TEST(round_trips_files_as_they_are_met)
{
	DIR *dir = opendir(TEST_CORPUS "/daemon.json");
	const struct dirent *entry;
	unsigned int n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		_cleanup_free_ char *text = NULL;
		char path[PATH_MAX], key[DOCKER_CONFIG_KEY_MAX];
		size_t len;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), TEST_CORPUS "/daemon.json/%s", entry->d_name);
		assert_int_equal(read_file(path, DOCKER_CONFIG_MAX, &text, &len), 0);
		assert_int_equal(check(text, len, NULL), 0);
		/* 24.0 knows every key that is met in them. */
		assert_int_equal(docker_config_unknown_key(text, len, "24.0.9", key, NULL), 0);
		round_trip(entry->d_name, text, len, KEY);
		round_trip(entry->d_name, text, len, MIRRORS);
		n++;
	}
	closedir(dir);
	assert_true(n >= 19);
}

TEST(finds_a_key_that_a_version_does_not_know)
{
	static const struct {
		const char *text, *version, *key;
		unsigned int line, column;
	} cases[] = {
		{"{\n \"debug\": true,\n \"max-concurent-downloads\": 5\n}", "20.10.24+dfsg1",
			"max-concurent-downloads", 3, 2},
		{"{\"Debug\": true}", "28.5.2", "Debug", 1, 2},
		{"{\"http-proxy\": \"\"}", "20.10.24", "http-proxy", 1, 2},
		{"{\"log-format\": \"json\"}", "24.0.9", "log-format", 1, 2},
		{"{\"graph\": \"/x\"}", "24.0.9", "graph", 1, 2},
		{"{\"oom-score-adjust\": 1}", "26.1.5", "oom-score-adjust", 1, 2},
		{"{\"bip6\": \"fd00::1/64\"}", "27.5.1", "bip6", 1, 2},
		{"{\"debug\": true, \"proxies\": {\"ftp-proxy\": \"\"}}", "28.0.0", "ftp-proxy", 1,
			17},
	};
	static const char *const fine[][2] = {
		{"{\"http-proxy\": \"\"}", "23.0.15"},
		{"{\"proxies\": {\"http-proxy\": \"\"}}", "27.5.1"},
		{"{\"log-opts\": {\"any\": \"thing\"}, \"features\": {\"x\": true}}", "20.10.24"},
		{"{\"graph\": \"/x\", \"cluster-store\": \"\"}", "20.10.24"},
		{"{\"what-comes-later\": 1}", "29.0.0"},
		{"{\"what-was-before\": 1}", "19.03.15"},
		{"{\"anything\": 1}", "dev"},
		{"", "20.10.24"},
	};
	char key[DOCKER_CONFIG_KEY_MAX] = "";
	struct docker_config_fault fault;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(docker_config_unknown_key(cases[i].text, strlen(cases[i].text),
					 cases[i].version, key, &fault),
			1);
		assert_string_equal(key, cases[i].key);
		assert_int_equal(fault.line, cases[i].line);
		assert_int_equal(fault.column, cases[i].column);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
		assert_int_equal(docker_config_unknown_key(
					 fine[i][0], strlen(fine[i][0]), fine[i][1], key, &fault),
			0);
	assert_int_equal(docker_config_unknown_key("{", 1, "20.10", key, &fault), -EINVAL);
}

TEST(writes_lists)
{
	static const char *const mirrors[] = {"http://127.0.0.1:30020", "https://a/\"b"};
	_cleanup_free_ char *list = docker_config_list(mirrors, 2);
	_cleanup_free_ char *none = docker_config_list(NULL, 0);

	assert_string_equal(list, "[\"http://127.0.0.1:30020\",\"https://a/\\\"b\"]");
	assert_string_equal(none, "[]");
}
