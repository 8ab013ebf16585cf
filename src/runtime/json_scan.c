/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/json_scan.h"

#include "base/cleanup.h"
#include "base/utf8.h"
#include "base/util.h"

#include <errno.h>

struct scanner {
	const char *text;
	size_t len, at;
	unsigned int depth;
	const char *what;
	/* Of the outermost object the members are noted; NULL: not wanted. */
	struct json_object *object;
	int error; /* -ENOMEM; what is NULL then */
};

static bool refuse(struct scanner *s, const char *what)
{
	s->what = what;
	return false;
}

static char here(const struct scanner *s)
{
	return s->at < s->len ? s->text[s->at] : '\0';
}

static void skip_space(struct scanner *s)
{
	while (s->at < s->len && memchr(" \t\r\n", s->text[s->at], 4))
		s->at++;
}

static const char *what_is_here(const struct scanner *s, const char *otherwise)
{
	if (s->at >= s->len)
		return "the file ends too early";
	switch (here(s)) {
	case '/':
	case '#':
		return "JSON has no comments: take this one out";
	case '\'':
		return "JSON wants double quotes";
	case '\0':
		return "a NUL byte";
	default:
		return otherwise;
	}
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool scan_escape(struct scanner *s)
{
	s->at++;
	if (here(s) != 'u') {
		if (here(s) == '\0' || !strchr("\"\\/bfnrt", here(s)))
			return refuse(s, "no escape of JSON: a backslash is written \\\\");
		s->at++;
		return true;
	}
	s->at++;
	for (int i = 0; i < 4; i++, s->at++)
		if (!is_hex(here(s)))
			return refuse(s, "\\u wants four hexadecimal digits");
	return true;
}

static bool scan_string(struct scanner *s)
{
	s->at++;
	while (s->at < s->len && here(s) != '"') {
		size_t n = utf8_length(s->text + s->at);

		if ((unsigned char)here(s) < 0x20)
			return refuse(
				s, "a string must not hold a line break or a control character");
		if (n == 0)
			return refuse(s, "not UTF-8");
		if (here(s) != '\\')
			s->at += n;
		else if (!scan_escape(s))
			return false;
	}
	if (s->at >= s->len)
		return refuse(s, "a string without its closing quote");
	s->at++;
	return true;
}

static bool scan_digits(struct scanner *s)
{
	size_t start = s->at;

	while (here(s) >= '0' && here(s) <= '9')
		s->at++;
	return s->at > start || refuse(s, what_is_here(s, "a digit should be here"));
}

static bool scan_number(struct scanner *s)
{
	if (here(s) == '-')
		s->at++;
	if (here(s) == '0') {
		s->at++;
		if (here(s) >= '0' && here(s) <= '9')
			return refuse(s, "a number must not begin with 0");
	} else if (!scan_digits(s)) {
		return false;
	}
	if (here(s) == '.') {
		s->at++;
		if (!scan_digits(s))
			return false;
	}
	if (here(s) == 'e' || here(s) == 'E') {
		s->at++;
		if (here(s) == '+' || here(s) == '-')
			s->at++;
		return scan_digits(s);
	}
	return true;
}

static bool scan_word(struct scanner *s)
{
	static const char *const words[] = {"true", "false", "null"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);

		if (s->len - s->at >= n && memcmp(s->text + s->at, words[i], n) == 0) {
			s->at += n;
			return true;
		}
	}
	return refuse(s, what_is_here(s, "a value should be here"));
}

static bool scan_value(struct scanner *s);

static bool scan_list(struct scanner *s)
{
	s->at++;
	skip_space(s);
	if (here(s) == ']') {
		s->at++;
		return true;
	}
	for (;;) {
		if (!scan_value(s))
			return false;
		skip_space(s);
		if (here(s) == ']') {
			s->at++;
			return true;
		}
		if (here(s) != ',')
			return refuse(s, what_is_here(s, "',' or ']' should be here"));
		s->at++;
		skip_space(s);
		if (here(s) == ']')
			return refuse(s, "no ',' before ']'");
	}
}

static bool scan_member(struct scanner *s, struct json_member *member)
{
	member->key = s->at;
	if (here(s) != '"')
		return refuse(s, what_is_here(s, "a key in double quotes should be here"));
	if (!scan_string(s))
		return false;
	member->key_end = s->at;
	skip_space(s);
	if (here(s) != ':')
		return refuse(s, what_is_here(s, "':' should be here"));
	s->at++;
	skip_space(s);
	member->value = s->at;
	if (!scan_value(s))
		return false;
	member->value_end = s->at;
	return true;
}

static bool note_member(struct scanner *s, const struct json_member *member)
{
	struct json_object *object = s->object;

	if (!object || s->depth > 1)
		return true;
	s->error = grow_array(
		&object->members, object->n, &object->allocated, sizeof(*object->members));
	if (s->error < 0)
		return false;
	object->members[object->n++] = *member;
	return true;
}

static bool scan_object(struct scanner *s)
{
	struct json_member member;

	s->at++;
	skip_space(s);
	if (here(s) == '}') {
		s->at++;
		return true;
	}
	for (;;) {
		if (!scan_member(s, &member) || !note_member(s, &member))
			return false;
		skip_space(s);
		if (here(s) == '}') {
			s->at++;
			return true;
		}
		if (here(s) != ',')
			return refuse(s, what_is_here(s, "',' or '}' should be here"));
		s->at++;
		skip_space(s);
		if (here(s) == '}')
			return refuse(s, "no ',' before '}'");
	}
}

static bool scan_value(struct scanner *s)
{
	bool good;

	if (here(s) == '"')
		return scan_string(s);
	if (here(s) == '-' || (here(s) >= '0' && here(s) <= '9'))
		return scan_number(s);
	if (here(s) != '{' && here(s) != '[')
		return scan_word(s);
	if (s->depth == JSON_SCAN_DEPTH_MAX)
		return refuse(s, "nested too deeply");
	s->depth++;
	good = here(s) == '{' ? scan_object(s) : scan_list(s);
	s->depth--;
	return good;
}

static bool scan_whole(struct scanner *s)
{
	skip_space(s);
	if (s->object) {
		if (here(s) != '{')
			return refuse(s, what_is_here(s, "'{' should be here"));
		s->object->open = s->at;
	}
	if (!scan_value(s))
		return false;
	if (s->object)
		s->object->close = s->at - 1;
	skip_space(s);
	return s->at == s->len ||
	       refuse(s, what_is_here(s, "nothing may follow the closing brace"));
}

struct json_place json_place(const char *text, size_t at)
{
	struct json_place place = {.line = 1, .column = 1};

	for (size_t i = 0; i < at; i++) {
		place.column = text[i] == '\n' ? 1 : place.column + 1;
		place.line += text[i] == '\n';
	}
	return place;
}

int json_scan_object(const char *text, size_t len, size_t start, struct json_object *object,
	struct json_fault *fault)
{
	struct json_object found = {0};
	struct scanner s = {.text = text, .len = len, .at = start, .object = &found};

	if (scan_whole(&s)) {
		*object = found;
		return 0;
	}
	free(found.members);
	if (s.error < 0)
		return s.error;
	*fault = (struct json_fault){.place = json_place(text, s.at), .what = s.what};
	return -EINVAL;
}

int json_scan_value(const char *text, size_t len)
{
	struct scanner s = {.text = text, .len = len};

	return scan_whole(&s) ? 0 : -EINVAL;
}
