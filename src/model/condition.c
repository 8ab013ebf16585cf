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
	[CONDITION_DNS_BUDGET_PRESSURE] = {"DNSBudgetPressure", SEVERITY_WARNING,
		"The busiest second of the last minute used more than 80 % of what the resolver "
		"allows this machine. headroom top dns names who asks; a node-local cache, fewer "
		"search domains (ndots) or fewer forwarders on this node are the cures."},
	[CONDITION_DNS_BUDGET_EXCEEDED] = {"DNSBudgetExceeded", SEVERITY_CRITICAL,
		"More was asked of a resolver within one second than it allows this machine: it "
		"drops the rest without a word. Spread the forwarders over more nodes, or cache."},
	[CONDITION_DNS_UNANSWERED] = {"DNSUnanswered", SEVERITY_WARNING,
		"Part of the queries to a resolver got no answer in time. It is down, unreachable, "
		"or drops what is over its budget."},
	[CONDITION_DNS_FORWARDER_CROWDING] = {"DNSForwarderCrowding", SEVERITY_WARNING,
		"Several DNS servers on this node forward to the same upstream and share its budget "
		"for one machine. Spread them: a topology spread constraint or anti-affinity."},
	[CONDITION_RUNTIME_UNREACHABLE] = {"RuntimeUnreachable", SEVERITY_WARNING,
		"A container runtime is installed and does not answer. Its settings are not checked, "
		"and pods and containers appear under their ids."},
	[CONDITION_RUNTIME_RESTART_PENDING] = {"RuntimeRestartPending", SEVERITY_WARNING,
		"A setting is in the runtime's configuration and takes effect at its next start. "
		"Restart it, or let headroom do so: runtime.restart."},
	[CONDITION_IMAGE_STORE_FULL] = {"ImageStoreFull", SEVERITY_WARNING,
		"The file system that holds the images is nearly full: pulls will fail, and the "
		"kubelet deletes images, preloaded ones too."},
	[CONDITION_PULL_STUCK] = {"PullStuck", SEVERITY_WARNING,
		"A layer that is being fetched made no progress for a minute. The message names it, "
		"where it comes from, and what waits behind it."},
	[CONDITION_KUBELET_SERIAL_PULLS] = {"KubeletSerialPulls", SEVERITY_WARNING,
		"The kubelet pulls one image at a time, or very few: one large image holds up all "
		"others. Set serializeImagePulls: false and maxParallelImagePulls in its "
		"configuration."},
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
