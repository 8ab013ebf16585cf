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

#define SLOW_EVERY_US   (15 * USEC_PER_SEC)
#define SILENT_EVERY_US (5 * USEC_PER_SEC)
#define PULLED_MAX      16
#define LAYER_PREFIX    "GetImageBlob"

/*
 * What the Engine API does not tell: a layer that comes in is a file of this name below the
 * daemon's root, as large as what is there of it, until it is unpacked (distribution/pull_v2.go).
 */
static void read_layers(struct node_runtime *runtime, const struct host *host)
{
	_cleanup_free_ struct pull_piece *pieces = calloc(PULL_LAYERS_MAX, sizeof(*pieces));
	char path[PATH_MAX], full[PATH_MAX];
	const struct dirent *entry;
	struct stat st;
	DIR *directory;
	size_t n = 0;

	if (!pieces ||
		snprintf(path, sizeof(path), "%s/tmp", runtime->store.directory) >=
			(int)sizeof(path) ||
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
	runtime->pulls_at_us = now_us();
	pulls_take(&runtime->pulls, pieces, n, runtime->pulls_at_us);
}

/* The names of pulls that ended, with the registry that Docker leaves out: splitDockerDomain() of
 * distribution/reference.
 */
static void name_pulls(struct node_runtime *runtime, const char *socket, const struct wait *wait)
{
	char names[PULLED_MAX][DOCKER_NAME_MAX];
	uint64_t since_us = runtime->docker_events_us, now = realtime_us();
	size_t n = 0;

	runtime->docker_events_us = now;
	if (since_us == 0 || runtime->pulls.n_images == 0 ||
		docker_read_pulled(socket, since_us, names, PULLED_MAX, &n, wait) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const char *name = names[i];
		size_t host = strcspn(name, "/");
		bool is_host = name[host] == '/' &&
			       (strcspn(name, ".:") < host || starts_with(name, "localhost/"));
		char image[160];

		snprintf(image, sizeof(image), "%s%.140s", is_host ? "" : "docker.io/", name);
		pulls_end(&runtime->pulls, image, now_us());
	}
}

/* A pod's container, by cri-dockerd's labels, is the pod's. */
static void ask_names(struct node_runtime *runtime, const char *socket, const struct wait *wait)
{
	_cleanup_free_ struct docker_container *list = NULL;
	struct name_entry *names;
	size_t n, used = 0;

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
	free(runtime->names);
	runtime->names = names;
	runtime->n_names = used;
	runtime->names_new = true;
}

static void ask_info(struct node_runtime *runtime, const char *socket,
	struct runtime_request *request, const struct wait *wait)
{
	struct docker_info *info = &runtime->docker_info;
	char why[DOCKER_ERROR_MAX];
	int r = docker_read_info(socket, info, wait, why);

	if (r == -ECANCELED) {
		request->cancelled = true;
	} else if (r < 0) {
		runtime_silent(runtime, why);
		runtime->due_us = request->sample.now_us + SILENT_EVERY_US;
	} else {
		runtime_answered(runtime);
		copy_text(runtime->version, sizeof(runtime->version), info->version);
		copy_text(runtime->reported_downloads, SETTING_VALUE_MAX, info->reloaded_downloads);
		copy_text(
			runtime->store.driver, sizeof(runtime->store.driver), info->storage_driver);
		copy_text(
			runtime->store.directory, sizeof(runtime->store.directory), info->root_dir);
	}
}

void runtime_sample_docker(
	struct node_runtime *runtime, struct runtime_request *request, const struct wait *wait)
{
	bool slow = request->sample.now_us >= runtime->due_us;
	struct docker_process process;
	char socket[PATH_MAX];

	if (!host_path(request->host, runtime->found.socket, socket))
		return;
	if (slow)
		runtime->due_us = request->sample.now_us + SLOW_EVERY_US;
	/* Where systemd listens on the socket, a connection would start a dockerd that was stopped.
	 */
	if (docker_process_read(request->host, socket, &process) < 0) {
		runtime_silent(runtime, "dockerd does not run: no " DOCKER_PID_FILE);
		return;
	}
	runtime_take_process(runtime, request->host, process.pid);
	runtime->downloads_on_command = process.downloads_on_command;
	runtime->mirrors_on_command = process.mirrors_on_command;
	copy_text(
		runtime->command_downloads, sizeof(runtime->command_downloads), process.downloads);
	if (slow || runtime->answer != RUNTIME_ANSWERS)
		ask_info(runtime, socket, request, wait);
	if (runtime->answer == RUNTIME_ANSWERS && !request->cancelled) {
		read_layers(runtime, request->host);
		name_pulls(runtime, socket, wait);
	}
	if (runtime->answer == RUNTIME_ANSWERS && !request->cancelled && slow)
		ask_names(runtime, socket, wait);
}
