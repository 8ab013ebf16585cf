/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/file.h"
#include "base/util.h"
#include "runtime/docker.h"
#include "runtime/docker_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define VERSION_EVERY_US (10 * USEC_PER_SEC)
#define INFO_EVERY_US    (60 * USEC_PER_SEC) /* the daemon walks its containers for /info */
#define NAMES_EVERY_US   (15 * USEC_PER_SEC)
#define SILENT_EVERY_US  (5 * USEC_PER_SEC)
#define PULLED_MAX       16
#define LAYER_PREFIX     "GetImageBlob"

/*
 * What the Engine API does not tell: a layer that comes in is a file of this name below the
 * daemon's root, as large as what is there of it, until it is unpacked (distribution/pull_v2.go).
 */
static void read_layers(struct runtime_one *one, const struct host *host)
{
	_cleanup_free_ struct pull_piece *pieces = calloc(PULL_LAYERS_MAX, sizeof(*pieces));
	char path[PATH_MAX], full[PATH_MAX];
	const struct dirent *entry;
	struct stat st;
	DIR *directory;
	size_t n = 0;

	if (!pieces ||
		snprintf(path, sizeof(path), "%s/tmp", one->store.directory) >= (int)sizeof(path) ||
		path_in_root(host->root, path, full) < 0)
		return;
	directory = opendir(full);
	if (!directory)
		return;
	while (n < PULL_LAYERS_MAX && (entry = readdir(directory))) {
		if (!starts_with(entry->d_name, LAYER_PREFIX) ||
			fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		copy_text(pieces[n].ref, sizeof(pieces[n].ref), entry->d_name);
		pieces[n++].offset = (uint64_t)st.st_size;
	}
	closedir(directory);
	one->pulls_at_us = now_us();
	pulls_take(&one->pulls, pieces, n, one->pulls_at_us);
}

/* The names of pulls that ended, with the registry that Docker leaves out: splitDockerDomain() of
 * distribution/reference.
 */
static void name_pulls(struct runtime_one *one, const char *socket, const struct wait *wait)
{
	char names[PULLED_MAX][DOCKER_NAME_MAX];
	uint64_t since_us = one->docker_events_us, now = realtime_us();
	size_t n = 0;

	one->docker_events_us = now;
	if (since_us == 0 || one->pulls.n_images == 0 ||
		docker_read_pulled(socket, since_us, names, PULLED_MAX, &n, wait) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const char *name = names[i];
		size_t host = strcspn(name, "/");
		bool is_host = name[host] == '/' &&
			       (strcspn(name, ".:") < host || starts_with(name, "localhost/"));
		char image[160];

		snprintf(image, sizeof(image), "%s%.140s", is_host ? "" : "docker.io/", name);
		pulls_end(&one->pulls, image, now_us());
	}
}

/* A pod's container, by cri-dockerd's labels, is the pod's. */
static void ask_names(struct runtime_one *one, const char *socket, const struct wait *wait)
{
	_cleanup_free_ struct docker_container *list = NULL;
	struct name_entry *names;
	size_t n, used = 0;

	one->names_due_us = now_us() + NAMES_EVERY_US;
	if (docker_read_containers(socket, &list, &n, wait) < 0)
		return;
	names = calloc(2 * n + 1, sizeof(*names));
	for (size_t i = 0; names && i < n; i++) {
		const struct docker_container *container = &list[i];
		struct workload *workload = &names[used].workload;
		bool is_pod = container->pod_name[0] != '\0';

		if (!container->running)
			continue;
		workload->kind = is_pod ? WORKLOAD_POD : WORKLOAD_CONTAINER;
		copy_text(
			workload->namespace, sizeof(workload->namespace), container->pod_namespace);
		copy_text(workload->name, sizeof(workload->name),
			is_pod ? container->pod_name : container->name);
		copy_text(workload->id, sizeof(workload->id), container->id);
		used++;
		if (!container->pod_uid[0])
			continue;
		/* A pod is found by its uid, too. */
		names[used] = names[used - 1];
		copy_text(names[used].workload.id, sizeof(workload->id), container->pod_uid);
		used++;
	}
	if (!names)
		return;
	free(one->names);
	one->names = names;
	one->n_names = used;
	one->names_new = true;
}

static void take_info(struct runtime_one *one, const struct docker_info *info)
{
	copy_text(one->version, sizeof(one->version), info->version);
	copy_text(one->told_downloads, SETTING_VALUE_MAX, info->reloaded_downloads);
	copy_text(one->mirrors, SETTING_VALUE_MAX, info->mirrors);
	copy_text(one->store.driver, sizeof(one->store.driver), info->storage_driver);
	copy_text(one->store.directory, sizeof(one->store.directory), info->root_dir);
	one->docker_reload_us = info->reloaded_us;
}

/* What dockerd says of itself; its version and events often, the rest when a reload changed it. */
static int ask_info(struct runtime_one *one, const char *socket, const struct runtime_round *round,
	char why[static RUNTIME_WHY_MAX])
{
	struct docker_info info = {.reloaded_us = one->docker_reload_us};
	bool whole = round->now_us >= one->status_due_us || one->answer != RUNTIME_ANSWERS;
	int r;

	if (!whole) {
		copy_text(info.mirrors, sizeof(info.mirrors), one->mirrors);
		copy_text(info.storage_driver, sizeof(info.storage_driver), one->store.driver);
		copy_text(info.root_dir, sizeof(info.root_dir), one->store.directory);
	}
	r = docker_read_info(socket, &info, round->wait, why);
	if (r < 0)
		return r;
	if (whole)
		one->status_due_us = round->now_us + INFO_EVERY_US;
	one->version_due_us = round->now_us + VERSION_EVERY_US;
	runtime_answered(one);
	take_info(one, &info);
	return 0;
}

void runtime_sample_docker(struct runtime_one *one, struct runtime_round *round)
{
	char socket[PATH_MAX], why[RUNTIME_WHY_MAX];
	struct docker_process process;
	int r;

	if (!host_path(round->host, one->where.socket, socket))
		return;
	/* Where systemd listens on the socket, a connection would start a dockerd that was stopped.
	 */
	r = docker_process_read(round->host, socket, &process);
	if (r < 0) {
		snprintf(why, sizeof(why), "dockerd does not run: no %s", DOCKER_PID_FILE);
		runtime_silent(one, why);
		one->version_due_us = round->now_us + SILENT_EVERY_US;
		return;
	}
	runtime_take_process(one, round->host, process.pid);
	one->downloads_on_command = process.downloads_on_command;
	one->mirrors_on_command = process.mirrors_on_command;
	copy_text(one->command_downloads, sizeof(one->command_downloads), process.downloads);
	if (round->now_us >= one->version_due_us) {
		r = ask_info(one, socket, round, why);
		round->cancelled = r == -ECANCELED;
		if (r < 0 && r != -ECANCELED) {
			runtime_silent(one, why);
			one->version_due_us = round->now_us + SILENT_EVERY_US;
		}
	}
	if (one->answer != RUNTIME_ANSWERS || round->cancelled)
		return;
	if (round->now_us >= one->pulls_due_us) {
		read_layers(one, round->host);
		name_pulls(one, socket, round->wait);
		one->pulls_due_us = round->now_us + runtime_pulls_pace(one, round->config);
	}
	if (round->now_us >= one->names_due_us)
		ask_names(one, socket, round->wait);
}
