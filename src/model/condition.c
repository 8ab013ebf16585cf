/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/condition.h>

#include "base/util.h"

static const struct {
	const char *name;
	enum severity severity;
	const char *sentence;
} condition_table[CONDITION_TYPES] = {
	[CONDITION_NEIGHBOR_TABLE_PRESSURE] = {"NeighborTablePressure", SEVERITY_WARNING,
		"A neighbour table is more than 80 % full; it stays so until it is below 70 %. "
		"Raise neighbor.ipv4 or neighbor.ipv6 gc_thresh3, or find who uses it."},
	[CONDITION_NEIGHBOR_TABLE_OVERFLOW] = {"NeighborTableOverflow", SEVERITY_CRITICAL,
		"The kernel refused neighbour entries within the last five minutes: packets to new "
		"addresses were dropped, for every network namespace. Raise gc_thresh3."},
	[CONDITION_TRANSPARENT_HUGE_PAGES_ACTIVE] = {"TransparentHugePagesActive", SEVERITY_WARNING,
		"Memory is backed by transparent huge pages although they should be off: what was "
		"mapped before the switch keeps them until its process ends or is restarted."},
	[CONDITION_SETTING_DRIFTED] = {"SettingDrifted", SEVERITY_WARNING,
		"Someone else changed a managed setting and it was left so, by on_drift or because "
		"they kept changing it. Find the other writer, then run headroom apply."},
	[CONDITION_SETTING_FAILED] = {"SettingFailed", SEVERITY_WARNING,
		"A setting could not be read, journaled or written. The message names the error "
		"and the cure; it is tried again every 15 seconds."},
	[CONDITION_CONFIG_INVALID] = {"ConfigInvalid", SEVERITY_WARNING,
		"The configuration on disk has a fault; the one loaded before it is still in use. "
		"The message says where; headroom check-config lists all faults."},
	[CONDITION_AGENT_DEGRADED] = {"AgentDegraded", SEVERITY_WARNING,
		"The node or the agent's own privileges lack something, and one feature is off for "
		"it. The message names it, the error and the cure."},
};

bool condition_observe(
	struct condition *condition, const struct condition_reading *reading, uint64_t realtime)
{
	bool changed = condition->since_us == 0 || condition->now.status != reading->status;

	condition->now = *reading;
	if (changed)
		condition->since_us = realtime;
	return changed;
}

const char *condition_name(enum condition_type type)
{
	return condition_table[type].name;
}

const char *condition_sentence(enum condition_type type)
{
	return condition_table[type].sentence;
}

enum severity condition_severity(enum condition_type type)
{
	return condition_table[type].severity;
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

bool condition_by_name(const char *name, enum condition_type *type)
{
	for (int i = 0; i < CONDITION_TYPES; i++) {
		if (!streq(name, condition_table[i].name))
			continue;
		*type = (enum condition_type)i;
		return true;
	}
	return false;
}
