/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/watch.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define NAMES_EVERY_US (30 * USEC_PER_SEC)

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
	copy_text(one->store.driver, sizeof(one->store.driver), state->storage_driver);
	copy_text(one->store.folder, sizeof(one->store.folder), state->root_dir);
}

static void on_event(const struct docker_event *event, void *userdata)
{
	struct watched *watched = userdata;

	if (event->kind == DOCKER_EVENT_CONTAINER_START ||
		event->kind == DOCKER_EVENT_CONTAINER_GONE ||
		event->kind == DOCKER_EVENT_CONTAINER_RENAMED)
		watched->due_us[ASK_CONTAINERS] = 0;
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
	if (watched->one->answer != RUNTIME_ANSWERS || watched->open[ASK_CONTAINERS] ||
		now < watched->due_us[ASK_CONTAINERS])
		return;
	watched->due_us[ASK_CONTAINERS] = now + NAMES_EVERY_US;
	watched->open[ASK_CONTAINERS] =
		docker_list_containers(watched->docker, on_containers, watched) == 0;
}
