/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of what kubelet and container runtimes need from the node, in this order: cgroup
 * controllers; swap; forwarding and bridges, which depend on the CNI; units; the clock. Each is
 * silent on a node that does not need it.
 */
#include "tuners/checks.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "runtime/kubelet.h"
#include "runtime/systemd.h"
#include "workload/process.h"

#include <sys/timex.h>

#define FILE_TEXT_MAX (256 * 1024)

/* Returns whether a kubelet has files here or runs. */
static bool has_kubelet(const struct host *host)
{
	struct kubelet_seen seen = {0};

	kubelet_read(host, &seen);
	return seen.presence != KUBELET_ABSENT;
}

/* ---- cgroup controllers ---- */

static bool match_runtime(const char *root, pid_t pid, void *)
{
	static const char *const names[] = {"containerd", "dockerd", "crio"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (process_is_named(root, pid, names[i]) && process_is_of_host(root, pid))
			return true;
	return false;
}

/* Finds a controller of cgroup v1. Its line has the name, the hierarchy, cgroups and enabled. */
static bool find_controller_v1(
	const char *cgroups, const char *name, unsigned *hierarchy, unsigned *enabled)
{
	for (const char *line = cgroups; *line;
		line += strcspn(line, "\n"), line += *line == '\n') {
		char word[32];

		if (sscanf(line, "%31s %u %*u %u", word, hierarchy, enabled) == 3 &&
			streq(word, name))
			return true;
	}
	return false;
}

/* The path, below which version 2 is mounted, also beside version 1. */
static void read_controllers_v2(const struct host *host, char **text)
{
	if (host_read_file(host, "/sys/fs/cgroup/cgroup.controllers", 4096, text) < 0 &&
		host_read_file(host, "/sys/fs/cgroup/unified/cgroup.controllers", 4096, text) < 0)
		*text = must(strdup(""));
}

/* Says why a controller is missing, and where it can be given. */
static void add_controller(struct check_report *report, const char *name, bool is_off)
{
	struct check_finding *finding = check_add(report, CHECK_FAULT, "the controller is %s",
		is_off ? "switched off at boot" : "in neither version of cgroups");

	check_about(finding, INSTANCE_SETTING, "%s", name);
	if (is_off)
		check_set(finding->hint,
			"remove cgroup_disable=%s from the kernel's command line, or add "
			"cgroup_enable=%s (Raspberry Pi: /boot/firmware/cmdline.txt), and reboot",
			name, name);
	else
		check_set(finding->hint,
			"grep %s /proc/cgroups: mount it with cgroup v1, or boot with "
			"systemd.unified_cgroup_hierarchy=1; a kernel without it needs another "
			"kernel",
			name);
}

void check_cgroup_controllers(struct check_report *report)
{
	static const struct {
		const char *name;
		bool kubelet_only;
	} needed[] = {{"cpu", false}, {"cpuset", true}, {"memory", false}, {"pids", false}};
	_cleanup_free_ char *v1 = NULL, *v2 = NULL;
	bool kubelet = has_kubelet(report->host);
	size_t before = report->n;
	int r;

	if (!kubelet && process_find(report->host->root, match_runtime, NULL) == 0) {
		(void)check_add(report, CHECK_ABSENT, "no kubelet and no container runtime");
		return;
	}
	/* A kernel without cgroup v1 lacks the file, and since 6.11 rows of controllers. */
	r = host_read_file(report->host, "/proc/cgroups", FILE_TEXT_MAX, &v1);
	if (r < 0 && r != -ENOENT)
		return check_add_unread(report, "/proc/cgroups", r);
	read_controllers_v2(report->host, &v2);
	if (!v1 && !v2[0])
		return check_add_unread(report, "/proc/cgroups", r);
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		unsigned hierarchy = 0, enabled = 1;
		bool known = v1 && find_controller_v1(v1, needed[i].name, &hierarchy, &enabled);

		if ((needed[i].kubelet_only && !kubelet) || text_has_word(v2, needed[i].name) ||
			(known && enabled && hierarchy > 0))
			continue;
		add_controller(report, needed[i].name, known && !enabled);
	}
	if (report->n == before)
		check_add_fine(report);
}

/* ---- swap ---- */

/* Replaces "\040" of a name in /proc/swaps or fstab(5). */
static void decode(char *name)
{
	char *to = name;
	unsigned code;
	int len;

	for (const char *from = name; *from; to++)
		if (*from == '\\' && sscanf(from + 1, "%3o%n", &code, &len) == 1 && code > 0) {
			*to = (char)code;
			from += 1 + len;
		} else {
			*to = *from++;
		}
	*to = '\0';
}

/* Returns the line of fstab(5) that turns the swap on at boot, by its path; 0: none has it. */
static unsigned find_in_fstab(const char *fstab, const char *name)
{
	unsigned number = 1;

	for (const char *line = fstab; *line; number++) {
		char source[PATH_MAX], type[32];

		if (sscanf(line, "%4095s %*s %31s", source, type) == 2 && source[0] != '#' &&
			streq(type, "swap")) {
			decode(source);
			if (streq(source, name))
				return number;
		}
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return 0;
}

static void add_swap(struct check_report *report, const struct kubelet_seen *kubelet, char *name)
{
	const struct kubelet_value *value = &kubelet->values.field[KUBELET_FAIL_SWAP_ON];
	struct check_finding *finding = check_add(report, CHECK_FAULT, "swap is on, and %s",
		kubelet->presence == KUBELET_RUNNING
			? "the kubelet runs only because it looks at its start"
			: "the kubelet does not start");
	_cleanup_free_ char *fstab = NULL;
	char quoted[SHELL_WORD_MAX];
	unsigned line;

	decode(name);
	text_append(finding->message, sizeof(finding->message), ": failSwapOn is true");
	if (value->origin == KUBELET_FILE)
		text_append(finding->message, sizeof(finding->message), " (%.150s:%u)", value->file,
			value->line);
	else
		text_append(finding->message, sizeof(finding->message), " (%s)",
			value->origin == KUBELET_FLAG ? "by a flag" : "by default");
	check_about(finding, INSTANCE_DEVICE, "%s", name);
	check_set(finding->now, "swapoff %s", shell_word(quoted, name));
	line = host_read_file(report->host, "/etc/fstab", FILE_TEXT_MAX, &fstab) == 0
		       ? find_in_fstab(fstab, name)
		       : 0;
	if (line > 0)
		check_set(finding->hint, "/etc/fstab:%u turns it on at the next boot: remove it",
			line);
	else
		check_set(finding->hint, "systemctl list-units --type swap --all shows what turns "
					 "it on at the next boot; or set failSwapOn: false");
}

void check_swap(struct check_report *report)
{
	_cleanup_free_ char *swaps = NULL;
	struct kubelet_seen kubelet = {0};
	size_t before = report->n;
	char name[512];
	int r = host_read_file(report->host, "/proc/swaps", FILE_TEXT_MAX, &swaps);

	if (r < 0)
		return check_add_unread(report, "/proc/swaps", r);
	kubelet_read(report->host, &kubelet);
	if (kubelet.presence == KUBELET_ABSENT) {
		(void)check_add(report, CHECK_ABSENT, "no kubelet");
		return;
	}
	if (kubelet.why[0] && strchr(swaps, '\n') && strchr(swaps, '\n')[1]) {
		(void)check_add(report, CHECK_UNKNOWN,
			"swap is on, and failSwapOn is not known: %s", kubelet.why);
		return;
	}
	if (streq(kubelet.values.field[KUBELET_FAIL_SWAP_ON].text, "true"))
		for (const char *line = strchr(swaps, '\n'); line; line = strchr(line + 1, '\n'))
			if (sscanf(line + 1, "%511s", name) == 1)
				add_swap(report, &kubelet, name);
	if (report->n == before)
		check_add_fine(report);
}

/* ---- what a CNI needs ---- */

/* Plugins that make a pod's interface, and their needs. Unknown plugins set the switches. */
static const struct {
	const char *plugin;
	bool forwarding, bridge;
} cni_plugins[] = {{"bridge", true, true}, {"flannel", true, true}, {"weave-net", true, true},
	{"ptp", true, false}, {"calico", true, false}, {"aws-cni", true, false},
	{"azure-vnet", true, false}, {"antrea", true, false}, {"cilium-cni", true, false}};

struct cni {
	char file[PATH_MAX]; /* empty: none */
	char plugin[64];
	bool needs_forwarding, needs_bridge;
};

static int read_cni_file(const struct host *host, struct cni *cni, char why[static JSON_WHY_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	_cleanup_free_ char *text = NULL;
	const cJSON *plugin;
	const char *type;
	int r = host_read_file(host, cni->file, FILE_TEXT_MAX, &text);

	if (r == 0)
		r = json_parse(text, strlen(text), &document, why);
	else
		snprintf(why, JSON_WHY_MAX, "%s", strerror(-r));
	if (r < 0)
		return r;
	/* A list, or a file of one plugin. The first one makes the interface. */
	plugin = cJSON_GetArrayItem(json_at(document, "plugins"), 0);
	type = json_text_at(plugin ? plugin : document, "type");
	set_text(cni->plugin, type);
	for (size_t i = 0; i < ARRAY_SIZE(cni_plugins); i++)
		if (streq(type, cni_plugins[i].plugin)) {
			cni->needs_forwarding = cni_plugins[i].forwarding;
			cni->needs_bridge = cni_plugins[i].bridge;
		}
	return 0;
}

static int is_cni_file(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot && (streq(dot, ".conf") || streq(dot, ".conflist") || streq(dot, ".json"));
}

/* Finds the configuration that the runtime uses: the first by name. 0, or -errno with why. */
static int read_cni(const struct host *host, struct cni *cni, char why[static JSON_WHY_MAX])
{
	static const char *const directories[] = {"/etc/cni/net.d",
		"/var/lib/rancher/k3s/agent/etc/cni/net.d",
		"/var/lib/rancher/rke2/agent/etc/cni/net.d"};
	char full[PATH_MAX];

	*cni = (struct cni){0};
	for (size_t i = 0; i < ARRAY_SIZE(directories) && !cni->file[0]; i++) {
		struct dirent **entries = NULL;
		int n = scandir(
			host_path(host, directories[i], full), &entries, is_cni_file, alphasort);

		if (n < 0 && errno != ENOENT) {
			snprintf(why, JSON_WHY_MAX, "%s", strerror(errno));
			set_text(cni->file, directories[i]);
			return -errno;
		}
		if (n > 0)
			snprintf(cni->file, sizeof(cni->file), "%s/%s", directories[i],
				entries[0]->d_name);
		for (int k = 0; k < n; k++)
			free(entries[k]);
		free(entries);
	}
	return cni->file[0] ? read_cni_file(host, cni, why) : 0;
}

/* Reads the CNI's configuration on a node with a kubelet. Without either, it reports the reason. */
static bool find_cni(struct check_report *report, struct cni *cni)
{
	char why[JSON_WHY_MAX] = "";
	int r;

	if (!has_kubelet(report->host)) {
		(void)check_add(report, CHECK_ABSENT, "no kubelet");
		return false;
	}
	r = read_cni(report->host, cni, why);
	if (r < 0)
		(void)check_add(report, CHECK_UNKNOWN, "%.200s: %s%s", cni->file, why,
			r == -EACCES || r == -EPERM ? ": run the command as root" : "");
	else if (!cni->file[0])
		(void)check_add(report, CHECK_ABSENT, "no configuration of a CNI");
	return r == 0 && cni->file[0];
}

void check_ip_forward(struct check_report *report)
{
	static const char path[] = "/proc/sys/net/ipv4/ip_forward";
	char value[SETTING_VALUE_MAX];
	struct check_finding *finding;
	struct cni cni;
	int r;

	if (!find_cni(report, &cni))
		return;
	r = host_read_value(report->host, path, value);
	if (r < 0)
		return check_add_unread(report, path, r);
	if (!cni.needs_forwarding || !streq(value, "0"))
		return check_add_fine(report);
	finding = check_add(report, CHECK_FAULT,
		"net.ipv4.ip_forward is 0, and the pods' network (%.150s: %s) needs 1", cni.file,
		cni.plugin);
	check_set(finding->now, "sysctl -w net.ipv4.ip_forward=1");
	check_set(finding->hint, "grep -r ip_forward /etc/sysctl.conf /etc/sysctl.d "
				 "/usr/lib/sysctl.d /run/sysctl.d shows who sets it");
}

void check_bridge_netfilter(struct check_report *report)
{
	static const char path[] = "/proc/sys/net/bridge/bridge-nf-call-iptables";
	char value[SETTING_VALUE_MAX];
	struct check_finding *finding;
	struct cni cni;
	int r;

	if (!find_cni(report, &cni))
		return;
	r = host_read_value(report->host, path, value);
	if (r < 0 && r != -ENOENT)
		return check_add_unread(report, path, r);
	if (!cni.needs_bridge || (r == 0 && !streq(value, "0")))
		return check_add_fine(report);
	finding = check_add(report, CHECK_FAULT, "%s, and the pods' network (%.150s: %s) needs it",
		r < 0 ? "the module br_netfilter is not loaded"
		      : "net.bridge.bridge-nf-call-iptables is 0",
		cni.file, cni.plugin);
	if (r == 0) {
		check_set(finding->now, "sysctl -w net.bridge.bridge-nf-call-iptables=1");
		return;
	}
	check_set(finding->now, "modprobe br_netfilter");
	check_set(finding->hint, "echo br_netfilter > /etc/modules-load.d/br_netfilter.conf loads "
				 "it at boot");
}

/* ---- units ---- */

#define FLAPS      3 /* restarts */
#define FLAPPED_US (600 * USEC_PER_SEC)

static bool is_enabled(const struct systemd_state *unit)
{
	return starts_with(unit->file, "enabled") || streq(unit->file, "static") ||
	       streq(unit->file, "generated") || starts_with(unit->file, "linked");
}

/* A kubelet of kubeadm restarts until the node joins a cluster, which writes this file. */
static bool waits_for_join(const struct host *host, const char *name)
{
	char full[PATH_MAX];

	return streq(name, "kubelet.service") && !has_kubelet(host) &&
	       access(host_path(host, "/var/lib/kubelet/config.yaml", full), F_OK) < 0;
}

static void add_unit(struct check_report *report, const char *name,
	const struct systemd_state *unit, bool failed)
{
	char since[CHECK_TIME_MAX];
	struct check_finding *finding =
		failed ? check_add(report, CHECK_FAULT, "failed (%s)",
				 unit->result[0] ? unit->result : "no result")
		       : check_add(report, CHECK_FAULT, "restarted %u times, is %s (%s)",
				 unit->restarts, unit->active, unit->sub);

	check_about(finding, INSTANCE_UNIT, "%s", name);
	if (!failed && unit->result[0] && !streq(unit->result, "success"))
		text_append(finding->message, sizeof(finding->message), ", its last result is %s",
			unit->result);
	if (unit->change_us > 0)
		text_append(finding->message, sizeof(finding->message), " since %s",
			check_time(unit->change_us, since));
	finding->since_us = unit->change_us;
	if (!failed)
		finding->severity = SEVERITY_WARNING;
	if (failed && streq(unit->result, "start-limit-hit"))
		check_set(finding->now, "systemctl reset-failed %s && systemctl start %s", name,
			name);
	else if (failed)
		check_set(finding->now, "systemctl start %s", name);
	check_set(finding->hint, "journalctl -u %s -n 20 has the reason%s", name,
		failed ? ", if it fails again" : "");
	if (waits_for_join(report->host, name)) {
		finding->severity = SEVERITY_ADVICE;
		check_set(finding->hint, "the node has not joined a cluster: kubeadm join");
	} else if (!is_enabled(unit)) {
		finding->severity = SEVERITY_ADVICE;
		check_set(finding->now, "systemctl reset-failed %s", name);
		check_set(finding->hint, "it is not enabled, so nothing needs it");
	}
}

static void judge_unit(
	struct check_report *report, const char *name, const struct systemd_state *unit)
{
	bool runs = streq(unit->active, "active"), failed = streq(unit->active, "failed");
	bool begins = streq(unit->active, "activating");

	if (failed || (unit->restarts >= FLAPS &&
			      (begins || (runs && unit->active_us + FLAPPED_US > realtime_us()))))
		add_unit(report, name, unit, failed);
}

/* Returns why units cannot be asked for, as a finding. */
static void add_no_systemd(struct check_report *report, int error)
{
	char full[PATH_MAX];

	if (access(host_path(report->host, "/run/systemd/system", full), F_OK) < 0)
		(void)check_add(report, CHECK_ABSENT, "systemd does not run this node");
	else
		(void)check_add(report, CHECK_UNKNOWN,
			"systemd does not answer: %s: /run/dbus/system_bus_socket must be there, "
			"and the user allowed to ask",
			strerror(-error));
}

void check_units(struct check_report *report)
{
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	int r = systemd_open(report->host, &bus);
	size_t before = report->n;
	bool found = false;

	if (r < 0)
		return add_no_systemd(report, r);
	for (const char *const *name = node_units; *name; name++) {
		struct systemd_state unit;

		if (!systemd_state(report->host, *name, &unit) || !streq(unit.load, "loaded"))
			continue;
		found = true;
		judge_unit(report, *name, &unit);
	}
	if (report->n == before)
		(void)check_add(report, found ? CHECK_FINE : CHECK_ABSENT, "%s",
			found ? "" : "no unit of a kubelet or container runtime is installed");
}

const char *const node_units[] = {"kubelet.service", "containerd.service", "docker.service",
	"crio.service", "cri-docker.service", "k3s.service", "k3s-agent.service",
	"rke2-server.service", "rke2-agent.service", "k0scontroller.service", "k0sworker.service",
	"snap.microk8s.daemon-kubelite.service", "snap.microk8s.daemon-containerd.service", NULL};

/* ---- the clock ---- */

/* The kernel's largest error (include/linux/timex.h): it counts as not synchronised. */
#define MAXERROR_US 16000000
#define START_US    (300 * USEC_PER_SEC) /* a program needs so long for its first time */

struct clock_program {
	const char *comm; /* at most 15 characters */
	const char *units[2];
	const char *ask;
};

static const struct clock_program clock_programs[] = {
	{"chronyd", {"chrony.service", "chronyd.service"}, "chronyc sources"},
	{"systemd-timesyn", {"systemd-timesyncd.service"}, "timedatectl timesync-status"},
	{"ntpd", {"ntpsec.service", "ntpd.service"}, "ntpq -p"},
	{"phc2sys", {"phc2sys.service"}, "journalctl -u phc2sys -n 20"}};

static bool match_comm(const char *root, pid_t pid, void *comm)
{
	return process_is_named(root, pid, comm);
}

/*
 * Returns what sets the clock without telling the kernel, or NULL: a host that always does, or a
 * program of a hypervisor, whose time service can be off, so that a time server's program counts
 * more.
 */
static const char *find_host_clock(const struct host *host)
{
	static const struct {
		const char *path, *name;
	} hosts[] = {{"/run/systemd/container", "the container's host"},
		{"/sys/bus/vmbus/drivers/hv_utils", "Hyper-V"}};
	char full[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++)
		if (access(host_path(host, hosts[i].path, full), F_OK) == 0)
			return hosts[i].name;
	return NULL;
}

static const char *find_guest_program(const struct host *host)
{
	char programs[][16] = {"VBoxService", "vmtoolsd"};

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (process_find(host->root, match_comm, programs[i]) > 0)
			return i == 0 ? "VBoxService" : "vmtoolsd";
	return NULL;
}

static bool has_started(const struct host *host, pid_t pid)
{
	uint64_t start;

	return process_start(host->root, pid, &start) < 0 ||
	       realtime_of_boottime(start) + START_US < realtime_us();
}

/* Reports a program for the clock that runs without a source, or that is installed and stopped. */
static bool judge_program(struct check_report *report, const struct clock_program *program)
{
	struct systemd_state unit;
	struct check_finding *finding;
	char comm[16];
	pid_t pid;

	set_text(comm, program->comm);
	pid = process_find(report->host->root, match_comm, comm);
	if (pid > 0 && !has_started(report->host, pid)) {
		(void)check_add(report, CHECK_ABSENT, "%s has just started", program->comm);
		return true;
	}
	if (pid > 0) {
		finding = check_add(report, CHECK_FAULT,
			"the clock is not synchronised, although %s runs: none of its sources can be used",
			program->comm);
		check_set(finding->hint, "%s shows its sources", program->ask);
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(program->units) && program->units[i]; i++) {
		if (!systemd_state(report->host, program->units[i], &unit) ||
			!streq(unit.load, "loaded") || !is_enabled(&unit))
			continue;
		finding = check_add(report, CHECK_FAULT, "the clock is not synchronised: %s is %s",
			program->units[i], unit.active);
		check_set(finding->now, "systemctl restart %s", program->units[i]);
		return true;
	}
	return false;
}

void check_clock(struct check_report *report)
{
	struct timex timex = {0};
	struct check_finding *finding;
	char chronyd[] = "chronyd";
	const char *other;

	if (adjtimex(&timex) < 0) {
		(void)check_add(report, CHECK_UNKNOWN, "adjtimex: %s", strerror(errno));
		return;
	}
	/* chrony without rtcsync sets the error and leaves the flag. */
	if (!(timex.status & STA_UNSYNC) ||
		(timex.maxerror < MAXERROR_US &&
			process_find(report->host->root, match_comm, chronyd) > 0))
		return check_add_fine(report);
	other = find_host_clock(report->host);
	for (size_t i = 0; !other && i < ARRAY_SIZE(clock_programs); i++)
		if (judge_program(report, &clock_programs[i]))
			return;
	if (!other)
		other = find_guest_program(report->host);
	if (other) {
		(void)check_add(report, CHECK_ABSENT, "%s sets the clock", other);
		return;
	}
	finding = check_add(report, CHECK_FAULT,
		"the clock is not synchronised: no chronyd, systemd-timesyncd or ntpd runs");
	check_set(finding->hint, "install chrony or systemd-timesyncd");
	if (!has_kubelet(report->host))
		finding->severity = SEVERITY_ADVICE;
}
