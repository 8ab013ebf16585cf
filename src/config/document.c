/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/text.h"

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

static struct config_place place_at(const char *file, yaml_mark_t mark)
{
	return (struct config_place){
		.file = file, .line = (unsigned)mark.line + 1, .column = (unsigned)mark.column + 1};
}

/* What is no text at all: libyaml's marks begin only where it is. */
static void encoding_fault(const char *file, const char *text, const yaml_parser_t *parser,
	struct config_fault_list *faults)
{
	bool control = strstr(parser->problem, "control") != NULL;
	size_t offset = parser->problem_offset;
	struct text_position at;
	struct config_place place = {.file = file};

	/* The byte at fault is one that does not continue a character: name where that begins. */
	while (strstr(parser->problem, "trailing") && offset > 0 && (text[offset] & 0xc0) != 0xc0)
		offset--;
	at = text_position(text, offset);
	place.line = (unsigned)at.line;
	place.column = (unsigned)at.column;
	if (text[offset] == '\0')
		config_fault_add(faults, &place, "a NUL byte: the file must be plain UTF-8 text");
	else
		config_fault_add(faults, &place,
			control ? "a control character (byte 0x%02x): the file must be plain "
				  "UTF-8 text; remove it"
				: "byte 0x%02x is not UTF-8: save the file as plain UTF-8 text",
			(unsigned char)text[offset]);
}

/* What the parser stopped at. */
static void parser_fault(const char *file, const char *text, size_t len,
	const yaml_parser_t *parser, struct config_fault_list *faults)
{
	const char *problem = parser->problem ? parser->problem : "unreadable";
	const char *context = parser->context ? parser->context : "";
	const char *message = NULL;
	yaml_mark_t mark = parser->problem_mark;
	struct config_place place;
	size_t column;

	if (parser->error == YAML_MEMORY_ERROR)
		abort();
	if (parser->error == YAML_READER_ERROR) {
		encoding_fault(file, text, parser, faults);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(messages) && !message; i++)
		if (strstr(problem, messages[i].problem))
			message = messages[i].message;
	/* A quote or bracket that stays open is noticed at the end of the file. */
	if (strstr(context, "quoted scalar") || strstr(context, "parsing a flow"))
		mark = parser->context_mark;
	if (line_has_tab_indent(text, len, parser->problem_mark.line, &column)) {
		mark = (yaml_mark_t){.line = parser->problem_mark.line, .column = column};
		message = "a tab cannot indent YAML: use spaces";
	}
	place = place_at(file, mark);
	if (message)
		config_fault_add(faults, &place, "%s", message);
	else
		config_fault_add(faults, &place, "no valid YAML: %s %s", problem, context);
}

static bool is_null(yaml_scalar_style_t style, const yaml_char_t *value)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};

	for (size_t i = 0; style == YAML_PLAIN_SCALAR_STYLE && i < ARRAY_SIZE(words); i++)
		if (streq((const char *)value, words[i]))
			return true;
	return false;
}

struct scan {
	unsigned documents, depth, nodes;
};

/* What would make two parts of a file depend on each other, or on a type of YAML's; or NULL. */
static const char *event_fault(const yaml_event_t *event, struct scan *scan)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;

	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		return scan->documents++ > 0 ? "a second document begins here: join both, or put "
					       "it into a file of its own"
					     : NULL;
	case YAML_ALIAS_EVENT:
		return "aliases (*name) are not allowed: write the value out, or put it in quotes";
	case YAML_SCALAR_EVENT:
		if (memchr(event->data.scalar.value, '\0', event->data.scalar.length))
			return "a NUL character: remove the \\0";
		anchor = event->data.scalar.anchor;
		tag = event->data.scalar.tag;
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = event->data.mapping_start.anchor;
		tag = event->data.mapping_start.tag;
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = event->data.sequence_start.anchor;
		tag = event->data.sequence_start.tag;
		break;
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		scan->depth--;
		return NULL;
	default:
		return NULL;
	}
	if (anchor)
		return "anchors (&name) are not allowed: write the value out, or put it in quotes";
	if (tag)
		return "tags (!name) are not allowed: write the value alone, or put it in quotes";
	if (++scan->nodes > DOCUMENT_NODES_MAX)
		return "more than 8192 keys and values in one file: this is no configuration of "
		       "headroom";
	if (scan->depth == 0 && event->type == YAML_SEQUENCE_START_EVENT)
		return "the file must be a map of options, not a list: write \"key: value\" lines";
	if (scan->depth == 0 && event->type == YAML_SCALAR_EVENT &&
		!is_null(event->data.scalar.style, event->data.scalar.value))
		return "the file must be a map of options, not one text: write \"key: value\" lines";
	if (event->type != YAML_SCALAR_EVENT && ++scan->depth > DOCUMENT_DEPTH_MAX)
		return "nested deeper than 8 levels: no option is";
	return NULL;
}

/* Reads the whole file by events, which build nothing: what is loaded afterwards is bounded. */
static bool scan_document(const char *file, const char *text, size_t len, yaml_parser_t *parser,
	struct config_fault_list *faults)
{
	struct scan scan = {0};

	for (;;) {
		_cleanup_(yaml_event_delete) yaml_event_t event = {0};
		struct config_place place;
		const char *fault;

		if (!yaml_parser_parse(parser, &event)) {
			parser_fault(file, text, len, parser, faults);
			return false;
		}
		if (event.type == YAML_STREAM_END_EVENT)
			return true;
		fault = event_fault(&event, &scan);
		if (!fault)
			continue;
		place = place_at(file, event.start_mark);
		config_fault_add(faults, &place, "%s", fault);
		return false;
	}
}

static void begin(yaml_parser_t *parser, const char *text, size_t len)
{
	if (!yaml_parser_initialize(parser))
		abort();
	yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(parser, (const unsigned char *)text, len);
}

struct document *document_load(struct config *config, const char *file, const char *text,
	size_t len, struct config_fault_list *faults)
{
	/* libyaml would count a byte order mark as a column. */
	size_t mark = text_mark(text, len);
	struct document *document;
	yaml_parser_t parser;
	bool good;

	begin(&parser, text + mark, len - mark);
	good = scan_document(file, text + mark, len - mark, &parser, faults);
	yaml_parser_delete(&parser);
	if (!good)
		return NULL;
	begin(&parser, text + mark, len - mark);
	document = must(calloc(1, sizeof(*document)));
	document->file = must(strdup(file));
	if (!yaml_parser_load(&parser, &document->yaml))
		abort();
	yaml_parser_delete(&parser);
	document->next = config->documents;
	config->documents = document;
	return document;
}

const char *node_text(const yaml_node_t *node)
{
	if (!node || node->type != YAML_SCALAR_NODE || node_is_null(node))
		return NULL;
	return (const char *)node->data.scalar.value;
}

bool node_is_null(const yaml_node_t *node)
{
	return node->type == YAML_SCALAR_NODE &&
	       is_null(node->data.scalar.style, node->data.scalar.value);
}

const yaml_node_t *node_child(
	const struct document *document, const yaml_node_t *node, const char *key)
{
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;

	for (; node->type == YAML_MAPPING_NODE && pair < node->data.mapping.pairs.top; pair++)
		if (streq((const char *)node_at(document, pair->key)->data.scalar.value, key))
			return node_at(document, pair->value);
	return NULL;
}

struct config_place node_place(const struct document *document, const yaml_node_t *node)
{
	return place_at(document->file, node->start_mark);
}
