/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/watch.h"

#include "base/log.h"
#include "base/util.h"
#include "workload/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define DISCOVER_EVERY_US (15 * USEC_PER_SEC)

/* Clocks differ by this much between two readings of a process's start. */
#define SAME_START_US (500 * USEC_PER_MSEC)

struct runtime_watch *runtime_watch_open(const struct host *host, struct runtime_seen *seen)
{
	struct runtime_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->host = host;
	watch->seen = seen;
	for (size_t i = 0; i < RUNTIME_MAX; i++) {
		watch->watched[i].watch = watch;
		watch->watched[i].one = &seen->ones[i];
	}
	return watch;
}

void watched_close(struct watched *watched)
{
	struct runtime_watch *watch = watched->watch;
	struct runtime_one *one = watched->one;

	if (watched->cri)
		cri_client_close(watched->cri);
	if (watched->containerd)
		containerd_client_close(watched->containerd);
	docker_close(watched->docker);
	if (watch->host->names && one->where.socket)
		(void)names_replace(watch->host->names, one->where.socket, NULL, 0);
	free(watched->pods);
	free(watched->containers);
	*watched = (struct watched){.watch = watch, .one = one};
}

void runtime_watch_close(struct runtime_watch *watch)
{
	for (size_t i = 0; i < RUNTIME_MAX; i++)
		watched_close(&watch->watched[i]);
	mirrors_close(watch->mirrors);
	fetcher_close(watch->fetcher);
	sd_event_unref(watch->event);
	free(watch);
}

static int set_mirrors(struct runtime_watch *watch)
{
	const char *urls[RUNTIME_MIRROR_MAX];

	for (size_t i = 0; i < watch->config->n_mirrors; i++)
		urls[i] = watch->config->mirrors[i].url;
	return mirrors_set(watch->mirrors, urls, watch->config->n_mirrors);
}

int runtime_watch_attach(struct runtime_watch *watch, sd_event *event)
{
	int r = fetcher_open(event, &watch->fetcher);

	if (r == 0)
		r = mirrors_open(
			event, watch->fetcher, watch->host->root, NULL, NULL, &watch->mirrors);
	if (r < 0)
		return r;
	watch->event = sd_event_ref(event);
	r = set_mirrors(watch);
	/* The first questions go out at once: a command waits for the answers. */
	runtime_watch_turn(watch, now_us());
	return r;
}

void runtime_watch_configure(struct runtime_watch *watch, const struct runtime_config *config)
{
	watch->config = config;
	watch->discover_due_us = 0;
	for (size_t i = 0; i < watch->seen->n; i++)
		watch->seen->ones[i].file_due_us = 0;
	if (watch->mirrors && set_mirrors(watch) < 0)
		log_warning("runtime.mirrors", "out of memory: not checked");
}

void watched_answered(struct watched *watched)
{
	struct runtime_one *one = watched->one;

	if (one->answer != RUNTIME_ANSWERS)
		one->since_us = now_us();
	one->answer = RUNTIME_ANSWERS;
	one->answered_once = true;
	one->why[0] = '\0';
}

void watched_silent(struct watched *watched, const char *why)
{
	struct runtime_one *one = watched->one;

	if (one->answer != RUNTIME_SILENT)
		one->since_us = now_us();
	one->answer = RUNTIME_SILENT;
	copy_text(one->why, sizeof(one->why), why);
	/* What it is fetching is not known any more: nothing is stuck for all that is known. */
	one->pulls.n = 0;
	one->pulls_at_us = 0;
}

void watched_process(struct watched *watched, pid_t pid)
{
	struct runtime_one *one = watched->one;
	const struct host *host = watched->watch->host;
	uint64_t started = 0;
	char path[PATH_MAX];

	(void)runtime_process_started(pid, &started);
	if (pid == one->pid && started + SAME_START_US > one->started_us &&
		started < one->started_us + SAME_START_US)
		return;
	one->pid = pid;
	one->started_us = started;
	one->binary[0] = '\0';
	if (runtime_process_program(host->root, pid, path) == 0)
		copy_text(one->binary, sizeof(one->binary), path);
	copy_text(one->config_path, sizeof(one->config_path), one->where.config);
	if (pid > 0 && runtime_process_config(one->where.kind, pid, path) == 0)
		copy_text(one->config_path, sizeof(one->config_path), path);
	one->file_due_us = 0;
	/* What the one before told is not what this one has in force. */
	one->told_downloads[0] = one->told_timeout[0] = one->told_directory[0] = '\0';
	watched->due_us[ASK_STATUS] = 0;
}

/* A pod is found by its uid, and where its cgroup does not have that, by its sandbox. */
static size_t fill_pods(const struct watched *watched, struct name_entry *entries)
{
	size_t n = 0;

	for (size_t i = 0; i < watched->n_pods; i++) {
		const struct watch_pod *pod = &watched->pods[i];

		entries[n++] = pod->entry;
		entries[n] = pod->entry;
		entries[n].address[0] = '\0';
		copy_text(entries[n].workload.id, sizeof(entries[n].workload.id), pod->sandbox);
		n++;
	}
	return n;
}

void watched_tell_names(struct watched *watched)
{
	const struct host *host = watched->watch->host;
	size_t n = 2 * watched->n_pods + watched->n_containers;
	struct name_entry *entries = n > 0 ? calloc(n, sizeof(*entries)) : NULL;

	if (!host->names || (n > 0 && !entries)) {
		free(entries);
		return;
	}
	n = fill_pods(watched, entries);
	for (size_t i = 0; i < watched->n_containers; i++)
		entries[n++] = watched->containers[i];
	(void)names_replace(host->names, watched->one->where.socket, entries, n);
}

static bool still_there(const struct runtime *found, size_t n, const struct runtime *runtime)
{
	for (size_t i = 0; i < n; i++)
		if (streq(found[i].socket, runtime->socket))
			return true;
	return false;
}

/* The clients keep their places: what is gone leaves a free one. */
static struct watched *place_for(struct runtime_watch *watch, const struct runtime *runtime)
{
	struct watched *free_one = NULL;

	for (size_t i = 0; i < RUNTIME_MAX; i++) {
		struct watched *watched = &watch->watched[i];

		if (watched->one->where.socket &&
			streq(watched->one->where.socket, runtime->socket))
			return watched;
		if (!watched->one->where.socket && !free_one)
			free_one = watched;
	}
	return free_one;
}

static void forget(struct watched *watched)
{
	watched_close(watched);
	*watched->one = (struct runtime_one){0};
}

static void open_clients(struct watched *watched)
{
	int r = 0;

	if (!watched->watch->event || watched->cri || watched->docker ||
		!watched->one->where.has_socket)
		return;
	r = watched->one->where.kind == RUNTIME_DOCKER ? watched_open_docker(watched)
						       : watched_open_cri(watched);
	if (r < 0)
		watched_silent(watched, strerror(-r));
}

static void take(struct runtime_watch *watch, const struct runtime *runtime)
{
	struct watched *watched = place_for(watch, runtime);

	if (!watched || !runtime_is_wanted(watch->config, runtime))
		return;
	if (!watched->one->where.socket)
		copy_text(watched->one->config_path, sizeof(watched->one->config_path),
			runtime->config);
	watched->one->where = *runtime;
	if (!runtime->has_socket && watched->one->answer == RUNTIME_ANSWERS)
		watched_silent(watched, "its socket is gone");
	open_clients(watched);
}

static void discover(struct runtime_watch *watch)
{
	struct runtime found[RUNTIME_MAX];
	size_t n = runtime_discover(watch->host->root, found);

	for (size_t i = 0; i < RUNTIME_MAX; i++) {
		struct watched *watched = &watch->watched[i];

		if (watched->one->where.socket &&
			(!still_there(found, n, &watched->one->where) ||
				!runtime_is_wanted(watch->config, &watched->one->where)))
			forget(watched);
	}
	for (size_t i = 0; i < n; i++)
		take(watch, &found[i]);
	watch->seen->n = RUNTIME_MAX;
	while (watch->seen->n > 0 && !watch->seen->ones[watch->seen->n - 1].where.socket)
		watch->seen->n--;
}

void runtime_watch_turn(struct runtime_watch *watch, uint64_t now)
{
	if (now >= watch->discover_due_us) {
		watch->discover_due_us = now + DISCOVER_EVERY_US;
		discover(watch);
	}
	for (size_t i = 0; i < RUNTIME_MAX; i++) {
		struct watched *watched = &watch->watched[i];

		if (watched->docker)
			watched_turn_docker(watched, now);
		else if (watched->cri)
			watched_turn_cri(watched, now);
	}
}

bool runtime_watch_settled(const struct runtime_watch *watch)
{
	for (size_t i = 0; i < RUNTIME_MAX; i++) {
		const struct watched *watched = &watch->watched[i];

		if (watched->docker && !docker_settled(watched->docker))
			return false;
		if (watched->cri && watched->one->answer != RUNTIME_SILENT &&
			(!watched->one->version[0] || watched->open[ASK_STATUS]))
			return false;
	}
	return !watch->mirrors || mirrors_settled(watch->mirrors);
}

const struct mirrors *runtime_watch_mirrors(const struct runtime_watch *watch)
{
	return watch->mirrors;
}
