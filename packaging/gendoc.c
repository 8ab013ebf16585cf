/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes what documents the configuration from the tables that the agent itself reads it with:
 *   gendoc yaml FILE           the sample headroom.yaml
 *   gendoc man FILE VERSION    headroom.yaml(5)
 */

#include <errno.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "config/config.h"
#include "config/text.h"
#include "config/value.h"
#include "tuners/table.h"

#include <headroom/condition.h>

#define SAMPLE_WIDTH 96
#define TEXT_MAX     1024

/* A function that is called for each row of all tables. */
typedef void (*visit_option)(FILE *out, const struct config_option *option, void *userdata);

static void for_each_option(FILE *out, visit_option visit, void *userdata)
{
	for (size_t i = 0; option_tables[i]; i++)
		for (const struct config_option *option = option_tables[i]; option->name; option++)
			visit(out, option, userdata);
}

/* What the row takes and its default, as sentences. */
static void describe(const struct config_option *option, char text[static TEXT_MAX])
{
	char takes[TEXT_MAX / 2] = "";
	bool needed = option->type == OPTION_TEXT && option->min > 0 && !option->def;

	if (option->type != OPTION_TEXT) { /* any text will do: the sentence tells which */
		text_append(takes, sizeof(takes), " Takes ");
		value_describe(option, takes, sizeof(takes));
		text_append(takes, sizeof(takes), ".");
	}
	if (needed)
		snprintf(text, TEXT_MAX, "%s Must be given.", option->sentence);
	else
		snprintf(text, TEXT_MAX, "%s%s Default: %s.", option->sentence, takes,
			option->def                   ? option->def
			: option->type == OPTION_LIST ? "[]"
						      : "empty");
}

static bool has_plain_items(const struct config_option *option)
{
	return option->items[0].name[0] == '\0';
}

/* What an item of a list of plain values is. */
static void describe_item(const struct config_option *option, char text[static TEXT_MAX])
{
	char takes[TEXT_MAX / 2] = "";

	value_describe(option->items, takes, sizeof(takes));
	snprintf(text, TEXT_MAX, "Each item is %s.%s%s", takes, option->items->sentence ? " " : "",
		option->items->sentence ? option->items->sentence : "");
}

/* The sample. Its prose begins with ## and its keys with #: less one # it is the defaults in full.
 */

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

/* Opens the sections of name that previous did not stand in. */
static void open_sections(FILE *out, const char *name, const char *previous)
{
	for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
		char section[OPTION_NAME_MAX];

		snprintf(section, sizeof(section), "%.*s", (int)(dot - name), name);
		if (option_is_below(previous, section))
			continue;
		fprintf(out, "#%*s%s:\n", (int)depth_of(section) * 2, "", last_part(section));
	}
}

/* The fields of a list's items, a paragraph each. */
static void print_items(FILE *out, const struct config_option *option, size_t depth)
{
	char text[TEXT_MAX], line[TEXT_MAX + OPTION_NAME_MAX];

	if (has_plain_items(option)) {
		describe_item(option, text);
		print_prose(out, depth, text);
		return;
	}
	for (const struct config_option *row = option->items; row->name; row++) {
		describe(row, text);
		snprintf(line, sizeof(line), "%s: %s", row->name, text);
		print_prose(out, depth + 1, line);
	}
}

static void print_default(FILE *out, const struct config_option *option)
{
	size_t depth = depth_of(option->name);
	const char *quote = option->type == OPTION_TEXT && option->def ? "\"" : "";

	fprintf(out, "#%*s%s:", (int)depth * 2, "", last_part(option->name));
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

/* True for names whose first of several parts is the same: they stand in one block. */
static bool same_section(const char *a, const char *b)
{
	size_t len = strcspn(a, ".");

	return strcspn(b, ".") == len && strncmp(a, b, len) == 0;
}

static void print_sample_row(FILE *out, const struct config_option *option, void *userdata)
{
	const char **previous = userdata;
	size_t depth = depth_of(option->name);
	char text[TEXT_MAX];

	if (option->type == OPTION_RESERVED)
		return;
	if (!same_section(option->name, *previous))
		fputc('\n', out);
	open_sections(out, option->name, *previous);
	describe(option, text);
	print_prose(out, depth, text);
	if (option->type == OPTION_SYSCTLS)
		print_prose(out, depth, "For example:  vm.max_map_count: 1048576");
	else if (option->type == OPTION_LIST)
		print_items(out, option, depth);
	else if (option_is_section(option_tables, option->name))
		print_prose(out, depth, "That word stands in place of the keys below.");
	print_default(out, option);
	*previous = option->name;
}

static void print_sample(FILE *out)
{
	const char *previous = "";

	print_prose(out, 0,
		"Configuration of headroom, see headroom.yaml(5). Each key stands here with its "
		"default; to change one, remove the # before it and before the names that it "
		"stands below. Then run `headroom check-config`. Files in conf.d beside this one "
		"are merged over it, in name order.");
	for_each_option(out, print_sample_row, &previous);
}

/* The manual page. */

static void put_text(FILE *out, const char *text)
{
	/* A leading dot or quote would be a request of roff. */
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else if (*text == '/')
			fputs("/\\:", out); /* addresses are long: let them break here */
		else if (*text == '`')
			fputs("\\(cq", out);
		else if (*text == '\'')
			fputs("\\(aq", out);
		else
			fputc(*text, out);
	}
}

static void put_line(FILE *out, const char *text)
{
	put_text(out, text);
	fputc('\n', out);
}

static void put_tagged(FILE *out, const char *tag, const char *text)
{
	fputs(".TP\n\\fB", out);
	put_text(out, tag);
	fputs("\\fR\n", out);
	put_line(out, text);
}

static bool is_general(const struct config_option *option)
{
	return !strchr(option->name, '.') && option->type != OPTION_RESERVED &&
	       !option_is_section(option_tables, option->name);
}

static void put_option(FILE *out, const struct config_option *option)
{
	char text[TEXT_MAX];

	describe(option, text);
	put_tagged(out, option->name, text);
	if (option->type != OPTION_LIST)
		return;
	if (has_plain_items(option)) {
		describe_item(option, text);
		put_line(out, text);
		return;
	}
	fputs(".RS\n", out);
	for (const struct config_option *row = option->items; row->name; row++) {
		describe(row, text);
		put_tagged(out, row->name, text);
	}
	fputs(".RE\n", out);
}

static void visit_general(FILE *out, const struct config_option *option, void *userdata)
{
	(void)userdata;
	if (is_general(option))
		put_option(out, option);
}

/* Rows of one section follow each other: a new first part begins a new one. */
static void visit_sections(FILE *out, const struct config_option *option, void *userdata)
{
	char *section = userdata;

	if (is_general(option) || option->type == OPTION_RESERVED)
		return;
	if (section[0] == '\0' || !option_is_below(option->name, section)) {
		snprintf(section, OPTION_NAME_MAX, "%.*s", (int)strcspn(option->name, "."),
			option->name);
		fprintf(out, ".SS %s\n", section);
	}
	put_option(out, option);
}

/* The first of them begins the section. */
static void visit_reserved(FILE *out, const struct config_option *option, void *userdata)
{
	bool *begun = userdata;

	if (option->type != OPTION_RESERVED)
		return;
	if (!*begun) {
		fputs(".SS Reserved\n", out);
		put_line(out,
			"Any content is accepted here and not used, so that two versions of "
			"headroom can share a file during a roll-out. The agent says so once.");
	}
	*begun = true;
	put_tagged(out, option->name, option->sentence);
}

static void put_options(FILE *out)
{
	char section[OPTION_NAME_MAX] = "";
	bool reserved = false;

	fputs(".SH OPTIONS\n", out);
	put_line(out,
		"A dot in a name stands for a level of the file: http.listen is the key listen "
		"below the key http.");
	fputs(".SS General\n", out);
	for_each_option(out, visit_general, NULL);
	for_each_option(out, visit_sections, section);
	for_each_option(out, visit_reserved, &reserved);
}

static void put_profiles(FILE *out)
{
	fputs(".SH PROFILES\n", out);
	put_line(out,
		"A profile gives defaults. Its sysctls only raise: a node that already has more "
		"keeps what it has.");
	for (const struct profile *profile = profile_table; profile->name; profile++) {
		fputs(".SS ", out);
		put_line(out, profile->name);
		put_line(out, profile->sentence);
		for (const struct profile_row *row = profile_rows; row->name; row++) {
			char tag[OPTION_NAME_MAX + SETTING_VALUE_MAX];

			if (!streq(row->profile, profile->name))
				continue;
			snprintf(tag, sizeof(tag), "%s: %s", row->name, row->value);
			put_tagged(out, tag, row->source);
		}
	}
}

static bool put_reason(const struct reason *row, const struct tuner_ops *ops, void *userdata)
{
	(void)ops;
	put_tagged(userdata, row->slug, row->help);
	return false;
}

static void put_reasons(FILE *out)
{
	fputs(".SH REASONS\n", out);
	put_line(out,
		"The words that stand as reason of a setting or condition in the log, in status "
		"and in metrics.");
	reasons_visit(put_reason, out);
}

static void put_conditions(FILE *out)
{
	fputs(".SH CONDITIONS\n", out);
	put_line(out, "A condition that is True is a problem.");
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct condition_type *type = all_tables[i]->conditions;
			type && type->name; type++) {
			char text[TEXT_MAX];

			snprintf(text, sizeof(text), "%s True makes the verdict of /health %s.",
				type->help,
				type->severity == SEVERITY_ADVICE ? "stay as it is"
								  : severity_name(type->severity));
			put_tagged(out, type->name, text);
		}
}

static const char description[] =
	".SH DESCRIPTION\n"
	"The agent reads the main file and then, in the order of their names, the files of the\n"
	"directory, whose names end in .yaml and do not begin with a dot. Maps merge, anything "
	"else\n"
	"replaces what an earlier file said. Null takes a key away: back to its default, and for "
	"a\n"
	"sysctl, not wanted at all even if the profile has it; null in place of a map does so for "
	"all\n"
	"keys below it. A missing main file is an empty one.\n"
	".PP\n"
	"The files are YAML 1.1 in UTF\\-8: one document each, a map at its top, at most 256\\~kB, "
	"without\n"
	"anchors, aliases and tags, and indented with spaces. Unknown keys are faults, and so is a "
	"key\n"
	"that stands twice. Numbers are decimal digits alone: 80k, 0x10 and 1_000 are faults. "
	"Times are\n"
	"one whole number with its unit, ms, s, m or h: 30 and 1h30m are faults. Bools are true "
	"or\n"
	"false. A list stands in brackets, or as one line with a leading \\- for each item.\n"
	".PP\n"
	"A fault is told with file, line and column by \\fBheadroom check\\-config\\fR. An agent "
	"that\n"
	"starts with one ends; an agent that runs keeps the configuration it has and raises\n"
	"ConfigInvalid. The files are read again when they change and at SIGHUP.\n";

static const char files[] =
	".SH FILES\n"
	".TP\n\\fI/etc/headroom/headroom.yaml\\fR\nThe main file.\n"
	".TP\n\\fI/etc/headroom/conf.d/*.yaml\\fR\nMerged over it in the order of their names.\n";

static const char examples[] = ".SH EXAMPLES\n"
			       "Only look, change nothing:\n"
			       ".PP\n.RS 4\n.nf\n"
			       "mode: observe\n"
			       ".fi\n.RE\n.PP\n"
			       "A host of LXD containers that raises more than its profile, sets "
			       "one value exactly, takes one\n"
			       "of the profile away, and leaves the IPv6 neighbour table alone:\n"
			       ".PP\n.RS 4\n.nf\n"
			       "profile: lxd\\-host\n"
			       "neighbor:\n"
			       "  ipv6: keep\n"
			       "sysctl:\n"
			       "  fs.aio\\-max\\-nr: 1048576\n"
			       "  net.ipv4.tcp_rmem: \"4096 131072 33554432\"\n"
			       "  vm.swappiness: {value: 10, exact: true}\n"
			       "  kernel.dmesg_restrict: null\n"
			       ".fi\n.RE\n"
			       ".SH SEE ALSO\n"
			       "\\fBheadroom\\fR(8), \\fBsysctl\\fR(8), \\fBproc\\fR(5)\n";

static void print_manual(FILE *out, const char *version)
{
	fprintf(out,
		".\\\" Generated from the tables of options, profiles, reasons and conditions.\n");
	fprintf(out, ".TH HEADROOM.YAML 5 \"\" \"headroom %s\" \"Headroom\"\n", version);
	/* Names must neither be broken nor torn apart. */
	fputs(".nh\n.ad l\n", out);
	fputs(".SH NAME\nheadroom.yaml \\- configuration of the headroom agent\n", out);
	fputs(".SH SYNOPSIS\n\\fI/etc/headroom/headroom.yaml\\fR\n.br\n"
	      "\\fI/etc/headroom/conf.d/*.yaml\\fR\n",
		out);
	fputs(description, out);
	put_options(out);
	put_profiles(out);
	put_conditions(out);
	put_reasons(out);
	fputs(files, out);
	fputs(examples, out);
}

int main(int argc, char **argv)
{
	_cleanup_fclose_ FILE *out = NULL;
	bool sample = argc == 3 && streq(argv[1], "yaml");

	if (!sample && !(argc == 4 && streq(argv[1], "man"))) {
		fprintf(stderr, "usage: gendoc yaml FILE | gendoc man FILE VERSION\n");
		return 64;
	}
	out = fopen(argv[2], "we");
	if (!out) {
		fprintf(stderr, "gendoc: %s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	if (sample)
		print_sample(out);
	else
		print_manual(out, argv[3]);
	return fflush(out) == 0 && !ferror(out) ? 0 : 1;
}
