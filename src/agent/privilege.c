/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/log.h"
#include "base/util.h"
#include "kernel/capability.h"

#include <sys/prctl.h>

/* Sysctls whose write the kernel guards with a capability of their own, by how the names begin. */
static const struct {
	const char *prefix;
	cap_value_t capability;
} guarded[] = {
	{"kernel.dmesg_restrict", CAP_SYS_ADMIN}, /* kernel/sysctl.c, or kernel/printk/sysctl.c */
	{"kernel.kptr_restrict", CAP_SYS_ADMIN}, {"kernel.modules_disabled", CAP_SYS_MODULE},
	{"kernel.unprivileged_bpf_disabled", CAP_SYS_ADMIN},
	{"kernel.yama.", CAP_SYS_PTRACE},     /* security/yama/yama_lsm.c */
	{"net.core.bpf_jit_", CAP_SYS_ADMIN}, /* net/core/sysctl_net_core.c */
	{"user.", CAP_SYS_RESOURCE},          /* kernel/ucount.c */
	{"vm.mmap_min_addr", CAP_SYS_RAWIO},  /* security/min_addr.c */
};

/* A record may be of a setting that the configuration names no more: a restore writes it. */
static bool is_managed(const struct core *core, const char *prefix)
{
	size_t n = 0;
	const struct value_record *records =
		core->values ? value_store_records(core->values, &n) : NULL;

	for (size_t i = 0; i < core->node.n_settings; i++)
		if (starts_with(core->node.settings[i].name, prefix))
			return true;
	for (size_t i = 0; i < n; i++)
		if (starts_with(records[i].name, prefix))
			return true;
	return false;
}

/*
 * Files of runtimes and of the kubelet: an owner other than root is kept with CAP_CHOWN, and from a
 * container the host's own programs are asked in the host's root. Where the unit or the pod does
 * not give these, they are not had, and cannot be kept.
 */
static bool edits_files(const struct core *core)
{
	static const char *const tuners[] = {"runtime", "kubelet"};

	for (size_t i = 0; i < core->node.n_tuners; i++)
		for (size_t t = 0; t < ARRAY_SIZE(tuners); t++)
			if (core->node.tuners[i].mode == MODE_ENFORCE &&
				streq(core->node.tuners[i].ops->name, tuners[t]))
				return true;
	return core->n_files > 0;
}

void agent_drop_privileges(const struct agent *agent)
{
	/*
	 * Thresholds by netlink; kernels before 5.19 read BPF counters for CAP_BPF alone; and the
	 * loop goes to a real-time priority and back, see loop.c.
	 */
	cap_value_t kept[5 + ARRAY_SIZE(guarded)] = {CAP_NET_ADMIN, CAP_BPF, CAP_SYS_NICE};
	size_t n = 3;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(guarded); i++)
		if (is_managed(&agent->core, guarded[i].prefix))
			kept[n++] = guarded[i].capability;
	if (edits_files(&agent->core)) {
		kept[n++] = CAP_CHOWN;
		if (agent->core.host.root[0])
			kept[n++] = CAP_SYS_CHROOT;
	}
	r = capability_keep_only(kept, n);
	if (r < 0)
		log_warning("privileges", "not dropped: %s", strerror(-r));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		log_warning("privileges", "no_new_privs not set");
}
