/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/log.h"
#include "base/util.h"
#include "kernel/capability.h"

#include <sys/prctl.h>

/*
 * Sysctls whose write the kernel guards with CAP_SYS_ADMIN (kernel/sysctl.c
 * proc_dointvec_minmax_sysadmin and net/core/sysctl_net_core.c
 * proc_dolongvec_minmax_bpf_restricted).
 */
static bool needs_sys_admin(const char *sysctl)
{
	return starts_with(sysctl, "kernel.dmesg_restrict") ||
	       starts_with(sysctl, "kernel.kptr_restrict") ||
	       starts_with(sysctl, "kernel.unprivileged_bpf_disabled") ||
	       starts_with(sysctl, "net.core.bpf_jit_");
}

void agent_drop_privileges(const struct agent *agent)
{
	/* Thresholds by netlink; and kernels before 5.19 read BPF counters for CAP_BPF alone. */
	cap_value_t kept[3] = {CAP_NET_ADMIN, CAP_BPF};
	size_t n = 2;
	int r;

	for (size_t i = 0; i < agent->core.node.n_settings && n < ARRAY_SIZE(kept); i++)
		if (needs_sys_admin(agent->core.node.settings[i].want.name))
			kept[n++] = CAP_SYS_ADMIN;
	r = capability_keep_only(kept, n);
	if (r < 0)
		log_warning("privileges", "not dropped: %s", strerror(-r));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		log_warning("privileges", "no_new_privs not set");
}
