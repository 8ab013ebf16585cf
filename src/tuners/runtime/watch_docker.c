/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/watch.h"

#include "base/file.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define NAMES_EVERY_US  (30 * USEC_PER_SEC)
#define LAYERS_EVERY_US (2 * USEC_PER_SEC)
#define LAYER_PREFIX    "GetImageBlob"

static void on_changed(void *userdata);
static void on_event(const struct docker_event *event, void *userdata);

int watched_open_docker(struct watched *watched)
{
	struct docker_options options = {
		.host_root = watched->watch->host->root,
		.socket_path = watched->one->where.socket,
		.changed = on_changed,
		.event = on_event,
		.userdata = watched,
	};

	return docker_open(
		watched->watch->event, watched->watch->fetcher, &options, &watched->docker);
}

static void words_of(const struct docker_state *state, char words[static SETTING_VALUE_MAX])
{
	size_t used = 0;

	words[0] = '\0';
	for (size_t i = 0; i < state->n_mirrors && used < SETTING_VALUE_MAX - 1; i++) {
		char url[DOCKER_NAME_MAX];

		(void)registry_copy_url(url, sizeof(url), state->mirrors[i]);
		used += (size_t)snprintf(
			words + used, SETTING_VALUE_MAX - used, "%s%s", used > 0 ? " " : "", url);
	}
}

static void on_changed(void *userdata)
{
	struct watched *watched = userdata;
	struct runtime_one *one = watched->one;
	const struct docker_state *state = docker_state(watched->docker);

	if (state->error == -EINPROGRESS)
		return;
	if (state->error < 0) {
		watched_silent(watched, state->why);
		return;
	}
	watched_answered(watched);
	watched_process(watched, state->pid);
	if (!streq(one->version, state->version))
		one->file_due_us = 0;
	copy_text(one->version, sizeof(one->version), state->version);
	copy_text(one->config_path, sizeof(one->config_path), state->config_path);
	one->downloads[0] = '\0';
	if (state->source != DOCKER_SOURCE_NONE)
		snprintf(one->downloads, SETTING_VALUE_MAX, "%u", state->max_downloads);
	words_of(state, one->mirrors);
	one->downloads_on_command = state->max_downloads_on_command;
	one->mirrors_on_command = state->mirrors_on_command;
	copy_text(one->store.driver, sizeof(one->store.driver), state->storage_driver);
	copy_text(one->store.directory, sizeof(one->store.directory), state->root_dir);
}

/*
 * What the Engine API does not tell: a layer that comes in is a file of this name below the
 * daemon's root, as large as what is there of it, until it is unpacked (distribution/pull_v2.go).
 */
static void take_layers(struct watched *watched)
{
	char path[PATH_MAX], full[PATH_MAX];
	const struct dirent *entry;
	struct stat st;
	DIR *directory;

	watched->n_pieces = 0;
	if (snprintf(path, sizeof(path), "%s/tmp", watched->one->store.directory) >=
			(int)sizeof(path) ||
		path_in_root(watched->watch->host->root, path, full) < 0)
		return;
	directory = opendir(full);
	if (!directory)
		return;
	while (watched->n_pieces < PULL_LAYERS_MAX && (entry = readdir(directory))) {
		struct pull_piece *piece = &watched->pieces[watched->n_pieces];

		if (!starts_with(entry->d_name, LAYER_PREFIX) ||
			fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		copy_text(piece->ref, sizeof(piece->ref), entry->d_name);
		piece->offset = (uint64_t)st.st_size;
		piece->total = 0;
		watched->n_pieces++;
	}
	closedir(directory);
	pulls_take(&watched->one->pulls, watched->pieces, watched->n_pieces, now_us());
}

/* With the registry that Docker leaves out: distribution/reference, splitDockerDomain(). */
static void whole_name(const char *name, char image[static 160])
{
	size_t host = strcspn(name, "/");
	bool is_host = name[host] == '/' &&
		       (strcspn(name, ".:") < host || starts_with(name, "localhost/"));

	snprintf(image, 160, "%s%.140s", is_host ? "" : "docker.io/", name);
}

static void on_event(const struct docker_event *event, void *userdata)
{
	struct watched *watched = userdata;

	if (event->kind == DOCKER_EVENT_CONTAINER_START ||
		event->kind == DOCKER_EVENT_CONTAINER_GONE ||
		event->kind == DOCKER_EVENT_CONTAINER_RENAMED)
		watched->due_us[ASK_CONTAINERS] = 0;
	if (event->kind == DOCKER_EVENT_IMAGE_PULL) {
		char image[160];

		take_layers(watched);
		whole_name(event->name, image);
		pulls_end(&watched->one->pulls, image, now_us());
	}
}

/* A pod's container, by cri-dockerd's labels, is the pod's. */
static struct name_entry entry_of(const struct docker_container *container)
{
	struct name_entry entry = {.workload.kind = WORKLOAD_CONTAINER};
	struct workload *workload = &entry.workload;

	if (container->pod_name[0]) {
		workload->kind = WORKLOAD_POD;
		copy_text(
			workload->namespace, sizeof(workload->namespace), container->pod_namespace);
		copy_text(workload->name, sizeof(workload->name), container->pod_name);
	} else {
		copy_text(workload->name, sizeof(workload->name), container->name);
	}
	copy_text(workload->id, sizeof(workload->id), container->id);
	return entry;
}

static void on_containers(int error, const struct docker_container *list, size_t n, void *userdata)
{
	struct watched *watched = userdata;
	struct name_entry *entries;
	size_t used = 0;

	watched->open[ASK_CONTAINERS] = false;
	if (error < 0)
		return;
	/* A pod is found by its uid, too. */
	entries = n > 0 ? calloc(2 * n, sizeof(*entries)) : NULL;
	for (size_t i = 0; entries && i < n; i++) {
		if (!list[i].running)
			continue;
		entries[used++] = entry_of(&list[i]);
		if (!list[i].pod_uid[0])
			continue;
		entries[used] = entry_of(&list[i]);
		copy_text(entries[used].workload.id, sizeof(entries[used].workload.id),
			list[i].pod_uid);
		used++;
	}
	free(watched->containers);
	watched->containers = entries;
	watched->n_containers = used;
	watched_tell_names(watched);
}

void watched_turn_docker(struct watched *watched, uint64_t now)
{
	if (watched->one->answer != RUNTIME_ANSWERS)
		return;
	if (now >= watched->due_us[ASK_INGESTS]) {
		watched->due_us[ASK_INGESTS] = now + LAYERS_EVERY_US;
		take_layers(watched);
	}
	if (watched->open[ASK_CONTAINERS] || now < watched->due_us[ASK_CONTAINERS])
		return;
	watched->due_us[ASK_CONTAINERS] = now + NAMES_EVERY_US;
	watched->open[ASK_CONTAINERS] =
		docker_list_containers(watched->docker, on_containers, watched) == 0;
}
