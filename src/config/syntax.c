/* SPDX-License-Identifier: Apache-2.0 */
#include "config/syntax.h"

#include "base/utf8.h"
#include "base/util.h"
#include "config/text.h"

#include <errno.h>

static bool is_allowed(const char *character, size_t n)
{
	return n > 0 && (*character == '\t' || *character == '\n' || *character == '\r' ||
				!text_is_control(character, n));
}

static void bad_character(struct config_place place, unsigned char byte, bool is_text,
	struct config_fault_list *faults)
{
	if (byte == 0)
		config_fault_add(faults, &place, "a NUL byte: the file must be plain UTF-8 text");
	else if (is_text)
		config_fault_add(faults, &place,
			"a control character (byte 0x%02x): the file must be plain UTF-8 text; "
			"remove it",
			byte);
	else
		config_fault_add(faults, &place,
			"byte 0x%02x is not UTF-8: save the file as plain UTF-8 text", byte);
}

int syntax_check_text(
	const char *file, const char *text, size_t len, struct config_fault_list *faults)
{
	struct config_place place = {.file = file, .line = 1, .column = 1};

	for (size_t at = 0; at < len;) {
		size_t n = utf8_length(text + at);

		if (!is_allowed(text + at, n)) {
			bad_character(place, (unsigned char)text[at], n > 0, faults);
			return -EINVAL;
		}
		place.column++;
		if (text[at] == '\n')
			place = (struct config_place){
				.file = file, .line = place.line + 1, .column = 1};
		at += n;
	}
	return 0;
}

/* The parser's words, and ours. */
static const struct {
	const char *problem;
	const char *message;
} messages[] = {
	{"unexpected end of stream", "this quote is never closed: add the closing quote"},
	{"expected ',' or ']'", "this list is not closed properly: write [a, b], with a comma "
				"between and ] at the end"},
	{"expected ',' or '}'", "this map is not closed properly: write {a: 1, b: 2}, with a comma "
				"between and } at the end"},
	{"mapping values are not allowed", "a ':' where no key can stand: indent keys of one "
					   "section equally, and put a text with ': ' in quotes"},
	{"could not find expected ':'",
		"a line that is no \"key: value\": add ':' and a blank after the key"},
	{"expected key", "this does not fit here: indent keys of one section equally, and put "
			 "nothing after a closing quote"},
	{"cannot start any token", "this character cannot start a value: put the text in quotes"},
	{"<document start>", "nothing may follow here: indent it below a key, or remove it"},
	{"sequence entries are not allowed",
		"a list item where none can stand: write \"key: [a, b]\""},
};

static const char *own_words(const char *problem)
{
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		if (strstr(problem, messages[i].problem))
			return messages[i].message;
	return NULL;
}

/* A quote or bracket that stays open is noticed at the end of the file: its beginning tells more.
 */
static yaml_mark_t telling_mark(const yaml_parser_t *parser)
{
	if (parser->context && (strstr(parser->context, "quoted scalar") ||
				       strstr(parser->context, "parsing a flow")))
		return parser->context_mark;
	return parser->problem_mark;
}

/* True, with the column from 0, when the line of a fault is indented with a tab. */
static bool line_has_tab_indent(const char *text, size_t len, size_t line, size_t *column)
{
	const char *p = text, *end = text + len;

	for (; line > 0 && p; line--) {
		p = memchr(p, '\n', (size_t)(end - p));
		if (p)
			p++;
	}
	for (*column = 0; p && p < end && (*p == ' ' || *p == '\t'); p++, ++*column)
		if (*p == '\t')
			return true;
	return false;
}

void syntax_fault(const char *file, const char *text, size_t len, const yaml_parser_t *parser,
	struct config_fault_list *faults)
{
	const char *problem = parser->problem ? parser->problem : "unreadable";
	const char *words = own_words(problem);
	yaml_mark_t mark = telling_mark(parser);
	struct config_place place = {.file = file};
	size_t column;

	if (line_has_tab_indent(text, len, parser->problem_mark.line, &column)) {
		mark = (yaml_mark_t){.line = parser->problem_mark.line, .column = column};
		words = "a tab cannot indent YAML: use spaces";
	}
	place.line = (unsigned)mark.line + 1;
	place.column = (unsigned)mark.column + 1;
	if (words)
		config_fault_add(faults, &place, "%s", words);
	else
		config_fault_add(faults, &place, "no valid YAML: %s%s%s", problem,
			parser->context ? " " : "", parser->context ? parser->context : "");
}

bool syntax_is_null(const yaml_event_t *scalar)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};

	if (scalar->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (streq((const char *)scalar->data.scalar.value, words[i]))
			return true;
	return false;
}
