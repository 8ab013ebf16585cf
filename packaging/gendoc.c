/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gendoc TEMPLATE FILE VERSION DATE fills a template: it replaces placeholders such as @TUNERS@
 * from the program's tables, so that manuals, completions and sample always match the program. The
 * parts, in order: the manual pages; the command line; the sample configuration; the schema of the
 * configuration; completions; placeholders and templates. It runs at build time and reads no node.
 */
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "config/internal.h"
#include "tuners/table.h"

#define TEMPLATE_MAX ((size_t)256 * 1024)

#define ROFF_LINE_MAX 80

/* ---- the manual pages ---- */

static void put_text(FILE *out, const char *text)
{
	static const char *const requests[256] = {
		['\\'] = "\\e",
		['-'] = "\\-",
		['/'] = "/\\:", /* lets long addresses break */
		['`'] = "\\(cq",
		['\''] = "\\(aq",
	};

	if (*text == '.' || *text == '\'') /* troff reads it as a request at the start of a line */
		fputs("\\&", out);
	for (; *text; text++) {
		const char *request = requests[(unsigned char)*text];

		if (request)
			fputs(request, out);
		else
			fputc(*text, out);
	}
}

static void put_tagged(FILE *out, const char *tag, const char *text)
{
	fputs(".TP\n\\fB", out);
	put_text(out, tag);
	fputs("\\fR\n", out);
	put_text(out, text);
	fputc('\n', out);
}

static void put_option(FILE *out, const struct config_option *option)
{
	char text[OPTION_TEXT_MAX];

	option_describe(option, text);
	put_tagged(out, option->name, text);
	if (option->type != OPTION_LIST)
		return;
	option_describe(option->items, text);
	if (!option->items[0].name[0]) {
		put_text(out, text);
		fputc('\n', out);
		return;
	}
	fputs(".RS\n", out);
	for (const struct config_option *row = option->items; row->name; row++) {
		option_describe(row, text);
		put_tagged(out, row->name, text);
	}
	fputs(".RE\n", out);
}

static bool is_general(const struct config_option *option)
{
	return !strchr(option->name, '.') && !option_is_section(option_tables, option->name);
}

/* Prints the keys outside sections first, then each section. */
static void put_config_keys(FILE *out)
{
	char section[OPTION_NAME_MAX] = "";

	fputs(".SS General\n", out);
	for (size_t i = 0; option_tables[i]; i++)
		for (const struct config_option *row = option_tables[i]; row->name; row++)
			if (is_general(row))
				put_option(out, row);
	for (size_t i = 0; option_tables[i]; i++)
		for (const struct config_option *row = option_tables[i]; row->name; row++) {
			if (is_general(row))
				continue;
			if (section[0] == '\0' || !option_is_below(row->name, section)) {
				snprintf(section, sizeof(section), "%.*s",
					(int)strcspn(row->name, "."), row->name);
				fprintf(out, ".SS %s\n", section);
			}
			put_option(out, row);
		}
}

static void put_profiles(FILE *out)
{
	for (const struct profile *profile = profile_table; profile->name; profile++) {
		fputs(".SS ", out);
		put_text(out, profile->name);
		fputc('\n', out);
		put_text(out, profile->help);
		fputc('\n', out);
		for (const struct profile_row *row = profile_rows; row->name; row++) {
			char tag[OPTION_NAME_MAX + SETTING_VALUE_MAX];

			if (!streq(row->profile, profile->name))
				continue;
			snprintf(tag, sizeof(tag), "%s: %s", row->name, row->value);
			put_tagged(out, tag, row->source);
		}
	}
}

/* Writes a cell in Markdown: an unescaped pipe would end it. */
static void put_cell(FILE *out, const char *text)
{
	for (; text && *text; text++)
		fprintf(out, "%s%c", *text == '|' ? "\\" : "", *text);
	fputs(" | ", out);
}

static void put_row(FILE *out, const struct help_entry *entry)
{
	fprintf(out, "| `%s` | ", entry->name);
	if (entry->kind == ENTRY_CONDITION)
		put_cell(out, severity_names[entry->condition->severity]);
	if (entry->kind == ENTRY_METRIC) {
		put_cell(out, entry_detail(entry));
		for (int i = 0; i < METRIC_LABELS_MAX && entry->metric->labels[i]; i++)
			fprintf(out, "%s%s", i > 0 ? ", " : "", entry->metric->labels[i]);
		fputs(" | ", out);
	}
	if (entry->kind != ENTRY_CONDITION)
		put_cell(out, entry->unit);
	put_cell(out, entry->help);
	if (entry->source)
		put_cell(out, entry->source);
	fputc('\n', out);
}

static void put_paragraph(FILE *out, const struct help_entry *entry)
{
	const char *separator = " Reasons: ";
	char text[OPTION_TEXT_MAX];

	snprintf(text, sizeof(text), "%s", entry->help);
	if (entry->kind == ENTRY_CONDITION) {
		const enum reason *reason = entry->condition->reasons;

		text_append(text, sizeof(text), " Severity: %s.",
			severity_names[entry->condition->severity]);
		for (; reason && *reason; reason++, separator = ", ")
			text_append(
				text, sizeof(text), "%s%s", separator, reason_rows[*reason].slug);
		text_append(text, sizeof(text), ".");
	} else if (entry->kind == ENTRY_REASON && entry_detail(entry)) {
		text_append(text, sizeof(text), " Then %s.", entry_detail(entry));
	} else if (entry->kind == ENTRY_METRIC) {
		const char *const *label = entry->metric->labels;

		text_append(text, sizeof(text), " A %s", entry_detail(entry));
		for (int i = 0; i < METRIC_LABELS_MAX && label[i]; i++)
			text_append(
				text, sizeof(text), "%s%s", i > 0 ? ", " : "; labels: ", label[i]);
		text_append(text, sizeof(text), ".");
	}
	put_tagged(out, entry->name, text);
}

/* Prints the entries of a kind: paragraphs of a manual, or rows in Markdown. */
static void put_kind(FILE *out, enum entry_kind kind, bool markdown)
{
	size_t n;
	_cleanup_free_ struct help_entry *entries = all_entries(&n);

	for (size_t i = 0; i < n; i++)
		if (entries[i].kind == kind)
			(markdown ? put_row : put_paragraph)(out, &entries[i]);
}

/* Prints each capability once, with the reasons of all tuners that need it. */
static void put_capabilities(FILE *out)
{
	unsigned long long done = 0;

	for (size_t i = 0; tuner_table[i]; i++)
		for (const struct capability_row *row = tuner_table[i]->tables->capabilities;
			row && row->name; row++) {
			char text[OPTION_TEXT_MAX] = "";

			if (done & 1ULL << row->capability)
				continue;
			done |= 1ULL << row->capability;
			for (size_t k = i; tuner_table[k]; k++)
				for (const struct capability_row *same =
						tuner_table[k]->tables->capabilities;
					same && same->name; same++) {
					size_t used = strlen(text);

					if (same->capability != row->capability)
						continue;
					snprintf(text + used, sizeof(text) - used, "%s%s: %s%s%s%s",
						used > 0 ? "; " : "", tuner_table[k]->name,
						same->setting ? same->setting : same->why,
						same->setting ? " (" : "",
						same->setting ? same->why : "",
						same->setting ? ")" : "");
				}
			text_append(text, sizeof(text), ".");
			put_tagged(out, row->name, text);
		}
}

/* ---- the command line, for headroom(8) ---- */

static void put_synopsis(FILE *out)
{
	char usage[CLI_USAGE_MAX];

	for (const struct cli_command *command = cli_commands; command->name; command++) {
		cli_usage(command, usage);
		fprintf(out, "%s\\fBheadroom ", command == cli_commands ? "" : ".br\n");
		put_text(out, command->name);
		fputs("\\fR", out);
		put_text(out, usage + strlen(command->name));
		fputc('\n', out);
	}
}

static void put_commands(FILE *out)
{
	for (const struct cli_command *command = cli_commands; command->name; command++)
		put_tagged(out, command->name, command->help);
}

/* Writes "1  Failure. doctor: something could not be checked." of the rows of each code. */
static void put_exits(FILE *out)
{
	for (const struct cli_exit *row = cli_exits, *next; row->help; row = next) {
		char code[8], text[OPTION_TEXT_MAX] = "";

		for (next = row; next->help && next->code == row->code; next++) {
			text_append(text, sizeof(text), "%s", next == row ? "" : " ");
			for (const char *word = next->commands ? next->commands : ""; *word;
				word += strcspn(word, " "), word += *word == ' ')
				text_append(text, sizeof(text), "%.*s%s", (int)strcspn(word, " "),
					word, strchr(word, ' ') ? ", " : ": ");
			text_append(text, sizeof(text), "%s", next->help);
		}
		snprintf(code, sizeof(code), "%d", row->code);
		put_tagged(out, code, text);
	}
}

static void put_message_ids(FILE *out)
{
	for (size_t i = 0; i < LOG_KINDS; i++)
		put_tagged(out, log_kinds[i].id, log_kinds[i].help);
}

static void put_options(FILE *out)
{
	for (const struct cli_option *option = cli_options; option->name; option++) {
		char tag[64];

		snprintf(tag, sizeof(tag), "--%s%s%s", option->name, option->argument ? " " : "",
			option->argument ? option->argument : "");
		put_tagged(out, tag, option->help);
	}
}

/* ---- the sample configuration ---- */

#define SAMPLE_WIDTH 96

/* In the sample, prose begins with ## and keys with #. Without the first # the keys are all
 * defaults. */

static void print_prose(FILE *out, size_t depth, const char *text)
{
	size_t column = 0;

	while (*text) {
		size_t len = strcspn(text, " ");

		if (column == 0 || column + 1 + len > SAMPLE_WIDTH)
			column = (size_t)fprintf(
				out, "%s## %*s", column ? "\n" : "", (int)depth * 2, "");
		else
			column += (size_t)fprintf(out, " ");
		column += (size_t)fprintf(out, "%.*s", (int)len, text);
		text += len + (text[len] == ' ');
	}
	fputc('\n', out);
}

static size_t depth_of(const char *name)
{
	size_t depth = 0;

	for (; *name; name++)
		depth += *name == '.';
	return depth;
}

static const char *last_part(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

static void print_items(FILE *out, const struct config_option *option, size_t depth)
{
	char text[OPTION_TEXT_MAX], line[OPTION_TEXT_MAX + OPTION_NAME_MAX];

	for (const struct config_option *row = option->items; row->name; row++) {
		option_describe(row, text);
		snprintf(line, sizeof(line), "%s%s%s", row->name, row->name[0] ? ": " : "", text);
		print_prose(out, depth + (row->name[0] != '\0'), line);
	}
}

static void print_default(FILE *out, const struct config_option *option)
{
	const char *quote = option->type == OPTION_TEXT && option->def ? "\"" : "";

	fprintf(out, "#%*s%s:", (int)depth_of(option->name) * 2, "", last_part(option->name));
	if (option_is_section(option_tables, option->name))
		fputc('\n', out);
	else if (option->type == OPTION_SYSCTLS)
		fprintf(out, " {}\n");
	else if (option->type == OPTION_LIST && !option->def)
		fprintf(out, " []\n");
	else if (option->def)
		fprintf(out, " %s%s%s\n", quote, option->def, quote);
	else
		fputc('\n', out);
}

static void print_sample_row(FILE *out, const struct config_option *option, const char *previous)
{
	size_t depth = depth_of(option->name), first = strcspn(option->name, ".");
	char text[OPTION_TEXT_MAX];

	if (strcspn(previous, ".") != first || strncmp(option->name, previous, first) != 0)
		fputc('\n', out);
	for (const char *dot = strchr(option->name, '.'); dot; dot = strchr(dot + 1, '.')) {
		char section[OPTION_NAME_MAX];

		snprintf(section, sizeof(section), "%.*s", (int)(dot - option->name), option->name);
		if (!option_is_below(previous, section))
			fprintf(out, "#%*s%s:\n", (int)depth_of(section) * 2, "",
				last_part(section));
	}
	option_describe(option, text);
	print_prose(out, depth, text);
	if (option->type == OPTION_SYSCTLS)
		print_prose(out, depth, "For example:  vm.max_map_count: 1048576");
	else if (option->type == OPTION_LIST)
		print_items(out, option, depth);
	else if (option_is_section(option_tables, option->name))
		print_prose(out, depth, "This value replaces the keys below.");
	print_default(out, option);
}

static void put_sample(FILE *out)
{
	const char *previous = "";

	for (size_t i = 0; option_tables[i]; i++)
		for (const struct config_option *row = option_tables[i]; row->name; row++) {
			print_sample_row(out, row, previous);
			previous = row->name;
		}
}

/* ---- the schema of the configuration: JSON Schema, draft 7 ---- */

/* Appends alternatives of a regular expression for the whole numbers from low to high. */
static void put_numbers(char *pattern, size_t size, uint64_t low, uint64_t high)
{
	for (const char *bar = ""; low <= high; bar = "|") {
		uint64_t step = 1, digit, more;
		int free = 0; /* how many last digits have any value */

		for (; low > 0 && low % (step * 10) == 0 && low + step * 10 - 1 <= high; free++)
			step *= 10;
		digit = low / step % 10;
		more = MIN(9 - digit, (high - low + 1) / step - 1);
		text_append(pattern, size, "%s", bar);
		if (low / step >= 10)
			text_append(pattern, size, "%" PRIu64, low / step / 10);
		if (more > 0)
			text_append(
				pattern, size, "[%" PRIu64 "-%" PRIu64 "]", digit, digit + more);
		else
			text_append(pattern, size, "%" PRIu64, digit);
		if (free > 0)
			text_append(pattern, size, "[0-9]{%d}", free);
		low += (more + 1) * step;
	}
}

static void put_durations(char *pattern, size_t size, const struct config_option *option)
{
	uint64_t max = option->max > 0 ? option->max : UINT64_MAX;

	for (const struct duration_unit *unit = duration_units; unit->name; unit++) {
		uint64_t low = (option->min + unit->us - 1) / unit->us, high = max / unit->us;

		if (low > high)
			continue;
		text_append(pattern, size, "%s(", pattern[0] ? "|" : "");
		put_numbers(pattern, size, low, high);
		text_append(pattern, size, ")%s", unit->name);
	}
}

/* Adds an array of texts, which NULL ends. */
static cJSON *add_words(cJSON *schema, const char *key, const char *const *words)
{
	cJSON *array = json_array(schema, key);

	for (; *words; words++)
		json_append_text(array, *words);
	return array;
}

static cJSON *schema_of_items(const struct config_option *rows);

/* How null is read: as the default, or as an empty item, which is a fault. */
enum null_use { NULL_IS_DEFAULT, NULL_IS_FAULT };

/* In YAML 1.1, which Helm reads, the words off, false and true are booleans. */
static void add_choices(cJSON *schema, const char *const *choices, enum null_use null)
{
	cJSON *array = add_words(schema, "enum", choices);

	if (word_index(choices, "off") >= 0 || word_index(choices, "false") >= 0)
		must_do(cJSON_AddItemToArray(array, cJSON_CreateFalse()));
	if (word_index(choices, "true") >= 0)
		must_do(cJSON_AddItemToArray(array, cJSON_CreateTrue()));
	if (null == NULL_IS_DEFAULT)
		must_do(cJSON_AddItemToArray(array, cJSON_CreateNull()));
}

/* Adds what a valid value of the option is. A section adds its keys. */
static void add_value_schema(
	cJSON *schema, const struct config_option *option, bool is_section, enum null_use null)
{
	static const char *const types[] = {[OPTION_BOOL] = "boolean",
		[OPTION_COUNT] = "integer",
		[OPTION_DURATION] = "string",
		[OPTION_TEXT] = "string",
		[OPTION_LIST] = "array",
		[OPTION_SYSCTLS] = "object"};
	const char *const *choices = option->choices;
	enum option_type type = option->type;
	char pattern[2048] = "";
	cJSON *array;

	if (type == OPTION_CHOICE && !is_section) {
		add_choices(schema, choices, null);
		return;
	}
	array = json_array(schema, "type");
	if (type != OPTION_CHOICE)
		json_append_text(array, types[type]);
	if (is_section && type != OPTION_SYSCTLS)
		json_append_text(array, "object");
	if (choices && type != OPTION_DURATION)
		json_append_text(array, "string");
	if (null == NULL_IS_DEFAULT)
		json_append_text(array, "null");
	if (type == OPTION_COUNT) {
		json_number(schema, "minimum", (double)option->min);
		if (option->max > 0)
			json_number(schema, "maximum", (double)option->max);
	}
	if (type == OPTION_TEXT) {
		json_number(schema, "minLength", (double)option->min);
		json_number(schema, "maxLength", option->max > 0 ? (double)option->max : 255);
	}
	if (type == OPTION_LIST) {
		json_number(schema, "maxItems",
			option->max > 0 ? (double)option->max : OPTION_ITEMS_MAX);
		json_adopt(schema, "items", schema_of_items(option->items));
	}
	if (type == OPTION_DURATION)
		put_durations(pattern, sizeof(pattern), option);
	for (; choices && *choices; choices++)
		text_append(pattern, sizeof(pattern), "%s%s", pattern[0] ? "|" : "", *choices);
	if (pattern[0]) {
		char whole[sizeof(pattern) + 8];

		snprintf(whole, sizeof(whole), "^(%s)$", pattern);
		json_text(schema, "pattern", whole);
	} else if (option->pattern) {
		json_text(schema, "pattern", option->pattern);
	}
}

static cJSON *schema_of_items(const struct config_option *rows)
{
	cJSON *schema = cJSON_CreateObject(), *properties, *required;

	if (!rows[0].name[0]) {
		add_value_schema(schema, rows, false, NULL_IS_FAULT);
		return schema;
	}
	json_text(schema, "type", "object");
	json_bool(schema, "additionalProperties", false);
	required = cJSON_CreateArray();
	properties = json_object(schema, "properties");
	for (; rows->name; rows++) {
		cJSON *field = json_object(properties, rows->name);

		json_text(field, "description", rows->help);
		add_value_schema(field, rows, false, NULL_IS_DEFAULT);
		if (rows->type == OPTION_TEXT && rows->min > 0 && !rows->def)
			json_append_text(required, rows->name);
	}
	json_adopt(schema, "required", required);
	return schema;
}

/* Helm rounds larger numbers: they have to be texts. */
#define EXACT_NUMBERS "\"minimum\":-9007199254740991,\"maximum\":9007199254740991"

/* The values of a map of sysctls: whole numbers, or any text with `exact`. */
static void add_sysctl_schema(cJSON *schema)
{
	static const char value[] =
		"{\"type\":[\"integer\",\"string\",\"object\",\"null\"]," EXACT_NUMBERS ","
		"\"pattern\":\"^[ \\\\t]*-?[0-9]+([ \\\\t]+-?[0-9]+)*[ \\\\t]*$\","
		"\"additionalProperties\":false,\"required\":[\"value\"],\"properties\":{"
		"\"value\":{\"type\":[\"number\",\"string\"]," EXACT_NUMBERS
		"},\"exact\":{\"type\":\"boolean\"}}}";

	json_adopt(json_object(schema, "patternProperties"), "^[\\w:@-]+([./]+[\\w:@-]+)+$",
		must(cJSON_CreateRaw(value))); /* cJSON would write a rounded number */
}

/* Adds the properties of a section: its keys, and the sections below it. "": the whole file. */
static void add_section(cJSON *schema, const char *section)
{
	size_t skip = section[0] ? strlen(section) + 1 : 0;
	cJSON *properties;

	json_bool(schema, "additionalProperties", false);
	properties = json_object(schema, "properties");
	for (size_t i = 0; option_tables[i]; i++)
		for (const struct config_option *row = option_tables[i]; row->name; row++) {
			char name[OPTION_NAME_MAX];
			const struct config_option *option;
			bool is_section;
			cJSON *property;

			if (skip > 0 &&
				(!option_is_below(row->name, section) || strlen(row->name) < skip))
				continue;
			snprintf(name, sizeof(name), "%.*s",
				(int)(skip + strcspn(row->name + skip, ".")), row->name);
			if (cJSON_HasObjectItem(properties, last_part(name)))
				continue;
			option = option_find(option_tables, name);
			is_section = option_is_section(option_tables, name);
			property = must(cJSON_AddObjectToObject(properties, last_part(name)));
			if (option) {
				json_text(property, "description", option->help);
				add_value_schema(property, option, is_section, NULL_IS_DEFAULT);
			} else {
				add_words(property, "type",
					(const char *const[]){"object", "null", NULL});
			}
			if (option && option->type == OPTION_SYSCTLS)
				add_sysctl_schema(property);
			if (is_section)
				add_section(property, name);
		}
}

static void put_schema(FILE *out)
{
	cJSON *schema = cJSON_CreateObject();

	add_words(schema, "type", (const char *const[]){"object", "null", NULL});
	add_section(schema, "");
	must_do(json_put(out, schema, true));
}

/* ---- completions of bash, zsh and fish ---- */

static void put_command_words(FILE *out)
{
	for (const struct cli_command *command = cli_commands; command->name; command++)
		fprintf(out, "%s%s", command == cli_commands ? "" : " ", command->name);
}

static void put_option_words(FILE *out)
{
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		fprintf(out, "\t\t%s) words='", command->name);
		for (const struct cli_option *option = cli_options; option->name; option++)
			if (cli_has_option(command, option, true))
				fprintf(out, "--%s ", option->name);
		fputs("' ;;\n", out);
	}
}

static void put_tuner_words(FILE *out)
{
	for (size_t i = 0; tuner_table[i]; i++)
		fprintf(out, "%s%s", i > 0 ? " " : "", tuner_table[i]->name);
}

/* Words of a completion, each once. */
struct words {
	char **words;
	size_t n, allocated;
	bool (*accepts)(const char *word); /* NULL: all */
};

/* Leaves out words that a shell would split. */
static void add_word(void *data, const char *word)
{
	struct words *words = data;

	if (!word[0] || strpbrk(word, "' ") || (words->accepts && !words->accepts(word)))
		return;
	for (size_t i = 0; i < words->n; i++)
		if (streq(words->words[i], word))
			return;
	*add_element(&words->words, &words->n, &words->allocated) = must(strdup(word));
}

/* Writes the words and frees them. */
static void put_words(FILE *out, struct words *words)
{
	for (size_t i = 0; i < words->n; i++) {
		fprintf(out, "%s%s", i > 0 ? " " : "", words->words[i]);
		free(words->words[i]);
	}
	free(words->words);
}

/* Writes what `headroom top` accepts: tuners, tables, limits, their first parts and aliases. */
static void put_top_words(FILE *out)
{
	size_t n;
	_cleanup_free_ struct help_entry *entries = all_entries(&n);
	struct words words = {.accepts = cli_top_accepts};

	for (size_t i = 0; tuner_table[i]; i++) {
		const struct table_view *view = tuner_table[i]->tables->view;

		while (view && (view = view->next))
			add_word(&words, view->rows);
	}
	for (size_t i = 0; i < n; i++) {
		char first[LIMIT_NAME_MAX];

		snprintf(first, sizeof(first), "%.*s", (int)strcspn(entries[i].name, "/"),
			entries[i].name);
		if (entries[i].kind == ENTRY_LIMIT)
			add_word(&words, first);
	}
	names_each(entries, n, add_word, &words);
	put_words(out, &words);
}

static void put_names(FILE *out)
{
	size_t n;
	_cleanup_free_ struct help_entry *entries = all_entries(&n);
	struct words words = {0};

	names_each(entries, n, add_word, &words);
	put_words(out, &words);
}

/* Writes text between single quotes of a shell. escaped: what it writes for a single quote. */
static void put_quoted(FILE *out, const char *text, const char *escaped)
{
	fputc('\'', out);
	for (; *text; text++)
		if (*text == '\'')
			fputs(escaped, out);
		else
			fputc(*text, out);
	fputc('\'', out);
}

/* All shells run it when they complete, also fish. Only root can read the directory. */
static void put_incident_ids(FILE *out)
{
	fputs("$(find /var/lib/headroom/incidents -name \"2*.jsonl*\" -printf \"%f\\n\" 2>/dev/null | "
	      "sed \"s/.jsonl.*//\")",
		out);
}

/* The words that complete the other arguments of a command. NULL: files, or nothing. */
static void (*argument_words(const char *command))(FILE *out)
{
	return streq(command, "top")         ? put_top_words
	       : streq(command, "help")      ? put_command_words
	       : streq(command, "explain")   ? put_names
	       : streq(command, "incidents") ? put_incident_ids
					     : NULL;
}

static void put_zsh_commands(FILE *out)
{
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		fprintf(out, "\t\t%s:", command->name);
		put_quoted(out, command->summary, "'\\''");
		fputc('\n', out);
	}
}

static bool names_a_file(const char *argument)
{
	return streq(argument, "FILE") || streq(argument, "DIR");
}

static void put_zsh_option(FILE *out, const struct cli_option *option)
{
	const char *argument = option->argument;

	fprintf(out, " \\\n\t\t\t--%s%s", option->name, argument ? "=" : "");
	fputc('\'', out);
	fputc('[', out);
	for (const char *text = option->help; *text; text++)
		fprintf(out,
			*text == '\''                  ? "'\\''"
			: *text == '[' || *text == ']' ? "\\%c"
						       : "%c",
			*text);
	fputc(']', out);
	if (argument && streq(argument, "TUNER")) {
		fputs(":tuner:(", out);
		put_tuner_words(out);
		fputc(')', out);
	}
	for (const char *word = argument; word && !streq(argument, "TUNER");
		word = strchr(word, ' ') ? strchr(word, ' ') + 1 : NULL)
		fprintf(out, ":%.*s:%s", (int)strcspn(word, " "), word,
			streq(word, "DIR")       ? "_files -/"
			: names_a_file(argument) ? "_files"
						 : " ");
	fputc('\'', out);
}

static void put_zsh_options(FILE *out)
{
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		void (*words)(FILE *) = argument_words(command->name);

		fprintf(out, "\t%s)\n\t\t_arguments '1: :'", command->name);
		for (const struct cli_option *option = cli_options; option->name; option++)
			if (cli_has_option(command, option, true))
				put_zsh_option(out, option);
		if (words) {
			fputs(" \\\n\t\t\t'*:name:(", out);
			words(out);
			fputs(")'", out);
		} else if (streq(command->name, "check-config")) {
			fputs(" \\\n\t\t\t'*:file:_files'", out);
		}
		fputs("\n\t\t;;\n", out);
	}
}

static void put_fish_commands(FILE *out)
{
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		char condition[80];
		void (*words)(FILE *) = argument_words(command->name);

		snprintf(condition, sizeof(condition),
			"complete -c headroom -n '__fish_seen_subcommand_from %s'", command->name);
		fprintf(out, "complete -c headroom -n __fish_use_subcommand -a %s -d ",
			command->name);
		put_quoted(out, command->summary, "\\'");
		fputc('\n', out);
		for (const struct cli_option *option = cli_options; option->name; option++) {
			if (!cli_has_option(command, option, true))
				continue;
			fprintf(out, "%s -l %s -d ", condition, option->name);
			put_quoted(out, option->help, "\\'");
			if (option->argument && streq(option->argument, "TUNER")) {
				fputs(" -x -a '", out);
				put_tuner_words(out);
				fputc('\'', out);
			} else if (option->argument) {
				fputs(names_a_file(option->argument) ? " -r -F" : " -x", out);
			}
			fputc('\n', out);
		}
		if (words) {
			fprintf(out, "%s -a '", condition);
			words(out);
			fputs("'\n", out);
		} else if (streq(command->name, "check-config")) {
			fprintf(out, "%s -F\n", condition);
		}
	}
}

/* ---- placeholders and templates ---- */

static const struct {
	const char *name;
	void (*put)(FILE *out);
	enum entry_kind kind; /* put NULL: the entries of this kind */
	bool markdown;
} placeholders[] = {
	{"SAMPLE", put_sample},
	{"SCHEMA", put_schema},
	{"CONFIG_KEYS", put_config_keys},
	{"PROFILES", put_profiles},
	{"CAPABILITIES", put_capabilities},
	{"SYNOPSIS", put_synopsis},
	{"COMMANDS", put_commands},
	{"OPTIONS", put_options},
	{"EXITS", put_exits},
	{"MESSAGE_IDS", put_message_ids},
	{"COMMAND_WORDS", put_command_words},
	{"OPTION_WORDS", put_option_words},
	{"TUNER_WORDS", put_tuner_words},
	{"TOP_WORDS", put_top_words},
	{"INCIDENT_IDS", put_incident_ids},
	{"NAMES", put_names},
	{"ZSH_COMMANDS", put_zsh_commands},
	{"ZSH_OPTIONS", put_zsh_options},
	{"FISH_COMMANDS", put_fish_commands},
	{"TUNERS", NULL, ENTRY_TUNER},
	{"LIMITS", NULL, ENTRY_LIMIT},
	{"SETTINGS", NULL, ENTRY_SETTING},
	{"CONDITIONS", NULL, ENTRY_CONDITION},
	{"CHECKS", NULL, ENTRY_CHECK},
	{"REASONS", NULL, ENTRY_REASON},
	{"METRICS", NULL, ENTRY_METRIC},
	{"METRICS_TABLE", NULL, ENTRY_METRIC, true},
	{"CONDITIONS_TABLE", NULL, ENTRY_CONDITION, true},
	{"LIMITS_TABLE", NULL, ENTRY_LIMIT, true},
};

/* Returns false for an unknown name. */
static bool put_placeholder(FILE *out, const char *name, size_t len, char **values)
{
	static const char *const given[] = {"VERSION", "DATE"}; /* values */

	for (size_t i = 0; i < ARRAY_SIZE(given); i++)
		if (len == strlen(given[i]) && strncmp(name, given[i], len) == 0)
			return fputs(values[i], out) >= 0;
	for (size_t i = 0; i < ARRAY_SIZE(placeholders); i++) {
		if (strlen(placeholders[i].name) != len ||
			strncmp(placeholders[i].name, name, len) != 0)
			continue;
		if (placeholders[i].put)
			placeholders[i].put(out);
		else
			put_kind(out, placeholders[i].kind, placeholders[i].markdown);
		return true;
	}
	return false;
}

/*
 * mandoc -T lint wants lines of at most 80 bytes. A line that begins with "." or "'" is a request,
 * so no break makes one.
 */
static void put_wrapped(FILE *out, const char *text)
{
	bool verbatim = false;

	while (*text) {
		size_t len = strcspn(text, "\n"), at = 0;

		if (starts_with(text, ".EX") || starts_with(text, ".nf"))
			verbatim = true;
		if (starts_with(text, ".EE") || starts_with(text, ".fi"))
			verbatim = false;
		for (size_t i = 1;
			len > ROFF_LINE_MAX && i < len && (at == 0 || i <= ROFF_LINE_MAX); i++)
			if (text[i] == ' ' && !strchr(" .'", text[i + 1]))
				at = i;
		if (verbatim || *text == '.' || at == 0)
			at = len;
		fprintf(out, "%.*s\n", (int)at, text);
		text += at + (text[at] != '\0');
	}
}

/* A generated list ends with a line break, so skip the line break after its placeholder. */
static void fill(FILE *out, const char *text, char **values)
{
	while (*text) {
		size_t len = *text == '@' ? strspn(text + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") : 0;
		bool alone = text[-1] == '\n' && text[len + 1] == '@' && text[len + 2] == '\n';

		if (len > 0 && text[len + 1] == '@' && put_placeholder(out, text + 1, len, values))
			text += len + 2 + alone;
		else
			fputc(*text++, out);
	}
}

int main(int argc, char **argv)
{
	_cleanup_free_ char *text = NULL, *filled = NULL;
	_cleanup_fclose_ FILE *out = NULL;
	FILE *memory;
	size_t size;
	int r;

	if (argc != 5) {
		fprintf(stderr, "usage: gendoc TEMPLATE FILE VERSION DATE\n");
		return 64;
	}
	r = read_file(argv[1], TEMPLATE_MAX, &text, NULL);
	out = r < 0 ? NULL : fopen(argv[2], "we");
	if (!out) {
		fprintf(stderr, "gendoc: %s: %s\n", argv[r < 0 ? 1 : 2],
			strerror(r < 0 ? -r : errno));
		return 1;
	}
	memory = must(open_memstream(&filled, &size));
	/* fill() looks one character back, and a template never begins with a placeholder. */
	fputc(text[0], memory);
	fill(memory, text + 1, argv + 3);
	if (fclose(memory) != 0)
		abort(); /* out of memory */
	if (starts_with(filled, ".\\\""))
		put_wrapped(out, filled);
	else
		fputs(filled, out);
	return fflush(out) == 0 && !ferror(out) ? 0 : 1;
}
