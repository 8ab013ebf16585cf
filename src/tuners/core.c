/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"

/*
 * What belongs to the agent and to no tuner of it: its conditions, the reasons that any tuner may
 * give, and the metrics of every limit, setting and condition.
 */

static const struct reason drift_reasons[] = {
	{"all-in-sync", "No managed setting was changed by someone else."},
	{0},
};

static const struct reason failed_reasons[] = {
	{"none-failed", "Every managed setting could be read and written."},
	{0},
};

static const struct reason config_reasons[] = {
	{"config-valid", "The configuration on disk is the one in use."},
	{"config-fault", "The configuration on disk has a fault; the previous one is in use."},
	{0},
};

static const struct reason agent_reasons[] = {
	{"all-active", "Every enabled tuner is fully active."},
	{"tuner-degraded", "A tuner lacks something on this node."},
	{"values-unrecorded",
		"Originals of kernel values could not be recorded in /run/headroom, so values are "
		"only observed."},
	{"journal-unusable", "The journal of original files could not be read or written."},
	{0},
};

static const struct condition_type conditions[] = {
	[CORE_SETTING_DRIFTED] = {"SettingDrifted", SEVERITY_WARNING,
		"Someone else changed a managed setting and it was left so, by on_drift or because "
		"they kept changing it. Find the other writer, then run headroom apply.",
		drift_reasons},
	[CORE_SETTING_FAILED] = {"SettingFailed", SEVERITY_WARNING,
		"A setting could not be read, journaled or written. The message names the error "
		"and the cure; it is tried again every 15 seconds.",
		failed_reasons},
	[CORE_CONFIG_INVALID] = {"ConfigInvalid", SEVERITY_WARNING,
		"The configuration on disk has a fault; the one loaded before it is still in use. "
		"The message says where; headroom check-config lists all faults.",
		config_reasons},
	[CORE_AGENT_DEGRADED] = {"AgentDegraded", SEVERITY_WARNING,
		"The node or the agent's own privileges lack something, and one feature is off for "
		"it. The message names it, the error and the cure.",
		agent_reasons},
	{0},
};

static const struct reason reasons[] = {
	{"in-sync", "The value read back from the node is the wanted one."},
	{"configured", "The configuration or its defaults ask for this value."},
	{"profile", "The chosen profile asks for this value."},
	{"administrator-higher",
		"The administrator's own value is higher than the configured one and is kept: "
		"values are only raised, unless the configuration says lower: true or exact: true."},
	{"kept", "The configuration says keep: the value is read and never written."},
	{"observe-mode", "The mode is observe: nothing is written."},
	{"restored",
		"headroom restore restored the original; nothing is written until headroom apply, "
		"whatever changes."},
	{"not-restored",
		"headroom restore could not restore the original. It is still recorded: run "
		"headroom restore again once the cause is gone."},
	{"drift", "Someone else changed the value; it is set again, as on_drift: enforce asks."},
	{"left-by-on-drift", "Someone else changed the value, and on_drift says to leave it."},
	{"rewritten-too-often",
		"Someone else rewrote the value each time it was set again, so it is left to them. "
		"headroom apply, a reload or a restart tries again."},
	{"not-in-this-kernel", "The running kernel has no such setting."},
	{"unreadable", "The value could not be read."},
	{"not-recorded",
		"The original could not be recorded, so nothing was written. Make room in, or give "
		"write access to, /run/headroom for kernel values, /var/lib/headroom for files."},
	{"write-refused", "The kernel refused the write."},
	{"not-taken",
		"The write succeeded but another value was read back: the kernel rounds or limits it."},
	{"restart-pending",
		"The file has the wanted value; the program takes it at its next start. "
		"runtime.restart says whether the agent restarts it."},
	{"reload-pending",
		"The file has the wanted value; the program was asked to read it, and has not "
		"confirmed that it did."},
	{"restart-refused",
		"The file has the wanted value, and the program was not restarted: systemd could "
		"not be asked, or the journal not be stored, or a restart would stop more than the "
		"program. The log says which."},
	{"no-systemd",
		"The file has the wanted value, and systemd, which would restart its program, cannot "
		"be reached. Restart the program by hand."},
	{"does-not-load",
		"The program does not accept its configuration as it is on disk, so it is not "
		"restarted. The message says what is wrong with it."},
	{"no-effect",
		"The program was restarted with the value and does not run with it. It is not "
		"restarted for this value again: see which file it reads, then headroom apply."},
	{"verify-refused",
		"The program that the file belongs to, or a check of the new file, did not accept "
		"it: the file is as it was."},
	{"did-not-come-back",
		"The program did not answer after its restart: the previous file was restored. "
		"That value is not tried again until headroom apply."},
	{"original", "The value found before the first write is restored."},
	{"changed-since",
		"Someone else changed the value since it was last written: it is left as it is."},
	{"file-changed-since",
		"Someone else changed the file since: only this value is restored in it."},
	{"within-limit", "The use is below the limit."},
	{"tuner-off", "The tuner that would know is switched off."},
	{0},
};

/* The words that status prints and that are no reasons. */
#define STATE(name, kind, what)                           \
	{                                                 \
		name, kind, what, .source = "headroom(8)" \
	}

static const struct explanation explanations[] = {
	STATE("enforce", "mode", "The tuner reads, decides and sets what is configured."),
	STATE("observe", "mode",
		"The tuner reads and decides, and sets nothing: plan and status show what it would "
		"change."),
	STATE("off", "mode", "The tuner does nothing: the configuration has switched it off."),
	STATE("released", "mode",
		"headroom restore restored the originals: the tuner only observes until headroom "
		"apply, whatever the configuration says and however often the agent starts."),
	STATE("active", "state of a tuner", "Everything it can do, it does."),
	STATE("degraded", "state of a tuner",
		"Something is missing on this node; what, and the cure, is printed beside it."),
	STATE("pending", "state of a setting",
		"The wanted value is not in force yet: it is written at the next occasion, or waits "
		"for a program to take it."),
	STATE("drifted", "state of a setting",
		"Someone else changed it, and on_drift leaves it so."),
	STATE("yielded", "state of a setting",
		"Someone else kept changing it, so it is left to them."),
	STATE("failed", "state of a setting",
		"It could not be read, recorded or written: the error is printed beside it."),
	STATE("unsupported", "state of a setting", "This kernel or program has no such setting."),
	STATE("observed", "state of a setting", "It is read and never written."),
	STATE("ok", "verdict", "No condition is True, but for advice."),
	STATE("warning", "verdict",
		"A condition is True that will become a fault, or makes the node slower."),
	STATE("critical", "verdict", "A condition is True under which workloads fail now."),
	STATE("advice", "severity", "Worth doing, and no fault of the node: the verdict stays ok."),
	STATE("OK", "status of a condition", "What it is about is well; False in JSON."),
	STATE("True", "status of a condition", "A problem; for people it is its severity."),
	STATE("False", "status of a condition", "What it is about is well; OK for people."),
	STATE("Unknown", "status of a condition", "It cannot be judged; the reason says why."),
	STATE("headroom", "column", "The part of a limit that is not used, 0 to 1."),
	STATE("peak", "column", "The largest use of a limit since the agent started."),
	STATE("hits", "column",
		"Times that a limit was reached since boot, where that is counted."),
	{0},
};

static const struct metric_row metric_rows[] = {
	{"headroom_build_info", METRIC_GAUGE, NULL,
		"The running agent: always 1, with its version and commit.", {"version", "commit"}},
	{"headroom_limit_info", METRIC_GAUGE, NULL,
		"A limit of this node: always 1, with the unit of its numbers.", {"limit", "unit"}},
	{"headroom_limit_used", METRIC_GAUGE, NULL, "How much of the limit is in use.", {"limit"}},
	{"headroom_limit_max", METRIC_GAUGE, NULL, "The limit itself.", {"limit"}},
	{"headroom_limit_peak", METRIC_GAUGE, NULL, "The largest use seen since the agent started.",
		{"limit"}},
	{"headroom_limit_hits_total", METRIC_COUNTER, NULL,
		"Times that the limit was reached since boot.", {"limit"}},
	{"headroom_limit_used_by_workload", METRIC_GAUGE, NULL,
		"Who uses most of the limit; everyone else is summed under kind other.",
		{"limit", "kind", "namespace", "name"}},
	{"headroom_setting_in_sync", METRIC_GAUGE, NULL,
		"1 while the value read back is the wanted one.", {"setting"}},
	{"headroom_setting_drift_total", METRIC_COUNTER, NULL,
		"Times that someone else changed the setting.", {"setting"}},
	{"headroom_condition", METRIC_GAUGE, NULL,
		"A statement about the node: the series of its status is 1. True is a problem.",
		{"condition", "status"}},
	{"headroom_condition_severity", METRIC_GAUGE, NULL,
		"0 while the condition is not True; else 1: advice, 2: warning, 3: critical.",
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
		"When the configuration in use was loaded, since the unix epoch.", {0}},
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

const struct tuner_ops core_tables = {
	.name = "agent",
	.summary = "What belongs to the agent and to no tuner of it.",
	.explanations = explanations,
	.conditions = conditions,
	.reasons = reasons,
	.metric_rows = metric_rows,
};
