/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/text.h"

#include <yaml.h>

/* Replaces libyaml's messages by messages with the cure. */
static const struct {
	const char *problem;
	const char *message;
} messages[] = {
	{"unexpected end of stream", "the quote is not closed: add the closing quote"},
	{"expected ',' or ']'", "this list is not closed properly: write [a, b], with a comma "
				"between and ] at the end"},
	{"expected ',' or '}'", "this map is not closed properly: write {a: 1, b: 2}, with a comma "
				"between and } at the end"},
	{"mapping values are not allowed", "the ':' is not allowed here: indent keys of one "
					   "section equally, and put a text with ': ' in quotes"},
	{"could not find expected ':'",
		"this line is not \"key: value\": add ':' and a blank after the key"},
	{"expected key", "this does not fit here: indent keys of one section equally, and put "
			 "nothing after a closing quote"},
	{"cannot start any token", "this character cannot start a value: put the text in quotes"},
	{"<document start>", "nothing may follow here: indent it below a key, or remove it"},
	{"sequence entries are not allowed",
		"a list item is not allowed here: write \"key: [a, b]\""},
};

struct reader {
	const char *file, *text;
	struct config_fault_list *faults;
	yaml_parser_t *parser;
	unsigned documents, depth, nodes;
};

static struct config_position position_at(const struct reader *reader, yaml_mark_t mark)
{
	if (!reader->file)
		return (struct config_position){.file = "default"};
	return (struct config_position){
		reader->file, (unsigned)mark.line + 1, (unsigned)mark.column + 1};
}

/* Reports bytes that are not text. For these libyaml gives an offset, not a mark. */
static void encoding_fault(const struct reader *reader)
{
	const char *problem = reader->parser->problem, *text = reader->text;
	size_t offset = reader->parser->problem_offset;
	struct text_position at;
	struct config_position position;

	/* A character is incomplete: report its first byte. */
	while (strstr(problem, "trailing") && offset > 0 && (text[offset] & 0xc0) != 0xc0)
		offset--;
	at = text_position(text, offset);
	position = (struct config_position){reader->file, (unsigned)at.line, (unsigned)at.column};
	config_fault_add(reader->faults, &position,
		text[offset] == '\0' ? "a NUL byte: the file must be plain UTF-8 text"
		: strstr(problem, "control")
			? "a control character (byte 0x%02x): the file must be plain UTF-8 text; "
			  "remove it"
			: "byte 0x%02x is not UTF-8: save the file as plain UTF-8 text",
		(unsigned char)text[offset]);
}

static void parser_fault(const struct reader *reader)
{
	const yaml_parser_t *parser = reader->parser;
	const char *problem = parser->problem ? parser->problem : "unreadable";
	const char *context = parser->context ? parser->context : "";
	const char *message = NULL, *line = reader->text;
	yaml_mark_t mark = parser->problem_mark;
	struct config_position position;

	if (parser->error == YAML_MEMORY_ERROR)
		abort();
	if (parser->error == YAML_READER_ERROR) {
		encoding_fault(reader);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(messages) && !message; i++)
		if (strstr(problem, messages[i].problem))
			message = messages[i].message;
	for (size_t i = 0; i < mark.line; i++) {
		line = strchrnul(line, '\n');
		line += *line == '\n';
	}
	if (line[strspn(line, " ")] == '\t') {
		mark.column = strspn(line, " ");
		message = "a tab cannot indent YAML: use spaces";
	} else if (strstr(context, "quoted scalar") || strstr(context, "parsing a flow")) {
		/* The parser notices an open quote or bracket at the end of the file. */
		mark = parser->context_mark;
	}
	position = position_at(reader, mark);
	if (message)
		config_fault_add(reader->faults, &position, "%s", message);
	else
		config_fault_add(
			reader->faults, &position, "invalid YAML: %s %s", problem, context);
}

/* The enum tree_kind of the value that begins with the event, or -1. */
static int value_kind(const yaml_event_t *event)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
	bool plain;

	if (event->type == YAML_MAPPING_START_EVENT)
		return TREE_MAP;
	if (event->type == YAML_SEQUENCE_START_EVENT)
		return TREE_LIST;
	if (event->type != YAML_SCALAR_EVENT)
		return -1;
	plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	for (size_t i = 0; plain && i < ARRAY_SIZE(nulls); i++)
		if (streq((const char *)event->data.scalar.value, nulls[i]))
			return TREE_NULL;
	return TREE_TEXT;
}

/* Returns the message for an event that a configuration must not have, or NULL. */
static const char *event_fault(struct reader *reader, const yaml_event_t *event, int kind)
{
	if (event->type == YAML_DOCUMENT_START_EVENT && reader->documents++ > 0)
		return "a second document begins here: join both, or put it into a file of its own";
	if (event->type == YAML_ALIAS_EVENT)
		return "aliases (*name) are not allowed: write the value out, or put it in quotes";
	if (kind < 0)
		return NULL;
	if (kind <= TREE_TEXT && memchr(event->data.scalar.value, '\0', event->data.scalar.length))
		return "a NUL character: remove the \\0";
	/* In a map or list these members are at the same offset. */
	if (event->data.scalar.anchor)
		return "anchors (&name) are not allowed: write the value out, or put it in quotes";
	if (event->data.scalar.tag)
		return "tags (!name) are not allowed: write the value alone, or put it in quotes";
	if (++reader->nodes > DOCUMENT_NODES_MAX)
		return "more than 8192 keys and values in one file: this is not a configuration "
		       "of headroom";
	if (reader->depth == 0 && kind == TREE_LIST && reader->file)
		return "the file must be a map of options, not a list: write \"key: value\" lines";
	if (reader->depth == 0 && kind == TREE_TEXT)
		return "the file must be a map of options, not one text: write \"key: value\" lines";
	if (kind > TREE_TEXT && reader->depth == DOCUMENT_DEPTH_MAX)
		return "nested deeper than 8 levels: options have at most 4";
	return NULL;
}

struct tree *tree_new(struct config *config, enum tree_kind kind, struct config_position position,
	const char *text)
{
	struct tree *tree = must(calloc(1, sizeof(*tree) + strlen(text) + 1));

	*tree = (struct tree){.allocated = config->trees, .kind = kind, .position = position};
	strcpy(tree->text, text);
	config->trees = tree;
	return tree;
}

struct tree *document_load(struct config *config, const char *file, const char *text, size_t len)
{
	/* Skip a byte order mark, which libyaml counts as a column. */
	size_t mark = text_mark(text, len);
	_cleanup_(yaml_parser_delete) yaml_parser_t parser;
	struct reader reader = {
		.file = file, .text = text + mark, .faults = config->faults, .parser = &parser};
	struct tree *outer =
		tree_new(config, TREE_LIST, (struct config_position){.file = file}, "");
	/* The open maps and lists, the key of the next value, and where to store it. */
	struct {
		struct tree *tree, *key, **end;
	} levels[DOCUMENT_DEPTH_MAX + 1] = {{outer, NULL, &outer->first}}, *level;

	if (!yaml_parser_initialize(&parser))
		abort();
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)reader.text, len - mark);
	for (bool ended = false; !ended;) {
		_cleanup_(yaml_event_delete) yaml_event_t event = {0};
		struct config_position position;
		const char *fault;
		struct tree *tree;
		int kind;

		if (!yaml_parser_parse(&parser, &event)) {
			parser_fault(&reader);
			return NULL;
		}
		kind = value_kind(&event);
		fault = event_fault(&reader, &event, kind);
		position = position_at(&reader, event.start_mark);
		if (fault) {
			config_fault_add(config->faults, &position, "%s", fault);
			return NULL;
		}
		ended = event.type == YAML_STREAM_END_EVENT;
		reader.depth -= event.type == YAML_MAPPING_END_EVENT ||
				event.type == YAML_SEQUENCE_END_EVENT;
		if (kind < 0)
			continue;
		tree = tree_new(config, (enum tree_kind)kind, position,
			kind <= TREE_TEXT ? (const char *)event.data.scalar.value : "");
		level = &levels[reader.depth];
		if (level->tree->kind == TREE_MAP && !level->key) {
			level->key = tree;
		} else {
			tree->key = steal(level->key);
			*level->end = tree;
			level->end = &tree->next;
		}
		if (kind <= TREE_TEXT)
			continue;
		level = &levels[++reader.depth];
		level->tree = tree;
		level->key = NULL;
		level->end = &tree->first;
	}
	return outer->first ? outer->first : outer;
}

const char *tree_text(const struct tree *tree)
{
	return tree && tree->kind == TREE_TEXT ? tree->text : NULL;
}

const struct tree *tree_child(const struct tree *map, const char *key)
{
	const struct tree *child = map->first;

	while (child && !(child->key && streq(child->key->text, key)))
		child = child->next;
	return child;
}
