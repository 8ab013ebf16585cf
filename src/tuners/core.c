/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"

/*
 * Tables of the agent itself: its conditions, the reasons and words common to all tuners, and the
 * metrics of every limit, setting and condition.
 */

static const struct reason drift_reasons[] = {
	{"all-in-sync", "No managed setting differs because of someone else's change."},
	{0},
};

static const struct reason failed_reasons[] = {
	{"none-failed", "Every managed setting could be read and written."},
	{0},
};

static const struct reason config_reasons[] = {
	{"config-valid", "The configuration on disk is the one in use."},
	{"config-fault",
		"The configuration on disk has a fault. The last good one is in use, also after a "
		"restart or a reboot."},
	{0},
};

static const struct reason agent_reasons[] = {
	{"all-active", "Every enabled tuner is fully active."},
	{"tuner-degraded", "This node lacks something that a tuner needs."},
	{"values-unrecorded",
		"Originals of kernel values cannot be recorded in /run/headroom, so values are "
		"only observed."},
	{"journal-unusable", "The journal of original files cannot be read or written."},
	{0},
};

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

static const struct reason reasons[] = {
	{"in-sync", "The value read from the node is the wanted one."},
	{"configured", "The configuration or its defaults ask for this value."},
	{"profile", "The chosen profile asks for this value."},
	{"administrator-higher",
		"The administrator's value is higher than the configured one and is kept: values "
		"are only raised, unless the configuration says lower: true or exact: true."},
	{"kept", "The configuration says keep: the value is read and never written."},
	{"observe-mode", "The mode is observe: nothing is written."},
	{"restored",
		"headroom restore restored the original. Nothing is written until headroom apply."},
	{"not-restored",
		"headroom restore could not restore the original, which is still recorded. Run "
		"headroom restore again once the cause is gone."},
	{"drift", "Someone else changed the value. on_drift: enforce sets it again."},
	{"left-by-on-drift", "Someone else changed the value, and on_drift leaves it changed."},
	{"rewritten-too-often",
		"Someone else changed the value more than 5 times within a day, so it is no longer "
		"set. headroom apply, a reload or a restart tries again."},
	{"restarted-too-often",
		"The agent restarts a program at most 3 times within an hour and 5 times within a "
		"day, for whatever reason, and keeps the last of them for a roll-back or restore. A value that someone else keeps changing is no "
		"longer set; another one waits until a restart is allowed again. headroom apply "
		"does not lift this bound: find the other writer, or restart the program by hand.",
		.unmet = true},
	{"not-in-this-kernel", "The running kernel has no such setting."},
	{"unreadable", "The value could not be read."},
	{"not-recorded",
		"The original could not be recorded, so nothing was written. Free space in "
		"/run/headroom (kernel values) or /var/lib/headroom (files), or make it writable.",
		.unmet = true},
	{"write-refused", "The kernel refused the write."},
	{"not-taken",
		"The kernel accepted the write, but another value was read back: it rounds or "
		"limits the value."},
	{"restart-pending",
		"The file has the wanted value, which takes effect when the program restarts. "
		"runtime.restart says whether the agent restarts it."},
	{"reload-pending",
		"The file has the wanted value. The program was asked to reload it and has not "
		"confirmed that it did."},
	{"restart-refused",
		"The file has the wanted value, but the program was not restarted: systemd did not "
		"answer, the journal could not be written, or the restart would stop other units "
		"too. The log has the cause.",
		.unmet = true},
	{"no-systemd",
		"The file has the wanted value, but systemd cannot be reached to restart the "
		"program. Restart it by hand."},
	{"does-not-load",
		"The program rejects its configuration on disk, so it is not restarted. The "
		"message has the fault."},
	{"no-effect",
		"The program was restarted but does not use the value. The agent does not restart "
		"it again for this value. Find out which file it reads, then run headroom apply."},
	{"verify-refused",
		"The program or a check rejected the new file, so the file was not changed."},
	{"did-not-come-back",
		"The program did not answer after its restart, so the previous file was restored. "
		"The agent tries this value again only after headroom apply."},
	{"original", "The value found before the first write is restored."},
	{"original-at-next-start",
		"The original is in the file again and takes effect at the program's next start. "
		"Until then the program keeps the value it has: runtime.restart says whether it is "
		"restarted."},
	{"changed-since",
		"Someone else changed the value since it was last written, so it is left alone."},
	{"file-changed-since",
		"Someone else changed the file since, so only this value is restored in it."},
	{"sample-overdue",
		"A sample has not ended for 30 seconds, so its settings and conditions are "
		"unknown: a file system or a program that it reads hangs. Other tuners, apply and "
		"restore do not wait for archives of images that hang.",
		.unmet = true},
	{"within-limit", "The use is below the limit."},
	{"tuner-off", "The tuner that checks this is off."},
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
	.reasons = reasons,
	.metric_rows = metric_rows,
};
