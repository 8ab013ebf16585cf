/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/text.h"

#include <yaml.h>

/* The parser's messages, and ours. */
static const struct {
	const char *problem;
	const char *message;
} messages[] = {
	{"unexpected end of stream", "this quote is never closed: add the closing quote"},
	{"expected ',' or ']'", "this list is not closed properly: write [a, b], with a comma "
				"between and ] at the end"},
	{"expected ',' or '}'", "this map is not closed properly: write {a: 1, b: 2}, with a comma "
				"between and } at the end"},
	{"mapping values are not allowed", "a ':' where no key can be: indent keys of one "
					   "section equally, and put a text with ': ' in quotes"},
	{"could not find expected ':'",
		"a line that is no \"key: value\": add ':' and a blank after the key"},
	{"expected key", "this does not fit here: indent keys of one section equally, and put "
			 "nothing after a closing quote"},
	{"cannot start any token", "this character cannot start a value: put the text in quotes"},
	{"<document start>", "nothing may follow here: indent it below a key, or remove it"},
	{"sequence entries are not allowed",
		"a list item where none can be: write \"key: [a, b]\""},
};

struct reader {
	struct config *config;
	const char *file, *text;
	struct config_fault_list *faults;
	yaml_parser_t parser;
	unsigned documents, depth, nodes;
};

static struct config_place place_at(const struct reader *reader, yaml_mark_t mark)
{
	if (!reader->file)
		return (struct config_place){.file = "default"};
	return (struct config_place){
		reader->file, (unsigned)mark.line + 1, (unsigned)mark.column + 1};
}

static bool is_indented_with_tab(const char *text, size_t line, size_t *column)
{
	for (; line > 0; line--) {
		text = strchrnul(text, '\n');
		text += *text == '\n';
	}
	*column = strspn(text, " ");
	return text[*column] == '\t';
}

/* What is no text at all: libyaml's marks begin only where it is. */
static void encoding_fault(const struct reader *reader)
{
	const char *problem = reader->parser.problem, *text = reader->text;
	size_t offset = reader->parser.problem_offset;
	struct text_position at;
	struct config_place place;

	/* The byte at fault is one that does not continue a character: name where that begins. */
	while (strstr(problem, "trailing") && offset > 0 && (text[offset] & 0xc0) != 0xc0)
		offset--;
	at = text_position(text, offset);
	place = (struct config_place){reader->file, (unsigned)at.line, (unsigned)at.column};
	config_fault_add(reader->faults, &place,
		text[offset] == '\0' ? "a NUL byte: the file must be plain UTF-8 text"
		: strstr(problem, "control")
			? "a control character (byte 0x%02x): the file must be plain UTF-8 text; "
			  "remove it"
			: "byte 0x%02x is not UTF-8: save the file as plain UTF-8 text",
		(unsigned char)text[offset]);
}

/* What the parser stopped at. */
static void parser_fault(const struct reader *reader)
{
	const yaml_parser_t *parser = &reader->parser;
	const char *problem = parser->problem ? parser->problem : "unreadable";
	const char *context = parser->context ? parser->context : "";
	const char *message = NULL;
	yaml_mark_t mark = parser->problem_mark;
	struct config_place place;
	size_t column;

	if (parser->error == YAML_MEMORY_ERROR)
		abort();
	if (parser->error == YAML_READER_ERROR) {
		encoding_fault(reader);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(messages) && !message; i++)
		if (strstr(problem, messages[i].problem))
			message = messages[i].message;
	/* A quote or bracket that stays open is noticed at the end of the file. */
	if (strstr(context, "quoted scalar") || strstr(context, "parsing a flow"))
		mark = parser->context_mark;
	if (is_indented_with_tab(reader->text, parser->problem_mark.line, &column)) {
		mark = (yaml_mark_t){.line = parser->problem_mark.line, .column = column};
		message = "a tab cannot indent YAML: use spaces";
	}
	place = place_at(reader, mark);
	if (message)
		config_fault_add(reader->faults, &place, "%s", message);
	else
		config_fault_add(reader->faults, &place, "no valid YAML: %s %s", problem, context);
}

static bool is_null(const yaml_event_t *text)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};
	bool plain = text->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

	for (size_t i = 0; plain && i < ARRAY_SIZE(words); i++)
		if (streq((const char *)text->data.scalar.value, words[i]))
			return true;
	return false;
}

static bool is_value(const yaml_event_t *event)
{
	return event->type == YAML_SCALAR_EVENT || event->type == YAML_MAPPING_START_EVENT ||
	       event->type == YAML_SEQUENCE_START_EVENT;
}

/*
 * What would make two parts of a file depend on each other, or on a type of YAML's, or cost without
 * bound; or NULL.
 */
static const char *event_fault(struct reader *reader, const yaml_event_t *event)
{
	bool is_text = event->type == YAML_SCALAR_EVENT;

	if (event->type == YAML_DOCUMENT_START_EVENT && reader->documents++ > 0)
		return "a second document begins here: join both, or put it into a file of its own";
	if (event->type == YAML_ALIAS_EVENT)
		return "aliases (*name) are not allowed: write the value out, or put it in quotes";
	if (!is_value(event))
		return NULL;
	if (is_text && memchr(event->data.scalar.value, '\0', event->data.scalar.length))
		return "a NUL character: remove the \\0";
	/* The start of a map or list has both where a text has them. */
	if (event->data.scalar.anchor)
		return "anchors (&name) are not allowed: write the value out, or put it in quotes";
	if (event->data.scalar.tag)
		return "tags (!name) are not allowed: write the value alone, or put it in quotes";
	if (++reader->nodes > DOCUMENT_NODES_MAX)
		return "more than 8192 keys and values in one file: this is no configuration of "
		       "headroom";
	if (reader->depth == 0 && event->type == YAML_SEQUENCE_START_EVENT)
		return "the file must be a map of options, not a list: write \"key: value\" lines";
	if (reader->depth == 0 && is_text && !is_null(event))
		return "the file must be a map of options, not one text: write \"key: value\" lines";
	if (!is_text && reader->depth == DOCUMENT_DEPTH_MAX)
		return "nested deeper than 8 levels: no option is";
	return NULL;
}

static bool next_event(struct reader *reader, yaml_event_t *event)
{
	struct config_place place;
	const char *fault;

	if (!yaml_parser_parse(&reader->parser, event)) {
		parser_fault(reader);
		return false;
	}
	fault = event_fault(reader, event);
	place = place_at(reader, event->start_mark);
	if (fault)
		config_fault_add(reader->faults, &place, "%s", fault);
	return !fault;
}

struct tree *tree_new(
	struct config *config, enum tree_kind kind, struct config_place place, const char *text)
{
	struct tree *tree = must(calloc(1, sizeof(*tree) + strlen(text) + 1));

	*tree = (struct tree){.allocated = config->trees, .kind = kind, .place = place};
	strcpy(tree->text, text);
	config->trees = tree;
	return tree;
}

/* The value that begins with an event, and all below it; NULL after a fault. */
static struct tree *read_value(struct reader *reader, const yaml_event_t *begin)
{
	bool is_text = begin->type == YAML_SCALAR_EVENT;
	enum tree_kind kind = is_text && is_null(begin)                 ? TREE_NULL
			      : is_text                                 ? TREE_TEXT
			      : begin->type == YAML_MAPPING_START_EVENT ? TREE_MAP
									: TREE_LIST;
	struct tree *tree = tree_new(reader->config, kind, place_at(reader, begin->start_mark),
		is_text ? (const char *)begin->data.scalar.value : "");
	struct tree *key = NULL, *below, **end = &tree->first;

	reader->depth += !is_text;
	while (!is_text) {
		_cleanup_(yaml_event_delete) yaml_event_t event = {0};

		if (!next_event(reader, &event))
			return NULL;
		if (!is_value(&event)) /* the end of this one */
			break;
		below = read_value(reader, &event);
		if (!below)
			return NULL;
		if (kind == TREE_MAP && !key) {
			key = below;
			continue;
		}
		below->key = steal(key);
		*end = below;
		end = &below->next;
	}
	reader->depth -= !is_text;
	return tree;
}

struct tree *document_load(struct config *config, const char *file, const char *text, size_t len,
	struct config_fault_list *faults)
{
	/* libyaml would count a byte order mark as a column. */
	size_t mark = text_mark(text, len);
	struct reader reader = {
		.config = config, .file = file, .text = text + mark, .faults = faults};
	struct tree *root = tree_new(config, TREE_NULL, (struct config_place){.file = file}, "");

	if (!yaml_parser_initialize(&reader.parser))
		abort();
	yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(
		&reader.parser, (const unsigned char *)reader.text, len - mark);
	for (bool ended = false; root && !ended;) {
		_cleanup_(yaml_event_delete) yaml_event_t event = {0};

		if (!next_event(&reader, &event))
			root = NULL;
		else if (is_value(&event))
			root = read_value(&reader, &event);
		ended = event.type == YAML_STREAM_END_EVENT;
	}
	yaml_parser_delete(&reader.parser);
	return root;
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
