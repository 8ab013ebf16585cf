/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define DISCOVER_EVERY_US (15 * USEC_PER_SEC)

/* Two readings of a process's start differ by less. */
#define SAME_START_US (500 * USEC_PER_MSEC)

#define PULLS_EVERY_US   (5 * USEC_PER_SEC)
#define PULLING_EVERY_US (2 * USEC_PER_SEC)

static void *duplicate(const void *array, size_t n, size_t size)
{
	void *copy = malloc(n > 0 ? n * size : 1);

	if (copy && n > 0)
		memcpy(copy, array, n * size);
	return copy;
}

int runtime_sample_copy(struct runtime_sample *sample, struct runtime_sample *ret)
{
	struct runtime_sample copy = *sample;

	copy.hosts = NULL;
	copy.n_hosts = 0;
	copy.runtimes = duplicate(sample->runtimes, sample->n, sizeof(*sample->runtimes));
	copy.mirrors = duplicate(sample->mirrors, sample->n_mirrors, sizeof(*sample->mirrors));
	if (!copy.runtimes || !copy.mirrors) {
		free(copy.runtimes);
		free(copy.mirrors);
		return -ENOMEM;
	}
	for (size_t i = 0; i < copy.n; i++) {
		sample->runtimes[i].addresses = NULL;
		sample->runtimes[i].n_addresses = 0;
	}
	*ret = copy;
	return 0;
}

void runtime_sample_clear(struct runtime_sample *sample)
{
	for (size_t i = 0; i < sample->n; i++) {
		free(sample->runtimes[i].addresses);
		free(sample->runtimes[i].names);
	}
	free(sample->runtimes);
	free(sample->mirrors);
	free(sample->hosts);
	*sample = (struct runtime_sample){0};
}

const struct mirror *runtime_find_mirror(const struct runtime_sample *sample, const char *url)
{
	for (size_t i = 0; i < sample->n_mirrors; i++)
		if (streq(sample->mirrors[i].url, url))
			return &sample->mirrors[i];
	return NULL;
}

void runtime_answered(struct node_runtime *runtime)
{
	if (runtime->answer != RUNTIME_ANSWERS)
		runtime->since_us = now_us();
	runtime->answer = RUNTIME_ANSWERS;
	runtime->answered_once = true;
	runtime->why[0] = '\0';
}

void runtime_silent(struct node_runtime *runtime, const char *why)
{
	if (runtime->answer != RUNTIME_SILENT)
		runtime->since_us = now_us();
	runtime->answer = RUNTIME_SILENT;
	copy_text(runtime->why, sizeof(runtime->why), why);
	/* What it fetches is not known any more: nothing is stuck as far as is known. */
	runtime->pulls.n = 0;
	runtime->pulls_at_us = 0;
}

void runtime_take_process(struct node_runtime *runtime, const struct host *host, pid_t pid)
{
	struct runtime_process process = {0};

	(void)runtime_process_read(host->root, runtime->found.kind, pid, &process);
	if (pid == runtime->pid && process.started_us + SAME_START_US > runtime->started_us &&
		process.started_us < runtime->started_us + SAME_START_US)
		return;
	runtime->pid = pid;
	runtime->started_us = process.started_us;
	copy_text(runtime->binary, sizeof(runtime->binary), process.program);
	copy_text(
		runtime->working_directory, sizeof(runtime->working_directory), process.directory);
	copy_text(runtime->config_path, sizeof(runtime->config_path),
		process.config[0] ? process.config : runtime->found.config);
	/* What another process had in force says nothing of this one. */
	runtime->reported_downloads[0] = runtime->reported_timeout[0] =
		runtime->reported_directory[0] = '\0';
	runtime->due_us = 0;
	runtime->docker_info = (struct docker_info){0};
}

static uint64_t pulls_pace(const struct node_runtime *runtime, const struct runtime_config *config)
{
	/* Before a restart it must be known that there is none. */
	return runtime->pulls.n > 0 || runtime->pulls.n_images > 0 ||
			       config->restart == RESTART_WHEN_IDLE
		       ? PULLING_EVERY_US
		       : PULLS_EVERY_US;
}

struct node_runtime *runtime_find(const struct runtime_sample *sample, const char *socket)
{
	for (size_t i = 0; i < sample->n; i++)
		if (streq(sample->runtimes[i].found.socket, socket))
			return &sample->runtimes[i];
	return NULL;
}

/* What is found now keeps what is known of it; the rest is forgotten. */
static void discover(struct runtime_request *request)
{
	struct runtime_sample *sample = &request->sample;
	struct runtime found[RUNTIME_MAX];
	size_t n_found = runtime_discover(request->host->root, found), n = 0;
	struct node_runtime *runtimes = calloc(n_found ? n_found : 1, sizeof(*runtimes));

	if (!runtimes)
		return;
	for (size_t i = 0; i < n_found; i++) {
		struct node_runtime *known, *runtime = &runtimes[n];

		if (!runtime_is_wanted(&request->config, &found[i]))
			continue;
		n++;
		known = runtime_find(sample, found[i].socket);
		if (known) {
			*runtime = *known;
			known->addresses = NULL;
			known->names = NULL;
		} else {
			copy_text(runtime->config_path, sizeof(runtime->config_path),
				found[i].config);
		}
		runtime->found = found[i];
		if (!runtime->found.has_socket && runtime->answer == RUNTIME_ANSWERS)
			runtime_silent(runtime, "its socket is gone");
	}
	for (size_t i = 0; i < sample->n; i++) {
		free(sample->runtimes[i].addresses);
		free(sample->runtimes[i].names);
	}
	free(sample->runtimes);
	sample->runtimes = runtimes;
	sample->n = n;
	sample->discover_due_us = sample->now_us + DISCOVER_EVERY_US;
}

/* The configured ones, each URL once; those known already keep their state. */
static void list_mirrors(struct runtime_request *request)
{
	const struct runtime_config *config = &request->config;
	struct runtime_sample *sample = &request->sample;
	struct runtime_sample next = {.mirrors = calloc(config->n_mirrors ? config->n_mirrors : 1,
					      sizeof(*next.mirrors))};

	if (!next.mirrors)
		return;
	for (size_t i = 0; i < config->n_mirrors; i++) {
		const char *url = config->mirrors[i].url;
		const struct mirror *known = runtime_find_mirror(sample, url);

		if (runtime_find_mirror(&next, url))
			continue;
		if (known)
			next.mirrors[next.n_mirrors] = *known;
		copy_text(next.mirrors[next.n_mirrors++].url, REGISTRY_URL_MAX, url);
	}
	free(sample->mirrors);
	sample->mirrors = next.mirrors;
	sample->n_mirrors = next.n_mirrors;
}

static void note_next(struct runtime_request *request)
{
	struct runtime_sample *sample = &request->sample;
	uint64_t next = sample->discover_due_us;

	for (size_t i = 0; i < sample->n_mirrors; i++)
		next = MIN(next, sample->mirrors[i].due_us);
	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];

		if (!runtime->found.has_socket)
			continue;
		next = MIN(next, runtime->due_us);
		if (runtime->answer == RUNTIME_ANSWERS)
			next = MIN(next, sample->now_us + pulls_pace(runtime, &request->config));
	}
	sample->next_us = next;
}

void runtime_sample_update(struct runtime_request *request, const struct wait *wait)
{
	struct runtime_sample *sample = &request->sample;

	sample->now_us = now_us();
	sample->realtime_us = realtime_us();
	if (sample->now_us >= sample->discover_due_us)
		discover(request);
	list_mirrors(request);
	mirrors_check(sample->mirrors, sample->n_mirrors, request->host->root, wait);
	for (size_t i = 0; i < sample->n && !request->cancelled; i++) {
		struct node_runtime *runtime = &sample->runtimes[i];

		if (!runtime->found.has_socket)
			continue;
		if (runtime->found.kind == RUNTIME_DOCKER)
			runtime_sample_docker(runtime, request, wait);
		else
			runtime_sample_cri(runtime, request, wait);
		runtime_sample_files(runtime, request, wait);
		runtime_sample_store(request->host, &runtime->store);
	}
	if (runtime_sample_hosts(request) < 0)
		request->cancelled = true;
	note_next(request);
}
