/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/kubelet/kubelet.h"

#include <errno.h>

#define MAIN_FILE "/var/lib/kubelet/config.yaml"

struct replay {
	struct kubelet_seen seen; /* values without their defaults */
	struct kubelet_config config;
};

static bool take_presence(struct scenario *scenario, struct kubelet_seen *seen)
{
	static const char *const words[] = {"absent", "stopped", "running"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!scenario_is(scenario, words[i]))
			continue;
		seen->presence = (enum kubelet_presence)i;
		copy_text(seen->config, sizeof(seen->config), i > 0 ? MAIN_FILE : "");
		return true;
	}
	return false;
}

/* What the main file or a flag says; "-" for nothing. */
static bool take_value(struct scenario *scenario, struct kubelet_seen *seen)
{
	struct kubelet_value value = {.origin = KUBELET_FILE, .file = MAIN_FILE, .line = 7};
	int field = 0;

	if (scenario_is(scenario, "flag"))
		value = (struct kubelet_value){.origin = KUBELET_FLAG};
	while (field < KUBELET_FIELDS &&
		!scenario_is(scenario, kubelet_field_name((enum kubelet_field)field)))
		field++;
	if (field == KUBELET_FIELDS)
		return false;
	if (scenario_is(scenario, "-"))
		value = (struct kubelet_value){0};
	else if (!kubelet_take(&value, (enum kubelet_field)field, scenario_word(scenario)))
		return false;
	seen->values.field[field] = value;
	seen->others.field[field] = value;
	return true;
}

static bool take_own(struct scenario *scenario, struct kubelet_seen *seen)
{
	struct kubelet_value *value = &seen->values.field[KUBELET_SERIALIZE_IMAGE_PULLS];

	seen->own = scenario_is(scenario, "written") ? KUBELET_OWN_WRITTEN
		    : scenario_is(scenario, "other") ? KUBELET_OWN_OTHER
						     : KUBELET_OWN_MISSING;
	*value = seen->others.field[KUBELET_SERIALIZE_IMAGE_PULLS];
	if (seen->own == KUBELET_OWN_WRITTEN)
		*value = (struct kubelet_value){.origin = KUBELET_FILE, .text = "false"};
	return seen->own != KUBELET_OWN_MISSING || scenario_is(scenario, "missing");
}

static bool take_running(struct scenario *scenario, struct kubelet_seen *seen)
{
	seen->values_run = scenario_is(scenario, "values");
	seen->others_run = !seen->values_run && scenario_is(scenario, "others");
	return seen->values_run || seen->others_run || scenario_is(scenario, "unknown");
}

static bool take_part(struct scenario *scenario, struct kubelet_seen *seen)
{
	if (scenario_is(scenario, "kubelet"))
		return take_presence(scenario, seen);
	if (scenario_is(scenario, "dir"))
		return scenario_value(scenario, seen->config_dir, sizeof(seen->config_dir));
	if (scenario_is(scenario, "own"))
		return take_own(scenario, seen);
	if (scenario_is(scenario, "runs"))
		return take_running(scenario, seen);
	if (scenario_is(scenario, "broken"))
		return scenario_value(scenario, seen->why, sizeof(seen->why));
	if (scenario_is(scenario, "overridden"))
		return seen->overridden = true;
	return take_value(scenario, seen);
}

static bool at(struct scenario *scenario, void *self)
{
	struct replay *replay = self;

	while (scenario->next < scenario->n_words)
		if (!take_part(scenario, &replay->seen))
			return false;
	return true;
}

static bool line(struct scenario *scenario, void *self)
{
	struct replay *replay = self;

	return scenario_is(scenario, "config") &&
	       (replay->config.manage = scenario_is(scenario, "manage"));
}

static int decide(void *self, const struct decide_input *input, struct proposal *proposal)
{
	struct replay *replay = self;
	struct kubelet_seen seen = replay->seen;

	(void)input;
	kubelet_fill_defaults(&seen.values, false);
	kubelet_fill_defaults(&seen.others, false);
	return kubelet_decide(&seen, &replay->config, proposal);
}

int main(int argc, char **argv)
{
	static const struct scenario_tuner tuner = {at, line, decide};
	struct replay replay = {0};

	return scenario_main(argc, argv, &tuner, &replay);
}
