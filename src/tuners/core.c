/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the agent itself: its conditions, the words common to all tuners, and the metrics
 * of every limit, setting and condition; and the finding that several tuners have.
 */
#include "tuners/table.h"

#include "base/text.h"
#include "runtime/bad_file.h"

static const struct condition_type conditions[] = {
	[CORE_SETTING_DRIFTED] = {"SettingDrifted", SEVERITY_WARNING,
		"Someone else changed a managed setting, and it was not set again: on_drift says "
		"so, or they kept changing it. Find the other writer, then run headroom apply. A "
		"setting that is recorded and no longer configured is advice.",
		REASON_LIST(REASON_ALL_IN_SYNC, REASON_NO_LONGER_CONFIGURED), .is_recorded = true},
	[CORE_SETTING_FAILED] = {"SettingFailed", SEVERITY_WARNING,
		"A setting could not be read, recorded or written. The message names the error "
		"and the cure. The agent tries again every 15 seconds.",
		REASON_LIST(REASON_NONE_FAILED, REASON_KEY_MISPLACED, REASON_NO_RUNTIME)},
	[CORE_CONFIG_INVALID] = {"ConfigInvalid", SEVERITY_WARNING,
		"The configuration on disk has a fault, so the last good one stays in use. The "
		"message names the position; headroom check-config lists all faults.",
		REASON_LIST(REASON_CONFIG_VALID, REASON_CONFIG_FAULT)},
	[CORE_AGENT_DEGRADED] = {"AgentDegraded", SEVERITY_WARNING,
		"A feature is off because the node or the agent's privileges lack something. The "
		"message names it, the error and the cure.",
		REASON_LIST(REASON_ALL_ACTIVE, REASON_TUNER_DEGRADED, REASON_VALUES_UNRECORDED,
			REASON_JOURNAL_UNUSABLE, REASON_MEMORY_LIMIT_LOW)},
	/* Several tuners find it. */
	[CORE_WOULD_NOT_START] = {"RuntimeWouldNotStart", SEVERITY_CRITICAL,
		"A container runtime or the kubelet refuses a file from which it starts: it runs "
		"on, and will not start again. The message names the file, the position, the fault "
		"and who has probably written it.",
		REASON_LIST(REASON_FILES_LOAD, REASON_FILES_UNVERIFIED, REASON_FILE_UNUSABLE,
			REASON_KUBELET_CONFIG_UNREADABLE),
		.is_recorded = true},
	{0},
};

#define ALERT(name, meaning) {(name), ENTRY_ALERT, (meaning), .source = "deploy/TROUBLESHOOTING.md"}

static const struct help_entry words[] = {
	WORD("enforce", ENTRY_MODE, "The tuner reads the node and sets the configured values."),
	WORD("observe", ENTRY_MODE,
		"The tuner reads the node and sets nothing. plan and status show the changes it "
		"would make."),
	WORD("off", ENTRY_MODE, "The configuration has switched the tuner off."),
	WORD("released", ENTRY_MODE,
		"headroom restore restored the originals. The tuner only observes until headroom "
		"apply, even after a restart or a change of the configuration."),
	WORD("active", ENTRY_TUNER_STATE, "All features of the tuner work."),
	WORD("degraded", ENTRY_TUNER_STATE,
		"This node lacks something that the tuner needs; the text beside it has the cure."),
	WORD("pending", ENTRY_SETTING_STATE,
		"The wanted value is not in force yet: it is about to be written, or a program has "
		"to restart or reload first."),
	WORD("drifted", ENTRY_SETTING_STATE,
		"Someone else changed it, and on_drift leaves it changed."),
	WORD("yielded", ENTRY_SETTING_STATE,
		"Someone else kept changing it, so it is no longer set."),
	WORD("failed", ENTRY_SETTING_STATE,
		"It could not be read, recorded or written; the text beside it has the error."),
	WORD("unsupported", ENTRY_SETTING_STATE, "This kernel or program lacks the setting."),
	WORD("observed", ENTRY_SETTING_STATE, "It is read and never written."),
	WORD("ok", ENTRY_VERDICT, "No condition is True, except advice."),
	WORD("warning", ENTRY_VERDICT,
		"A condition is True that slows the node down or will become a fault."),
	WORD("critical", ENTRY_VERDICT, "A condition is True that makes workloads fail now."),
	WORD("advice", ENTRY_SEVERITY,
		"An improvement that the administrator can make; the verdict stays ok."),
	WORD("OK", ENTRY_CONDITION_STATUS, "Nothing is wrong. JSON says False."),
	WORD("True", ENTRY_CONDITION_STATUS,
		"There is a problem. The text output prints its severity instead."),
	WORD("False", ENTRY_CONDITION_STATUS,
		"Nothing is wrong. The text output prints OK instead."),
	WORD("Unknown", ENTRY_CONDITION_STATUS,
		"The agent cannot tell whether there is a problem; the reason says why."),
	WORD("headroom", ENTRY_COLUMN, "The unused share of a limit, 0 to 1."),
	WORD("peak", ENTRY_COLUMN,
		"The largest use of a limit since boot, as far as an agent was running."),
	WORD("queue", ENTRY_COLUMN, "The workload's share of the time in the disk's queue."),
	WORD("syncs/s", ENTRY_COLUMN, "Calls of fsync and similar in a second."),
	WORD("worst", ENTRY_COLUMN, "The longest sync of the last five minutes."),
	WORD("worst of the last hour", ENTRY_COLUMN,
		"The longest sync of each minute of the last hour."),
	WORD("written", ENTRY_COLUMN, "Bytes written to the disk in a second."),
	WORD("full in", ENTRY_COLUMN, "The time until a limit is full at its recent growth."),
	WORD("not applicable", ENTRY_CONDITION_STATUS,
		"What this node lacks, such as a kubelet or a cloud's budget, so that the condition "
		"has nothing to check."),
	WORD("would change", ENTRY_COLUMN, "How many settings apply would change: see plan."),
	WORD("idle", ENTRY_COLUMN, "Rows without a problem and with little use."),
	WORD("hits", ENTRY_COLUMN, "How often a limit was reached since boot, if that is counted."),
	WORD("workload", ENTRY_COLUMN, "A user of a limit or disk, with its kind before its name."),
	WORD("device", ENTRY_COLUMN, "The disk, or the kind of file system without one."),
	WORD("kind", ENTRY_COLUMN,
		"Whether the disk is local, a network disk, a loop device or rotates."),
	WORD("finding", ENTRY_COLUMN,
		"One problem with its instance, its users, the command that helps now and the "
		"configuration that keeps the cure. status and the page list the worst first."),
	WORD("limit", ENTRY_COLUMN, "A finite resource of the node. See headroom top."),
	WORD("setting", ENTRY_COLUMN,
		"A value of the kernel or of a program that Headroom reads, and may set."),
	WORD("condition", ENTRY_COLUMN,
		"A statement about the node's health. True is a problem. It has a metric."),
	WORD("tuner", ENTRY_COLUMN, "A part of the agent for one concern, such as dns."),
	WORD("incident", ENTRY_COLUMN,
		"The record of something that happened: see headroom incidents."),
	WORD("event", ENTRY_COLUMN, "A recent line of the agent's log."),
	WORD("who", ENTRY_COLUMN,
		"The largest users at the worst moment of a problem, with their shares."),
	WORD("breaks", ENTRY_COLUMN, "The programs that fail then, with the text of the error."),
	WORD("now", ENTRY_COLUMN, "A command, or an edit of a file, that helps at once."),
	WORD("keep", ENTRY_COLUMN, "The lines of configuration that keep the cure."),
	WORD("hint", ENTRY_COLUMN, "Why nothing can be typed, or where to look."),
	WORD("since", ENTRY_COLUMN, "When it began, or came to be in its state."),
	WORD("until", ENTRY_COLUMN, "When a problem was over; it is still shown for a while."),
	WORD("ignored", ENTRY_COLUMN, "A problem that doctor.ignore names. No verdict counts it."),
	WORD("instance", ENTRY_COLUMN,
		"The object of a problem: a cgroup, a user, a namespace, a device, a file."),
	WORD("severity", ENTRY_COLUMN, "How bad a problem is: critical, warning or advice."),
	WORD("used", ENTRY_COLUMN, "The use of a limit, in its unit."),
	WORD("max", ENTRY_COLUMN, "The limit itself, in its unit."),
	WORD("share", ENTRY_COLUMN, "The used part of a limit, or a user's part of it."),
	WORD("now, and peak", ENTRY_COLUMN,
		"A bar of the used share. The mark is the peak since boot."),
	WORD("use", ENTRY_COLUMN, "The used share of a limit."),
	WORD("amount", ENTRY_COLUMN, "The use of a limit, and the limit itself."),
	WORD("last hour", ENTRY_COLUMN, "The largest value of each of the last 60 minutes."),
	WORD("largest user", ENTRY_COLUMN, "The workload that uses most of the limit now."),
	WORD("wanted", ENTRY_COLUMN, "The value that a setting should have."),
	WORD("actual", ENTRY_COLUMN, "The value that was read back."),
	WORD("original", ENTRY_COLUMN, "The value before Headroom first set it. restore sets it."),
	WORD("reason", ENTRY_COLUMN,
		"Why something is as it is, in one word that has a help text."),
	WORD("message", ENTRY_COLUMN, "Details that no other column has."),
	WORD("why", ENTRY_COLUMN, "The cause of the state beside it, with the error and the cure."),
	WORD("state", ENTRY_COLUMN, "How a setting, a tuner, an image or a runtime is now."),
	WORD("status", ENTRY_COLUMN, "Whether a condition is True, False or Unknown."),
	WORD("level", ENTRY_COLUMN, "The level of a line of the log, as in syslog(3)."),
	WORD("error", ENTRY_LOG_LEVEL, "Something failed, and the line has the cure."),
	WORD("notice", ENTRY_LOG_LEVEL, "Something that the administrator may want to know."),
	WORD("info", ENTRY_LOG_LEVEL, "A step of the agent."),
	WORD("debug", ENTRY_LOG_LEVEL, "Details that help to find faults of the agent."),
	WORD("image", ENTRY_COLUMN, "An image that is preloaded or pulled, by its name."),
	WORD("progress", ENTRY_COLUMN,
		"The part of an image that has come in, the rate, and the time left at that rate."),
	WORD("layers", ENTRY_COLUMN, "The layers of an image that come in at once."),
	WORD("queued", ENTRY_COLUMN, "The layers that wait for others of the image."),
	WORD("fetching now", ENTRY_COLUMN, "The layers that a runtime pulls now, and their rate."),
	WORD("size", ENTRY_COLUMN, "The bytes of an image."),
	WORD("took", ENTRY_COLUMN, "How long the last transfer of an image took."),
	WORD("from", ENTRY_COLUMN, "The archive of an image, or registry."),
	WORD("pinned", ENTRY_COLUMN, "Whether the kubelet's garbage collection spares the image."),
	WORD("version", ENTRY_COLUMN, "The version that a program names itself."),
	WORD("rotating", ENTRY_COLUMN, "A disk with moving heads: each sync takes milliseconds."),
	WORD("loop", ENTRY_COLUMN, "A disk that is a file on another one."),
	WORD("network", ENTRY_COLUMN, "A disk behind a network: each sync is a round trip."),
	WORD("overlay", ENTRY_COLUMN, "A file system on top of others, such as a container's."),
	WORD("most in its busiest second", ENTRY_COLUMN,
		"The client that sent most in the resolver's busiest second of the last minute."),
	WORD("complete", ENTRY_INCIDENT_STATE, "The incident has ended and is recorded."),
	WORD("open", ENTRY_INCIDENT_STATE, "The incident is still being recorded."),
	WORD("cut-short", ENTRY_INCIDENT_STATE,
		"The agent ended, or its disk failed, before the incident did."),
	WORD("pod", ENTRY_WORKLOAD_KIND,
		"A pod of Kubernetes, or its uid until the runtime names it."),
	WORD("container", ENTRY_WORKLOAD_KIND, "A container that belongs to no pod."),
	WORD("unit", ENTRY_WORKLOAD_KIND,
		"A unit of systemd, or a cgroup that is none of the others."),
	WORD("lxd", ENTRY_WORKLOAD_KIND, "An LXD or Incus container."),
	WORD("netns", ENTRY_WORKLOAD_KIND, "A network namespace whose owner is not known."),
	WORD("uid", ENTRY_WORKLOAD_KIND, "A user, where the kernel counts by user."),
	WORD("host", ENTRY_WORKLOAD_KIND, "The processes of the node that are no workload."),
	WORD("pressure", ENTRY_COLUMN,
		"The shares of ten seconds in which tasks waited for CPU, memory or a disk, at the "
		"worst moment of a problem: the kernel's PSI."),
	WORD("single reading", ENTRY_COLUMN,
		"No agent runs, so the command has read the node once: rates, BPF counters and what "
		"happened before are missing."),
	WORD("no maximum is known", ENTRY_COLUMN,
		"The maximum of a limit is unlimited, or could not be read, so the share is unknown."),
	WORD("not applied yet", ENTRY_COLUMN,
		"The agent has just started, and has not compared all settings with the wanted values."),
	WORD("Timeline", ENTRY_COLUMN,
		"The events in the seconds before and after the begin of an incident."),
	WORD("Stopped reporting", ENTRY_COLUMN,
		"Nodes whose target fails, or has disappeared within the last hour."),
	WORD("Images that are ready", ENTRY_COLUMN,
		"On how many of the nodes that preload an image it is present."),
	WORD("down", ENTRY_COLUMN,
		"Prometheus cannot scrape the agent of a node, or a mirror does not answer."),
	WORD("no target", ENTRY_COLUMN,
		"Prometheus had the node as a target within the last hour, and has it no longer."),
	WORD("up", ENTRY_COLUMN, "A mirror answers."),

	MEMBER("at", "When it happened, in UTC."),
	MEMBER("by", "The label by which fleet groups the nodes."),
	MEMBER("commit", "The commit from which a program was built."),
	MEMBER("config_dir", "The directory of the kubelet's drop-in files."),
	MEMBER("configuration", "Nodes of a fleet have the same one if its checksum is the same."),
	MEMBER("cost", "The cost of a change, such as memory that loses huge pages."),
	MEMBER("detail", "More about a user, such as the name of its largest process."),
	MEMBER("findings_left_out", "How many findings the document has no room for."),
	MEMBER("full_in_seconds",
		"The time until a limit is full at its recent growth; null: it does not fill."),
	MEMBER("held_by", "The options that keep a tuner from writing, such as mode."),
	MEMBER("history", "The largest value of each of the last 60 minutes."),
	MEMBER("hits_before",
		"How often a limit was reached between boot and the start of the agent."),
	MEMBER("id", "A name that stays the same: SLUG@KIND:INSTANCE for a finding."),
	MEMBER("io", "The share of the last ten seconds in which a task waited for a disk."),
	MEMBER("keep_in", "The file for the lines in keep."),
	MEMBER("last_seen", "When a node that stopped reporting was last scraped."),
	MEMBER("lasts", "Whether the problem goes on after the end of the record."),
	MEMBER("max_bytes", "The most bytes that all records of incidents may have."),
	MEMBER("not_recorded",
		"Incidents beyond the number that is recorded in a day, with the reason."),
	MEMBER("note", "Why a change is made or left out."),
	MEMBER("now_kind", "Whether now is a command or an edit of a file."),
	MEMBER("peak_at", "When a limit had its peak."),
	MEMBER("peak_top", "The largest users of a limit at its peak."),
	MEMBER("reporting", "How many nodes Prometheus has scraped."),
	MEMBER("schema", "The version of the document's format: later ones only add members."),
	MEMBER("slug", "The object of a problem: a limit, a setting, or the name of a problem."),
	MEMBER("t", "Seconds since the begin of the incident."),
	MEMBER("trigger",
		"The cause of an incident: a limit, a condition, or the start of the agent."),
	MEMBER("would_change", "How many settings apply would change: see plan."),
	MEMBER("who_known", "Whether the users are known; null: no user can have caused it."),

	ALERT("HeadroomConditionCritical",
		"Workloads of a node fail now. The label condition names the condition, and object the "
		"limit or setting; headroom doctor on the node has the cure."),
	ALERT("HeadroomConditionWarning",
		"A condition of a node has been True for 15 minutes. The label condition names it; "
		"headroom doctor on the node has the cure."),
	ALERT("HeadroomConditionWidespread",
		"More than 2 % of the nodes, at least ten, have the same condition. Stop the roll-out "
		"under way, and look for a common cause: headroom fleet --finding NAME lists the nodes."),
	ALERT("HeadroomLimitFullSoon",
		"A limit of a node will be full within four hours at the rate of the last hour, and more "
		"than half of it is used. headroom top LIMIT names the users."),
	ALERT("HeadroomDown",
		"Prometheus could not scrape the agent for ten minutes. The node keeps its values, but "
		"nothing is raised or watched: see headroom status, and the log of the unit or pod."),
	ALERT("HeadroomAbsent",
		"Prometheus scrapes no agent at all, so no other alert can fire: service discovery, a "
		"NetworkPolicy or the name of the job changed, or the chart was removed."),
	ALERT("HeadroomNodesWithoutAgent",
		"More than 2 % of the nodes of a DaemonSet have had no ready agent for half an hour: "
		"kubectl describe daemonset has the events."),
	ALERT("HeadroomAgentNotReady",
		"A pod of the agent has not been ready for half an hour: kubectl describe pod has the "
		"events."),
	ALERT("HeadroomRestarting",
		"The agent started more than three times within an hour. The log of the previous run has "
		"the reason: a low memory limit, no CPU, or a bug. All values survive."),
	ALERT("HeadroomReleased",
		"After headroom restore a tuner has only observed for a day: run headroom apply, or set "
		"its mode to observe."),
	ALERT("HeadroomImageWaiting",
		"A configured image has been neither present nor failed for six hours: headroom images "
		"has the reason."),
	ALERT("HeadroomRolloutUnfinished",
		"The nodes of a job have had different versions or configurations for six hours: finish "
		"the roll-out, or undo it. headroom fleet shows the versions."),
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
		"How often someone else changed the setting; absent before the first time.",
		{"setting"}},
	{"headroom_setting_no_longer_configured", METRIC_GAUGE, NULL,
		"1 for a setting that headroom has set, that is in force, and that the "
		"configuration no longer asks for.",
		{"setting"}},
	{"headroom_condition", METRIC_GAUGE, NULL,
		"A condition of the node: 1 is a problem, 0 none, -1 unknown.", {"condition"}},
	{"headroom_finding", METRIC_GAUGE, NULL,
		"A problem that the node has now: always 1. object is its limit, setting or reason; "
		"kind, namespace and name are its largest user at the worst moment. The worst 20 are "
		"exported.",
		{"condition", "object", "severity", "kind", "namespace", "name"}},
	{"headroom_ignored", METRIC_GAUGE, NULL,
		"A limit, setting or condition that doctor.ignore names without an instance: always 1. "
		"Alerts leave it out.",
		{"object"}},
	{"headroom_tuner_active", METRIC_GAUGE, NULL,
		"1 while the tuner is fully active, 0 while it is degraded or off.", {"tuner"}},
	{"headroom_tuner_mode", METRIC_GAUGE, NULL,
		"The mode of the tuner: enforce, observe, off or released. Always 1.",
		{"tuner", "mode"}},
	{"headroom_config_info", METRIC_GAUGE, NULL,
		"The configuration in use: always 1, with a checksum of all effective values and the "
		"name of its profile.",
		{"hash", "profile"}},
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
	.entries = words,
	.conditions = conditions,
	.metric_rows = metric_rows,
};

void find_bad_file(struct proposal *proposal, const struct decide_input *input, enum reason reason,
	const struct bad_file *bad, const char *fault, const char *unit)
{
	const struct condition_type *type = &conditions[CORE_WOULD_NOT_START];
	struct instance instance = {.kind = INSTANCE_FILE};
	struct finding *finding;

	set_text(instance.name, bad->path);
	finding = proposal_finding(proposal, input, type, reason, NULL, &instance, FINDING_HAPPENS);
	if (!finding)
		return;
	finding->breaks = type->help;
	finding_message(finding, "%s%s%s", text_after_path(fault, bad->path),
		bad->writer[0] ? "; " : "", bad->writer);
	if (bad->repair[0])
		finding_edit(finding, bad->path, bad->line, "%s %s",
			bad->removes ? "remove" : "write", bad->repair);
	finding_hint(finding, "correct the file, and do not restart %s before", unit);
}

void note_unverified(struct proposal *proposal, const char *what)
{
	struct condition_reading *reading = proposal_condition(
		proposal, &conditions[CORE_WOULD_NOT_START], REASON_FILES_UNVERIFIED);

	condition_unknown(reading, REASON_FILES_UNVERIFIED);
	condition_append(reading, "%s", what);
}
