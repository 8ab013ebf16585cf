/* SPDX-License-Identifier: Apache-2.0 */

/*
 * gendoc TEMPLATE FILE VERSION DATE fills a template: it replaces placeholders such as @TUNERS@
 * from the program's tables, so that manual, completion and sample always match the program.
 */

#include "gendoc.h"

#include "base/file.h"
#include "cli/cli.h"
#include "tuners/table.h"

#define TEMPLATE_MAX ((size_t)256 * 1024)

#define ROFF_LINE_MAX 80

/* The manual pages. */

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

/* The command line, for headroom(8) and the completion. */

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

static void put_exits(FILE *out)
{
	for (const struct cli_exit *row = cli_exits; row->help; row++) {
		char code[8];

		snprintf(code, sizeof(code), "%d", row->code);
		put_tagged(out, code, row->help);
	}
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

static const struct {
	const char *name;
	void (*put)(FILE *out);
	enum entry_kind kind; /* put NULL: the entries of this kind */
	bool markdown;
} placeholders[] = {
	{"SAMPLE", put_sample},
	{"CONFIG_KEYS", put_config_keys},
	{"PROFILES", put_profiles},
	{"CAPABILITIES", put_capabilities},
	{"SYNOPSIS", put_synopsis},
	{"COMMANDS", put_commands},
	{"OPTIONS", put_options},
	{"EXITS", put_exits},
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
