/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/neighbor/neighbor.h"

static bool parse_thresholds(struct scenario *scenario, void *base)
{
	struct neighbor_table_seen *table = base;

	for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
		if (!scenario_value(scenario, table->threshold[i], SETTING_VALUE_MAX))
			return false;
		table->threshold_error[i] = 0;
	}
	return true;
}

static bool parse_counters(struct scenario *scenario, void *base)
{
	struct neighbor_table_seen *table = base;

	table->stats_error = scenario_is(scenario, "missing")  ? -ENOENT
			     : scenario_is(scenario, "denied") ? -EACCES
							       : 0;
	if (table->stats_error == 0)
		return scenario_is(scenario, "ok");
	table->stats = (struct neighbor_stats){0};
	table->collectable = 0;
	return true;
}

static bool parse_absent(struct scenario *, void *base)
{
	struct neighbor_table_seen *table = base;

	*table = (struct neighbor_table_seen){
		.stats_error = -ENOENT, .threshold_error = {-ENOENT, -ENOENT, -ENOENT}};
	return true;
}

static const struct scenario_word table_words[] = {
	WORD_CALL("thresholds", parse_thresholds),
	WORD_NUMBER("entries", struct neighbor_table_seen, collectable),
	WORD_NUMBER("all", struct neighbor_table_seen, stats.entries),
	WORD_NUMBER("refused", struct neighbor_table_seen, stats.table_fulls),
	WORD_CONST("largest", struct neighbor_table_seen, n_top, 1),
	WORD_NUMBER("with", struct neighbor_table_seen, top[0].used),
	WORD_CONST("netns", struct neighbor_table_seen, top[0].workload.kind, WORKLOAD_NETNS),
	WORD_CONST("pod", struct neighbor_table_seen, top[0].workload.kind, WORKLOAD_POD),
	WORD_TEXT("name", struct neighbor_table_seen, top[0].workload.name),
	WORD_CALL("counters", parse_counters),
	WORD_CALL("absent", parse_absent),
	WORD_CONST("exact", struct neighbor_table_seen, exact, true),
	WORD_CONST("upper-bound", struct neighbor_table_seen, exact, false),
	{0},
};

/* Returns -1 for another word. */
static int parse_family(struct scenario *scenario)
{
	return scenario_is(scenario, "ipv4")   ? NEIGHBOR_IPV4
	       : scenario_is(scenario, "ipv6") ? NEIGHBOR_IPV6
					       : -1;
}

static bool parse_table(struct scenario *scenario, void *base)
{
	struct neighbor *neighbor = base;
	int family = parse_family(scenario);

	return family >= 0 && scenario_parse(scenario, table_words, &neighbor->tables[family]);
}

static const struct scenario_word at[] = {
	WORD_CALL("mode", scenario_mode),
	WORD_CALL(NULL, parse_table),
};

static bool parse_family_config(struct scenario *scenario, void *base)
{
	struct neighbor *neighbor = base;
	int family = parse_family(scenario);
	uint64_t *threshold = neighbor->config.families[MAX(family, 0)].threshold;

	if (family < 0)
		return false;
	if (scenario_is(scenario, "keep"))
		return neighbor->config.families[family].keep = true;
	for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
		neighbor->config.families[family].requested[i] = true;
		neighbor->config.families[family].chosen[i] = true;
		neighbor->config.families[family].reason[i] = REASON_CONFIGURED;
	}
	return scenario_number(scenario, &threshold[0]) &&
	       scenario_number(scenario, &threshold[1]) && scenario_number(scenario, &threshold[2]);
}

static const struct scenario_word config[] = {
	WORD_CONST("lower", struct neighbor, config.lower, true),
	WORD_CONST("grow", struct neighbor, config.grow, true),
	WORD_NUMBER("ceiling", struct neighbor, config.ceiling),
	WORD_CALL(NULL, parse_family_config),
};

/* A fresh node of 16 GiB. */
static void begin(void *self)
{
	struct neighbor *neighbor = self;

	neighbor->memory_bytes = UINT64_C(16) << 30;
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		neighbor->tables[family] = (struct neighbor_table_seen){
			.threshold = {"128", "512", "1024"}, .exact = true};
		memcpy(neighbor->config.families[family].threshold,
			(uint64_t[]){80000, 90000, 100000}, 3 * sizeof(uint64_t));
		for (int i = 0; i < NEIGHBOR_LEVELS; i++)
			neighbor->config.families[family].reason[i] = REASON_DEFAULT;
	}
}

const struct scenario_tuner neighbor_scenario = {
	.ops = &neighbor_tuner,
	.size = sizeof(struct neighbor),
	.at = at,
	.config = config,
	.open = begin,
};
