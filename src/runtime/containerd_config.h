/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a containerd's configuration says, and where each of our keys would go. `containerd config
 * dump` shows what the files come to, so little has to be known of versions; which key counts is
 * read from the dump too. Everything here may block, and nothing writes.
 *
 * From containerd's source (cmd/containerd/server/config, 1.x: services/server/config), and tried
 * with 1.6.20 and 2.4.2:
 * - 1.x: a plugin's section in a file that `imports` names replaces that section of the main file
 *   whole. So a key has to go into the file whose section counts.
 * - 2.x: sections merge key by key, the file read last wins: a file of our own is enough. Only
 *   `imports` that are in a file are followed, not the /etc/containerd/conf.d that 2.2 and later
 *   print as their default.
 * - 2.0 to 2.2 take the whole configuration to have the version of the file read last, and a
 *   version above the daemon's own prevents its start: our own file has no version.
 */

#include "runtime/driver.h"

#define CONTAINERD_DROP_IN   "99-headroom.toml"
#define CONTAINERD_FILES_MAX 32 /* of one configuration */

/* ---- files and dump ---- */

struct containerd_file {
	char path[SETTING_PATH_MAX]; /* below the host's root */
	char *text;
	size_t len;
};

/*
 * In the order that containerd reads them. Without text are the main file, which is the first, and
 * our own one, where they do not exist.
 */
struct containerd_files {
	struct containerd_file files[CONTAINERD_FILES_MAX];
	size_t n;
	size_t own;          /* index of our own file; 0: there is no place for one */
	uint64_t changed_us; /* CLOCK_REALTIME: of the newest of them */
};

/* 0, or -errno with why: "PATH:LINE:COLUMN: what". files is cleared by the caller either way. */
int containerd_files_read(const struct runtime_daemon *process, struct containerd_files *files,
	char why[static RUNTIME_WHY_MAX]);

/* 1.x names all files that it read in the dump: takes those out that it did not. */
void containerd_files_filter(
	struct containerd_files *files, const struct runtime_daemon *process, const char *dump);
void containerd_files_clear(struct containerd_files *files);

/*
 * What `containerd -c path config dump` prints, in the daemon's working directory; freed by the
 * caller. path is as the program inside the host's root sees it. -EINVAL when it refuses the files;
 * another -errno when it could not be run; both with why.
 */
int containerd_dump(const struct runtime_daemon *process, const char *path, const struct wait *wait,
	char **dump, char why[static RUNTIME_WHY_MAX]);

/* A key's value in a dump; name is the table's, a dot and the key's. False when it has none. */
bool containerd_dump_value(const char *dump, const char *name, char *out, size_t size);

/* ---- what the tuner asks ---- */

/* config is zeroed, or what the last call for this process wrote. */
void containerd_config_read(const struct runtime_daemon *process, const struct wait *wait,
	struct runtime_files *config);

/* Of a version such as "1.6.20~ds1", "v2.1.4". */
bool containerd_is_at_least(const char *version, unsigned major, unsigned minor);

/* Duration as Go prints and reads it, "30m0s", "1h30m", as microseconds. -EINVAL, -ERANGE. */
int containerd_duration_parse(const char *text, unsigned long long *us);
