/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/sysctl/sysctl.h"

#define KEYS_MAX 8

static void begin(void *self)
{
	static struct sysctl_key keys[KEYS_MAX];

	((struct sysctl *)self)->keys = keys;
}

static bool parse_actual(struct scenario *scenario, void *base)
{
	struct sysctl *sysctl = base;

	for (size_t i = 0; i < sysctl->n; i++) {
		struct sysctl_key *key = &sysctl->keys[i];

		if (!scenario_is(scenario, key->want.name))
			continue;
		key->want.error = scenario_is(scenario, "missing") ? -ENOENT : 0;
		return key->want.error < 0 ||
		       scenario_value(scenario, key->want.actual, sizeof(key->want.actual));
	}
	return false;
}

static bool parse_key(struct scenario *scenario, void *base)
{
	struct sysctl *sysctl = base;
	struct sysctl_key *key = &sysctl->keys[sysctl->n];

	if (sysctl->n++ == KEYS_MAX ||
		!scenario_value(scenario, key->want.name, sizeof(key->want.name)) ||
		!scenario_value(scenario, key->want.wanted, sizeof(key->want.wanted)))
		return false;
	key->exact = scenario_is(scenario, "exact");
	key->want.requested = !scenario_is(scenario, "profile");
	key->want.reason = key->want.requested ? REASON_CONFIGURED : REASON_PROFILE;
	key->configured = key->want.requested;
	return true;
}

static const struct scenario_word at[] = {WORD_CALL(NULL, parse_actual)};
static const struct scenario_word line[] = {WORD_CALL("key", parse_key), {0}};

const struct scenario_tuner sysctl_scenario = {
	.ops = &sysctl_tuner,
	.size = sizeof(struct sysctl),
	.at = at,
	.line = line,
	.open = begin,
};
