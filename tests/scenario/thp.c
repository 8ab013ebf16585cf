/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/thp/thp.h"

#include <errno.h>

struct replay {
	struct thp_seen seen;
	struct thp_config config;
};

static const char *const kinds[THP_SWITCH_KINDS] = {
	[THP_ENABLED] = "enabled",
	[THP_DEFRAG] = "defrag",
	[THP_SHMEM_ENABLED] = "shmem",
	[THP_KHUGEPAGED_DEFRAG] = "khugepaged_defrag",
	[THP_SIZE_ENABLED] = "sizes",
	[THP_SIZE_SHMEM_ENABLED] = "shmem_sizes",
};

/* THP_SWITCH_KINDS for an unknown word. */
static enum thp_switch_kind take_kind(struct scenario *scenario)
{
	int kind = 0;

	while (kind < THP_SWITCH_KINDS && !scenario_is(scenario, kinds[kind]))
		kind++;
	return (enum thp_switch_kind)kind;
}

static bool take_actual(struct scenario *scenario, struct thp_switch *s)
{
	s->error = scenario_is(scenario, "missing") ? -ENOENT : 0;
	return s->error < 0 || scenario_value(scenario, s->actual, sizeof(s->actual));
}

static bool change_switch(struct scenario *scenario, void *base)
{
	struct replay *replay = base;

	for (unsigned i = 0; i < replay->seen.n_switches; i++)
		if (scenario_is(scenario, replay->seen.switches[i].name))
			return take_actual(scenario, &replay->seen.switches[i]);
	return false;
}

static bool take_meminfo(struct scenario *scenario, void *base)
{
	struct replay *replay = base;

	replay->seen.usage_error = scenario_is(scenario, "missing") ? -ENOENT : 0;
	return replay->seen.usage_error < 0 || scenario_is(scenario, "ok");
}

static const struct scenario_word at[] = {
	WORD_NUMBER("anon", struct replay, seen.usage.anon),
	WORD_NUMBER("shmem", struct replay, seen.usage.shmem),
	WORD_NUMBER("file", struct replay, seen.usage.file),
	WORD_CALL("switch", change_switch),
	WORD_CALL("meminfo", take_meminfo),
	{0},
};

static bool add_switch(struct scenario *scenario, void *base)
{
	struct thp_seen *seen = &((struct replay *)base)->seen;
	struct thp_switch *added = &seen->switches[seen->n_switches];

	if (seen->n_switches++ == THP_SWITCHES_MAX)
		return false;
	added->kind = take_kind(scenario);
	return added->kind < THP_SWITCH_KINDS &&
	       scenario_value(scenario, added->name, sizeof(added->name)) &&
	       take_actual(scenario, added);
}

static bool take_boot_line(struct scenario *scenario, void *base)
{
	thp_parse_boot_line(scenario_word(scenario), &((struct replay *)base)->seen);
	return true;
}

static bool take_config(struct scenario *scenario, void *base)
{
	struct replay *replay = base;
	enum thp_switch_kind kind = take_kind(scenario);

	return kind < THP_SWITCH_KINDS && scenario_value(scenario, replay->config.wanted[kind],
						  sizeof(replay->config.wanted[kind]));
}

static const struct scenario_word config[] = {WORD_CALL(NULL, take_config)};
static const struct scenario_word line[] = {
	WORD_CALL("switch", add_switch),
	WORD_CALL("boot-line", take_boot_line),
	{0},
};

static void begin(void *self)
{
	struct replay *replay = self;

	replay->config = (struct thp_config){{"never", "never", "never", "0", "never", "never"}};
}

static int decide(void *self, const struct decide_input *input, struct proposal *proposal)
{
	struct replay *replay = self;

	(void)input;
	return thp_decide(&replay->seen, &replay->config, proposal);
}

const struct scenario_tuner thp_scenario = {
	.name = "thp",
	.size = sizeof(struct replay),
	.at = at,
	.line = line,
	.config = config,
	.open = begin,
	.decide = decide,
};
