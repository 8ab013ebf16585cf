/* SPDX-License-Identifier: Apache-2.0 */
#include "model/node.h"

#include "base/util.h"

struct setting *node_setting(const struct node *node, const char *name)
{
	for (size_t i = 0; i < node->n_settings; i++)
		if (streq(node->settings[i].want.name, name))
			return &node->settings[i];
	return NULL;
}

struct limit *node_limit(const struct node *node, const char *name)
{
	for (size_t i = 0; i < node->n_limits; i++)
		if (streq(node->limits[i].now.name, name))
			return &node->limits[i];
	return NULL;
}

enum verdict node_verdict(const struct node *node)
{
	enum verdict worst = VERDICT_OK;

	for (int i = 0; i < CONDITION_TYPES; i++) {
		bool critical = condition_severity((enum condition_type)i) == SEVERITY_CRITICAL;

		if (node->conditions[i].now.status == CONDITION_TRUE)
			worst = MAX(worst, critical ? VERDICT_CRITICAL : VERDICT_WARNING);
	}
	return worst;
}

const char *verdict_name(enum verdict verdict)
{
	static const char *const names[] = {
		[VERDICT_OK] = "ok",
		[VERDICT_WARNING] = "warning",
		[VERDICT_CRITICAL] = "critical",
	};

	return names[verdict];
}
