/* SPDX-License-Identifier: Apache-2.0 */
#include "gendoc.h"

#include "base/text.h"
#include "tuners/table.h"

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

void put_sample(FILE *out)
{
	const char *previous = "";

	for (size_t i = 0; option_tables[i]; i++)
		for (const struct config_option *row = option_tables[i]; row->name; row++) {
			print_sample_row(out, row, previous);
			previous = row->name;
		}
}
