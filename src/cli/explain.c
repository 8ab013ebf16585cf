/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "report/report.h"
#include "tuners/table.h"

#include <fnmatch.h>

#define NAMES_WIDTH 34 /* columns for the names of a list; longer ones are whole */

struct search {
	const struct help_entry *entries;
	size_t n;
	const cJSON *status;         /* from the running agent, or NULL */
	const struct config *config; /* NULL: without a name */
	bool faulty;                 /* config is the defaults, and the faults are not printed */
	struct screen screen;
	const char *name;
	enum entry_kind kind; /* the last match had it: only the first pattern of a kind counts */
	bool found;
};

static void put_line(struct search *search, const char *what, const char *text)
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
				draw(&search->screen, COLOR_NONE, "  ");
				draw_wrapped(&search->screen, 6, "%s: %s", row->name, row->value);
				draw_paragraph(&search->screen, 6, row->source);
			}
	}
}

#define HERE_MAX 1536 /* a condition has the texts of its findings */

static void describe_setting(const cJSON *setting, char text[static HERE_MAX])
{
	const char *wanted = json_text_at(setting, "wanted"), *why = json_text_at(setting, "why");
	enum reason reason = reason_parse(json_text_at(setting, "reason"));

	snprintf(text, HERE_MAX, "%s: %s, wanted %s, mode %s, %s since %s: %s%s%s%s%s",
		json_text_at(setting, "name"), json_text_at(setting, "actual"),
		wanted[0] ? wanted : "nothing", json_text_at(setting, "mode"),
		json_text_at(setting, "state"), json_text_at(setting, "since"),
		json_text_at(setting, "reason"), why[0] ? ": " : "", why,
		reason != REASON_NONE ? ": " : "", reason_rows[reason].help);
}

static void describe_limit(const cJSON *limit, char text[static HERE_MAX])
{
	double used = json_number_at(limit, "used"), max = json_number_at(limit, "max");
	const char *unit = json_text_at(limit, "unit");
	char use[USE_MAX], share[SHARE_MAX], peak[AMOUNT_MAX];

	snprintf(text, HERE_MAX, "%s: %s, %s, peak %s at %s, reached %.0f times",
		json_text_at(limit, "name"), use_text(used, max, unit, use),
		max > 0 ? share_text(used / max, share) : "share unknown",
		amount_text(json_number_at(limit, "peak"), unit, peak),
		json_text_at(limit, "peak_at"), json_number_at(limit, "hits"));
}

static void describe_condition(const cJSON *condition, char text[static HERE_MAX])
{
	const char *status = json_text_at(condition, "status");
	/* The findings follow. */
	const char *message = streq(status, condition_status_names[CONDITION_TRUE])
				      ? ""
				      : json_text_at(condition, "message");

	snprintf(text, HERE_MAX, "%s since %s: %s%s%s", status, json_text_at(condition, "since"),
		json_text_at(condition, "reason"), message[0] ? ": " : "", message);
}

/*
 * Draws the findings of the running agent that have the name as slug, id, reason or condition.
 * Returns whether there are any.
 */
static bool print_findings(struct search *search, const char *name)
{
	const cJSON *finding;
	bool any = false;

	cJSON_ArrayForEach (finding, json_at(search->status, "findings")) {
		static const char *const keys[] = {"slug", "id", "reason", "condition"};

		for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
			if (strcasecmp(json_text_at(finding, keys[i]), name) != 0)
				continue;
			draw_finding(&search->screen, 2, finding_word(finding), finding);
			any = true;
			break;
		}
	}
	return any;
}

/* Prints what the running agent knows of the entry. */
static void print_here(struct search *search, const struct help_entry *entry)
{
	static const struct {
		const char *list, *key;
		void (*describe)(const cJSON *item, char text[static HERE_MAX]);
	} lists[ENTRY_KINDS] = {
		[ENTRY_SETTING] = {"settings", "name", describe_setting},
		[ENTRY_PROFILE_SETTING] = {"settings", "name", describe_setting},
		[ENTRY_LIMIT] = {"limits", "name", describe_limit},
		[ENTRY_CONDITION] = {"conditions", "type", describe_condition},
	};
	char text[HERE_MAX];
	const cJSON *item;

	if (!lists[entry->kind].list)
		return;
	cJSON_ArrayForEach (item, json_at(search->status, lists[entry->kind].list)) {
		const char *name = json_text_at(item, lists[entry->kind].key);

		if (!streq(name, entry->name) && fnmatch(entry->name, name, 0) != 0)
			continue;
		lists[entry->kind].describe(item, text);
		put_line(search, "here", text);
	}
}

static void print_option(struct search *search, const struct config_option *option)
{
	char takes[OPTION_TEXT_MAX] = "", text[OPTION_TEXT_MAX + OPTION_NAME_MAX];

	value_describe(option, takes, sizeof(takes));
	put_line(search, "takes", takes);
	for (const struct config_option *item = option->items; item && item->name; item++) {
		option_describe(item, takes);
		snprintf(
			text, sizeof(text), "%s%s%s", item->name, item->name[0] ? ": " : "", takes);
		put_line(search, "item", text);
	}
}

static void print_reasons(struct search *search, const enum reason *reasons)
{
	char text[OPTION_TEXT_MAX];

	for (; reasons && *reasons; reasons++) {
		snprintf(text, sizeof(text), "%s: %s", reason_rows[*reasons].slug,
			reason_rows[*reasons].help);
		put_line(search, "reason", text);
	}
}

static void print_entry(struct search *search, const struct help_entry *entry)
{
	const char *detail = entry_detail(entry), *breaks = NULL, *now = NULL, *helps = NULL;

	search->found = true;
	search->kind = entry->kind;
	draw_wrapped(&search->screen, 2, "%s (%s%s%s)",
		entry_is_literal(entry) ? entry->name : search->name, entry_kind_names[entry->kind],
		detail ? ", " : "", detail ? detail : "");
	draw_paragraph(&search->screen, 2, entry->help);
	if (entry->kind == ENTRY_OPTION)
		print_option(search, entry->config_option);
	for (int i = 0; entry->kind == ENTRY_METRIC && i < METRIC_LABELS_MAX; i++)
		put_line(search, "label", entry->metric->labels[i]);
	if (entry->kind == ENTRY_LIMIT) {
		breaks = entry->limit->breaks;
		helps = entry->limit->cure_help;
	} else if (entry->kind == ENTRY_CHECK) {
		breaks = entry->check->breaks;
		now = entry->check->now;
	}
	put_line(search, "unit", entry->unit);
	put_line(search, entry->kind == ENTRY_PROFILE_SETTING ? "value" : "default", entry->def);
	put_line(search, "option", entry->option);
	put_line(search, "breaks", breaks);
	if (now) /* one line, so that it can be copied */
		draw(&search->screen, COLOR_NONE, "  %-9s %s\n", "now", now);
	put_line(search, "helps", helps);
	put_line(search, "source", entry->source);
	if (entry->kind == ENTRY_CONDITION)
		print_reasons(search, entry->condition->reasons);
	print_here(search, entry);
	if (entry->kind == ENTRY_PROFILE)
		print_profiles(search, entry->name);
	else if (entry->kind == ENTRY_OPTION && streq(entry->name, "profile"))
		print_profiles(search, NULL);
}

/* Explains a configured sysctl without an entry. */
static bool explain_configured(struct search *search, const struct cli *cli, const char *name)
{
	size_t n;
	const struct config_sysctl *sysctls = config_sysctls(search->config, &n);
	const struct config_sysctl *sysctl = find_named(sysctls, n, name);

	if (search->faulty)
		cli_print_faults(cli);
	search->faulty = false;
	if (!sysctl)
		return false;
	draw_wrapped(&search->screen, 2, "%s (setting)", name);
	draw(&search->screen, COLOR_NONE, "  ");
	draw_wrapped(&search->screen, 2, "A sysctl of the configuration: %s, %s (%s:%u).",
		sysctl->value, sysctl->exact ? "set exactly" : "only raised", sysctl->position.file,
		sysctl->position.line);
	put_line(search, "source", "Documentation/admin-guide/sysctl");
	return true;
}

/* Returns whether no earlier entry has the name: several profiles may set a sysctl. */
static bool is_first(const struct search *search, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (streq(search->entries[i].name, search->entries[at].name))
			return false;
	return true;
}

/* Prints the name of an entry, and its kind with a text beside it. */
static void print_pair(struct search *search, int indent, const struct help_entry *entry,
	const char *text, size_t len)
{
	struct screen *screen = &search->screen;
	const int width = MIN(NAMES_WIDTH, screen->width / 2 - indent - 2);

	draw(screen, COLOR_NONE, "%*s%-*s  ", indent, "", width, entry->name);
	draw_wrapped(screen, indent + width + 2, "%s%s%.*s", entry_kind_names[entry->kind],
		len > 0 ? ": " : "", (int)len, text);
}

/* Prints "conntrack   limit: " and the first sentence of its explanation. */
static void print_brief(struct search *search, const struct help_entry *entry)
{
	const char *end = strstr(entry->help, ". ");

	print_pair(search, 2, entry, entry->help,
		end ? (size_t)(end + 1 - entry->help) : strlen(entry->help));
}

/* Lists the entries whose name, or else explanation, has the word: limits first. */
static void print_list(struct search *search, const char *word, enum name_match match, size_t n)
{
	draw_wrapped(&search->screen, 2, "%s: %zu names %s it:", word, n,
		match == NAME_PART ? "have" : "explain");
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < search->n; i++)
			if (name_matches(&search->entries[i], word) == match &&
				(search->entries[i].kind == ENTRY_LIMIT) == (pass == 0) &&
				is_first(search, i))
				print_brief(search, &search->entries[i]);
}

/*
 * Prints the entries that match the word best. Returns the match. The first
 * pattern of a kind hides the others.
 */
static enum name_match search_entries(struct search *search, const char *word)
{
	const enum name_match match = names_match(search->entries, search->n, word);
	size_t n = 0;

	search->name = word;
	search->found = false;
	for (size_t i = 0; i < search->n; i++)
		n += name_matches(&search->entries[i], word) == match && is_first(search, i);
	if (match == NAME_NOT)
		return match;
	if (match <= NAME_PART && n > 1) {
		print_list(search, word, match, n);
		return match;
	}
	for (size_t i = 0; i < search->n; i++) {
		const struct help_entry *entry = &search->entries[i];

		if (name_matches(entry, word) != match)
			continue;
		if (match != NAME_WHOLE)
			search->name = entry->name;
		if (entry_is_literal(entry) || match != NAME_WHOLE || !search->found ||
			search->kind != entry->kind)
			print_entry(search, entry);
	}
	return match;
}

static int explain(struct search *search, const struct cli *cli, const char *name)
{
	_cleanup_free_ char *slug = must(strndup(name, strcspn(name, "@")));
	struct suggestion nearest = {0};
	bool found;

	/* The id of a finding is SLUG@KIND:INSTANCE. */
	found = search_entries(search, streq(slug, name) ? name : slug) != NAME_NOT;
	if (print_findings(search, name) || found || explain_configured(search, cli, name))
		return EXIT_OK;
	names_suggest(search->entries, search->n, name, NULL, &nearest);
	if (nearest.word[0])
		return cli_fail(name, "unknown: did you mean %s?", nearest.word);
	return cli_fail(name, "unknown name: headroom explain without a name lists all names");
}

int cli_explain(const struct cli *cli)
{
	bool faulty = false;
	_cleanup_(cleanup_config_free) struct config *config =
		cli->n_names > 0 ? cli_load_config(cli, &faulty) : NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct search search = {.screen = screen_open()};
	_cleanup_free_ struct help_entry *entries = all_entries(&search.n);
	char socket_path[PATH_MAX];
	long code;
	int r = EXIT_OK;

	if (config) {
		core_socket_path(config, socket_path);
		(void)client_call(socket_path, NULL, false, "/v1/status", &status, &code);
		json_make_lines_printable(status, "keep");
	}
	search.entries = entries;
	search.status = status;
	search.config = config;
	search.faulty = faulty;
	if (faulty && !status) {
		cli_print_faults(cli);
		search.faulty = false;
	}
	for (size_t i = 0; i < search.n && cli->n_names == 0; i++)
		print_pair(&search, 0, &entries[i], "", 0);
	for (int i = 0; i < cli->n_names; i++)
		r |= explain(&search, cli, cli->names[i]);
	return r;
}
