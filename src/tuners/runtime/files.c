/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/file.h"
#include "base/util.h"

#include <stdio.h>
#include <sys/stat.h>

/* A process's start is known to a tick of the kernel's clock (10 ms), and times of files drift. */
#define START_SLACK_US (50 * USEC_PER_MSEC)

#define DEFAULT_DOWNLOADS "3" /* of every containerd and dockerd */

void runtime_duration_text(uint64_t us, char text[static 32])
{
	uint64_t seconds = us / USEC_PER_SEC, hours = seconds / 3600, minutes = seconds / 60 % 60;
	size_t used = 0;

	if (hours > 0)
		used = (size_t)snprintf(text, 32, "%lluh", (unsigned long long)hours);
	if (hours > 0 || minutes > 0)
		used += (size_t)snprintf(
			text + used, 32 - used, "%llum", (unsigned long long)minutes);
	snprintf(text + used, 32 - used, "%llus", (unsigned long long)(seconds % 60));
}

const char *runtime_file_why(const struct node_runtime *runtime)
{
	return runtime->found.kind == RUNTIME_DOCKER ? runtime->docker.why
						     : runtime->containerd.why;
}

static uint64_t us_of(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * USEC_PER_SEC + (uint64_t)ts->tv_nsec / 1000;
}

/*
 * When a file that does not exist was removed, at the latest: its directory's mtime, but for the
 * key that Docker 20.10 puts there at its first start.
 */
static uint64_t absent_since(const struct host *host, const char *file)
{
	char directory[SETTING_PATH_MAX], path[PATH_MAX], key[PATH_MAX + 16];
	struct stat st, key_st;
	uint64_t changed;

	copy_text(directory, sizeof(directory), file);
	*strrchr(directory, '/') = '\0';
	if (path_in_root(host->root, directory[0] ? directory : "/", path) < 0 ||
		stat(path, &st) < 0)
		return 0;
	changed = us_of(&st.st_mtim);
	snprintf(key, sizeof(key), "%s/key.json", path);
	return stat(key, &key_st) == 0 && changed <= us_of(&key_st.st_ctim) ? 0 : changed;
}

/*
 * What a daemon read when it started is what its files say, if nobody has written since. Once known
 * of a process it stays so, whatever is written while it runs.
 */
static void infer(const struct node_runtime *runtime, uint64_t changed_us, const char *reported,
	const char *on_disk, const char *otherwise, char value[static SETTING_VALUE_MAX])
{
	bool known = runtime->inferred_of_us == runtime->started_us && value[0];

	if (reported[0])
		copy_text(value, SETTING_VALUE_MAX, reported);
	else if (runtime->started_us == 0 ||
		 (!known && changed_us > runtime->started_us + START_SLACK_US))
		value[0] = '\0';
	else if (!known)
		copy_text(value, SETTING_VALUE_MAX, on_disk[0] ? on_disk : otherwise);
}

static void infer_containerd(struct node_runtime *runtime)
{
	const struct containerd_config *config = &runtime->containerd;
	bool tells = runtime->version[runtime->version[0] == 'v'] == '1'; /* 2.x leaves some out */

	if (runtime->inferred_of_us != runtime->started_us)
		runtime->downloads[0] = runtime->timeout[0] = '\0';
	copy_text(runtime->directory, SETTING_VALUE_MAX, runtime->reported_directory);
	if (tells && !runtime->no_cri) {
		copy_text(runtime->downloads, SETTING_VALUE_MAX, runtime->reported_downloads);
		copy_text(runtime->timeout, SETTING_VALUE_MAX, runtime->reported_timeout);
	} else if (config->error == 0) {
		/* The CRI's own number has no effect where the transfer service pulls. */
		infer(runtime, config->changed_us,
			config->transfer ? "" : runtime->reported_downloads,
			config->keys[CONTAINERD_DOWNLOADS].on_disk, DEFAULT_DOWNLOADS,
			runtime->downloads);
		infer(runtime, config->changed_us, runtime->reported_timeout,
			config->keys[CONTAINERD_PROGRESS_TIMEOUT].on_disk, "", runtime->timeout);
	}
	runtime->inferred_of_us = runtime->started_us;
}

static void infer_docker(struct node_runtime *runtime, const struct host *host)
{
	const char *reported = runtime->reported_downloads[0] ? runtime->reported_downloads
							      : runtime->command_downloads;
	uint64_t changed_us = runtime->docker.changed_us;

	if (runtime->inferred_of_us != runtime->started_us)
		runtime->downloads[0] = '\0';
	if (runtime->docker.error < 0 && !reported[0])
		return;
	if (changed_us == 0)
		changed_us = absent_since(host, runtime->config_path);
	infer(runtime, changed_us, reported, runtime->docker.downloads, DEFAULT_DOWNLOADS,
		runtime->downloads);
	if (streq(runtime->downloads, "0"))
		copy_text(runtime->downloads, SETTING_VALUE_MAX, DEFAULT_DOWNLOADS);
	runtime->inferred_of_us = runtime->started_us;
}

void runtime_sample_files(struct node_runtime *runtime, const struct runtime_request *request,
	const struct wait *wait)
{
	struct containerd_process process = {.host = request->host,
		.binary = runtime->binary,
		.version = runtime->version,
		.config = runtime->config_path,
		.directory = runtime->working_directory};
	struct docker_daemon daemon = {.host = request->host,
		.binary = runtime->binary,
		.version = runtime->version,
		.config = runtime->config_path};

	/* What a key means depends on the version: without one nothing is decided yet. */
	if (!runtime->version[0] || !runtime->config_path[0] || runtime->found.kind == RUNTIME_CRIO)
		return;
	runtime->files_known = true;
	if (runtime->found.kind == RUNTIME_DOCKER) {
		docker_config_read(&daemon, wait, &runtime->docker);
		infer_docker(runtime, request->host);
	} else {
		containerd_config_read(&process, wait, &runtime->containerd);
		infer_containerd(runtime);
	}
}
