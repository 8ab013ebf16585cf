/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"

#include "base/util.h"
#include "tuners/entry.h"

#include <fnmatch.h>
#include <stdio.h>

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

struct reason_search {
	const char *slug, *help;
};

static void match_reason(const struct entry *entry, void *userdata)
{
	struct reason_search *search = userdata;

	if (!search->help && streq(entry->kind, "reason") && streq(entry->name, search->slug))
		search->help = entry->help;
}

const char *reason_help(const char *slug)
{
	struct reason_search search = {.slug = slug};

	each_entry(match_reason, &search);
	return search.help;
}

const struct tuner_ops *tuner_owning_sysctl(const char *sysctl)
{
	for (size_t i = 0; tuner_table[i]; i++) {
		const char *const *owned = tuner_table[i]->owned_sysctls;

		for (; owned && *owned; owned++)
			if (fnmatch(*owned, sysctl, 0) == 0)
				return tuner_table[i];
	}
	return NULL;
}

static void validate_owners(const struct config *config, struct config_fault_list *faults)
{
	size_t n;
	const struct config_sysctl *sysctls = config_sysctls(config, &n);

	for (size_t i = 0; i < n; i++) {
		const struct tuner_ops *owner = tuner_owning_sysctl(sysctls[i].name);

		if (owner)
			config_fault_add(faults, &sysctls[i].place,
				"sysctl.%s: belongs to the %s tuner: set it in the section %s",
				sysctls[i].name, owner->name, owner->name);
	}
}

void tuners_validate(const struct config *config, struct config_fault_list *faults)
{
	for (size_t i = 0; tuner_table[i]; i++)
		if (tuner_table[i]->validate)
			tuner_table[i]->validate(config, faults);
	validate_owners(config, faults);
}

enum mode tuner_mode(const struct tuner_ops *ops, const struct config *config)
{
	enum mode own, agent = (enum mode)config_choice(config, "mode");
	char name[64];
	int choice;

	snprintf(name, sizeof(name), "%s.mode", ops->name);
	choice = config_choice(config, name);
	if (choice < 0)
		return agent;
	own = (enum mode)choice;
	return own;
}
