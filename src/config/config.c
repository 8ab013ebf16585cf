/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: files in, effective values out. The parts, in order: times, words and the
 * descriptions of options; the document, which is a file as a tree with positions; the merge, which
 * checks a tree against the tables of options and stores its values in the rows of struct config,
 * later files over earlier ones; the load, which reads all files and fills the other rows from the
 * profile and the defaults; the faults; the values. It knows no option by name but profile,
 * sysctl, log and http, and writes no file.
 */
#include "config/internal.h"

#include "base/file.h"
#include "base/text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <libgen.h>
#include <netinet/in.h>
#include <sys/statvfs.h>
#include <yaml.h>
#include <zlib.h>

/* ---- times, words and descriptions of options ---- */

#define DURATION_TEXT_MAX 24

const struct duration_unit duration_units[] = {
	{"h", 3600 * USEC_PER_SEC},
	{"m", 60 * USEC_PER_SEC},
	{"s", USEC_PER_SEC},
	{"ms", USEC_PER_MSEC},
	{0},
};

int duration_parse(const char *text, uint64_t *us)
{
	size_t len = strspn(text, "0123456789");
	_cleanup_free_ char *digits = must(strndup(text, len));
	uint64_t count = 0;
	int r = parse_count(digits, &count);

	for (const struct duration_unit *unit = duration_units; unit->name; unit++) {
		if (!streq(text + len, unit->name))
			continue;
		if (r < 0 || count > UINT64_MAX / unit->us)
			return r < 0 ? r : -ERANGE;
		*us = count * unit->us;
		return 0;
	}
	return -EINVAL;
}

/* Uses the largest unit that divides us. */
static const char *duration_format(char text[static DURATION_TEXT_MAX], uint64_t us)
{
	const struct duration_unit *unit = duration_units;

	while (unit[1].name && us % unit->us != 0)
		unit++;
	snprintf(text, DURATION_TEXT_MAX, "%" PRIu64 "%s", us / unit->us, unit->name);
	return text;
}

void value_describe(const struct config_option *option, char *buffer, size_t size)
{
	static const char *const plain[] = {
		[OPTION_BOOL] = "true or false",
		[OPTION_DURATION] = "a whole number with its unit, as in 500ms, 20s, 30m or 2h",
		[OPTION_CHOICE] = "",
		[OPTION_TEXT] = "one line of text",
		[OPTION_SYSCTLS] = "a map of sysctl names to values",
	};
	const char *const *choices = option->choices;
	char bound[DURATION_TEXT_MAX];

	if (option->type == OPTION_COUNT) {
		text_append(buffer, size, "digits alone, from %" PRIu64 " to %" PRIu64 "%s%s",
			option->min, option->max > 0 ? option->max : UINT64_MAX,
			option->unit ? " " : "", option->unit ? option->unit : "");
	} else if (option->type != OPTION_LIST) {
		text_append(buffer, size, "%s", plain[option->type]);
	} else if (option->items[0].name[0] == '\0') {
		text_append(buffer, size, "a list, such as [a, b]");
	} else {
		for (const struct config_option *row = option->items; row->name; row++)
			text_append(buffer, size, "%s%s: ...",
				row == option->items ? "a list of maps, such as [{" : ", ",
				row->name);
		text_append(buffer, size, "}]");
	}
	if (option->type == OPTION_DURATION && option->min > 0)
		text_append(buffer, size, ", from %s", duration_format(bound, option->min));
	if (option->type == OPTION_DURATION && option->max > 0)
		text_append(buffer, size, "%s%s", option->min > 0 ? " to " : ", at most ",
			duration_format(bound, option->max));
	for (size_t i = 0; choices && choices[i]; i++)
		text_append(buffer, size, "%s%s",
			i > 0                           ? choices[i + 1] ? ", " : " or "
			: option->type == OPTION_CHOICE ? ""
							: ", or ",
			choices[i]);
}

void option_describe(const struct config_option *option, char text[static OPTION_TEXT_MAX])
{
	const char *help = option->help ? option->help : "";
	const char *preset = option->def                   ? option->def
			     : option->type == OPTION_LIST ? "[]"
							   : "empty";

	copy_text(text, OPTION_TEXT_MAX, option->name[0] ? help : "Each item is ");
	if (!option->name[0]) {
		value_describe(option, text, OPTION_TEXT_MAX);
		text_append(text, OPTION_TEXT_MAX, ". %s", help);
		return;
	}
	if (option->type == OPTION_TEXT && option->min > 0 && !option->def) {
		text_append(text, OPTION_TEXT_MAX, " Must be given.");
		return;
	}
	if (option->type != OPTION_TEXT) { /* the help describes valid texts */
		text_append(text, OPTION_TEXT_MAX, " Takes ");
		value_describe(option, text, OPTION_TEXT_MAX);
		text_append(text, OPTION_TEXT_MAX, ".");
	}
	text_append(text, OPTION_TEXT_MAX, " Default: %s.", preset);
}

int word_index(const char *const *words, const char *word)
{
	for (int i = 0; words && words[i]; i++)
		if (streq(words[i], word))
			return i;
	return -1;
}

/* ---- the document: a file as a tree ---- */

#define TEMPLATE \
	"this looks like a template that was not rendered: render it, or put the text in quotes"

/* Replaces libyaml's messages by messages with the cure: the first row whose words occur. */
static const struct {
	const char *problem, *context;
	const char *message;
} cures[] = {
	{"unexpected", "quoted scalar", "the quote is not closed: add the closing quote"},
	{"", "quoted scalar", "this escape is not known: write \\\\ for one \\"},
	{"", "block scalar", "nothing may follow | or >: begin the text in the next line"},
	{"", "directive", "a line must not begin with %: remove it, or put the text in quotes"},
	{"mapping values are not allowed", "",
		"the ':' is not allowed here: indent keys of one section equally, and put a text "
		"with ': ' in quotes"},
	{"mapping keys are not allowed", "", "the '?' is not allowed here: put the text in quotes"},
	{"expected ':'", "", "this line is not \"key: value\": add ':' and a blank after the key"},
	{"expected key", "",
		"this does not fit here: indent keys of one section equally, and put nothing after "
		"a closing quote"},
	{"cannot start any token", "",
		"this character cannot start a value: put the text in quotes"},
	{"node content", "", "this character cannot start a value: put the text in quotes"},
	{"", "scanning a", "this character has a meaning in YAML: put the text in quotes"},
	{"undefined tag", "", "tags (!name) are not allowed: put the text in quotes"},
	{"<document start>", "", "nothing may follow here: indent it below a key, or remove it"},
	{"sequence entries are not allowed", "",
		"a list item is not allowed here: write \"key: [a, b]\""},
};

/* An open map or list. */
struct level {
	struct tree *tree, *key, **end; /* key: of the next value; end: where to store it */
	bool bracket;
};

struct reader {
	const char *file, *text;
	struct config_fault_list *faults;
	yaml_parser_t *parser;
	unsigned documents, depth, nodes, templates;
	struct level levels[DOCUMENT_DEPTH_MAX + 1];
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

static unsigned count_characters(const char *begin, const char *end)
{
	unsigned n = 0;

	for (; begin < end; begin++)
		n += (*begin & 0xc0) != 0x80;
	return n;
}

/* Finds the line of the mark, and moves a mark behind the last line to its end. */
static const char *line_at(const char *text, yaml_mark_t *mark)
{
	for (size_t i = 0; i < mark->line; i++) {
		const char *end = strchrnul(text, '\n');

		if (end[0] && end[1])
			text = end + 1;
		else
			*mark = (yaml_mark_t){.line = i, .column = count_characters(text, end)};
	}
	return text;
}

/* Finds the begin of a template of Helm or Jinja in the line. */
static const char *line_template(const char *line)
{
	for (; *line && *line != '\n' && *line != '#'; line++)
		if (line[0] == '{' && (line[1] == '{' || line[1] == '%'))
			return line;
	return NULL;
}

static void parser_fault(const struct reader *reader)
{
	const yaml_parser_t *parser = reader->parser;
	const char *problem = parser->problem ? parser->problem : "unreadable";
	const char *context = parser->context ? parser->context : "";
	const char *message = NULL, *line, *template;
	const struct level *level = &reader->levels[reader->depth];
	yaml_mark_t mark = parser->problem_mark;
	struct config_position position;

	if (parser->error == YAML_MEMORY_ERROR)
		out_of_memory();
	if (parser->error == YAML_READER_ERROR) {
		encoding_fault(reader);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(cures) && !message; i++)
		if (strstr(problem, cures[i].problem) && strstr(context, cures[i].context))
			message = cures[i].message;
	/* The parser notices an open quote, a key without ':' or an open bracket later. */
	if (strstr(problem, "unexpected") || strstr(problem, "expected ':'"))
		mark = parser->context_mark;
	if (strstr(context, "parsing a flow")) {
		while (!level->bracket && level > reader->levels)
			level--;
		mark.line = level->tree->position.line - 1;
		mark.column = level->tree->position.column - 1;
		message =
			level->tree->kind == TREE_LIST
				? "this list is not closed, or lacks a comma: close it with ], as in [a, b]"
				: "this map is not closed, or lacks a comma: close it with }, as in {a: 1, b: 2}";
	}
	line = line_at(reader->text, &mark);
	template = line_template(line);
	if (template) {
		mark.column = count_characters(line, template);
		message = TEMPLATE;
	} else if (line[strspn(line, " ")] == '\t') {
		mark.column = strspn(line, " ");
		message = "a tab cannot indent YAML: use spaces";
	} else if (strstr(problem, "expected ':'") && line[strspn(line, " ")] == '-') {
		message = "this is neither \"key: value\" nor an item: write a blank after the -";
	}
	position = position_at(reader, mark);
	if (message)
		config_fault_add(reader->faults, &position, "%s", message);
	else if (strstr(problem, "expected '-'"))
		config_fault_add(reader->faults, &position,
			"the indentation does not match the list that began in line %zu: indent all "
			"keys of an item equally",
			parser->context_mark.line + 1);
	else
		config_fault_add(reader->faults, &position,
			"invalid YAML: %s %s: put a text with special characters in quotes",
			problem, context);
}

/* Returns the enum tree_kind of the value that begins with the event, or -1. */
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

static struct tree *tree_new(struct config *config, enum tree_kind kind,
	struct config_position position, const char *text)
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
	struct tree *outer =
		tree_new(config, TREE_LIST, (struct config_position){.file = file}, "");
	struct reader reader = {.file = file,
		.text = text + mark,
		.faults = config->faults,
		.parser = &parser,
		.levels = {{outer, NULL, &outer->first, false}}};
	struct level *level;

	if (!yaml_parser_initialize(&parser))
		out_of_memory();
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)reader.text, len - mark);
	for (bool ended = false; !ended;) {
		_cleanup_(yaml_event_delete) yaml_event_t event = {0};
		struct config_position position;
		const char *fault;
		struct tree *tree;
		int kind;

		if (!yaml_parser_parse(&parser, &event)) {
			if (reader.templates == 0)
				parser_fault(&reader);
			return NULL;
		}
		kind = value_kind(&event);
		fault = event_fault(&reader, &event, kind);
		position = position_at(&reader, event.start_mark);
		if (fault) {
			if (reader.templates == 0)
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
		level = &reader.levels[reader.depth];
		if (level->tree->kind == TREE_MAP && !level->key) {
			level->key = tree;
			/* {{ is a map with a map as its key. Other faults of a template are noise.
			 */
			if (kind == TREE_MAP && position.line == level->tree->position.line &&
				position.column == level->tree->position.column + 1 &&
				reader.templates++ < CONFIG_FAULTS_MAX)
				config_fault_add(config->faults, &level->tree->position, TEMPLATE);
		} else {
			tree->key = steal(level->key);
			*level->end = tree;
			level->end = &tree->next;
		}
		if (kind <= TREE_TEXT)
			continue;
		/* Block styles and [a: b] begin with a mark without characters. */
		reader.levels[++reader.depth] = (struct level){
			tree, NULL, &tree->first, event.end_mark.index > event.start_mark.index};
	}
	return reader.templates > 0 ? NULL : outer->first ? outer->first : outer;
}

const char *tree_text(const struct tree *tree)
{
	return tree && tree->kind == TREE_TEXT ? tree->text : NULL;
}

static const struct tree *tree_child(const struct tree *map, const char *key)
{
	const struct tree *child = map->first;

	while (child && !(child->key && streq(child->key->text, key)))
		child = child->next;
	return child;
}

/* ---- the merge: the values of a tree into the rows ---- */

#define DETAIL_MAX 256
#define LABEL_MAX  (OPTION_NAME_MAX + 32)

/* Returns NULL if the name is unknown. */
static struct row *config_row(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_rows; i++)
		if (streq(config->rows[i].option->name, name))
			return &config->rows[i];
	return NULL;
}

/* Finds the sysctl or adds it with an empty value. */
static struct config_sysctl *config_sysctl(struct config *config, const char *name)
{
	struct config_sysctl *sysctl = find_named(config->sysctls, config->n_sysctls, name);

	if (sysctl)
		return sysctl;
	sysctl = add_element(&config->sysctls, &config->n_sysctls, &config->sysctls_allocated);
	set_text(sysctl->name, name);
	return sysctl;
}

static const char *kind_of(const struct tree *tree)
{
	return tree->kind == TREE_MAP ? "a map" : tree->kind == TREE_LIST ? "a list" : "one value";
}

/* Reports that the option, or the section if option is NULL, cannot be a map or list. */
static void wrong_kind(struct config *config, const struct config_option *option, const char *name,
	const struct tree *tree)
{
	char detail[DETAIL_MAX] = "";

	if (option)
		value_describe(option, detail, sizeof(detail));
	config_fault_add(config->faults, &tree->position, "%s cannot be %s: write %s", name,
		kind_of(tree), option ? detail : "its keys below it");
}

static void check_value(struct config *config, const struct config_option *option, const char *name,
	const struct tree *tree)
{
	static const char *const wrong[] = {
		[OPTION_BOOL] = "neither true nor false",
		[OPTION_COUNT] = "not a whole number",
		[OPTION_DURATION] = "not a time with a unit",
		[OPTION_CHOICE] = "not a valid choice",
		[OPTION_TEXT] = "a text with line breaks or control characters",
		[OPTION_LIST] = "not a list",
	};
	enum option_type type = option->type;
	uint64_t max = option->max > 0 ? option->max : type == OPTION_TEXT ? 255 : UINT64_MAX;
	const char *text = tree_text(tree), *refused = NULL;
	char quoted[TEXT_QUOTE_MAX], detail[DETAIL_MAX] = "";
	struct suggestion nearest = {0};
	uint64_t number = 0;
	int r = -EINVAL;

	if (!text) {
		wrong_kind(config, option, name, tree);
		return;
	}
	if (type == OPTION_TEXT && text_is_printable(text)) {
		refused = option->check ? option->check(text) : NULL;
		if (strlen(text) > max)
			config_fault_add(config->faults, &tree->position,
				"%s: the text is too long: write at most %" PRIu64 " bytes", name,
				max);
		else if (strlen(text) < option->min)
			config_fault_add(config->faults, &tree->position,
				"%s: the text is too short: write at least %" PRIu64 " bytes", name,
				option->min);
		else if (refused)
			config_fault_add(config->faults, &tree->position, "%s: %s is invalid: %s",
				name, text_quote(quoted, text), refused);
		return;
	}
	if (word_index(option->choices, text) >= 0 ||
		(type == OPTION_BOOL && (streq(text, "true") || streq(text, "false"))))
		return;
	if (type == OPTION_COUNT)
		r = parse_count(text, &number);
	else if (type == OPTION_DURATION)
		r = duration_parse(text, &number);
	if (r == 0 && number >= option->min && number <= max)
		return;
	value_describe(option, detail, sizeof(detail));
	for (size_t i = 0; option->choices && option->choices[i]; i++)
		suggest_offer(&nearest, text, option->choices[i]);
	for (size_t i = 0; i < 2 && type == OPTION_BOOL; i++)
		suggest_offer(&nearest, text, i == 0 ? "true" : "false");
	config_fault_add(config->faults, &tree->position, "%s: %s is %s: write %s%s%s%s", name,
		text_quote(quoted, text), r == -EINVAL ? wrong[type] : "out of range", detail,
		nearest.word[0] ? "; did you mean " : "", nearest.word, nearest.word[0] ? "?" : "");
}

/* Suggests a similar key of the section, else the same key elsewhere, else lists the keys. */
static void unknown_key(struct config *config, const struct config_option *const *tables,
	const char *section, const struct tree *key)
{
	char word[OPTION_NAME_MAX], last[OPTION_NAME_MAX] = "", quoted[TEXT_QUOTE_MAX];
	char cure[DETAIL_MAX] = "valid keys are ";
	size_t skip = section[0] ? strlen(section) + 1 : 0;
	bool is_name = strchr(key->text, '.') && option_find(tables, key->text);
	struct suggestion nearest = {0};
	const char *elsewhere = NULL;

	for (; *tables; tables++) {
		for (const struct config_option *option = *tables; option->name; option++) {
			const char *dot = strrchr(option->name, '.');

			if (!elsewhere && dot && streq(dot + 1, key->text))
				elsewhere = option->name;
			if (section[0] && (!option_is_below(option->name, section) ||
						  strlen(option->name) < skip))
				continue;
			set_text(word, option->name + skip);
			word[strcspn(word, ".")] = '\0';
			if (streq(word, last))
				continue;
			text_append(cure, sizeof(cure), "%s%s", last[0] ? ", " : "", word);
			set_text(last, word);
			suggest_offer(&nearest, key->text, word);
		}
	}
	if (is_name)
		strcpy(cure, "write each part of the name as a map of its own");
	else if (nearest.word[0] || elsewhere)
		snprintf(cure, sizeof(cure), "did you mean %s?",
			nearest.word[0] ? nearest.word : elsewhere);
	config_fault_add(config->faults, &key->position, "unknown key %s%s%s: %s",
		text_quote(quoted, key->text), section[0] ? " in " : "", section, cure);
}

static void check_item_map(struct config *config, const char *label,
	const struct config_option *option, const struct tree *item)
{
	const struct config_option *const rows[] = {option->items, NULL};
	size_t before = config->faults->n;

	for (const struct tree *field = item->first; field; field = field->next) {
		const struct config_option *row = option_find(rows, field->key->text);
		char name[LABEL_MAX + OPTION_NAME_MAX];

		if (!row) {
			unknown_key(config, rows, "", field->key);
		} else if (field->kind != TREE_NULL) { /* null: the default */
			snprintf(name, sizeof(name), "%s: %s", label, row->name);
			check_value(config, row, name, field);
		}
	}
	for (const struct config_option *row = option->items; row->name; row++)
		if (config->faults->n == before && !row->def && row->type == OPTION_TEXT &&
			row->min > 0 && !tree_text(tree_child(item, row->name)))
			config_fault_add(config->faults, &item->position,
				"%s lacks the key %s: add \"%s: ...\"", label, row->name,
				row->name);
}

static void check_list(
	struct config *config, const struct config_option *option, const struct tree *list)
{
	size_t n = 0, most = option->max > 0 ? (size_t)option->max : OPTION_ITEMS_MAX;

	for (const struct tree *item = list->first; item; item = item->next) {
		char label[LABEL_MAX]; /* "dns.budgets, item 2" */

		snprintf(label, sizeof(label), "%s, item %zu", option->name, ++n);
		if (n > most) {
			config_fault_add(config->faults, &item->position,
				"%s has more than %zu items: remove this and the following items",
				option->name, most);
			return;
		}
		if (item->kind == TREE_NULL)
			config_fault_add(config->faults, &item->position,
				"%s is empty: remove it, or write its value", label);
		else if (option->items[0].name[0] == '\0')
			check_value(config, option->items, label, item);
		else if (item->kind == TREE_MAP)
			check_item_map(config, label, option, item);
		else
			config_fault_add(config->faults, &item->position,
				"%s cannot be %s: write a map, such as {%s: ...}", label,
				kind_of(item), option->items[0].name);
	}
}

/* Returns the value of {value: V, exact: true}, or NULL after a fault. */
static const struct tree *exact_value(
	struct config *config, const char *name, const struct tree *map, bool *exact)
{
	const struct tree *value = NULL;
	char quoted[TEXT_QUOTE_MAX];

	for (const struct tree *child = map->first; child; child = child->next) {
		const char *key = child->key->text, *text = tree_text(child);

		if (text && streq(key, "value")) {
			value = child;
		} else if (text && streq(key, "exact") &&
			   (streq(text, "true") || streq(text, "false"))) {
			*exact = streq(text, "true");
		} else {
			config_fault_add(config->faults, &child->key->position,
				"sysctl.%s: %s is not allowed here: write {value: ..., exact: true}",
				name, text_quote(quoted, key));
			return NULL;
		}
	}
	if (!value)
		config_fault_add(config->faults, &map->position,
			"sysctl.%s lacks a value: write {value: ..., exact: true}", name);
	return value;
}

/*
 * Converts a name to the form of sysctl(8): net/ipv4/conf/eth0.100/rp_filter becomes
 * net.ipv4.conf.eth0/100.rp_filter. The first separator shows the form of the given name. Returns
 * the fault of an invalid name, else NULL.
 */
static const char *parse_sysctl_name(const char *text, char name[static SETTING_NAME_MAX])
{
	bool slashes = text[strcspn(text, "./")] == '/';
	const char *part = name;
	size_t parts = 0;

	if (!copy_text(name, SETTING_NAME_MAX, text))
		return "is too long";
	for (char *p = name; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("_.:/@-", *p))
			return "has an invalid character";
		if (slashes)
			*p = *p == '/' ? '.' : *p == '.' ? '/' : *p;
	}
	/* A part of slashes becomes "." or ".." in the path, and an empty part "//". */
	do {
		size_t len = strcspn(part, ".");

		if (strspn(part, "/") >= len)
			return "has an empty part";
		part += len;
		parts++;
	} while (*part++ == '.');
	return parts < 2 ? "has only one part" : NULL;
}

/* Copies the value and folds blanks to one space. Returns the fault of an invalid value. */
static const char *parse_sysctl_value(const char *text, char value[static SETTING_VALUE_MAX])
{
	char folded[1024];

	if (set_text(folded, text))
		text_fold_blanks(folded);
	if (strpbrk(text, "\n\v\f\r") || !text_is_printable(folded))
		return "the value has line breaks or control characters: write one line of text";
	if (folded[0] == '\0')
		return "the value is empty: write null to remove the key";
	if (!copy_text(value, SETTING_VALUE_MAX, folded))
		return "the value is too long: write at most 127 bytes";
	return NULL;
}

static void merge_sysctl(struct config *config, const struct tree *tree)
{
	const struct config_position *position = &tree->key->position;
	char name[SETTING_NAME_MAX], quoted[TEXT_QUOTE_MAX];
	const char *fault = parse_sysctl_name(tree->key->text, name);
	struct config_sysctl *sysctl;
	int order;

	if (fault) {
		config_fault_add(config->faults, position,
			"sysctl: the name %s %s: write it as sysctl -a prints it",
			text_quote(quoted, tree->key->text), fault);
		return;
	}
	sysctl = config_sysctl(config, name);
	if (sysctl->position.file == position->file) { /* in its other form */
		config_fault_add(config->faults, position,
			"sysctl.%s is set twice, first in line %u: remove one", name,
			sysctl->position.line);
		return;
	}
	sysctl->exact = false;
	sysctl->value[0] = '\0';
	if (tree->kind == TREE_MAP)
		tree = exact_value(config, name, tree, &sysctl->exact);
	if (!tree)
		return;
	sysctl->position = tree->position;
	if (tree->kind == TREE_NULL)
		return;
	fault = parse_sysctl_value(tree->text, sysctl->value);
	if (tree->kind == TREE_LIST)
		config_fault_add(config->faults, &tree->position,
			"sysctl.%s cannot be a list: write several numbers as one text, \"4096 "
			"87380 6291456\"",
			name);
	else if (fault)
		config_fault_add(config->faults, &tree->position, "sysctl.%s: %s", name, fault);
	else if (!sysctl->exact && value_compare(NULL, sysctl->value, sysctl->value, &order) < 0)
		config_fault_add(config->faults, &tree->position,
			"sysctl.%s: %s is not a whole number, and headroom raises only numbers; write "
			"{value: ..., exact: true} to set this text",
			name, text_quote(quoted, sysctl->value));
}

/*
 * Removes the values of earlier files and of the profile for name and all names below it. null: the
 * value that does so.
 */
static void clear_below(struct config *config, const char *name, const struct tree *null)
{
	for (size_t i = 0; i < config->n_rows; i++) {
		if (!option_is_below(config->rows[i].option->name, name))
			continue;
		config->rows[i].tree = null;
		if (config->rows[i].option->type == OPTION_SYSCTLS)
			config->n_sysctls = 0;
	}
}

static void merge_map(struct config *config, const char *section, const struct tree *map)
{
	static const struct tree none = {.kind = TREE_NULL};
	const struct row *parent = config_row(config, section);

	for (const struct tree *tree = map->first; tree; tree = tree->next) {
		const char *key = tree->key->text;
		char name[OPTION_NAME_MAX];
		int n = snprintf(name, sizeof(name), "%s%s%s", section, section[0] ? "." : "", key);
		bool fits = (size_t)n < sizeof(name) && !strchr(key, '.');
		bool is_section = fits && option_is_section(config->tables, name);
		struct row *row = fits ? config_row(config, name) : NULL;
		enum option_type type = row ? row->option->type : OPTION_TEXT;
		const struct tree *value = tree;

		/* A writer of YAML 1.1, such as Helm, turns the word off into false. */
		if (type == OPTION_CHOICE && word_index(row->option->choices, "off") >= 0 &&
			tree_text(tree) && streq(tree->text, "false"))
			value = tree_new(config, TREE_TEXT, tree->position, "off");
		if (parent && parent->option->type == OPTION_SYSCTLS && !row) {
			merge_sysctl(config, tree);
		} else if (!row && !is_section) {
			unknown_key(config, config->tables, section, tree->key);
		} else if (tree->kind == TREE_NULL) {
			clear_below(config, name, tree);
		} else if (tree->kind == TREE_MAP && (is_section || type == OPTION_SYSCTLS)) {
			if (row && type != OPTION_SYSCTLS) /* it replaces a choice such as keep */
				row->tree = tree;
			merge_map(config, name, tree);
		} else if (!row || type == OPTION_SYSCTLS) {
			wrong_kind(config, row ? row->option : NULL, name, tree);
		} else {
			if (tree->kind == TREE_LIST && type == OPTION_LIST)
				check_list(config, row->option, tree);
			else
				check_value(config, row->option, name, value);
			clear_below(config, name, &none);
			row->tree = value;
		}
	}
}

/* Removes values whose key is not a word or occurs twice, with a fault for each. */
static void check_keys(struct config *config, struct tree *tree)
{
	struct tree **end = &tree->first;
	char quoted[TEXT_QUOTE_MAX];

	for (struct tree *child = tree->first; child; child = child->next) {
		const struct tree *key = child->key, *same;

		check_keys(config, child);
		*end = NULL;
		same = key ? tree_child(tree, key->text) : NULL;
		if (key && (key->kind == TREE_MAP || key->kind == TREE_LIST)) {
			config_fault_add(config->faults, &key->position,
				"a key must be a word: write \"key: value\"");
		} else if (same) {
			config_fault_add(config->faults, &key->position,
				"the key %s occurs twice, first in line %u: remove one",
				text_quote(quoted, key->text), same->key->position.line);
		} else {
			*end = child;
			end = &child->next;
		}
	}
}

/* Returns whether a shell or Kubernetes would expand the text. */
static bool has_variable(const char *text)
{
	return strstr(text, "${") || strstr(text, "$(") ||
	       (text[0] == '$' && isupper((unsigned char)text[1]));
}

/* Warns of texts with variables. name: the option, or the section. */
static void check_literals(struct config *config, const char *name, const struct tree *tree)
{
	const char *text = tree_text(tree);
	char quoted[TEXT_QUOTE_MAX], below[OPTION_NAME_MAX];

	for (const struct tree *child = tree->first; child; child = child->next) {
		snprintf(below, sizeof(below), "%s%s%s", name, name[0] && child->key ? "." : "",
			child->key ? child->key->text : "");
		check_literals(config, below, child);
	}
	if (text && has_variable(text))
		config_fault_add(&config->warnings, &tree->position,
			"%s: %s is literal: variables of the environment are not expanded here%s",
			name, text_quote(quoted, text),
			streq(name, "node_name") ? "; without node_name, $NODE_NAME is used" : "");
}

static int by_position(const void *a, const void *b)
{
	const struct config_fault *x = a, *y = b;

	return x->line != y->line ? (int)(x->line - y->line) : (int)(x->column - y->column);
}

static void document_merge(struct config *config, struct tree *root)
{
	struct config_fault_list *faults = config->faults;
	size_t first = faults->n;

	check_keys(config, root);
	check_literals(config, "", root);
	config->n_literals = config->warnings.n;
	merge_map(config, "", root);
	if (faults->n == first)
		return;
	qsort(faults->faults + first, faults->n - first, sizeof(*faults->faults), by_position);
	faults->n = MIN(faults->n, first + CONFIG_FAULTS_MAX);
}

/* ---- the load: files, profile, defaults ---- */

static void file_fault(struct config *config, const char *path, int error)
{
	static const struct {
		int error;
		const char *message;
	} messages[] = {
		{-ENOENT, "no such file: create it, or name another file"},
		{-EFBIG, "the file is larger than 256 kB: this is not a configuration of headroom"},
		{-EISDIR, "a directory, not a file: remove or rename it"},
		{-EINVAL, "not a regular file: put a plain file here"},
		{-ENXIO, "not a regular file: put a plain file here"}, /* a socket */
	};
	struct config_position position = {.file = path, .line = 1, .column = 1};

	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		if (messages[i].error == error) {
			config_fault_add(config->faults, &position, "%s", messages[i].message);
			return;
		}
	config_fault_add(config->faults, &position,
		"cannot be read: %s: check the path and give read access to it", strerror(-error));
}

void config_check_writers(struct config *config, const char *path, mode_t allowed)
{
	const struct config_position position = {.file = path, .line = 1, .column = 1};
	struct statvfs mount;
	struct stat st;

	/* Other users may read their own files: the commands of other users change nothing. */
	if (config->draft || geteuid() != 0 || stat(path, &st) < 0 || statvfs(path, &mount) < 0 ||
		mount.f_flag & ST_RDONLY || st.st_mode & allowed)
		return;
	if (st.st_uid != 0 || st.st_mode & (S_IWGRP | S_IWOTH))
		config_fault_add(config->faults, &position,
			"users other than root can write this %s: run chown root and chmod go-w on it",
			S_ISDIR(st.st_mode) ? "directory" : "file");
}

static void load_text(struct config *config, const char *path, const char *text, size_t len)
{
	cJSON *file = json_append(config->files);
	struct tree *root;

	json_text(file, "name", path);
	json_text(file, "text", text);
	root = document_load(config, json_text_at(file, "name"), text, len);
	if (root)
		document_merge(config, root);
	if (!root || !root->first) /* blank, or only comments: like an empty file */
		cJSON_SetValuestring(cJSON_GetObjectItem(file, "text"), "");
}

static void load_file(const char *path, bool optional, void *userdata)
{
	struct config *config = userdata;
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int r = read_file(path, CONFIG_FILE_MAX, &text, &len);

	if (r < 0 && !(r == -ENOENT && optional))
		file_fault(config, path, r);
	if (r == 0)
		config_check_writers(config, path, 0);
	if (r == 0)
		load_text(config, path, text, len);
}

#define SOURCES "*.yaml"

/* Names with a leading dot are backups of editors, or ..data of a ConfigMap. */
static int is_source(const struct dirent *entry)
{
	return fnmatch(SOURCES, entry->d_name, FNM_PERIOD) == 0;
}

/* Calls visit for the main file, then for the files of the directory in name order. Returns 0, or
 * -errno if the directory exists but cannot be read. */
static int for_each_source(const struct config_source *source,
	void (*visit)(const char *path, bool optional, void *userdata), void *userdata)
{
	struct dirent **entries = NULL;
	int n;

	if (source->file)
		visit(source->file, source->optional, userdata);
	n = source->directory ? scandir(source->directory, &entries, is_source, alphasort) : 0;
	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", source->directory, entries[i]->d_name);
		free(entries[i]);
		visit(path, false, userdata);
	}
	free(entries);
	return 0;
}

/* Returns whether the name differs from the pattern in its ending, or in upper and lower case. */
static bool is_nearly(const char *name, const char *pattern)
{
	static const char *const endings[] = {".yaml", ".yml", ".json", ".conf"};
	char other[NAME_MAX + 8];

	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		snprintf(other, sizeof(other), "%.*s%s", (int)strcspn(pattern, "."), pattern,
			endings[i]);
		if (fnmatch(other, name, FNM_CASEFOLD | FNM_PERIOD) == 0)
			return fnmatch(pattern, name, FNM_PERIOD) != 0;
	}
	return false;
}

/* Warns of files of the directory that look like configuration, and are not read. */
static void check_ignored(struct config *config, const char *directory, const char *pattern)
{
	_cleanup_(cleanup_closedir) DIR *files = opendir(directory);
	const struct dirent *entry;

	while (files && (entry = readdir(files))) {
		_cleanup_free_ char *path = NULL;

		if (!is_nearly(entry->d_name, pattern))
			continue;
		must_do(asprintf(&path, "%s/%s", directory, entry->d_name) >= 0);
		config_fault_add(&config->warnings, &(struct config_position){path, 1, 1},
			"this file is not read: its name must be %s", pattern);
	}
}

/* Returns whether the address stands for all interfaces, however it is written. */
static bool listens_everywhere(const char *listen)
{
	struct sockaddr_storage address;
	const struct sockaddr_in *four = (const struct sockaddr_in *)&address;
	const struct in6_addr *six = &((const struct sockaddr_in6 *)&address)->sin6_addr;

	if (listen_address(listen, &address) == 0)
		return false;
	if (address.ss_family == AF_INET)
		return four->sin_addr.s_addr == INADDR_ANY;
	return IN6_IS_ADDR_UNSPECIFIED(six) || (IN6_IS_ADDR_V4MAPPED(six) && !six->s6_addr32[3]);
}

/* Without users, whoever reaches the port can read all but the names of DNS queries. */
static void check_listen(struct config *config)
{
	const struct row *listen = config_row(config, "http.listen");
	const struct row *web = config_row(config, "http.web_config");

	if (listen && web && listens_everywhere(listen->tree->text) && !web->tree->text[0])
		config_fault_add(&config->warnings, &listen->tree->position,
			"http.listen: %s is every address of the node, and everyone who reaches it "
			"may read: name one address, or set http.web_config for users or TLS",
			listen->tree->text);
}

void config_free(struct config *config)
{
	config_faults_clear(&config->warnings);

	for (struct tree *tree = config->trees, *next; tree; tree = next) {
		next = tree->allocated;
		free(tree);
	}
	cJSON_Delete(config->files);
	free(config->rows);
	free(config->sysctls);
	free(config);
}

/* Sets the default if neither a file nor the profile sets a value. */
static void apply_default(struct config *config, struct row *row)
{
	const struct config_option *option = row->option;
	const char *text = option->def ? option->def : option->type == OPTION_LIST ? "[]" : "";

	if (row->tree && (row->tree->kind == TREE_TEXT || row->tree->kind == TREE_LIST))
		return;
	if (option->type == OPTION_LIST && word_index(option->choices, text) < 0)
		row->tree = must(document_load(config, NULL, text, strlen(text)));
	else
		row->tree = tree_new(
			config, TREE_TEXT, (struct config_position){.file = "default"}, text);
}

/* Those without a value come last. */
static int by_name(const void *a, const void *b)
{
	const struct config_sysctl *x = a, *y = b;

	return !x->value[0] != !y->value[0] ? !x->value[0] - !y->value[0]
					    : strcmp(x->name, y->name);
}

/* Adds the values of the profile that no file overrides. */
static void apply_profile(struct config *config, const char *profile)
{
	const struct config_position position = {.file = config->profile};
	const struct tree *no_sysctls = config_row(config, "sysctl")->tree; /* null */

	snprintf(config->profile, sizeof(config->profile), "profile %s", profile);
	for (const struct profile_row *given = profile_rows; given->name; given++) {
		bool is_sysctl = starts_with(given->name, "sysctl.");
		struct row *row = is_sysctl ? NULL : config_row(config, given->name);
		struct config_sysctl *sysctl;

		if (!streq(given->profile, profile))
			continue;
		if (row && !row->tree)
			row->tree = tree_new(config, TREE_TEXT, position, given->value);
		if (!is_sysctl)
			continue;
		sysctl = config_sysctl(config, given->name + strlen("sysctl."));
		if (sysctl->position.file)
			continue;
		sysctl->position = no_sysctls ? no_sysctls->position : position;
		set_text(sysctl->value, no_sysctls ? "" : given->value);
	}
	if (config->n_sysctls > 1)
		qsort(config->sysctls, config->n_sysctls, sizeof(*config->sysctls), by_name);
	while (config->n_sysctls > 0 && !config->sysctls[config->n_sysctls - 1].value[0]) {
		config->n_sysctls--;
		config->n_removed++;
	}
}

int config_load(const struct config_source *source, const struct config_option *const *tables,
	struct config **ret, struct config_fault_list *faults)
{
	_cleanup_(cleanup_config_free) struct config *config = must(calloc(1, sizeof(*config)));
	_cleanup_free_ char *file_copy = must(strdup(source->file ? source->file : ""));
	const char *parent = dirname(file_copy);
	const char *slash = source->file ? strrchr(source->file, '/') : NULL;
	size_t before = faults->n;
	const cJSON *file;
	struct row *profile, *log;
	int r;

	*config = (struct config){.tables = tables, .faults = faults, .draft = source->draft};
	config->files = must(cJSON_CreateArray());
	for (; *tables; tables++)
		for (const struct config_option *option = *tables; option->name; option++) {
			struct row *row = add_element(
				&config->rows, &config->n_rows, &config->rows_allocated);

			row->option = option;
		}
	if (source->file)
		config_check_writers(config, parent, S_ISVTX); /* as /tmp */
	if (source->directory)
		config_check_writers(config, source->directory, 0);
	cJSON_ArrayForEach (file, source->texts) {
		const char *text = json_text_at(file, "text");

		load_text(config, json_text_at(file, "name"), text, strlen(text));
	}
	r = for_each_source(source, load_file, config);
	if (r < 0)
		file_fault(config, source->directory, r);
	log = config_row(config, "log");
	faults->log_json = log && tree_text(log->tree) && streq(log->tree->text, "json");
	if (faults->n > before) {
		config_mark_literals(config, faults);
		return -EINVAL;
	}
	profile = config_row(config, "profile");
	apply_default(config, profile);
	apply_profile(config, profile->tree->text);
	for (size_t i = 0; i < config->n_rows; i++)
		apply_default(config, &config->rows[i]);
	if (source->directory)
		check_ignored(config, source->directory, SOURCES);
	if (source->optional && access(source->file, F_OK) < 0)
		check_ignored(config, parent, slash ? slash + 1 : source->file);
	check_listen(config);
	config->faults = NULL;
	*ret = steal(config);
	return 0;
}

const struct config_fault_list *config_warnings(const struct config *config)
{
	return &config->warnings;
}

void config_mark_literals(const struct config *config, struct config_fault_list *faults)
{
	for (size_t i = 0; i < config->n_literals; i++) {
		const struct config_fault *literal = &config->warnings.faults[i];

		for (size_t k = 0; k < faults->n; k++) {
			struct config_fault *fault = &faults->faults[k];

			if (streq(fault->file, literal->file) && fault->line == literal->line &&
				fault->column == literal->column)
				text_append(fault->message, sizeof(fault->message),
					"; variables are not expanded here");
		}
	}
}

void config_mix_file(const char *path, bool, void *userdata)
{
	uLong *sum = userdata;
	struct stat st = {0};

	if (stat(path, &st) < 0)
		st.st_dev = (dev_t)errno;
	/* These change without a change of the content. */
	st.st_atim = (struct timespec){0};
	st.st_blocks = 0;
	*sum = crc32(*sum, (const Bytef *)path, (uInt)strlen(path) + 1);
	*sum = crc32(*sum, (const Bytef *)&st, sizeof(st));
}

uint64_t config_source_signature(const struct config_source *source)
{
	uLong sum = 0;

	if (source->directory)
		config_mix_file(source->directory, true, &sum);
	/* config_load() reports a directory that cannot be read. */
	(void)for_each_source(source, config_mix_file, &sum);
	return sum;
}

/* ---- faults ---- */

void config_fault_add(struct config_fault_list *list, const struct config_position *position,
	const char *format, ...)
{
	_cleanup_free_ char *message = NULL;
	struct config_fault *fault;
	va_list args;

	fault = add_element(&list->faults, &list->n, &list->allocated);
	set_text(fault->file, position->file);
	fault->line = position->line;
	fault->column = position->column;
	va_start(args, format);
	must_do(vasprintf(&message, format, args) >= 0);
	va_end(args);
	copy_public(fault->message, sizeof(fault->message), message);
}

void config_faults_clear(struct config_fault_list *list)
{
	free(list->faults);
	*list = (struct config_fault_list){0};
}

void config_faults_print(FILE *out, const struct config_fault_list *list, const char *kind)
{
	for (size_t i = 0; i < list->n; i++)
		fprintf(out, "%s:%u:%u: %s%s\n", list->faults[i].file, list->faults[i].line,
			list->faults[i].column, kind, list->faults[i].message);
}

/* ---- values ---- */

static const struct row *must_find_row(const struct config *config, const char *name)
{
	return must(config_row(config, name));
}

bool config_bool(const struct config *config, const char *name)
{
	return streq(config_text(config, name), "true");
}

const char *config_text(const struct config *config, const char *name)
{
	return must_find_row(config, name)->tree->text;
}

int config_choice(const struct config *config, const char *name)
{
	const struct row *row = must_find_row(config, name);

	return word_index(row->option->choices, row->tree->text);
}

uint64_t config_count(const struct config *config, const char *name, uint64_t fallback)
{
	(void)parse_count(config_text(config, name), &fallback);
	return fallback;
}

uint64_t config_duration(const struct config *config, const char *name)
{
	uint64_t us = 0;

	(void)duration_parse(config_text(config, name), &us);
	return us;
}

size_t config_list(const struct config *config, const char *name)
{
	size_t n = 0;

	for (const struct tree *item = must_find_row(config, name)->tree->first; item;
		item = item->next)
		n++;
	return n;
}

/* Returns the item itself if field is "" or NULL, and NULL if the item lacks the field. */
static const struct tree *find_field(
	const struct config *config, const char *name, size_t i, const char *field)
{
	const struct tree *item = must_find_row(config, name)->tree->first;

	for (; item && i > 0; i--)
		item = item->next;
	if (!item)
		abort();
	return field && field[0] ? tree_child(item, field) : item;
}

const char *config_item(const struct config *config, const char *name, size_t i, const char *field)
{
	const char *text = tree_text(find_field(config, name, i, field));
	const struct config_option *const rows[] = {
		must_find_row(config, name)->option->items, NULL};
	const struct config_option *option = option_find(rows, field);

	if (!option)
		abort();
	return text ? text : option->def ? option->def : "";
}

struct config_position config_item_where(
	const struct config *config, const char *name, size_t i, const char *field)
{
	const struct tree *tree = find_field(config, name, i, field);

	if (!tree || tree->kind == TREE_NULL)
		tree = find_field(config, name, i, NULL);
	return tree->position;
}

struct config_position config_where(const struct config *config, const char *name)
{
	return must_find_row(config, name)->tree->position;
}

bool config_is_given(const struct config *config, const char *name)
{
	return config_where(config, name).line > 0;
}

enum reason config_reason(const struct config *config, const char *name)
{
	struct config_position where = config_where(config, name);

	return where.line > 0                                ? REASON_CONFIGURED
	       : where.file && where.file == config->profile ? REASON_PROFILE
							     : REASON_DEFAULT;
}

bool config_is_chosen(const struct config *config, const char *name)
{
	return config_is_given(config, name) || (config_reason(config, name) == REASON_PROFILE &&
							config_is_given(config, "profile"));
}

const struct config_sysctl *config_sysctls(const struct config *config, size_t *n)
{
	*n = config->n_sysctls;
	return config->sysctls;
}

const struct config_sysctl *config_removed_sysctls(const struct config *config, size_t *n)
{
	*n = config->n_removed;
	return config->sysctls ? config->sysctls + config->n_sysctls : NULL;
}

static uLong mix_text(uLong sum, const char *text)
{
	return crc32(sum, (const Bytef *)text, (uInt)strlen(text) + 1);
}

static uLong mix_row(uLong sum, const struct config *config, const struct row *row)
{
	const char *name = row->option->name;

	for (size_t i = 0; row->tree->kind == TREE_LIST && i < config_list(config, name); i++) {
		sum = mix_text(sum, "item");
		for (const struct config_option *field = row->option->items; field->name; field++)
			sum = mix_text(sum, config_item(config, name, i, field->name));
	}
	return mix_text(sum, row->tree->text);
}

/* Adds a plain value, or the fields of a map. */
static void add_item(cJSON *array, const struct config *config, const struct row *row, size_t i)
{
	const struct config_option *field = row->option->items;
	cJSON *object = NULL;

	if (!field->name[0]) {
		json_append_text(array, config_item(config, row->option->name, i, ""));
		return;
	}
	object = json_append(array);
	for (; field->name; field++)
		json_text(object, field->name,
			config_item(config, row->option->name, i, field->name));
}

cJSON *config_json(const struct config *config)
{
	cJSON *root = cJSON_CreateObject();
	char from[256 + 16];

	for (size_t i = 0; i < config->n_rows; i++) {
		const struct row *row = &config->rows[i];
		const struct config_position *position = &row->tree->position;
		cJSON *object = json_object(root, row->option->name), *array;

		copy_text(from, sizeof(from), position->file);
		if (position->line > 0) /* neither the profile nor a default has one */
			text_append(from, sizeof(from), ":%u", position->line);
		json_text(object, "from", from);
		if (row->option->type == OPTION_SYSCTLS) {
			object = json_object(object, "value");
			for (size_t k = 0; k < config->n_sysctls; k++)
				must(cJSON_AddStringToObject(
					object, config->sysctls[k].name, config->sysctls[k].value));
			continue;
		}
		if (row->tree->kind != TREE_LIST) {
			json_text(object, "value", row->tree->text);
			continue;
		}
		array = json_array(object, "value");
		for (size_t k = 0; k < config_list(config, row->option->name); k++)
			add_item(array, config, row, k);
	}
	return root;
}

const char *config_file(const struct config *config, size_t i)
{
	const cJSON *file;

	cJSON_ArrayForEach (file, config->files)
		if (json_text_at(file, "text")[0] && i-- == 0)
			return json_text_at(file, "name");
	return NULL;
}

const char *config_lost_file(const struct config *config, const cJSON *before)
{
	const char *file;
	const cJSON *old;

	cJSON_ArrayForEach (old, before) {
		bool found = !json_text_at(old, "text")[0];

		for (size_t i = 0; !found && (file = config_file(config, i)); i++)
			found = streq(file, json_text_at(old, "name"));
		if (!found)
			return json_text_at(old, "name");
	}
	return NULL;
}

const cJSON *config_texts(const struct config *config)
{
	return config->files;
}

void config_changes(
	const struct config *before, const struct config *after, char *text, size_t size)
{
	const struct config *const both[] = {after, before};

	text[0] = '\0';
	for (size_t i = 0; i < after->n_rows; i++)
		if (mix_row(0, before, &before->rows[i]) != mix_row(0, after, &after->rows[i]))
			text_append(text, size, "%s%s", text[0] ? ", " : "",
				after->rows[i].option->name);
	/* New and changed sysctls, then the removed ones. */
	for (size_t i = 0; i < ARRAY_SIZE(both); i++)
		for (size_t s = 0; s < both[i]->n_sysctls; s++) {
			const struct config_sysctl *sysctl = &both[i]->sysctls[s];
			const struct config_sysctl *other =
				find_named(both[!i]->sysctls, both[!i]->n_sysctls, sysctl->name);

			if (!other || (i == 0 && (!streq(other->value, sysctl->value) ||
							 other->exact != sysctl->exact)))
				text_append(text, size, "%s%s", text[0] ? ", " : "", sysctl->name);
		}
}

uint32_t config_checksum(const struct config *config)
{
	uLong sum = crc32(0, NULL, 0);

	for (size_t i = 0; i < config->n_rows; i++) {
		sum = mix_text(sum, config->rows[i].option->name);
		sum = mix_row(sum, config, &config->rows[i]);
	}
	for (size_t i = 0; i < config->n_sysctls; i++) {
		sum = mix_text(sum, config->sysctls[i].name);
		sum = mix_text(sum, config->sysctls[i].value);
		sum = mix_text(sum, config->sysctls[i].exact ? "exact" : "");
	}
	return (uint32_t)sum;
}
