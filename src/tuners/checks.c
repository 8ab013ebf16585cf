/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/table.h"

#include "base/text.h"
#include "kernel/host.h"

#include <fnmatch.h>
#include <sys/prctl.h>

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

/* Returns whether the name, or a pattern, is of something that doctor checks. */
static bool is_checked(
	const struct help_entry *entries, size_t n, const char *name, struct suggestion *nearest)
{
	for (size_t i = 0; i < n; i++) {
		enum entry_kind kind = entries[i].kind;

		if (kind != ENTRY_LIMIT && kind != ENTRY_CONDITION && kind != ENTRY_CHECK &&
			!entry_is_setting(&entries[i]))
			continue;
		if (fnmatch(entries[i].name, name, 0) == 0 ||
			fnmatch(name, entries[i].name, 0) == 0)
			return true;
		suggest_offer(nearest, name, entries[i].name);
	}
	return false;
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

		if (find_named(sysctls, n_sysctls, name) || is_checked(entries, n, name, &nearest))
			continue;
		config_fault_add(faults, &where, "doctor.ignore: no check has this name: %s%s%s",
			nearest.word[0] ? "did you mean " : "headroom doctor --json lists them",
			nearest.word, nearest.word[0] ? "?" : "");
	}
}
