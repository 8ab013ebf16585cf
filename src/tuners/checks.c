/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of node_checks, after the functions that compare a use with its limit or look at the
 * tuners' capabilities. Then the names for doctor.ignore, and the function that runs a row.
 */
#include "tuners/checks.h"

#include "base/text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <sys/prctl.h>

struct check_finding *check_add(
	struct check_report *report, enum check_result result, const char *format, ...)
{
	struct check_finding *finding =
		add_element(&report->findings, &report->n, &report->allocated);
	va_list args;

	finding->row = report->row;
	finding->result = result;
	finding->severity = report->row->severity;
	va_start(args, format);
	vsnprintf(finding->message, sizeof(finding->message), format, args);
	va_end(args);
	return finding;
}

void check_about(struct check_finding *finding, enum instance_kind kind, const char *format, ...)
{
	va_list args;

	finding->instance.kind = kind;
	va_start(args, format);
	vsnprintf(finding->instance.name, sizeof(finding->instance.name), format, args);
	va_end(args);
}

void check_add_fine(struct check_report *report)
{
	(void)check_add(report, CHECK_FINE, "%s", "");
}

void check_add_unread(struct check_report *report, const char *path, int error)
{
	if (error == -ENOENT)
		(void)check_add(report, CHECK_ABSENT, "%s: %s", path, strerror(ENOENT));
	else
		(void)check_add(report, CHECK_UNKNOWN, "%s: %s%s", path, strerror(-error),
			error == -EACCES || error == -EPERM ? ": run the command as root" : "");
}

#define OLD_US (12 * 3600 * USEC_PER_SEC)

const char *check_time(uint64_t realtime, char text[static CHECK_TIME_MAX])
{
	bool is_old = realtime + OLD_US < realtime_us();
	char full[TIME_TEXT_MAX];

	time_text(realtime, full); /* 2026-11-26T13:05:00Z */
	snprintf(text, CHECK_TIME_MAX, "%.*s%s%.5s UTC", is_old ? 10 : 0, full, is_old ? " " : "",
		full + 11);
	return text;
}

/* ---- uses and limits, capabilities ---- */

#define FILE_TEXT_MAX   (8 * 1024 * 1024)
#define USED_SHARE      0.8        /* using more of a limit is a fault */
#define BPF_JIT_MOST    1056964608 /* the kernel's own maximum on x86_64 */
#define IPV6_ROUTES_BIG 1e6 /* a maximum from here on is not reached: INT_MAX since Linux 6.3 */

static int read_number(const struct host *host, const char *path, double *number)
{
	char value[SETTING_VALUE_MAX];
	int r = host_read_value(host, path, value);

	if (r == 0)
		*number = strtod(value, NULL);
	return r;
}

/* The chart's pod never has CAP_SYS_ADMIN, so a check that needs it does not apply there. */
static void add_unread(struct check_report *report, const char *path, int error)
{
	if (error == -EPERM)
		(void)check_add(report, CHECK_ABSENT, "%s: %s: it needs CAP_SYS_ADMIN", path,
			strerror(EPERM));
	else
		check_add_unread(report, path, error);
}

static void judge_use(struct check_report *report, double used, double limit, double raised,
	const char *counted, const char *sysctl)
{
	struct check_finding *finding;

	if (used <= USED_SHARE * limit)
		return check_add_fine(report);
	finding = check_add(report, CHECK_FAULT, "%.0f of %.0f %s, %.0f %%: %s", used, limit,
		counted, 100 * used / MAX(limit, 1.0), sysctl);
	/* The command of the row would lower it. */
	if (limit >= raised)
		check_set(finding->hint,
			"x86_64 has no larger value: bpftool prog and the containers "
			"with seccomp filters show who uses it");
}

static void check_user_namespaces(struct check_report *report)
{
	/* Debian and Ubuntu have the second. */
	static const struct {
		const char *name, *path, *value;
	} switches[] = {{"user.max_user_namespaces", "/proc/sys/user/max_user_namespaces", "63359"},
		{"kernel.unprivileged_userns_clone", "/proc/sys/kernel/unprivileged_userns_clone",
			"1"}};
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(switches); i++) {
		double number = 0;
		int r = read_number(report->host, switches[i].path, &number);

		if (r == -ENOENT)
			continue;
		if (r < 0) {
			add_unread(report, switches[i].path, r);
			return;
		}
		if (number == 0) {
			struct check_finding *finding =
				check_add(report, CHECK_FAULT, "%s is 0", switches[i].name);

			check_set(finding->now, "sysctl -w %s=%s", switches[i].name,
				switches[i].value);
			check_set(finding->keep, "sysctl: {%s: %s}", switches[i].name,
				switches[i].value);
			return;
		}
		found = true;
	}
	(void)check_add(report, found ? CHECK_FINE : CHECK_ABSENT, "%s", "");
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

static void check_bpf_jit(struct check_report *report)
{
	static const char limit_path[] = "/proc/sys/net/core/bpf_jit_limit";
	static const char used_path[] = "/proc/vmallocinfo";
	_cleanup_free_ char *text = NULL;
	double limit = 0;
	int r = read_number(report->host, limit_path, &limit);

	if (r < 0)
		return add_unread(report, limit_path, r);
	r = host_read_file(report->host, used_path, FILE_TEXT_MAX, &text);
	if (r < 0)
		return add_unread(report, used_path, r);
	judge_use(report, bpf_jit_bytes(text), limit, BPF_JIT_MOST,
		"bytes for compiled BPF programs", "net.core.bpf_jit_limit");
}

static void check_ipv6_routes(struct check_report *report)
{
	static const char limit_path[] = "/proc/sys/net/ipv6/route/max_size";
	static const char used_path[] = "/proc/net/rt6_stats";
	_cleanup_free_ char *text = NULL;
	unsigned used;
	double limit = 0;
	int r = read_number(report->host, limit_path, &limit);

	if (r < 0)
		return add_unread(report, limit_path, r);
	if (limit >= IPV6_ROUTES_BIG)
		return check_add_fine(report);
	r = host_read_file(report->host, used_path, 4096, &text);
	if (r < 0)
		return add_unread(report, used_path, r);
	/* The sixth number counts the entries that the limit is about. */
	if (sscanf(text, "%*x %*x %*x %*x %*x %x", &used) != 1)
		return add_unread(report, used_path, -EINVAL);
	judge_use(report, used, limit, IPV6_ROUTES_BIG, "IPv6 routes",
		"net.ipv6.route.max_size, which kernels before 6.3 enforce");
}

static void check_capabilities(struct check_report *report)
{
	char message[CHECK_MESSAGE_MAX] = "";
	struct check_finding *finding;
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
			text_append(message, sizeof(message), "%s%s (%s: %s)",
				message[0] ? ", " : "", row->name, tuner_table[i]->name, row->why);
		}
	}
	finding = check_add(report, message[0] ? CHECK_FAULT : CHECK_FINE, "%s", message);
	if (message[0])
		check_set(finding->hint,
			"add them to securityContext.capabilities.add of the pod, or to "
			"CapabilityBoundingSet= of the unit, and restart it");
}

/* ---- the rows ---- */

#define W .severity = SEVERITY_WARNING
#define C .severity = SEVERITY_CRITICAL

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
	{"tls-key", "Whether the key of http.web_config makes handshakes slow.",
		.source = "headroom.yaml(5)", .severity = SEVERITY_ADVICE,
		.breaks =
			"each new connection to the TCP endpoint costs the node milliseconds of a "
			"CPU"},
	{"user-namespaces",
		"Whether programs other than root's may make user namespaces. A CIS profile or an old "
		"distribution switches them off.",
		.option = "sysctl: {user.max_user_namespaces: 63359}",
		.source = "kernel/ucount.c; user_namespaces(7)", W,
		.breaks =
			"pods with hostUsers: false, rootless builds, and sandboxes of browsers: "
			"\"No space left on device\" (ENOSPC) or \"Operation not permitted\" from "
			"clone and unshare",
		.now = "sysctl -w user.max_user_namespaces=63359", .check = check_user_namespaces},
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
		.check = check_capabilities},
	{"kernel-log",
		"Whether the kernel's log can be read, which has the faults of the next checks. A fault "
		"of the last hour needs action; an older one is advice.",
		.source = "dev-kmsg, syslog(2)", W,
		.breaks = "kills, hung tasks and failing disks are not seen",
		.check = check_kernel_log},
	{"kernel-log/oom",
		"Processes that the kernel killed because the memory of a cgroup or of the node was "
		"used up.",
		.source = "mm/oom_kill.c", W,
		.breaks = "the process is gone, and its container restarts"},
	{"kernel-log/hung-task",
		"Tasks that wait for a disk or a file server for more than "
		"kernel.hung_task_timeout_secs.",
		.source = "kernel/hung_task.c", W,
		.breaks = "the task cannot be killed, and what waits for it hangs too"},
	{"kernel-log/io-error",
		"Disks and file systems that failed to read or write. Drives without a medium, and "
		"discards that a disk refuses, do not count.",
		.source = "block/blk-core.c, blk_print_req_error()", W,
		.breaks = "reads and writes fail: \"Input/output error\" (EIO)"},
	{"kernel-log/read-only", "File systems that stopped writing after an error.",
		.source = "fs/ext4/super.c", C,
		.breaks = "writes fail: \"Read-only file system\" (EROFS) or \"Input/output "
			  "error\" (EIO)"},
	{"cgroup-controllers",
		"Whether kubelet and container runtimes have the cgroup controllers cpu, memory and "
		"pids, and the kubelet cpuset. Not checked on a node without either.",
		.source = "cgroups(7)", C,
		.breaks = "the kubelet does not start, or containers run without limits",
		.check = check_cgroup_controllers},
	{"swap", "Swap on a node whose kubelet has failSwapOn, the default. k3s switches that off.",
		.source = "pkg/kubelet/cm, newContainerManager()", W,
		.breaks = "the kubelet does not start again: \"running with swap on is not "
			  "supported\"",
		.check = check_swap},
	{"bridge-netfilter",
		"Whether packets between pods on a bridge pass iptables, on a node with a kubelet and "
		"a network of the plugins bridge, flannel or weave-net.",
		.option = "sysctl: {net.bridge.bridge-nf-call-iptables: 1}",
		.source = "br_netfilter", W,
		.breaks = "pods reach no Service whose pod is on their own node, and network "
			  "policies are not applied between them",
		.check = check_bridge_netfilter},
	{"ip-forward",
		"Whether the node forwards packets of pods, on a node with a kubelet and a network "
		"that is not macvlan or the like.",
		.option = "sysctl: {net.ipv4.ip_forward: 1}",
		.source = "Documentation/networking/ip-sysctl", C,
		.breaks = "pods reach nothing outside of their node", .check = check_ip_forward},
	{"units",
		"Units of kubelet and container runtimes that failed, or restart again and again.",
		.source = "org.freedesktop.systemd1(5)", C,
		.breaks = "no pod starts or stops on this node while the unit is down",
		.check = check_units},
	{"clock",
		"Whether something synchronises the kernel's clock. Without a kubelet, a node without "
		"any such program is advice.",
		.source = "adjtimex(2), STA_UNSYNC", W,
		.breaks = "certificates and tokens count as expired or not yet valid, leases of "
			  "leaders end early, and logs do not line up",
		.check = check_clock},
	{"resolver",
		"Name servers that do not answer, those after the third and search domains after the "
		"sixth, and loops, in resolv.conf of the node and of the kubelet. It asks each server "
		"for \".\" or \"localhost\".",
		.source = "resolv.conf(5)", W,
		.breaks = "a lookup waits 5 s for a dead server, and those after the third are "
			  "never asked",
		.check = check_resolver},
	{0},
};

/* ---- doctor.ignore ---- */

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

/* ---- running ---- */

void check_run(struct check_report *report, const struct check_row *row)
{
	size_t before = report->n;

	report->row = row;
	row->check(report);
	for (size_t i = before; i < report->n; i++) {
		struct check_finding *finding = &report->findings[i];

		text_make_printable(finding->instance.name);
		text_make_printable(finding->message);
		text_make_printable(finding->now);
		text_make_printable(finding->keep);
		text_make_printable(finding->hint);
	}
}
