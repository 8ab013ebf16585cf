/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/condition.h>

bool condition_observe(
	struct condition *condition, const struct condition_reading *reading, uint64_t realtime)
{
	bool changed = condition->since_us == 0 || condition->now.status != reading->status;

	condition->now = *reading;
	if (changed)
		condition->since_us = realtime;
	return changed;
}

const char *condition_status_name(enum condition_status status)
{
	static const char *const names[] = {
		[CONDITION_FALSE] = "False",
		[CONDITION_TRUE] = "True",
		[CONDITION_UNKNOWN] = "Unknown",
	};

	return names[status];
}

const char *severity_name(enum severity severity)
{
	static const char *const names[] = {
		[SEVERITY_WARNING] = "warning",
		[SEVERITY_CRITICAL] = "critical",
		[SEVERITY_ADVICE] = "advice",
	};

	return names[severity];
}
