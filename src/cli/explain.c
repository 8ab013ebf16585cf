/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/util.h"
#include "config/value.h"
#include "tuners/table.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>

static void line(const char *what, const char *text)
{
	if (text && text[0])
		printf("  %-9s %s\n", what, text);
}

static bool explain_limit(const char *name)
{
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct limit_row *row = all_tables[i]->limits; row && row->name; row++) {
			if (fnmatch(row->name, name, 0) != 0)
				continue;
			printf("%s (limit)\n  %s\n", name, row->help);
			line("unit", row->unit);
			line("default", row->def);
			line("option", row->option);
			line("source", row->source);
			return true;
		}
	return false;
}

static bool explain_listed(const char *name)
{
	for (size_t i = 0; tuner_table[i]; i++) {
		const struct explanation *row = tuner_table[i]->explanations;

		for (; row && row->name; row++) {
			if (fnmatch(row->name, name, 0) != 0)
				continue;
			printf("%s (%s)\n  %s\n", name, row->kind, row->what);
			line("unit", row->unit);
			line("default", row->def);
			line("option", row->option);
			line("source", row->source);
			return true;
		}
	}
	return false;
}

static const char *option_kind(const struct config_option *option)
{
	static const char *const kinds[] = {
		[OPTION_BOOL] = "true or false",
		[OPTION_COUNT] = "whole number",
		[OPTION_DURATION] = "time",
		[OPTION_CHOICE] = "choice",
		[OPTION_TEXT] = "text",
		[OPTION_LIST] = "list",
		[OPTION_SYSCTLS] = "map of sysctls",
		[OPTION_RESERVED] = "reserved",
	};

	return kinds[option->type];
}

static void print_range(const struct config_option *option)
{
	char text[256] = "";

	if (option->words) {
		printf("  %-9s", "words");
		for (const char *const *word = option->words; *word; word++)
			printf(" %s", *word);
		putchar('\n');
	}
	if (option->type == OPTION_COUNT)
		printf("  %-9s %" PRIu64 " to %" PRIu64 "\n", "range", option->min, option->max);
	if (option->type == OPTION_DURATION || option->type == OPTION_LIST) {
		value_describe(option, text, sizeof(text));
		line("takes", text);
	}
}

/* What an item of a list is: a plain value, or a map with these fields. */
static void print_items(const struct config_option *option)
{
	for (const struct config_option *row = option->items; row->name; row++) {
		char takes[256] = "";

		value_describe(row, takes, sizeof(takes));
		printf("  %-9s %s%s%s", "item", row->name, row->name[0] ? ": " : "", takes);
		if (row->def)
			printf(" (default %s)", row->def);
		else if (row->type == OPTION_TEXT && row->min > 0 && row->name[0])
			printf(" (must be given)");
		putchar('\n');
		if (row->sentence)
			printf("            %s\n", row->sentence);
	}
}

static const char *option_default(const struct config_option *option)
{
	if (option->def)
		return option->def;
	return option->type == OPTION_LIST ? "[]" : "empty";
}

static bool explain_option(const char *name)
{
	const struct config_option *option = option_find(option_tables, name);

	if (!option)
		return false;
	printf("%s (config key, %s)\n  %s\n", name, option_kind(option), option->sentence);
	print_range(option);
	if (option->type == OPTION_LIST)
		print_items(option);
	line("unit", option->unit);
	line("default", option_default(option));
	line("source", "headroom.yaml(5)");
	return true;
}

static bool explain_condition(const char *name)
{
	const struct condition_type *type = condition_find(name);

	if (!type)
		return false;
	printf("%s (condition, %s when True)\n  %s\n", name, severity_name(type->severity),
		type->help);
	return true;
}

static bool explain_reason(const char *name)
{
	const char *help = reason_help(name);

	if (help)
		printf("%s (reason)\n  %s\n", name, help);
	return help != NULL;
}

/* A sysctl that a profile or the configuration names. */
static bool explain_sysctl(const struct cli *cli, const char *name)
{
	struct config *config;
	const struct config_sysctl *sysctls;
	bool found = false;
	size_t n;

	for (const struct profile_row *row = profile_rows; row->name; row++) {
		if (!starts_with(row->name, "sysctl.") || !streq(row->name + 7, name))
			continue;
		if (!found)
			printf("%s (setting, raised by profiles)\n", name);
		printf("  %-16s %s: %s\n", row->profile, row->value, row->source);
		found = true;
	}
	config = found ? NULL : cli_load_config(cli);
	sysctls = config ? config_sysctls(config, &n) : NULL;
	for (size_t i = 0; sysctls && i < n && !found; i++) {
		if (!streq(sysctls[i].name, name))
			continue;
		printf("%s (setting)\n  A sysctl of the configuration: %s, %s (%s:%u).\n", name,
			sysctls[i].value, sysctls[i].exact ? "set exactly" : "only raised",
			sysctls[i].place.file, sysctls[i].place.line);
		line("source", "Documentation/admin-guide/sysctl");
		found = true;
	}
	if (config)
		config_free(config);
	return found;
}

static bool explain_tuner(const char *name)
{
	const struct tuner_ops *ops = tuner_find(name);

	if (ops)
		printf("%s (tuner)\n  %s\n", name, ops->summary);
	return ops != NULL;
}

static void print_profiles(void)
{
	putchar('\n');
	for (const struct profile *profile = profile_table; profile->name; profile++) {
		printf("%s\n  %s\n", profile->name, profile->sentence);
		for (const struct profile_row *row = profile_rows; row->name; row++)
			if (streq(row->profile, profile->name))
				printf("  %s: %s\n      %s\n", row->name, row->value, row->source);
	}
}

static bool explain(const struct cli *cli, const char *name)
{
	bool found = explain_option(name);

	if (found && streq(name, "profile"))
		print_profiles();
	/* A tuner's section may be an option too (sysctl): both are worth telling. */
	found = explain_tuner(name) || found;
	return found || explain_limit(name) || explain_listed(name) || explain_condition(name) ||
	       explain_reason(name) || explain_sysctl(cli, name);
}

static bool list_reason(const struct reason *row, const struct tuner_ops *ops, void *userdata)
{
	(void)ops, (void)userdata;
	printf("%-34s reason\n", row->slug);
	return false;
}

static int list_names(void)
{
	for (size_t t = 0; option_tables[t]; t++)
		for (const struct config_option *row = option_tables[t]; row->name; row++)
			printf("%-34s config key\n", row->name);
	for (size_t i = 0; tuner_table[i]; i++)
		for (const struct limit_row *row = tuner_table[i]->limits; row && row->name; row++)
			printf("%-34s limit\n", row->name);
	for (size_t i = 0; tuner_table[i]; i++)
		for (const struct explanation *row = tuner_table[i]->explanations; row && row->name;
			row++)
			printf("%-34s %s\n", row->name, row->kind);
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct condition_type *row = all_tables[i]->conditions; row && row->name;
			row++)
			printf("%-34s condition\n", row->name);
	reasons_visit(list_reason, NULL);
	return EXIT_OK;
}

int cli_explain(const struct cli *cli)
{
	int worst = EXIT_OK;

	if (cli->n_names == 0)
		return list_names();
	for (int i = 0; i < cli->n_names; i++)
		if (!explain(cli, cli->names[i]))
			worst = cli_fail(cli->names[i],
				"unknown: headroom explain without a name lists all that can be explained");
	return worst;
}
