/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The node's files: procfs, sysfs and below the host's root. */

#include <limits.h>
#include <sys/types.h>

#include "base/util.h"

#include <headroom/setting.h>

struct host {
	char root[256];        /* HEADROOM_HOST_ROOT or --host-root, without a last slash; "": / */
	const char *state;     /* path of the state directory for this process; "": none */
	const char *node_name; /* in reports */
	/*
	 * load_file_put() of src/apply, which alone writes files of the node: for drivers, which
	 * are below it. NULL: such files cannot be written.
	 */
	int (*put_load_file)(const struct host *host, const char *path, const char *text);
};

/* Takes root as the user gave it. Returns false if it is too long. */
bool host_init(struct host *host, const char *root);

/* Writes and returns the path below the host's root, or "" if it is too long. */
const char *host_path(const struct host *host, const char *path, char full[static PATH_MAX]);

/* Calls read_file() below the host's root. */
int host_read_file(const struct host *host, const char *path, size_t max, char **text);

/*
 * Reads the value of a setting: one line with white space folded, or the selected word of a choice
 * in sysfs. Returns 0 or -errno, -E2BIG if it is longer than SETTING_VALUE_MAX - 1. value is
 * written only on success.
 */
int host_read_value(
	const struct host *host, const char *path, char value[static SETTING_VALUE_MAX]);

/*
 * Looks for a program on the node. word gets what starts it there: its name, or a path outside of
 * $PATH. False, with an empty word: the node lacks it.
 */
bool host_find_program(
	const struct host *host, const char *name, char word[static SETTING_PATH_MAX]);

/* Returns 0 if this process may write the file, else -errno: -EROFS, -EACCES. */
int host_may_write(const struct host *host, const char *path);

/* Returns whether a path that cannot be opened is a symbolic link. */
bool host_is_dangling(const struct host *host, const char *path);

/*
 * Finds the file of sysctl.d(5), or the profile of TuneD, that gives a sysctl this value, and
 * writes "set by FILE:LINE" or an empty text.
 */
bool host_find_sysctl(const struct host *host, const char *name, const char *value,
	char where[static SETTING_WHY_MAX]);

/*
 * Finds the value that the active profile of TuneD gives a key of a section, and writes where: "set
 * by the profile NAME of TuneD (FILE:LINE)". False without one.
 */
bool host_find_tuned(const struct host *host, const char *section, const char *key,
	char value[static SETTING_VALUE_MAX], char where[static SETTING_WHY_MAX]);

/* Returns whether an administrator chose the profile: TuneD can choose one by itself. */
bool host_tuned_is_chosen(const struct host *host);

/* A line of mountinfo, see proc_pid_mountinfo(5). */
struct mount {
	dev_t device;
	char root[PATH_MAX];  /* the mounted part of the file system */
	char point[PATH_MAX]; /* below the root of the process */
	char type[32];        /* "ext4" */
	char source[256];     /* "/dev/sda1" */
	bool is_read_only;    /* the file system, not only this mount of it */
};

/* Opens the mounts of the host's first process, or with an empty root this process's. */
FILE *mounts_open(const char *root);

/* Reads the next mount. False after the last, and for mounts NULL. */
bool mounts_next(FILE *mounts, struct mount *mount);

/*
 * Writes the path of a sysctl: /proc/sys/net/ipv4/conf/eth0.100/mtu for
 * "net.ipv4.conf.eth0/100.mtu". As for sysctl(8), slashes in a name stand for dots in the path.
 * Returns whether it fits.
 */
bool sysctl_path(const char *name, char path[static SETTING_PATH_MAX]);
