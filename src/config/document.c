/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/text.h"
#include "config/text.h"

#include <errno.h>
#include <yaml.h>

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

static int check_text(
	const char *file, const char *text, size_t len, struct config_fault_list *faults)
{
	struct config_place place = {.file = file, .line = 1, .column = 1};

	for (size_t at = 0; at < len;) {
		size_t n = utf8_length(text + at);

		if (n == 0 || (text_is_control(text + at, n) && !memchr("\t\n\r", text[at], 3))) {
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

static void syntax_fault(const char *file, const char *text, size_t len,
	const yaml_parser_t *parser, struct config_fault_list *faults)
{
	const char *problem = parser->problem ? parser->problem : "unreadable";
	const char *message = NULL;
	yaml_mark_t mark = parser->problem_mark;
	struct config_place place = {.file = file};
	size_t column;

	for (size_t i = 0; i < ARRAY_SIZE(messages) && !message; i++)
		if (strstr(problem, messages[i].problem))
			message = messages[i].message;
	/* A quote or bracket that stays open is noticed at the end of the file. */
	if (parser->context && (strstr(parser->context, "quoted scalar") ||
				       strstr(parser->context, "parsing a flow")))
		mark = parser->context_mark;
	if (line_has_tab_indent(text, len, parser->problem_mark.line, &column)) {
		mark = (yaml_mark_t){.line = parser->problem_mark.line, .column = column};
		message = "a tab cannot indent YAML: use spaces";
	}
	place.line = (unsigned)mark.line + 1;
	place.column = (unsigned)mark.column + 1;
	if (message)
		config_fault_add(faults, &place, "%s", message);
	else
		config_fault_add(faults, &place, "no valid YAML: %s%s%s", problem,
			parser->context ? " " : "", parser->context ? parser->context : "");
}

static bool is_null(const yaml_event_t *scalar)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};

	if (scalar->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (streq((const char *)scalar->data.scalar.value, words[i]))
			return true;
	return false;
}

struct reader {
	yaml_parser_t yaml;
	const char *file;
	const char *text;
	size_t len;
	unsigned nodes;
	struct config_fault_list *faults;
};

#define _cleanup_event_ _cleanup_(yaml_event_delete)

void node_free(struct node *node)
{
	struct node *next;

	for (struct node *child = node->children; child; child = next) {
		next = child->next;
		node_free(child);
	}
	free(node->text);
	free(node->key);
	free(node);
}

static int refuse(struct reader *reader, yaml_mark_t mark, const char *message)
{
	struct config_place place = {
		.file = reader->file,
		.line = (unsigned)mark.line + 1,
		.column = (unsigned)mark.column + 1,
	};

	config_fault_add(reader->faults, &place, "%s", message);
	return -EINVAL;
}

static int next_event(struct reader *reader, yaml_event_t *event)
{
	if (yaml_parser_parse(&reader->yaml, event))
		return 0;
	if (reader->yaml.error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	syntax_fault(reader->file, reader->text, reader->len, &reader->yaml, reader->faults);
	return -EINVAL;
}

/* Refuses what would make two places of a file depend on each other, or on a type of YAML's. */
static int check_event(struct reader *reader, const yaml_event_t *event)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;
	const char *fault = NULL;

	if (event->type == YAML_SCALAR_EVENT) {
		anchor = event->data.scalar.anchor;
		tag = event->data.scalar.tag;
		if (memchr(event->data.scalar.value, '\0', event->data.scalar.length))
			fault = "a NUL character: remove the \\0";
	} else if (event->type == YAML_MAPPING_START_EVENT) {
		anchor = event->data.mapping_start.anchor;
		tag = event->data.mapping_start.tag;
	} else if (event->type == YAML_SEQUENCE_START_EVENT) {
		anchor = event->data.sequence_start.anchor;
		tag = event->data.sequence_start.tag;
	} else if (event->type == YAML_ALIAS_EVENT) {
		fault = "aliases (*name) are not allowed: write the value out, or put it in quotes";
	}
	if (anchor)
		fault = "anchors (&name) are not allowed: write the value out, or put it in quotes";
	else if (tag)
		fault = "tags (!name) are not allowed: write the value alone, or put it in quotes";
	return fault ? refuse(reader, event->start_mark, fault) : 0;
}

static int new_node(struct reader *reader, const yaml_event_t *event, struct node **ret)
{
	struct node *node;

	if (++reader->nodes > DOCUMENT_NODES_MAX)
		return refuse(reader, event->start_mark,
			"more than 4096 values in one file: this is no configuration of headroom");
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	node->file = reader->file;
	node->line = (unsigned)event->start_mark.line + 1;
	node->column = (unsigned)event->start_mark.column + 1;
	*ret = node;
	return 0;
}

static int read_node(
	struct reader *reader, const yaml_event_t *event, unsigned depth, struct node **ret);

/* The value of a key that was just read. */
static int read_pair(
	struct reader *reader, const yaml_event_t *key, unsigned depth, struct node **ret)
{
	_cleanup_event_ yaml_event_t event = {0};
	_cleanup_free_ char *name = NULL;
	int r = check_event(reader, key);

	if (r == 0 && key->type != YAML_SCALAR_EVENT)
		return refuse(
			reader, key->start_mark, "a key must be a word: write \"key: value\"");
	if (r == 0 && !(name = strdup((const char *)key->data.scalar.value)))
		return -ENOMEM;
	if (r == 0)
		r = next_event(reader, &event);
	if (r == 0)
		r = read_node(reader, &event, depth, ret);
	if (r < 0)
		return r;
	(*ret)->key = steal(name);
	(*ret)->key_line = (unsigned)key->start_mark.line + 1;
	(*ret)->key_column = (unsigned)key->start_mark.column + 1;
	return 0;
}

static int read_children(struct reader *reader, unsigned depth, struct node *parent)
{
	for (struct node **end = &parent->children;; end = &(*end)->next) {
		_cleanup_event_ yaml_event_t event = {0};
		int r = next_event(reader, &event);

		if (r < 0 || event.type == YAML_SEQUENCE_END_EVENT ||
			event.type == YAML_MAPPING_END_EVENT)
			return r;
		r = parent->kind == NODE_MAP ? read_pair(reader, &event, depth, end)
					     : read_node(reader, &event, depth, end);
		if (r < 0)
			return r;
	}
}

static int read_node(
	struct reader *reader, const yaml_event_t *event, unsigned depth, struct node **ret)
{
	_cleanup_(cleanup_node_free) struct node *node = NULL;
	int r = check_event(reader, event);

	if (r == 0)
		r = new_node(reader, event, &node);
	if (r < 0)
		return r;
	if (event->type == YAML_SCALAR_EVENT && !is_null(event)) {
		node->kind = NODE_TEXT;
		node->text = strdup((const char *)event->data.scalar.value);
		r = node->text ? 0 : -ENOMEM;
	} else if (event->type != YAML_SCALAR_EVENT) {
		if (depth >= DOCUMENT_DEPTH_MAX)
			return refuse(reader, event->start_mark,
				"nested deeper than 8 levels: no option is");
		node->kind = event->type == YAML_SEQUENCE_START_EVENT ? NODE_LIST : NODE_MAP;
		r = read_children(reader, depth + 1, node);
	}
	if (r < 0)
		return r;
	*ret = steal(node);
	return 0;
}

/* The one document of a file: a map, or nothing. */
static int read_stream(struct reader *reader, struct node **root)
{
	_cleanup_(cleanup_node_free) struct node *node = NULL;
	unsigned documents = 0;

	for (;;) {
		_cleanup_event_ yaml_event_t event = {0};
		int r = next_event(reader, &event);

		if (r < 0)
			return r;
		switch (event.type) {
		case YAML_STREAM_END_EVENT:
			*root = node && node->kind == NODE_MAP ? steal(node) : NULL;
			return 0;
		case YAML_DOCUMENT_START_EVENT:
			if (documents++ > 0)
				return refuse(reader, event.start_mark,
					"a second document begins here: join both, or put it into "
					"a file of its own");
			break;
		case YAML_STREAM_START_EVENT:
		case YAML_DOCUMENT_END_EVENT:
			break;
		default:
			r = read_node(reader, &event, 0, &node);
			if (r < 0)
				return r;
			if (node->kind == NODE_LIST || node->kind == NODE_TEXT)
				return refuse(reader, event.start_mark,
					node->kind == NODE_LIST
						? "the file must be a map of options, not a list: "
						  "write \"key: value\" lines"
						: "the file must be a map of options, not one "
						  "text: write \"key: value\" lines");
		}
	}
}

int document_parse(const char *file, const char *text, size_t len, struct node **root,
	struct config_fault_list *faults)
{
	struct reader reader = {.file = file, .faults = faults};
	int r;

	/* libyaml would count a byte order mark as a column. */
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		len -= 3;
	}
	r = check_text(file, text, len, faults);
	if (r < 0)
		return r;
	if (!yaml_parser_initialize(&reader.yaml))
		return -ENOMEM;
	reader.text = text;
	reader.len = len;
	yaml_parser_set_encoding(&reader.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&reader.yaml, (const unsigned char *)text, len);
	r = read_stream(&reader, root);
	yaml_parser_delete(&reader.yaml);
	return r;
}
