/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "tuners/table.h"

#include <fnmatch.h>

struct search {
	const char *name;
	const cJSON *status; /* of the running agent, or NULL */
	struct screen screen;
	const char *kind; /* of the last entry found: only the first pattern of a kind counts */
	struct suggestion nearest;
};

static void line(struct search *search, const char *what, const char *text)
{
	draw_field(&search->screen, COLOR_NONE, 2, 9, what, text);
}

static void print_profiles(struct search *search, const char *only)
{
	for (const struct profile *profile = profile_table; profile->name; profile++) {
		if (only && !streq(profile->name, only))
			continue;
		if (!only) {
			draw(&search->screen, COLOR_NONE, "%s\n", profile->name);
			draw_paragraph(&search->screen, 2, profile->help);
		}
		for (const struct profile_row *row = profile_rows; row->name; row++)
			if (streq(row->profile, profile->name)) {
				draw(&search->screen, COLOR_NONE, "  %s: %s\n", row->name,
					row->value);
				draw_paragraph(&search->screen, 6, row->source);
			}
	}
}

static void print_here(struct search *search, const struct explanation *entry)
{
	static const struct {
		const char *kind, *list, *key;
	} lists[] = {{"setting", "settings", "name"}, {"limit", "limits", "name"},
		{"condition", "conditions", "type"}};
	char text[CONDITION_MESSAGE_MAX + 256] = "", use[USE_MAX], share[SHARE_MAX],
					  peak[AMOUNT_MAX];
	const cJSON *item;
	size_t i = 0;

	while (i < ARRAY_SIZE(lists) && !streq(lists[i].kind, entry->kind))
		i++;
	if (i == ARRAY_SIZE(lists))
		return;
	cJSON_ArrayForEach (item, json_at(search->status, lists[i].list)) {
		const char *name = json_text_at(item, lists[i].key);

		if (!streq(name, entry->name) && fnmatch(entry->name, name, 0) != 0)
			continue;
		if (i == 0) {
			enum reason reason = reason_parse(json_text_at(item, "reason"));
			const char *help = reason_rows[reason].help;

			snprintf(text, sizeof(text),
				"%s: %s, wanted %s, mode %s, %s since %s: %s%s%s%s%s", name,
				json_text_at(item, "actual"),
				json_text_at(item, "wanted")[0] ? json_text_at(item, "wanted")
								: "nothing",
				json_text_at(item, "mode"), json_text_at(item, "state"),
				json_text_at(item, "since"), json_text_at(item, "reason"),
				json_text_at(item, "why")[0] ? ": " : "", json_text_at(item, "why"),
				help[0] ? ": " : "", help);
		} else if (i == 1) {
			double used = json_number_at(item, "used"),
			       max = json_number_at(item, "max");

			snprintf(text, sizeof(text),
				"%s: %s, %s, peak %s at %s, reached %.0f times", name,
				use_text(used, max, json_text_at(item, "unit"), use),
				max > 0 ? share_text(used / max, share) : "share unknown",
				amount_text(json_number_at(item, "peak"),
					json_text_at(item, "unit"), peak),
				json_text_at(item, "peak_at"), json_number_at(item, "hits"));
		} else {
			snprintf(text, sizeof(text), "%s since %s: %s%s%s",
				json_text_at(item, "status"), json_text_at(item, "since"),
				json_text_at(item, "reason"),
				json_text_at(item, "message")[0] ? ": " : "",
				json_text_at(item, "message"));
		}
		line(search, "here", text);
	}
}

static void print_entry(struct search *search, const struct explanation *entry)
{
	const enum reason *reason = entry->condition ? entry->condition->reasons : NULL;
	const struct config_option *item = entry->row ? entry->row->items : NULL;
	char takes[OPTION_TEXT_MAX] = "", text[OPTION_TEXT_MAX + OPTION_NAME_MAX];

	draw(&search->screen, COLOR_NONE, "%s (%s%s%s)\n",
		entry_is_literal(entry) ? entry->name : search->name, entry->kind,
		entry->detail ? ", " : "", entry->detail ? entry->detail : "");
	draw_paragraph(&search->screen, 2, entry->help);
	if (entry->row)
		value_describe(entry->row, takes, sizeof(takes));
	line(search, "takes", takes);
	for (; item && item->name; item++) {
		option_describe(item, takes);
		snprintf(
			text, sizeof(text), "%s%s%s", item->name, item->name[0] ? ": " : "", takes);
		line(search, "item", text);
	}
	for (int i = 0; entry->labels && i < METRIC_LABELS_MAX && entry->labels[i]; i++)
		line(search, "label", entry->labels[i]);
	line(search, "unit", entry->unit);
	line(search, "default", entry->def);
	line(search, "option", entry->option);
	line(search, "breaks", entry->breaks);
	line(search, "now", entry->now);
	line(search, "source", entry->source);
	for (; reason && *reason; reason++) {
		snprintf(text, sizeof(text), "%s: %s", reason_rows[*reason].slug,
			reason_rows[*reason].help);
		line(search, "reason", text);
	}
	print_here(search, entry);
	if (streq(entry->kind, "profile"))
		print_profiles(search, entry->name);
	else if (entry->row && streq(entry->name, "profile"))
		print_profiles(search, NULL);
}

/* Explains a configured sysctl without an entry. */
static bool explain_configured(const struct cli *cli, const char *name)
{
	_cleanup_(cleanup_config_free) struct config *config = cli_load_config(cli, NULL);
	size_t n = 0;
	const struct config_sysctl *sysctls = config ? config_sysctls(config, &n) : NULL;
	const struct config_sysctl *sysctl = find_named(sysctls, n, name);

	if (sysctl)
		printf("%s (setting)\n  A sysctl of the configuration: %s, %s (%s:%u).\n"
		       "  %-9s Documentation/admin-guide/sysctl\n",
			name, sysctl->value, sysctl->exact ? "set exactly" : "only raised",
			sysctl->position.file, sysctl->position.line, "source");
	return sysctl;
}

/* Whether the name is the end of a sysctl or key: gc_thresh3. */
static bool ends_with_part(const char *entry, const char *name)
{
	size_t len = strlen(entry), end = strlen(name);

	return len > end && entry[len - end - 1] == '.' && strcasecmp(entry + len - end, name) == 0;
}

static int explain(const struct cli *cli, const char *name, const cJSON *status)
{
	struct search search = {.name = name, .status = status, .screen = screen_open()};
	size_t n;
	_cleanup_free_ struct explanation *entries = all_entries(&n);
	bool by_part = false;

	for (size_t i = 0; i < n; i++) {
		const struct explanation *entry = &entries[i];

		if (fnmatch(entry->name, name, FNM_CASEFOLD) != 0 &&
			strcasecmp(entry->name, name) != 0) {
			if (entry_is_literal(entry))
				suggest_offer(&search.nearest, name, entry->name);
			if (streq(entry->kind, "setting") && strrchr(entry->name, '.'))
				suggest_offer(&search.nearest, name, strrchr(entry->name, '.') + 1);
		} else if (entry_is_literal(entry) || !search.kind ||
			   !streq(search.kind, entry->kind)) {
			search.kind = entry->kind;
			print_entry(&search, entry);
		}
	}
	for (size_t i = 0; i < n && (!search.kind || by_part); i++)
		if (streq(entries[i].kind, "setting") && ends_with_part(entries[i].name, name)) {
			by_part = true;
			search.kind = entries[i].kind;
			print_entry(&search, &entries[i]);
		}
	if (search.kind || explain_configured(cli, name))
		return EXIT_OK;
	if (search.nearest.word[0])
		return cli_fail(name, "unknown: did you mean %s?", search.nearest.word);
	return cli_fail(name, "unknown name: headroom explain without a name lists all names");
}

int cli_explain(const struct cli *cli)
{
	_cleanup_(cleanup_config_free) struct config *config =
		cli->n_names > 0 ? cli_load_config(cli, &(bool){false}) : NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	char socket_path[PATH_MAX];
	size_t n;
	_cleanup_free_ struct explanation *entries = all_entries(&n);
	long code;
	int r = EXIT_OK;

	if (config) {
		core_socket_path(config, socket_path);
		(void)client_call(socket_path, NULL, false, "/v1/status", &status, &code);
	}

	for (size_t i = 0; i < n && cli->n_names == 0; i++)
		printf("%-34s %s\n", entries[i].name, entries[i].kind);
	for (int i = 0; i < cli->n_names; i++)
		r |= explain(cli, cli->names[i], status);
	return r;
}
