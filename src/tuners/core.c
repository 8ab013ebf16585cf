/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"

/*
 * Tables of the agent itself: its conditions, the reasons and words common to all tuners, and the
 * metrics of every limit, setting and condition.
 */

static const enum reason drift_reasons[] = {REASON_ALL_IN_SYNC, 0};

static const enum reason failed_reasons[] = {REASON_NONE_FAILED, 0};

static const enum reason config_reasons[] = {REASON_CONFIG_VALID, REASON_CONFIG_FAULT, 0};

static const enum reason agent_reasons[] = {REASON_ALL_ACTIVE, REASON_TUNER_DEGRADED,
	REASON_VALUES_UNRECORDED, REASON_JOURNAL_UNUSABLE, 0};

static const struct condition_type conditions[] = {
	[CORE_SETTING_DRIFTED] = {"SettingDrifted", SEVERITY_WARNING,
		"Someone else changed a managed setting, and it was not set again: on_drift says "
		"so, or they kept changing it. Find the other writer, then run headroom apply.",
		drift_reasons, .now = "find the other writer, then headroom apply",
		.is_recorded = true},
	[CORE_SETTING_FAILED] = {"SettingFailed", SEVERITY_WARNING,
		"A setting could not be read, recorded or written. The message names the error "
		"and the cure. The agent tries again every 15 seconds.",
		failed_reasons,
		.now = "remove the cause that the message names, then headroom apply"},
	[CORE_CONFIG_INVALID] = {"ConfigInvalid", SEVERITY_WARNING,
		"The configuration on disk has a fault, so the last good one stays in use. The "
		"message names the position; headroom check-config lists all faults.",
		config_reasons, .now = "headroom check-config"},
	[CORE_AGENT_DEGRADED] = {"AgentDegraded", SEVERITY_WARNING,
		"A feature is off because the node or the agent's privileges lack something. The "
		"message names it, the error and the cure.",
		agent_reasons, .now = "headroom version: it lists what each tuner lacks"},
	{0},
};

/* Words other than reasons that status prints. */
#define STATE(name, kind, what) {name, kind, what, .source = "headroom(8)"}

static const struct explanation explanations[] = {
	STATE("enforce", "mode", "The tuner reads the node and sets the configured values."),
	STATE("observe", "mode",
		"The tuner reads the node and sets nothing. plan and status show the changes it "
		"would make."),
	STATE("off", "mode", "The configuration has switched the tuner off."),
	STATE("released", "mode",
		"headroom restore restored the originals. The tuner only observes until headroom "
		"apply, even after a restart or a change of the configuration."),
	STATE("active", "state of a tuner", "All features of the tuner work."),
	STATE("degraded", "state of a tuner",
		"This node lacks something that the tuner needs; the text beside it has the cure."),
	STATE("pending", "state of a setting",
		"The wanted value is not in force yet: it is about to be written, or a program has "
		"to restart or reload first."),
	STATE("drifted", "state of a setting",
		"Someone else changed it, and on_drift leaves it changed."),
	STATE("yielded", "state of a setting",
		"Someone else kept changing it, so it is no longer set."),
	STATE("failed", "state of a setting",
		"It could not be read, recorded or written; the text beside it has the error."),
	STATE("unsupported", "state of a setting", "This kernel or program lacks the setting."),
	STATE("observed", "state of a setting", "It is read and never written."),
	STATE("ok", "verdict", "No condition is True, except advice."),
	STATE("warning", "verdict",
		"A condition is True that slows the node down or will become a fault."),
	STATE("critical", "verdict", "A condition is True that makes workloads fail now."),
	STATE("advice", "severity",
		"An improvement that the administrator can make; the verdict stays ok."),
	STATE("OK", "status of a condition", "Nothing is wrong. JSON says False."),
	STATE("True", "status of a condition",
		"There is a problem. The text output prints its severity instead."),
	STATE("False", "status of a condition",
		"Nothing is wrong. The text output prints OK instead."),
	STATE("Unknown", "status of a condition",
		"The agent cannot tell whether there is a problem; the reason says why."),
	STATE("headroom", "column", "The unused share of a limit, 0 to 1."),
	STATE("peak", "column",
		"The largest use of a limit since boot, as far as an agent was running."),
	STATE("queue", "column", "The workload's share of the time in the disk's queue."),
	STATE("syncs/s", "column", "Calls of fsync and similar in a second."),
	STATE("worst", "column", "The longest sync of the last minute."),
	STATE("written", "column", "Bytes written to the disk in a second."),
	STATE("full?in", "column", "The time until a limit is full at its recent growth."),
	STATE("not?applicable", "status of a condition",
		"What this node lacks, such as a kubelet or a cloud's budget, so that the condition "
		"has nothing to check."),
	STATE("would?change", "column", "How many settings apply would change: see plan."),
	STATE("idle", "column", "Rows without a problem and with little use."),
	STATE("hits", "column", "How often a limit was reached since boot, if that is counted."),
	STATE("workload", "column", "A user of a limit or disk, with its kind before its name."),
	STATE("device", "column", "The disk, or the kind of file system without one."),
	STATE("kind", "column",
		"Whether the disk is local, a network disk, a loop device or rotates."),
	STATE("pod", "kind of workload",
		"A pod of Kubernetes, or its uid until the runtime names it."),
	STATE("container", "kind of workload", "A container that belongs to no pod."),
	STATE("unit", "kind of workload",
		"A unit of systemd, or a cgroup that is none of the others."),
	STATE("lxd", "kind of workload", "An LXD or Incus container."),
	STATE("netns", "kind of workload", "A network namespace whose owner is not known."),
	STATE("uid", "kind of workload", "A user, where the kernel counts by user."),
	STATE("host", "kind of workload", "The processes of the node that are no workload."),
	{0},
};

static const struct metric_row metric_rows[] = {
	{"headroom_build_info", METRIC_GAUGE, NULL,
		"The running agent: always 1, with its version and commit.", {"version", "commit"}},
	{"headroom_limit_info", METRIC_GAUGE, NULL,
		"A limit of this node: always 1, with the unit of its numbers.", {"limit", "unit"}},
	{"headroom_limit_used", METRIC_GAUGE, NULL, "Current use of the limit.", {"limit"}},
	{"headroom_limit_max", METRIC_GAUGE, NULL, "The limit itself.", {"limit"}},
	{"headroom_limit_peak", METRIC_GAUGE, NULL,
		"The largest use since boot, as far as an agent was running.", {"limit"}},
	{"headroom_limit_hits_total", METRIC_COUNTER, NULL,
		"How often the limit was reached since boot.", {"limit"}},
	{"headroom_limit_used_by_workload", METRIC_GAUGE, NULL,
		"Use of the limit by its largest users; all others are summed under kind other.",
		{"limit", "kind", "namespace", "name"}},
	{"headroom_setting_in_sync", METRIC_GAUGE, NULL,
		"1 while the setting has the wanted value.", {"setting"}},
	{"headroom_setting_drift_total", METRIC_COUNTER, NULL,
		"How often someone else changed the setting.", {"setting"}},
	{"headroom_condition", METRIC_GAUGE, NULL,
		"A condition of the node: the series of its status is 1. True is a problem.",
		{"condition", "status"}},
	{"headroom_condition_severity", METRIC_GAUGE, NULL,
		"0 while the condition is not True, else 1 (advice), 2 (warning) or 3 (critical).",
		{"condition"}},
	{"headroom_tuner_active", METRIC_GAUGE, NULL,
		"1 while the tuner is fully active, 0 while it is degraded or off.", {"tuner"}},
	{"headroom_tuner_mode", METRIC_GAUGE, NULL,
		"The series of the tuner's mode is 1: enforce, observe, off or released.",
		{"tuner", "mode"}},
	{"headroom_config_info", METRIC_GAUGE, NULL,
		"The configuration in use: always 1, with a checksum of all effective values.",
		{"hash"}},
	{"headroom_config_last_reload_successful", METRIC_GAUGE, NULL,
		"1 while the configuration on disk is the one in use, 0 while it has a fault.",
		{0}},
	{"headroom_config_last_reload_success_timestamp_seconds", METRIC_GAUGE, "seconds",
		"When the configuration in use was loaded, in seconds since the Unix epoch.", {0}},
	{"process_cpu_seconds_total", METRIC_COUNTER, "seconds",
		"Total user and system CPU time spent in seconds.", {0}},
	{"process_virtual_memory_bytes", METRIC_GAUGE, "bytes", "Virtual memory size in bytes.",
		{0}},
	{"process_resident_memory_bytes", METRIC_GAUGE, "bytes", "Resident memory size in bytes.",
		{0}},
	{"process_open_fds", METRIC_GAUGE, NULL, "Number of open file descriptors.", {0}},
	{"process_max_fds", METRIC_GAUGE, NULL, "Maximum number of open file descriptors.", {0}},
	{"process_start_time_seconds", METRIC_GAUGE, "seconds",
		"Start time of the process since unix epoch in seconds.", {0}},
	{0},
};

const struct tuner_tables core_tables = {
	.explanations = explanations,
	.conditions = conditions,
	.metric_rows = metric_rows,
};
