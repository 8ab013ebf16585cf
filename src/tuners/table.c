/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"

#include "model/node.h"

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

const struct limit_row *limit_row_of(const struct tuner_tables *tables, const char *name)
{
	for (const struct limit_row *row = tables->limits; row && row->name; row++)
		if (fnmatch(row->name, name, 0) == 0)
			return row;
	return NULL;
}

const struct limit_row *limit_row_find(const char *name)
{
	const struct limit_row *found = NULL;

	for (size_t i = 0; all_tables[i] && !found; i++)
		found = limit_row_of(all_tables[i], name);
	return found;
}

const struct condition_type *condition_type_find(const char *name)
{
	for (size_t i = 0; all_tables[i]; i++)
		for (const struct condition_type *type = all_tables[i]->conditions;
			type && type->name; type++)
			if (streq(type->name, name))
				return type;
	return NULL;
}

static bool has_setting(const struct tuner_tables *tables, const char *name)
{
	for (const struct help_entry *row = tables->entries; row && row->name; row++)
		if (row->kind == ENTRY_SETTING && fnmatch(row->name, name, 0) == 0)
			return true;
	return false;
}

/* A tuner owns the sysctls that its settings are. */
static void check_owner(const struct config_sysctl *sysctl, struct config_fault_list *faults)
{
	for (size_t i = 0; tuner_table[i]; i++)
		if (has_setting(tuner_table[i]->tables, sysctl->name))
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

/* -1: the agent's. */
static int own_mode(const struct tuner_ops *ops, const struct config *config)
{
	char name[64];

	snprintf(name, sizeof(name), "%s.mode", ops->name);
	return config_choice(config, name);
}

enum mode tuner_mode(const struct tuner_ops *ops, const struct config *config)
{
	int own = own_mode(ops, config);

	return (enum mode)(own >= 0 ? own : config_choice(config, "mode"));
}

unsigned tuner_held_by(const struct tuner_ops *ops, const struct config *config)
{
	if (tuner_mode(ops, config) == MODE_ENFORCE)
		return 0;
	return own_mode(ops, config) >= 0 ? HELD_BY_OWN_MODE : HELD_BY_MODE;
}

/* ---- entries ---- */

#define KIND_NAME(name, text) [ENTRY_##name] = text,
const char *const entry_kind_names[ENTRY_KINDS] = {ENTRY_KINDS_LIST(KIND_NAME)};

const char *entry_detail(const struct help_entry *entry)
{
	static const char *const options[] = {
		[OPTION_BOOL] = "true or false",
		[OPTION_COUNT] = "whole number",
		[OPTION_DURATION] = "time",
		[OPTION_CHOICE] = "choice",
		[OPTION_TEXT] = "text",
		[OPTION_LIST] = "list",
		[OPTION_SYSCTLS] = "map of sysctls",
	};
	static const char *const severities[] = {
		[SEVERITY_WARNING] = "warning when True",
		[SEVERITY_CRITICAL] = "critical when True",
		[SEVERITY_ADVICE] = "advice when True: the verdict stays ok",
	};
	static const char *const metrics[] = {
		[METRIC_GAUGE] = "gauge",
		[METRIC_COUNTER] = "counter",
		[METRIC_HISTOGRAM] = "histogram",
	};

	switch (entry->kind) {
	case ENTRY_OPTION:
		return options[entry->config_option->type];
	case ENTRY_CONDITION:
		return severities[entry->condition->severity];
	case ENTRY_METRIC:
		return metrics[entry->metric->type];
	case ENTRY_REASON:
		return reason_act_text((enum reason)(entry->reason - reason_rows));
	case ENTRY_PROFILE_SETTING:
		return entry->profile_row->profile;
	default:
		return NULL;
	}
}

struct entry_list {
	struct help_entry *entries;
	size_t n, allocated;
};

static void add_entry(struct entry_list *list, struct help_entry entry)
{
	*add_element(&list->entries, &list->n, &list->allocated) = entry;
}

static void add_options(struct entry_list *list, const struct config_option *row)
{
	for (; row->name; row++)
		add_entry(list, (struct help_entry){row->name, ENTRY_OPTION, row->help, row->unit,
					.def = row->def                   ? row->def
					       : row->type == OPTION_LIST ? "[]"
									  : "empty",
					.source = "headroom.yaml(5)", .config_option = row});
}

struct help_entry limit_entry(const struct limit_row *row)
{
	return (struct help_entry){row->name, ENTRY_LIMIT, row->help, row->unit, row->def,
		row->option, row->source, .limit = row};
}

static void add_tables(struct entry_list *list, const struct tuner_tables *tables)
{
	for (const struct limit_row *row = tables->limits; row && row->name; row++)
		add_entry(list, limit_entry(row));
	for (const struct help_entry *row = tables->entries; row && row->name; row++)
		add_entry(list, *row);
	for (const struct condition_type *row = tables->conditions; row && row->name; row++)
		add_entry(list, (struct help_entry){
					row->name, ENTRY_CONDITION, row->help, .condition = row});
	for (const struct metric_row *row = tables->metric_rows; row && row->name; row++)
		add_entry(list, (struct help_entry){row->name, ENTRY_METRIC, row->help, row->unit,
					.metric = row});
}

/* Makes the entry of a sysctl that a profile has. */
static struct help_entry profile_entry(const struct profile_row *row)
{
	const char *name = row->name + strlen("sysctl.");
	const struct profile_sysctl *sysctl = profile_sysctls;

	while (sysctl->name && !streq(sysctl->name, name))
		sysctl++;
	return (struct help_entry){name, ENTRY_PROFILE_SETTING, sysctl->help, .def = row->value,
		.option = "sysctl, profile", .source = row->source, .tuner = "sysctl",
		.profile_row = row};
}

struct help_entry *all_entries(size_t *n)
{
	struct entry_list list = {0};

	for (size_t i = 0, before = 0; all_tables[i]; i++, before = list.n) {
		if (all_tables[i]->summary)
			add_entry(&list, (struct help_entry){tuner_table[i - 1]->name, ENTRY_TUNER,
						 all_tables[i]->summary});
		add_options(&list, option_tables[i]);
		add_tables(&list, all_tables[i]);
		for (size_t k = before; i > 0 && k < list.n; k++)
			list.entries[k].tuner = tuner_table[i - 1]->name;
	}
	for (const struct reason_row *row = &reason_rows[REASON_NONE + 1];
		row < &reason_rows[REASONS]; row++)
		add_entry(&list,
			(struct help_entry){row->slug, ENTRY_REASON, row->help, .reason = row});
	for (const struct check_row *row = node_checks; row->name; row++)
		add_entry(
			&list, (struct help_entry){row->name, ENTRY_CHECK, row->help,
				       .option = row->option, .source = row->source, .check = row});
	for (const struct profile *row = profile_table; row->name; row++)
		add_entry(&list, (struct help_entry){row->name, ENTRY_PROFILE, row->help,
					 .source = "headroom.yaml(5)"});
	for (const struct profile_row *row = profile_rows; row->name; row++)
		if (starts_with(row->name, "sysctl."))
			add_entry(&list, profile_entry(row));
	*n = list.n;
	return list.entries;
}

bool entry_is_literal(const struct help_entry *entry)
{
	return !strpbrk(entry->name, PATTERN_CHARACTERS);
}
