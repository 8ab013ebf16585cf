/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/kubelet/kubelet.h"

#define MAIN_FILE "/var/lib/kubelet/config.yaml"

static void fill_defaults(struct kubelet_values *values)
{
	for (int i = 0; i < KUBELET_FIELDS; i++)
		if (values->field[i].origin < KUBELET_FILE)
			copy_text(values->field[i].text, KUBELET_VALUE_MAX, kubelet_fields[i].def);
	if (values->field[KUBELET_SERIALIZE_IMAGE_PULLS].origin < KUBELET_FILE &&
		atoi(values->field[KUBELET_MAX_PARALLEL_IMAGE_PULLS].text) >= 2)
		strcpy(values->field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "false");
}

/* `[flag] FIELD VALUE`: the value of the main file or of a flag; "-" for none. */
static bool read_value(struct scenario *scenario, void *base)
{
	struct kubelet_seen *seen = &((struct kubelet *)base)->seen;
	struct kubelet_value value = {.origin = KUBELET_FILE, .file = MAIN_FILE, .line = 7};
	int field = 0;

	if (scenario_is(scenario, "flag"))
		value = (struct kubelet_value){.origin = KUBELET_FLAG};
	while (field < KUBELET_FIELDS && !scenario_is(scenario, kubelet_fields[field].name))
		field++;
	if (field == KUBELET_FIELDS)
		return false;
	if (scenario_is(scenario, "-"))
		value = (struct kubelet_value){0};
	else
		set_text(value.text, scenario_word(scenario));
	seen->values.field[field] = value;
	seen->others.field[field] = value;
	fill_defaults(&seen->values);
	fill_defaults(&seen->others);
	return true;
}

static bool read_own(struct scenario *scenario, void *base)
{
	struct kubelet_seen *seen = &((struct kubelet *)base)->seen;
	struct kubelet_value *value = &seen->values.field[KUBELET_SERIALIZE_IMAGE_PULLS];

	seen->own = scenario_is(scenario, "written") ? KUBELET_OWN_WRITTEN
		    : scenario_is(scenario, "other") ? KUBELET_OWN_OTHER
						     : KUBELET_OWN_MISSING;
	*value = seen->others.field[KUBELET_SERIALIZE_IMAGE_PULLS];
	if (seen->own == KUBELET_OWN_WRITTEN)
		*value = (struct kubelet_value){.origin = KUBELET_FILE, .text = "false"};
	fill_defaults(&seen->values);
	fill_defaults(&seen->others);
	return seen->own != KUBELET_OWN_MISSING || scenario_is(scenario, "missing");
}

static bool read_running(struct scenario *scenario, void *base)
{
	struct kubelet_seen *seen = &((struct kubelet *)base)->seen;

	seen->values_run = scenario_is(scenario, "values");
	seen->others_run = !seen->values_run && scenario_is(scenario, "others");
	return seen->values_run || seen->others_run || scenario_is(scenario, "unknown");
}

/* `broken WHY`: the kubelet would not start with its main file. */
static bool read_broken(struct scenario *scenario, void *base)
{
	struct kubelet_seen *seen = &((struct kubelet *)base)->seen;

	set_text(seen->bad.path, MAIN_FILE);
	if (!scenario_value(scenario, seen->why, sizeof(seen->why)))
		return false;
	seen->error = seen->why[0] ? -EBADMSG : 0;
	return true;
}

static const struct scenario_word at[] = {
	WORD_CONST("kubelet absent", struct kubelet, seen.presence, KUBELET_ABSENT),
	WORD_CONST("kubelet stopped", struct kubelet, seen.presence, KUBELET_STOPPED),
	WORD_CONST("kubelet running", struct kubelet, seen.presence, KUBELET_RUNNING),
	WORD_TEXT("dir", struct kubelet, seen.config_dir),
	WORD_CALL("own", read_own),
	WORD_CALL("runs", read_running),
	WORD_CALL("broken", read_broken),
	WORD_TEXT("unreadable", struct kubelet, seen.why),
	WORD_CONST("overridden", struct kubelet, seen.overridden, true),
	WORD_CALL(NULL, read_value),
};

static const struct scenario_word config[] = {
	WORD_CONST("manage", struct kubelet, manage, true), {0}};

static void begin(void *self)
{
	struct kubelet_seen *seen = &((struct kubelet *)self)->seen;

	set_text(seen->config, MAIN_FILE);
	fill_defaults(&seen->values);
	fill_defaults(&seen->others);
}

const struct scenario_tuner kubelet_scenario = {
	.ops = &kubelet_tuner,
	.size = sizeof(struct kubelet),
	.at = at,
	.config = config,
	.open = begin,
};
