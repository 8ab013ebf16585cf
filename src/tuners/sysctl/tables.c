/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/sysctl/sysctl.h"

#include <linux/capability.h>

/* Sysctls whose write the kernel guards with a capability of their own. */
const struct capability_row sysctl_capabilities[] = {
	{CAPABILITY(CAP_SYS_ADMIN), CAPABILITY_TO_SET, "kernel.dmesg_restrict",
		"kernel/printk/sysctl.c"},
	{CAPABILITY(CAP_SYS_ADMIN), CAPABILITY_TO_SET, "kernel.kptr_restrict",
		"kernel/printk/sysctl.c"},
	{CAPABILITY(CAP_SYS_MODULE), CAPABILITY_TO_SET, "kernel.modules_disabled",
		"kernel/module/main.c"},
	{CAPABILITY(CAP_SYS_ADMIN), CAPABILITY_TO_SET, "kernel.unprivileged_bpf_disabled",
		"kernel/bpf/syscall.c"},
	{CAPABILITY(CAP_SYS_PTRACE), CAPABILITY_TO_SET, "kernel.yama.", "security/yama/yama_lsm.c"},
	{CAPABILITY(CAP_SYS_ADMIN), CAPABILITY_TO_SET, "net.core.bpf_jit_",
		"net/core/sysctl_net_core.c"},
	{CAPABILITY(CAP_SYS_RESOURCE), CAPABILITY_TO_SET, "user.", "kernel/ucount.c"},
	{CAPABILITY(CAP_SYS_RAWIO), CAPABILITY_TO_SET, "vm.mmap_min_addr", "security/min_addr.c"},
	{0},
};
