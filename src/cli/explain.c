/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/util.h"
#include "cli/screen.h"
#include "config/suggest.h"
#include "config/value.h"
#include "tuners/entry.h"
#include "tuners/table.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

struct search {
	const char *name;
	struct screen screen;
	unsigned found;
	const char
		*kind; /* of the last one found: of several patterns of a kind the first counts */
	const char *nearest;
	unsigned apart;
};

static void line(const struct search *search, const char *what, const char *text)
{
	if (text && text[0]) {
		printf("  %-9s ", what);
		draw_wrapped(&search->screen, 12, 12, text);
	}
}

/* What an item of a list is: a plain value, or a map with these fields. */
static void print_items(const struct search *search, const struct config_option *option)
{
	for (const struct config_option *row = option->items; row->name; row++) {
		bool needed = row->type == OPTION_TEXT && row->min > 0 && row->name[0];
		char takes[256] = "", text[640];

		value_describe(row, takes, sizeof(takes));
		snprintf(text, sizeof(text), "%s%s%s%s%s%s%s%s", row->name,
			row->name[0] ? ": " : "", takes, row->def || needed ? " (" : "",
			row->def ? "default "
			: needed ? "must be given"
				 : "",
			row->def ? row->def : "", row->def || needed ? ")" : "",
			row->sentence ? ". " : "");
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s",
			row->sentence ? row->sentence : "");
		line(search, "item", text);
	}
}

static void print_option(const struct search *search, const struct config_option *option)
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
		line(search, "takes", text);
	}
	if (option->type == OPTION_LIST)
		print_items(search, option);
}

static void print_profiles(const struct search *search, const char *only)
{
	for (const struct profile *profile = profile_table; profile->name; profile++) {
		if (only && !streq(profile->name, only))
			continue;
		if (!only) {
			printf("%s\n  ", profile->name);
			draw_wrapped(&search->screen, 2, 2, profile->sentence);
		}
		for (const struct profile_row *row = profile_rows; row->name; row++)
			if (streq(row->profile, profile->name)) {
				printf("  %s: %s\n      ", row->name, row->value);
				draw_wrapped(&search->screen, 6, 6, row->source);
			}
	}
}

static void print_entry(const struct search *search, const struct entry *entry)
{
	const struct reason *reason = entry->condition ? entry->condition->reasons : NULL;

	printf("%s (%s%s%s)\n  ", search->name, entry->kind, entry->detail ? ", " : "",
		entry->detail ? entry->detail : "");
	draw_wrapped(&search->screen, 2, 2, entry->help);
	if (entry->row)
		print_option(search, entry->row);
	if (entry->labels && entry->labels[0]) {
		printf("  %-9s", "labels");
		for (int i = 0; i < METRIC_LABELS_MAX && entry->labels[i]; i++)
			printf(" %s", entry->labels[i]);
		putchar('\n');
	}
	line(search, "unit", entry->unit);
	line(search, "default", entry->def);
	line(search, "option", entry->option);
	line(search, "source", entry->source);
	for (; reason && reason->slug; reason++)
		printf("  %-9s %s\n", "reason", reason->slug);
	if (streq(entry->kind, "profile"))
		print_profiles(search, entry->name);
	else if (entry->row && streq(entry->name, "profile"))
		print_profiles(search, NULL);
}

static void match(const struct entry *entry, void *userdata)
{
	struct search *search = userdata;
	unsigned apart;

	if (fnmatch(entry->name, search->name, 0) == 0 || streq(entry->name, search->name)) {
		if (!entry_is_literal(entry) && search->kind && streq(search->kind, entry->kind))
			return;
		search->kind = entry->kind;
		search->found++;
		print_entry(search, entry);
	} else if (suggest_is_slip(search->name, entry->name, &apart) &&
		   (!search->nearest || apart < search->apart)) {
		search->nearest = entry->name;
		search->apart = apart;
	}
}

/* A sysctl that only the configuration names. */
static bool explain_configured(const struct cli *cli, const char *name)
{
	_cleanup_(cleanup_config_free) struct config *config = cli_load_config(cli);
	size_t n = 0;
	const struct config_sysctl *sysctls = config ? config_sysctls(config, &n) : NULL;

	for (size_t i = 0; i < n; i++) {
		if (!streq(sysctls[i].name, name))
			continue;
		printf("%s (setting)\n  A sysctl of the configuration: %s, %s (%s:%u).\n"
		       "  %-9s Documentation/admin-guide/sysctl\n",
			name, sysctls[i].value, sysctls[i].exact ? "set exactly" : "only raised",
			sysctls[i].place.file, sysctls[i].place.line, "source");
		return true;
	}
	return false;
}

static int explain(const struct cli *cli, const char *name)
{
	struct search search = {.name = name, .screen = screen_of(stdout)};

	if (!search.screen.bars) /* a search in the text finds its phrases */
		search.screen.width = INT_MAX;
	each_entry(match, &search);
	if (search.found > 0 || explain_configured(cli, name))
		return EXIT_OK;
	if (search.nearest)
		return cli_fail(name, "unknown: did you mean %s?", search.nearest);
	return cli_fail(
		name, "unknown: headroom explain without a name lists all that can be explained");
}

static void list(const struct entry *entry, void *userdata)
{
	(void)userdata;
	printf("%-34s %s\n", entry->name, entry->kind);
}

int cli_explain(const struct cli *cli)
{
	int worst = EXIT_OK;

	if (cli->n_names == 0)
		each_entry(list, NULL);
	for (int i = 0; i < cli->n_names; i++)
		if (explain(cli, cli->names[i]) != EXIT_OK)
			worst = EXIT_FAILED;
	return worst;
}
