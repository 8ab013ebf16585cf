/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/thp/thp.h"

static const char *const kinds[THP_SWITCH_KINDS] = {
	[THP_ENABLED] = "enabled",
	[THP_DEFRAG] = "defrag",
	[THP_SHMEM_ENABLED] = "shmem",
	[THP_KHUGEPAGED_DEFRAG] = "khugepaged_defrag",
	[THP_SIZE_ENABLED] = "sizes",
	[THP_SIZE_SHMEM_ENABLED] = "shmem_sizes",
};

/* THP_SWITCH_KINDS for an unknown word. */
static enum thp_switch_kind parse_kind(struct scenario *scenario)
{
	int kind = 0;

	while (kind < THP_SWITCH_KINDS && !scenario_is(scenario, kinds[kind]))
		kind++;
	return (enum thp_switch_kind)kind;
}

static bool parse_actual(struct scenario *scenario, struct thp_switch *s)
{
	s->want.error = scenario_is(scenario, "missing") ? -ENOENT : 0;
	return s->want.error < 0 ||
	       scenario_value(scenario, s->want.actual, sizeof(s->want.actual));
}

static bool change_switch(struct scenario *scenario, void *base)
{
	struct thp *thp = base;

	for (unsigned i = 0; i < thp->n_switches; i++)
		if (scenario_is(scenario, thp->switches[i].want.name))
			return parse_actual(scenario, &thp->switches[i]);
	return false;
}

static const struct scenario_word at[] = {
	WORD_NUMBER("anon", struct thp, usage.anon),
	WORD_NUMBER("shmem", struct thp, usage.shmem),
	WORD_NUMBER("file", struct thp, usage.file),
	WORD_CALL("switch", change_switch),
	WORD_CALL("mode", scenario_mode),
	WORD_CONST("meminfo missing", struct thp, usage_error, -ENOENT),
	WORD_CONST("meminfo ok", struct thp, usage_error, 0),
	{0},
};

static bool add_switch(struct scenario *scenario, void *base)
{
	struct thp *thp = base;
	struct thp_switch *added = &thp->switches[thp->n_switches];

	if (thp->n_switches++ == THP_SWITCHES_MAX)
		return false;
	added->kind = parse_kind(scenario);
	return added->kind < THP_SWITCH_KINDS &&
	       scenario_value(scenario, added->want.name, sizeof(added->want.name)) &&
	       parse_actual(scenario, added);
}

/* `boot-line TEXT KIND...`: the parameters and the switches that they set. */
static bool parse_boot_line(struct scenario *scenario, void *base)
{
	struct thp *thp = base;
	enum thp_switch_kind kind;

	if (!scenario_value(scenario, thp->boot_line, sizeof(thp->boot_line)))
		return false;
	while ((kind = parse_kind(scenario)) < THP_SWITCH_KINDS)
		thp->at_boot[kind] = true;
	return true;
}

static bool parse_config(struct scenario *scenario, void *base)
{
	struct thp *thp = base;
	enum thp_switch_kind kind = parse_kind(scenario);

	if (kind == THP_SWITCH_KINDS)
		return false;
	thp->requested[kind] = thp->chosen[kind] = true;
	thp->reason[kind] = REASON_CONFIGURED;
	return scenario_value(scenario, thp->wanted[kind], sizeof(thp->wanted[kind]));
}

static const struct scenario_word config[] = {WORD_CALL(NULL, parse_config)};
static const struct scenario_word line[] = {
	WORD_CALL("switch", add_switch),
	WORD_CALL("boot-line", parse_boot_line),
	{0},
};

static void begin(void *self)
{
	static const char wanted[THP_SWITCH_KINDS][16] = {
		"never", "never", "never", "0", "never", "never"};

	static struct names names;
	struct thp *thp = self;

	memcpy(thp->wanted, wanted, sizeof(wanted));
	thp->names = &names;
	for (int kind = 0; kind < THP_SWITCH_KINDS; kind++)
		thp->reason[kind] = REASON_DEFAULT;
}

const struct scenario_tuner thp_scenario = {
	.ops = &thp_tuner,
	.size = sizeof(struct thp),
	.at = at,
	.line = line,
	.config = config,
	.open = begin,
};
