/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/limits.h"

/* A new limit is one row here. A file that this node lacks means that it has no such limit. */
const struct limit_row limits_rows[] = {
	{
		.name = "conntrack",
		.unit = "connections",
		.used = {"/proc/sys/net/netfilter/nf_conntrack_count", 1},
		.max = {"/proc/sys/net/netfilter/nf_conntrack_max", 1},
		.help = "Connections that netfilter tracks, in the network namespace of the agent. "
			"When the table is full, packets of new connections are dropped (\"table "
			"full, dropping packet\" in the kernel's log).",
		.def = "by memory, 262144 at most",
		.option = "sysctl, net.netfilter.nf_conntrack_max",
		.source = "net/netfilter/nf_conntrack_core.c, __nf_conntrack_alloc()",
	},
	{
		.name = "file-handles",
		.unit = "files",
		.used = {"/proc/sys/fs/file-nr", 1},
		.max = {"/proc/sys/fs/file-nr", 3},
		.help = "Open files of all processes. When no more are left, open, socket and accept "
			"fail with ENFILE for all but root. Where systemd has raised the maximum to "
			"the largest number, there is no limit.",
		.def = "by memory, about 10 % at 1 kB a file",
		.option = "sysctl, fs.file-max",
		.source = "fs/file_table.c, alloc_empty_file()",
	},
	{0},
};
