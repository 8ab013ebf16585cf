/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"

#include <fnmatch.h>

#define TUNER_ROW(name)   &name##_tuner,
#define TABLES_ROW(name)  &name##_tables,
#define OPTIONS_ROW(name) name##_options,

const char *const tuner_mode_choices[] = {
	[MODE_ENFORCE] = "enforce", [MODE_OBSERVE] = "observe", [MODE_OFF] = "off", NULL};

const struct tuner_ops *const tuner_table[] = {TUNERS(TUNER_ROW) NULL};

const struct tuner_tables *const all_tables[] = {&core_tables, TUNERS(TABLES_ROW) NULL};

const struct config_option *const option_tables[] = {core_options, TUNERS(OPTIONS_ROW) NULL};

const struct tuner_ops *tuner_find(const char *name)
{
	for (size_t i = 0; tuner_table[i]; i++)
		if (streq(tuner_table[i]->name, name))
			return tuner_table[i];
	return NULL;
}

const char *entry_help(const char *kind, const char *name)
{
	size_t n;
	_cleanup_free_ struct explanation *entries = all_entries(&n);

	for (size_t i = 0; i < n; i++)
		if (streq(entries[i].kind, kind) && streq(entries[i].name, name))
			return entries[i].help;
	return NULL;
}

bool tuner_explains(const struct tuner_ops *ops, const char *kind, const char *name)
{
	for (const struct explanation *row = ops->tables->explanations; row && row->name; row++)
		if (streq(row->kind, kind) && (!name || fnmatch(row->name, name, 0) == 0))
			return true;
	return false;
}

const struct explanation *limit_row(const char *name)
{
	for (size_t i = 0; all_tables[i]; i++) {
		const struct explanation *row = all_tables[i]->explanations;

		for (; row && row->name; row++)
			if (streq(row->kind, "limit") && fnmatch(row->name, name, 0) == 0)
				return row;
	}
	return NULL;
}

/* A tuner owns the sysctls that its settings are. */
static void check_owner(const struct config_sysctl *sysctl, struct config_fault_list *faults)
{
	for (size_t i = 0; tuner_table[i]; i++)
		if (tuner_explains(tuner_table[i], "setting", sysctl->name))
			config_fault_add(faults, &sysctl->position,
				"sysctl.%s: belongs to the %s tuner: set it in the "
				"section %s",
				sysctl->name, tuner_table[i]->name, tuner_table[i]->name);
}

void tuners_validate(const struct config *config, struct config_fault_list *faults)
{
	size_t n;
	const struct config_sysctl *sysctls = config_sysctls(config, &n);

	for (size_t i = 0; tuner_table[i]; i++)
		if (tuner_table[i]->validate)
			tuner_table[i]->validate(config, faults);
	for (size_t k = 0; k < n; k++)
		check_owner(&sysctls[k], faults);
	checks_validate(config, faults);
}

void tuner_free(void *self, void *)
{
	free(self);
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
};

static const char *const severity_details[] = {
	[SEVERITY_WARNING] = "warning when True",
	[SEVERITY_CRITICAL] = "critical when True",
	[SEVERITY_ADVICE] = "advice when True: the verdict stays ok",
};

static const char *const metric_details[] = {
	[METRIC_GAUGE] = "gauge",
	[METRIC_COUNTER] = "counter",
	[METRIC_HISTOGRAM] = "histogram",
};

struct list {
	struct explanation *entries;
	size_t n, allocated;
};

static void add(struct list *list, struct explanation entry)
{
	*add_element(&list->entries, &list->n, &list->allocated) = entry;
}

struct explanation *all_entries(size_t *n)
{
	struct list list = {0};

	for (size_t i = 0; all_tables[i]; i++) {
		const struct tuner_tables *tables = all_tables[i];

		if (tables->summary)
			add(&list, (struct explanation){tuner_table[i - 1]->name, "tuner",
					   .help = tables->summary});
		for (const struct config_option *row = option_tables[i]; row->name; row++)
			add(&list,
				(struct explanation){row->name, "config key", row->help, row->unit,
					row->def                   ? row->def
					: row->type == OPTION_LIST ? "[]"
								   : "empty",
					.source = "headroom.yaml(5)",
					.detail = option_details[row->type], .row = row});
		for (const struct explanation *row = tables->explanations; row && row->name; row++)
			add(&list, *row);
		for (const struct condition_type *row = tables->conditions; row && row->name; row++)
			add(&list, (struct explanation){row->name, "condition", row->help,
					   .detail = severity_details[row->severity],
					   .condition = row, .now = row->now});
		for (const struct metric_row *row = tables->metric_rows; row && row->name; row++)
			add(&list, (struct explanation){row->name, "metric", row->help, row->unit,
					   .detail = metric_details[row->type],
					   .labels = row->labels});
	}
	for (int i = REASON_NONE + 1; i < REASONS; i++)
		add(&list, (struct explanation){reason_rows[i].slug, "reason", reason_rows[i].help,
				   .detail = reason_act_text((enum reason)i)});
	for (const struct explanation *row = node_checks; row->name; row++)
		add(&list, *row);
	for (const struct profile *row = profile_table; row->name; row++)
		add(&list, (struct explanation){
				   row->name, "profile", row->help, .source = "headroom.yaml(5)"});
	for (const struct profile_row *row = profile_rows; row->name; row++)
		if (starts_with(row->name, "sysctl."))
			add(&list, (struct explanation){row->name + strlen("sysctl."), "setting",
					   row->source, NULL, row->value, "sysctl, profile",
					   .detail = row->profile});
	*n = list.n;
	return list.entries;
}

bool entry_is_literal(const struct explanation *entry)
{
	return !strpbrk(entry->name, "*[?");
}
