/* SPDX-License-Identifier: Apache-2.0 */
#include "model/node.h"

#include "base/util.h"

struct setting *node_setting(const struct node *node, const char *name)
{
	for (size_t i = 0; i < node->n_settings; i++)
		if (streq(node->settings[i].name, name))
			return &node->settings[i];
	return NULL;
}

size_t node_would_change(const struct node *node)
{
	size_t n = 0;

	for (size_t i = 0; i < node->n_settings; i++) {
		const struct setting *setting = &node->settings[i];

		n += setting->mode != MODE_ENFORCE && setting->wanted[0] &&
		     setting->state == SETTING_OBSERVED && !setting_in_sync(setting);
	}
	return n;
}

struct limit *node_limit(const struct node *node, const char *name)
{
	for (size_t i = 0; i < node->n_limits; i++)
		if (streq(node->limits[i].now.name, name))
			return &node->limits[i];
	return NULL;
}

struct condition *node_condition(const struct node *node, const struct condition_type *type)
{
	for (size_t i = 0; i < node->n_conditions; i++)
		if (node->conditions[i].now.type == type)
			return &node->conditions[i];
	return NULL;
}

enum verdict condition_verdict(const struct condition *condition)
{
	static const enum verdict verdicts[] = {
		[SEVERITY_WARNING] = VERDICT_WARNING,
		[SEVERITY_CRITICAL] = VERDICT_CRITICAL,
		[SEVERITY_ADVICE] = VERDICT_OK,
	};

	return condition->now.status == CONDITION_TRUE ? verdicts[condition->now.type->severity]
						       : VERDICT_OK;
}

enum verdict node_verdict(const struct node *node)
{
	enum verdict worst = VERDICT_OK;

	for (size_t i = 0; i < node->n_conditions; i++)
		worst = MAX(worst, condition_verdict(&node->conditions[i]));
	return worst;
}

const char *const verdict_names[] = {
	[VERDICT_OK] = "ok",
	[VERDICT_WARNING] = "warning",
	[VERDICT_CRITICAL] = "critical",
};
