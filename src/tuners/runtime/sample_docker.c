/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/file.h"

#include <glob.h>

#define PULLED_MAX   16
#define LAYER_PREFIX "GetImageBlob"

/*
 * What the Engine API does not tell: a layer that comes in is a file of this name below the
 * daemon's root, as large as what is there of it, until it is unpacked (distribution/pull_v2.go).
 */
static void read_layers(struct node_runtime *runtime, struct runtime_tuner *request)
{
	_cleanup_free_ struct pull_piece *pieces = must(calloc(PULL_LAYERS_MAX, sizeof(*pieces)));
	char path[PATH_MAX], full[PATH_MAX], pattern[PATH_MAX + 16];
	glob_t found = {0};
	int r;
	struct stat st;
	size_t n = 0;

	snprintf(path, sizeof(path), "%s/tmp", runtime->store.directory);
	if (path_in_root(request->host->root, path, full) < 0)
		return;
	snprintf(pattern, sizeof(pattern), "%s/" LAYER_PREFIX "*", full);
	r = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
	for (size_t i = 0; r == 0 && i < found.gl_pathc && n < PULL_LAYERS_MAX; i++) {
		if (lstat(found.gl_pathv[i], &st) < 0)
			continue;
		copy_text(
			pieces[n].ref, sizeof(pieces[n].ref), strrchr(found.gl_pathv[i], '/') + 1);
		pieces[n++].offset = (uint64_t)st.st_size;
	}
	globfree(&found);
	if (r != 0 && r != GLOB_NOMATCH)
		return;
	runtime->pulls_at_us = now_us();
	pulls_take(&runtime->pulls, &request->sample.pulled, pieces, n, runtime->pulls_at_us);
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

void runtime_sample_docker(struct node_runtime *runtime, struct runtime_tuner *request,
	const char *socket, bool slow, const struct wait *wait)
{
	struct docker_info *info = &runtime->docker_info;
	struct runtime_store *store = &runtime->store;
	struct runtime_names names = {0};
	char why[DOCKER_ERROR_MAX];
	int r;

	/* Where systemd listens on the socket, a connection would start a dockerd that was stopped.
	 */
	if (docker_process_read(request->host, &runtime->options) < 0) {
		runtime_note(runtime, "dockerd does not run: no " DOCKER_PID_FILE);
		runtime->due_us = next_turn_us(now_us(), RUNTIME_SLOW_EVERY_US);
		return;
	}
	runtime_take_process(runtime, request->host, runtime->options.pid);
	if (slow || runtime->answer != RUNTIME_ANSWERS) {
		r = docker_read_info(socket, info, wait, why);
		request->cancelled |= r == -ECANCELED;
		if (r < 0 && r != -ECANCELED)
			runtime_note(runtime, why);
		if (r < 0)
			return;
		runtime_note(runtime, NULL);
		copy_text(runtime->version, sizeof(runtime->version), info->version);
		copy_text(runtime->reported_downloads, SETTING_VALUE_MAX, info->reloaded_downloads);
		copy_text(store->driver, sizeof(store->driver), info->storage_driver);
		copy_text(store->directory, sizeof(store->directory), info->root_dir);
	}
	read_layers(runtime, request);
	name_pulls(runtime, socket, wait);
	if (slow && docker_read_names(socket, &names.entries, &names.n, wait) == 0)
		runtime_take_names(runtime, &names);
}
