/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"

#include "base/file.h"
#include "base/util.h"
#include "workload/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define DEFAULT_FILE      "/var/lib/kubelet/config.yaml"
#define FILE_MAX          (256 * 1024) /* bytes: a hundred times a full configuration */
#define LOOK_US           (60 * USEC_PER_SEC)
#define PROCESSES_AT_ONCE 200 /* some 2 ms */
#define FNV_OFFSET        UINT64_C(14695981039346656037)
#define FNV_PRIME         UINT64_C(1099511628211)

/* One look at the files. */
struct look {
	const struct host *host;
	const struct kubelet_process *process;
	struct kubelet_seen *seen;
	uint64_t start_us; /* CLOCK_REALTIME of the kubelet's start */
	/* What is younger than that: files of others, our own, directories. */
	bool changed, own_changed, directory_changed;
};

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ bytes[i]) * FNV_PRIME;
	return hash;
}

static int stat_below(const struct host *host, const char *path, struct stat *st)
{
	char full[PATH_MAX];
	int r = path_in_root(host->root, path, full);

	if (r < 0)
		return r;
	return stat(full, st) < 0 ? -errno : 0;
}

static uint64_t mix_path(const struct host *host, const char *path, uint64_t hash)
{
	struct stat st;
	int r = stat_below(host, path, &st);

	hash = mix(hash, &r, sizeof(r));
	if (r < 0)
		return hash;
	hash = mix(hash, &st.st_ino, sizeof(st.st_ino));
	hash = mix(hash, &st.st_size, sizeof(st.st_size));
	hash = mix(hash, &st.st_mtim, sizeof(st.st_mtim));
	return mix(hash, &st.st_ctim, sizeof(st.st_ctim));
}

/* Whether anything that was read is another now, or the process is gone. */
static uint64_t sign(const struct kubelet_sensor *sensor)
{
	uint64_t hash = FNV_OFFSET;
	char path[64];
	struct stat st;
	int r;

	for (size_t i = 0; i < sensor->paths.n; i++)
		hash = mix_path(sensor->host, sensor->paths.paths[i], hash);
	if (sensor->process.pid == 0)
		return hash;
	snprintf(path, sizeof(path), "/proc/%d", sensor->process.pid);
	r = stat_below(sensor->host, path, &st);
	return mix(hash, &r, sizeof(r));
}

static void complain(struct look *look, const char *path, int error, const char *cure)
{
	if (look->seen->why[0] == '\0')
		snprintf(
			look->seen->why, TUNER_WHY_MAX, "%s: %s: %s", path, strerror(-error), cure);
}

static bool is_own(const struct look *look, const char *path)
{
	char own[SETTING_PATH_MAX + sizeof(KUBELET_OWN_FILE)];

	snprintf(own, sizeof(own), "%s/%s", look->seen->config_dir, KUBELET_OWN_FILE);
	return look->seen->config_dir[0] && streq(path, own);
}

/* In the kubelet's order, by the first part of the name below the directory. */
static bool is_after_own(const struct look *look, const char *path)
{
	size_t len = strlen(look->seen->config_dir);

	return len > 0 && starts_with(path, look->seen->config_dir) && path[len] == '/' &&
	       strcmp(path + len + 1, KUBELET_OWN_FILE) > 0;
}

static bool is_younger(const struct look *look, const char *path)
{
	struct stat st;

	return stat_below(look->host, path, &st) == 0 &&
	       (uint64_t)st.st_ctim.tv_sec * USEC_PER_SEC + (uint64_t)st.st_ctim.tv_nsec / 1000 >=
		       look->start_us;
}

/* 0 with what the file gives; -EBADMSG or -errno, said. */
static int read_values(
	struct look *look, const char *path, struct kubelet_values *values, bool *is_ours)
{
	_cleanup_free_ char *text = NULL;
	char full[PATH_MAX];
	size_t len = 0;
	int r = path_in_root(look->host->root, path, full);

	if (r == 0)
		r = read_file(full, FILE_MAX, &text, &len);
	if (r < 0) {
		complain(look, path, r,
			r == -EFBIG ? "this is no configuration of the kubelet"
				    : "give read access to it below the host's root");
		return r;
	}
	*is_ours = streq(text, kubelet_own_text);
	if (look->seen->why[0])
		return -EBADMSG;
	return kubelet_parse(path, text, len, values, look->seen->why);
}

static void take_file(struct look *look, const char *path)
{
	struct kubelet_seen *seen = look->seen;
	struct kubelet_values given = {0};
	bool own = is_own(look, path), is_ours = false;

	int r = read_values(look, path, &given, &is_ours);

	/* After reading: what is put in its place meanwhile is younger. */
	if (is_younger(look, path))
		*(own ? &look->own_changed : &look->changed) = true;
	if (r < 0)
		return;
	if (own)
		seen->own = is_ours ? KUBELET_OWN_WRITTEN : KUBELET_OWN_OTHER;
	else
		kubelet_merge(&seen->others, &given);
	kubelet_merge(&seen->values, &given);
	if (is_after_own(look, path) &&
		given.field[KUBELET_SERIALIZE_IMAGE_PULLS].origin != KUBELET_UNSET)
		seen->overridden = true;
}

/* Which files there are. What is missing or cannot be listed is said. */
static void list_files(struct look *look, struct kubelet_paths *paths)
{
	const struct kubelet_seen *seen = look->seen;
	int r = 0;

	kubelet_paths_clear(paths);
	if (seen->config[0])
		r = kubelet_paths_add(paths, seen->config, true);
	if (r == 0 && seen->config_dir[0])
		r = kubelet_walk(look->host, seen->config_dir, paths);
	if (r < 0)
		complain(look, seen->config_dir, r,
			r == -E2BIG ? "more than 64 files, or directories 5 deep: join them"
				    : "give read access to it below the host's root");
}

static void fill_presence(struct look *look)
{
	const struct kubelet_process *process = look->process;
	struct kubelet_seen *seen = look->seen;
	struct stat st;

	seen->embedded = process->embedded;
	if (process->pid > 0) {
		seen->presence = KUBELET_RUNNING;
		copy_text(seen->config, sizeof(seen->config), process->config);
		copy_text(seen->config_dir, sizeof(seen->config_dir), process->config_dir);
		look->start_us = realtime_of_boottime(process->start_us);
	} else if (stat_below(look->host, DEFAULT_FILE, &st) == 0) {
		seen->presence = KUBELET_STOPPED;
		copy_text(seen->config, sizeof(seen->config), DEFAULT_FILE);
	}
}

static void take_files(struct look *look, const struct kubelet_paths *paths)
{
	struct kubelet_seen *seen = look->seen;
	for (size_t i = 0; i < paths->n; i++) {
		if (paths->is_file[i])
			take_file(look, paths->paths[i]);
		else
			look->directory_changed |= is_younger(look, paths->paths[i]);
	}
	kubelet_merge(&seen->values, &look->process->flags);
	kubelet_merge(&seen->others, &look->process->flags);
	kubelet_fill_defaults(&seen->values, seen->embedded);
	kubelet_fill_defaults(&seen->others, seen->embedded);
}

/* Which values the kubelet took at its start: those of files that did not change since. */
static void judge_running(const struct look *look)
{
	struct kubelet_seen *seen = look->seen;
	bool known = seen->presence == KUBELET_RUNNING && !look->changed && seen->why[0] == '\0';

	/* A directory changes when our own file comes to stand in it; else a file was taken away.
	 */
	seen->values_run = known && !look->own_changed && !look->directory_changed;
	seen->others_run = known && look->own_changed;
}

static void look_at(struct kubelet_sensor *sensor, struct kubelet_seen *seen)
{
	struct look look = {.host = sensor->host, .process = &sensor->process, .seen = seen};

	*seen = (struct kubelet_seen){0};
	/* At the start all at once: a command looks only then. */
	sensor->scan.at_once = sensor->looked ? PROCESSES_AT_ONCE : 0;
	kubelet_process_find(sensor->host, &sensor->scan, &sensor->process);
	fill_presence(&look);
	list_files(&look, &sensor->paths);
	/* Signed before it is read: what changes meanwhile is seen the next time. */
	sensor->signature = sign(sensor);
	take_files(&look, &sensor->paths);
	judge_running(&look);
}

void kubelet_sense(struct kubelet_sensor *sensor, struct kubelet_seen *seen)
{
	uint64_t now = now_us();

	if (sensor->looked && now < sensor->next_look_us && sign(sensor) == sensor->signature)
		return;
	look_at(sensor, seen);
	sensor->looked = true;
	sensor->next_look_us = sensor->scan.proc ? now : now + LOOK_US;
}

void kubelet_sensor_close(struct kubelet_sensor *sensor)
{
	kubelet_scan_end(&sensor->scan);
	kubelet_paths_clear(&sensor->paths);
}
