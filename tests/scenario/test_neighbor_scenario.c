/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/neighbor/neighbor.h"

#include <errno.h>

struct replay {
	struct neighbor_seen seen;
	struct neighbor_config config;
	struct neighbor_memory memory;
};

static bool take_family(struct scenario *scenario, enum neighbor_family *family)
{
	*family = scenario_is(scenario, "ipv6") ? NEIGHBOR_IPV6 : NEIGHBOR_IPV4;
	return *family == NEIGHBOR_IPV6 || scenario_is(scenario, "ipv4");
}

static bool take_thresholds(struct scenario *scenario, struct neighbor_table_seen *table)
{
	for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
		if (!scenario_value(scenario, table->threshold[i], SETTING_VALUE_MAX))
			return false;
		table->threshold_error[i] = 0;
	}
	return true;
}

static bool take_counters(struct scenario *scenario, struct neighbor_table_seen *table)
{
	if (scenario_is(scenario, "ok"))
		table->stats_error = 0;
	else if (scenario_is(scenario, "missing"))
		table->stats_error = -ENOENT;
	else if (scenario_is(scenario, "denied"))
		table->stats_error = -EACCES;
	else
		return false;
	if (table->stats_error < 0) { /* as sensing leaves it */
		table->stats = (struct neightbl_stats){0};
		table->collectable = 0;
	}
	return true;
}

static void make_absent(struct neighbor_table_seen *table)
{
	*table = (struct neighbor_table_seen){.stats_error = -ENOENT};
	for (int i = 0; i < NEIGHBOR_LEVELS; i++)
		table->threshold_error[i] = -ENOENT;
}

static bool take_part(struct scenario *scenario, struct neighbor_table_seen *table)
{
	if (scenario_is(scenario, "thresholds"))
		return take_thresholds(scenario, table);
	if (scenario_is(scenario, "entries"))
		return scenario_number(scenario, &table->collectable);
	if (scenario_is(scenario, "all"))
		return scenario_number(scenario, &table->stats.entries);
	if (scenario_is(scenario, "refused"))
		return scenario_number(scenario, &table->stats.table_fulls);
	if (scenario_is(scenario, "counters"))
		return take_counters(scenario, table);
	if (scenario_is(scenario, "exact"))
		return table->exact = true;
	if (!scenario_is(scenario, "upper-bound"))
		return false;
	table->exact = false;
	return true;
}

static bool at(struct scenario *scenario, void *self)
{
	struct replay *replay = self;
	enum neighbor_family family;

	if (!take_family(scenario, &family))
		return false;
	if (scenario_is(scenario, "absent")) {
		make_absent(&replay->seen.tables[family]);
		return true;
	}
	while (scenario->next < scenario->n_words)
		if (!take_part(scenario, &replay->seen.tables[family]))
			return false;
	return true;
}

static bool line(struct scenario *scenario, void *self)
{
	struct replay *replay = self;
	enum neighbor_family family;

	if (!scenario_is(scenario, "config"))
		return false;
	if (scenario_is(scenario, "lower"))
		return replay->config.lower = true;
	if (scenario_is(scenario, "grow"))
		return replay->config.grow = true;
	if (scenario_is(scenario, "ceiling"))
		return scenario_number(scenario, &replay->config.ceiling);
	if (!take_family(scenario, &family))
		return false;
	if (scenario_is(scenario, "keep"))
		return replay->config.families[family].keep = true;
	for (int i = 0; i < NEIGHBOR_LEVELS; i++)
		if (!scenario_number(scenario, &replay->config.families[family].threshold[i]))
			return false;
	return true;
}

static int decide(void *self, const struct decide_input *input, struct proposal *proposal)
{
	struct replay *replay = self;

	return neighbor_decide(&replay->seen, &replay->config, input, &replay->memory, proposal);
}

int main(int argc, char **argv)
{
	static const struct scenario_tuner tuner = {at, line, decide};
	struct replay replay = {.config.families = {{.threshold = {80000, 90000, 100000}},
					{.threshold = {80000, 90000, 100000}}}};

	/* What a fresh node of 16 GiB has, until the scenario says otherwise. */
	replay.seen.memory_bytes = UINT64_C(16) << 30;
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		struct neighbor_table_seen *table = &replay.seen.tables[family];

		strcpy(table->threshold[0], "128");
		strcpy(table->threshold[1], "512");
		strcpy(table->threshold[2], "1024");
		table->exact = true;
	}
	return scenario_main(argc, argv, &tuner, &replay);
}
