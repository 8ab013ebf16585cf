/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads a containerd's configuration and finds where each of our keys belongs. `containerd config
 * dump` shows the result of all files, so this needs little knowledge of versions. Blocks.
 *
 * From containerd's source (cmd/containerd/server/config, 1.x: services/server/config), verified
 * with 1.6.20 and 2.4.2:
 * - 1.x: a plugin's section in an imported file replaces the whole section of the main file. A key
 *   must be in the file whose section counts.
 * - 2.x: sections are merged key by key and the last file wins, so a file of our own is enough.
 *   Only `imports` in a file count, not the default /etc/containerd/conf.d that 2.2 and later
 * print.
 * - 2.0 to 2.2 apply the version of the last file to the whole configuration, and do not start with
 *   a version above their own: our own file omits it.
 */

#include "runtime/driver.h"

#define CONTAINERD_DROP_IN   "99-headroom.toml"
#define CONTAINERD_FILES_MAX 32 /* of one configuration */

/* ---- files and dump ---- */

struct containerd_file {
	char path[SETTING_PATH_MAX]; /* below the host's root */
	char *text;                  /* NULL for a main file or own file that does not exist */
	size_t len;
};

/* In the order in which containerd reads them; the main file is the first. */
struct containerd_files {
	struct containerd_file files[CONTAINERD_FILES_MAX];
	size_t n;
	size_t own;          /* index of our own file; 0: no import includes it */
	uint64_t changed_us; /* CLOCK_REALTIME of the newest file */
};

/* 0, or -errno with why: "PATH:LINE:COLUMN: what". The caller clears files in both cases. */
int containerd_files_read(const struct host *host, const struct daemon *daemon,
	struct containerd_files *files, char why[static RUNTIME_WHY_MAX]);

/* Removes the files that the imports of a 1.x's dump lack: containerd did not read them. */
void containerd_files_filter(
	struct containerd_files *files, const struct daemon *daemon, const char *dump);
void containerd_files_clear(struct containerd_files *files);

/*
 * The output of `containerd -c path config dump`, run in the daemon's working directory and the
 * host's root; path NULL: of `config default`. The caller frees it. -EINVAL when containerd refuses
 * the files, another -errno when it did not run; both with why.
 */
int containerd_dump(const struct host *host, const struct daemon *daemon, const char *path,
	const struct wait *wait, char **dump, char why[static RUNTIME_WHY_MAX]);

/* As main_file() of struct runtime_driver. */
int containerd_main_file(const struct host *host, const struct daemon *daemon, const char *path,
	const char *trial, const struct wait *wait, char **text, char why[static RUNTIME_WHY_MAX]);

/*
 * Whether the program has the daemon's version: a relative name or an upgrade can lead to another.
 * 0, -ESTALE if it differs, or the error of child_ask(); with why.
 */
int containerd_check_program(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, char why[static RUNTIME_WHY_MAX]);

/* ---- configuration ---- */

/* config is zeroed or the result of the last call for this daemon. */
void containerd_config_read(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, struct runtime_files *config);

/* version is "1.6.20~ds1", "v2.1.4" or alike. */
bool containerd_is_at_least(const char *version, unsigned major, unsigned minor);
