/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_SYSCTL_H
#define KERNEL_SYSCTL_H

#include <stdbool.h>

#include "kernel/host.h"

/*
 * The file of a sysctl: "net.ipv4.conf.eth0/100.mtu" is /proc/sys/net/ipv4/conf/eth0.100/mtu, dots
 * separate and slashes stand for dots, as sysctl(8) has it. False when it does not fit.
 */
bool sysctl_path(const char *name, char path[static SETTING_PATH_MAX]);

/*
 * Whether the node has a sysctl. When it has not, nearest is the existing name that may have been
 * meant, "" for none.
 */
bool sysctl_exists(
	const struct host *host, const char *name, char nearest[static SETTING_NAME_MAX]);

#endif
