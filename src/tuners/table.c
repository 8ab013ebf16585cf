/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"

#include <fnmatch.h>

#define TUNER_ROW(name)   &name##_tuner,
#define OPTIONS_ROW(name) name##_options,

const char *const tuner_mode_words[] = {"enforce", "observe", "off", NULL};

const struct tuner_ops *const tuner_table[] = {TUNERS(TUNER_ROW) NULL};

const struct tuner_ops *const all_tables[] = {&core_tables, TUNERS(TUNER_ROW) NULL};

const struct config_option *const option_tables[] = {core_options, TUNERS(OPTIONS_ROW) NULL};

const struct tuner_ops *tuner_find(const char *name)
{
	for (size_t i = 0; tuner_table[i]; i++)
		if (streq(tuner_table[i]->name, name))
			return tuner_table[i];
	return NULL;
}

struct help_search {
	const char *kind, *name, *help;
};

static void match_help(const struct explanation *entry, void *userdata)
{
	struct help_search *search = userdata;

	if (!search->help && streq(entry->kind, search->kind) && streq(entry->name, search->name))
		search->help = entry->help;
}

const char *entry_help(const char *kind, const char *name)
{
	struct help_search search = {.kind = kind, .name = name};

	each_entry(match_help, &search);
	return search.help;
}

void tuners_validate(const struct config *config, struct config_fault_list *faults)
{
	size_t n;
	const struct config_sysctl *sysctls = config_sysctls(config, &n);

	for (size_t i = 0; tuner_table[i]; i++)
		if (tuner_table[i]->validate)
			tuner_table[i]->validate(config, faults);
	for (size_t k = 0; k < n; k++)
		for (size_t i = 0; tuner_table[i]; i++) {
			const char *const *owned = tuner_table[i]->owned_sysctls;
			const char *owner = tuner_table[i]->name;

			for (; owned && *owned; owned++)
				if (fnmatch(*owned, sysctls[k].name, 0) == 0)
					config_fault_add(faults, &sysctls[k].place,
						"sysctl.%s: belongs to the %s tuner: set it in the "
						"section %s",
						sysctls[k].name, owner, owner);
		}
}

enum mode tuner_mode(const struct tuner_ops *ops, const struct config *config)
{
	char name[64];
	int own;

	snprintf(name, sizeof(name), "%s.mode", ops->name);
	own = config_choice(config, name);
	return (enum mode)(own >= 0 ? own : config_choice(config, "mode"));
}

/* ---- entries ---- */

static const char *const option_details[] = {
	[OPTION_BOOL] = "true or false",
	[OPTION_COUNT] = "whole number",
	[OPTION_DURATION] = "time",
	[OPTION_CHOICE] = "choice",
	[OPTION_TEXT] = "text",
	[OPTION_LIST] = "list",
	[OPTION_SYSCTLS] = "map of sysctls",
	[OPTION_RESERVED] = "reserved",
};

static const char *const metric_details[] = {
	[METRIC_GAUGE] = "gauge",
	[METRIC_COUNTER] = "counter",
	[METRIC_HISTOGRAM] = "histogram",
};

static void visit_reasons(const struct reason *row, visit_entry visit, void *userdata)
{
	for (; row && row->slug; row++)
		visit(&(struct explanation){row->slug, "reason", .help = row->help}, userdata);
}

static void visit_conditions(const struct tuner_ops *ops, visit_entry visit, void *userdata)
{
	static const char *const details[] = {
		[SEVERITY_WARNING] = "warning when True",
		[SEVERITY_CRITICAL] = "critical when True",
		[SEVERITY_ADVICE] = "advice when True: the verdict stays ok",
	};
	const struct reason *last = NULL;

	for (const struct condition_type *row = ops->conditions; row && row->name; row++) {
		visit(&(struct explanation){row->name, "condition", row->help,
			      .detail = details[row->severity], .condition = row},
			userdata);
		if (row->reasons != last) /* rows that follow each other may share a table */
			visit_reasons(row->reasons, visit, userdata);
		last = row->reasons;
	}
	visit_reasons(ops->reasons, visit, userdata);
}

void each_entry(visit_entry visit, void *userdata)
{
	for (size_t i = 0; all_tables[i]; i++) {
		const struct tuner_ops *ops = all_tables[i];

		if (ops != &core_tables)
			visit(&(struct explanation){ops->name, "tuner", .help = ops->summary},
				userdata);
		for (const struct config_option *row = option_tables[i]; row->name; row++)
			visit(&(struct explanation){row->name, "config key", row->help, row->unit,
				      row->def                   ? row->def
				      : row->type == OPTION_LIST ? "[]"
								 : "empty",
				      NULL, "headroom.yaml(5)", .detail = option_details[row->type],
				      .row = row},
				userdata);
		for (const struct explanation *row = ops->explanations; row && row->name; row++)
			visit(row, userdata);
		visit_conditions(ops, visit, userdata);
		for (const struct metric_row *row = ops->metric_rows; row && row->name; row++)
			visit(&(struct explanation){row->name, "metric", row->help, row->unit,
				      .detail = metric_details[row->type], .labels = row->labels},
				userdata);
	}
	for (const struct profile *row = profile_table; row->name; row++)
		visit(&(struct explanation){row->name, "profile", row->help,
			      .source = "headroom.yaml(5)"},
			userdata);
	for (const struct profile_row *row = profile_rows; row->name; row++)
		if (starts_with(row->name, "sysctl."))
			visit(&(struct explanation){row->name + strlen("sysctl."), "setting",
				      row->source, NULL, row->value, "sysctl, profile",
				      .detail = row->profile},
				userdata);
}

bool entry_is_literal(const struct explanation *entry)
{
	return !strpbrk(entry->name, "*[?");
}
