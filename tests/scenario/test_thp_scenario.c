/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/thp/thp.h"

#include <errno.h>

struct replay {
	struct thp_seen seen;
	struct thp_config config;
};

static bool take_kind(struct scenario *scenario, enum thp_switch_kind *kind)
{
	static const char *const names[THP_SWITCH_KINDS] = {
		[THP_ENABLED] = "enabled",
		[THP_DEFRAG] = "defrag",
		[THP_SHMEM_ENABLED] = "shmem",
		[THP_KHUGEPAGED_DEFRAG] = "khugepaged_defrag",
		[THP_SIZE_ENABLED] = "sizes",
		[THP_SIZE_SHMEM_ENABLED] = "shmem_sizes",
	};

	for (int i = 0; i < THP_SWITCH_KINDS; i++) {
		if (!scenario_is(scenario, names[i]))
			continue;
		*kind = (enum thp_switch_kind)i;
		return true;
	}
	return false;
}

static bool take_actual(struct scenario *scenario, struct thp_switch *s)
{
	s->error = scenario_is(scenario, "missing") ? -ENOENT : 0;
	return s->error < 0 || scenario_value(scenario, s->actual, sizeof(s->actual));
}

static bool change_switch(struct scenario *scenario, struct thp_seen *seen)
{
	for (unsigned i = 0; i < seen->n_switches; i++)
		if (scenario_is(scenario, seen->switches[i].name))
			return take_actual(scenario, &seen->switches[i]);
	return false;
}

static bool take_part(struct scenario *scenario, struct thp_seen *seen)
{
	if (scenario_is(scenario, "anon"))
		return scenario_number(scenario, &seen->usage.anon);
	if (scenario_is(scenario, "shmem"))
		return scenario_number(scenario, &seen->usage.shmem);
	if (scenario_is(scenario, "file"))
		return scenario_number(scenario, &seen->usage.file);
	if (scenario_is(scenario, "switch"))
		return change_switch(scenario, seen);
	if (!scenario_is(scenario, "meminfo"))
		return false;
	seen->usage_error = scenario_is(scenario, "missing") ? -ENOENT : 0;
	return seen->usage_error < 0 || scenario_is(scenario, "ok");
}

static bool at(struct scenario *scenario, void *self)
{
	struct replay *replay = self;

	while (scenario->next < scenario->n_words)
		if (!take_part(scenario, &replay->seen))
			return false;
	return true;
}

static bool add_switch(struct scenario *scenario, struct thp_seen *seen)
{
	struct thp_switch *added = &seen->switches[seen->n_switches];

	if (seen->n_switches++ == THP_SWITCHES_MAX || !take_kind(scenario, &added->kind))
		return false;
	return scenario_value(scenario, added->name, sizeof(added->name)) &&
	       take_actual(scenario, added);
}

static bool line(struct scenario *scenario, void *self)
{
	struct replay *replay = self;
	enum thp_switch_kind kind;

	if (scenario_is(scenario, "switch"))
		return add_switch(scenario, &replay->seen);
	if (scenario_is(scenario, "boot-line")) {
		thp_parse_boot_line(scenario_word(scenario), &replay->seen);
		return true;
	}
	return scenario_is(scenario, "config") && take_kind(scenario, &kind) &&
	       scenario_value(
		       scenario, replay->config.wanted[kind], sizeof(replay->config.wanted[kind]));
}

static int decide(void *self, const struct decide_input *input, struct proposal *proposal)
{
	struct replay *replay = self;

	(void)input;
	return thp_decide(&replay->seen, &replay->config, proposal);
}

int main(int argc, char **argv)
{
	static const struct scenario_tuner tuner = {at, line, decide};
	struct replay replay = {
		.config.wanted = {"never", "never", "never", "0", "never", "never"}};

	return scenario_main(argc, argv, &tuner, &replay);
}
