/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The node as files: where its procfs and sysfs are, and how one value is read from them. */

#include <limits.h>

#include "base/util.h"

#include <headroom/setting.h>

struct names;

struct host {
	char root[256];    /* "" for /: what HEADROOM_HOST_ROOT or --host-root names, without a last
			      slash */
	const char *state; /* the state directory, as this process sees it; "" for none */
	const char *node_name; /* as reports have it */
	struct names *names;   /* what runtimes tell of ids; NULL: nothing is known */
};

/* root as the user gave it. False when it is too long. */
bool host_init(struct host *host, const char *root);

/* The full path of a file below the host's root; one that is too long is "", which no file has. */
const char *host_path(const struct host *host, const char *path, char full[static PATH_MAX]);

/*
 * Reads a setting's value: one line, the selected word of a sysfs choice, white space folded. 0 or
 * -errno; -E2BIG for a value longer than SETTING_VALUE_MAX - 1. value is written only on success.
 */
int host_read_value(
	const struct host *host, const char *path, char value[static SETTING_VALUE_MAX]);

/* 0 when this process could write the file, else -errno: -EROFS, -EACCES. Nothing is opened. */
int host_may_write(const struct host *host, const char *path);

/* Whether a path that is not there is a symbolic link: one that points nowhere. */
bool host_is_dangling(const struct host *host, const char *path);

/*
 * The file of a sysctl: "net.ipv4.conf.eth0/100.mtu" is /proc/sys/net/ipv4/conf/eth0.100/mtu, dots
 * separate and slashes stand for dots, as sysctl(8) has it. False when it does not fit.
 */
bool sysctl_path(const char *name, char path[static SETTING_PATH_MAX]);
