/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the agent itself: its conditions, the words common to all tuners, the metrics of
 * every limit, setting and condition, and the checks of `headroom doctor` that no tuner makes.
 */
#include "tuners/table.h"

#include "base/text.h"
#include "kernel/host.h"

#include <fnmatch.h>
#include <sys/prctl.h>

static const struct condition_type conditions[] = {
	[CORE_SETTING_DRIFTED] = {"SettingDrifted", SEVERITY_WARNING,
		"Someone else changed a managed setting, and it was not set again: on_drift says "
		"so, or they kept changing it. Find the other writer, then run headroom apply. A "
		"setting that is recorded and no longer configured is advice.",
		REASON_LIST(REASON_ALL_IN_SYNC, REASON_NO_LONGER_CONFIGURED),
		.now = "find the other writer, then headroom apply", .is_recorded = true},
	[CORE_SETTING_FAILED] = {"SettingFailed", SEVERITY_WARNING,
		"A setting could not be read, recorded or written. The message names the error "
		"and the cure. The agent tries again every 15 seconds.",
		REASON_LIST(REASON_NONE_FAILED),
		.now = "remove the cause that the message names, then headroom apply"},
	[CORE_CONFIG_INVALID] = {"ConfigInvalid", SEVERITY_WARNING,
		"The configuration on disk has a fault, so the last good one stays in use. The "
		"message names the position; headroom check-config lists all faults.",
		REASON_LIST(REASON_CONFIG_VALID, REASON_CONFIG_FAULT),
		.now = "headroom check-config"},
	[CORE_AGENT_DEGRADED] = {"AgentDegraded", SEVERITY_WARNING,
		"A feature is off because the node or the agent's privileges lack something. The "
		"message names it, the error and the cure.",
		REASON_LIST(REASON_ALL_ACTIVE, REASON_TUNER_DEGRADED, REASON_VALUES_UNRECORDED,
			REASON_JOURNAL_UNUSABLE),
		.now = "headroom version: it lists what each tuner lacks"},
	{0},
};

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
	WORD("pod", ENTRY_WORKLOAD_KIND,
		"A pod of Kubernetes, or its uid until the runtime names it."),
	WORD("container", ENTRY_WORKLOAD_KIND, "A container that belongs to no pod."),
	WORD("unit", ENTRY_WORKLOAD_KIND,
		"A unit of systemd, or a cgroup that is none of the others."),
	WORD("lxd", ENTRY_WORKLOAD_KIND, "An LXD or Incus container."),
	WORD("netns", ENTRY_WORKLOAD_KIND, "A network namespace whose owner is not known."),
	WORD("uid", ENTRY_WORKLOAD_KIND, "A user, where the kernel counts by user."),
	WORD("host", ENTRY_WORKLOAD_KIND, "The processes of the node that are no workload."),
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
	{"headroom_tuner_active", METRIC_GAUGE, NULL,
		"1 while the tuner is fully active, 0 while it is degraded or off.", {"tuner"}},
	{"headroom_tuner_mode", METRIC_GAUGE, NULL,
		"The mode of the tuner: enforce, observe, off or released. Always 1.",
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
	.entries = words,
	.conditions = conditions,
	.metric_rows = metric_rows,
};

/* ---- checks of doctor ---- */

#define FILE_TEXT_MAX   (8 * 1024 * 1024)
#define USED_SHARE      0.8 /* using more of a limit is a fault */
#define IPV6_ROUTES_BIG 1e6 /* a maximum from here on is not reached: INT_MAX since Linux 6.3 */

static int read_number(const struct host *host, const char *path, double *number)
{
	char value[SETTING_VALUE_MAX];
	int r = host_read_value(host, path, value);

	if (r == 0)
		*number = strtod(value, NULL);
	return r;
}

/*
 * Returns the result of a file that cannot be read. The chart's pod never has CAP_SYS_ADMIN, so a
 * check that needs it does not apply there.
 */
static enum check_result unread(const char *path, int error, char message[static CHECK_MESSAGE_MAX])
{
	snprintf(message, CHECK_MESSAGE_MAX, "%s: %s: %s", path, strerror(-error),
		error == -EPERM ? "it needs CAP_SYS_ADMIN" : "run the command as root");
	return error == -ENOENT || error == -EPERM ? CHECK_ABSENT : CHECK_UNKNOWN;
}

static enum check_result judge_use(double used, double limit, const char *counted,
	const char *sysctl, char message[static CHECK_MESSAGE_MAX])
{
	if (used <= USED_SHARE * limit)
		return CHECK_FINE;
	snprintf(message, CHECK_MESSAGE_MAX, "%.0f of %.0f %s, %.0f %%: %s", used, limit, counted,
		100 * used / MAX(limit, 1.0), sysctl);
	return CHECK_FAULT;
}

static enum check_result check_user_namespaces(
	const struct host *host, char message[static CHECK_MESSAGE_MAX])
{
	/* Debian and Ubuntu have the second. */
	static const struct {
		const char *name, *path;
	} switches[] = {{"user.max_user_namespaces", "/proc/sys/user/max_user_namespaces"},
		{"kernel.unprivileged_userns_clone", "/proc/sys/kernel/unprivileged_userns_clone"}};
	enum check_result result = CHECK_ABSENT;

	for (size_t i = 0; i < ARRAY_SIZE(switches); i++) {
		double number = 0;
		int r = read_number(host, switches[i].path, &number);

		if (r == -ENOENT)
			continue;
		if (r < 0)
			return unread(switches[i].path, r, message);
		if (number == 0) {
			snprintf(message, CHECK_MESSAGE_MAX, "%s is 0", switches[i].name);
			return CHECK_FAULT;
		}
		result = CHECK_FINE;
	}
	return result;
}

/*
 * Returns the bytes of the kernel's memory for compiled BPF programs. From Linux 6.10 on the kernel
 * gets this memory from the same function as that of its modules, so there only packs of programs
 * count.
 */
static double bpf_jit_bytes(const char *vmallocinfo)
{
	static const char *const callers[] = {
		"bpf_jit_alloc_exec", "bpf_jit_binary", "bpf_prog_pack"};
	double bytes = 0;

	for (const char *line = vmallocinfo; *line;) {
		size_t len = strcspn(line, "\n");

		for (size_t i = 0; i < ARRAY_SIZE(callers); i++)
			if (memmem(line, len, callers[i], strlen(callers[i]))) {
				/* 0xBEGIN-0xEND BYTES CALLER */
				const char *size = memchr(line, ' ', len);

				bytes += size ? strtod(size, NULL) : 0;
				break;
			}
		line += len + (line[len] == '\n');
	}
	return bytes;
}

static enum check_result check_bpf_jit(
	const struct host *host, char message[static CHECK_MESSAGE_MAX])
{
	static const char limit_path[] = "/proc/sys/net/core/bpf_jit_limit";
	static const char used_path[] = "/proc/vmallocinfo";
	_cleanup_free_ char *text = NULL;
	double limit = 0;
	int r = read_number(host, limit_path, &limit);

	if (r < 0)
		return unread(limit_path, r, message);
	r = host_read_file(host, used_path, FILE_TEXT_MAX, &text);
	if (r < 0)
		return unread(used_path, r, message);
	return judge_use(bpf_jit_bytes(text), limit, "bytes for compiled BPF programs",
		"net.core.bpf_jit_limit", message);
}

static enum check_result check_ipv6_routes(
	const struct host *host, char message[static CHECK_MESSAGE_MAX])
{
	static const char limit_path[] = "/proc/sys/net/ipv6/route/max_size";
	static const char used_path[] = "/proc/net/rt6_stats";
	_cleanup_free_ char *text = NULL;
	unsigned used;
	double limit = 0;
	int r = read_number(host, limit_path, &limit);

	if (r < 0)
		return unread(limit_path, r, message);
	if (limit >= IPV6_ROUTES_BIG)
		return CHECK_FINE;
	r = host_read_file(host, used_path, 4096, &text);
	if (r < 0)
		return unread(used_path, r, message);
	/* The sixth number counts the entries that the limit is about. */
	if (sscanf(text, "%*x %*x %*x %*x %*x %x", &used) != 1)
		return unread(used_path, -EINVAL, message);
	return judge_use(used, limit, "IPv6 routes",
		"net.ipv6.route.max_size, which kernels before 6.3 enforce", message);
}

static enum check_result check_capabilities(
	const struct host *, char message[static CHECK_MESSAGE_MAX])
{
	uint64_t named = 0;

	for (size_t i = 0; tuner_table[i]; i++) {
		const struct capability_row *row = tuner_table[i]->tables->capabilities;

		for (; row && row->name; row++) {
			uint64_t bit = UINT64_C(1) << row->capability;

			/* An older kernel lacks the number: CAP_SYS_ADMIN has its rights. */
			if ((row->use != CAPABILITY_TO_OPEN && row->use != CAPABILITY_TO_RUN) ||
				named & bit ||
				prctl(PR_CAPBSET_READ, row->capability, 0, 0, 0) != 0)
				continue;
			named |= bit;
			text_append(message, CHECK_MESSAGE_MAX, "%s%s (%s: %s)",
				message[0] ? ", " : "", row->name, tuner_table[i]->name, row->why);
		}
	}
	return message[0] ? CHECK_FAULT : CHECK_FINE;
}

#define W .severity = SEVERITY_WARNING

const struct check_row node_checks[] = {
	{"agent", "Whether an agent runs, and answers.", .source = "the agent's socket, its unit",
		W, .breaks = "settings that others change stay changed, and nobody counts or warns",
		.now = "systemctl restart headroom; journalctl -u headroom -n 20"},
	{"configuration",
		"Whether the configuration on disk is valid. Without an agent, a fault makes the other "
		"checks use the defaults.",
		.source = "headroom.yaml(5)", W,
		.breaks = "the configured values are not set: the agent uses the last good "
			  "configuration, else the defaults",
		.now = "headroom check-config"},
	{"user-namespaces",
		"Whether programs other than root's may make user namespaces. A CIS profile or an old "
		"distribution switches them off.",
		.option = "sysctl: {user.max_user_namespaces: 63359}",
		.source = "kernel/ucount.c; user_namespaces(7)", W,
		.breaks =
			"pods with hostUsers: false, rootless builds, and sandboxes of browsers: "
			"\"No space left on device\" (ENOSPC) or \"Operation not permitted\" from "
			"clone and unshare",
		.now = "sysctl -w user.max_user_namespaces=63359; on Debian also "
		       "kernel.unprivileged_userns_clone=1",
		.check = check_user_namespaces},
	{"bpf-jit",
		"Memory for compiled BPF programs, seccomp filters included, against its limit. "
		"Packs of programs count as a whole.",
		.option = "sysctl: {net.core.bpf_jit_limit: 1056964608}",
		.source = "kernel/bpf/core.c, bpf_jit_charge_modmem()", W,
		.breaks =
			"containers do not start: \"error loading seccomp filter into kernel: errno "
			"524\"",
		.now = "sysctl -w net.core.bpf_jit_limit=1056964608", .check = check_bpf_jit},
	{"ipv6-routes",
		"Entries of IPv6 routes against their limit, which kernels before 6.3 enforce. "
		"Later kernels ignore the limit.",
		.option = "sysctl: {net.ipv6.route.max_size: 1048576}",
		.source = "net/ipv6/route.c, ip6_dst_gc()", W,
		.breaks = "IPv6 packets are dropped: \"Network is unreachable\" (ENETUNREACH)",
		.now = "sysctl -w net.ipv6.route.max_size=1048576", .check = check_ipv6_routes},
	{"capabilities",
		"Whether this container or unit may have the capabilities that the tuners need to read "
		"the node.",
		.source = "headroom(8), capabilities(7)", W,
		.breaks = "features that need them are off, so their limits are not shown",
		.now = "add them to securityContext.capabilities.add of the pod, or to "
		       "CapabilityBoundingSet= of the unit, and restart it",
		.check = check_capabilities},
	{0},
};

/*
 * Returns whether the name, or a pattern, can be of a finding: a limit, a condition, a reason, a
 * setting or a check. Behind an @ an instance may follow, whose name nobody knows before.
 */
static bool can_be_found(
	const struct help_entry *entries, size_t n, const char *item, struct suggestion *nearest)
{
	char name[SETTING_NAME_MAX], path[SETTING_PATH_MAX];

	set_text(name, item);
	name[strcspn(name, "@")] = '\0';
	for (size_t i = 0; i < n; i++) {
		enum entry_kind kind = entries[i].kind;

		if (kind != ENTRY_LIMIT && kind != ENTRY_CONDITION && kind != ENTRY_CHECK &&
			kind != ENTRY_REASON && !entry_is_setting(&entries[i]))
			continue;
		if (fnmatch(entries[i].name, name, 0) == 0 ||
			fnmatch(name, entries[i].name, 0) == 0)
			return true;
		suggest_offer(nearest, name, entries[i].name);
	}
	/* A sysctl that was configured once. */
	return !nearest->word[0] && strchr(name, '.') && sysctl_path(name, path);
}

void checks_validate(const struct config *config, struct config_fault_list *faults)
{
	size_t n, n_ignored = config_list(config, "doctor.ignore"), n_sysctls;
	const struct config_sysctl *sysctls = config_sysctls(config, &n_sysctls);
	_cleanup_free_ struct help_entry *entries = n_ignored > 0 ? all_entries(&n) : NULL;

	for (size_t i = 0; i < n_ignored; i++) {
		const char *name = config_item(config, "doctor.ignore", i, "");
		struct config_position where = config_item_where(config, "doctor.ignore", i, "");
		struct suggestion nearest = {0};

		if (find_named(sysctls, n_sysctls, name) ||
			can_be_found(entries, n, name, &nearest))
			continue;
		config_fault_add(faults, &where, "doctor.ignore: no check has this name: %s%s%s",
			nearest.word[0] ? "did you mean " : "headroom doctor --json lists them",
			nearest.word, nearest.word[0] ? "?" : "");
	}
}
