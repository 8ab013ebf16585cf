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
	copy.ones = duplicate(sample->ones, sample->n, sizeof(*sample->ones));
	copy.mirrors = duplicate(sample->mirrors, sample->n_mirrors, sizeof(*sample->mirrors));
	if (!copy.ones || !copy.mirrors) {
		free(copy.ones);
		free(copy.mirrors);
		return -ENOMEM;
	}
	for (size_t i = 0; i < copy.n; i++) {
		sample->ones[i].addresses = NULL;
		sample->ones[i].n_addresses = 0;
	}
	*ret = copy;
	return 0;
}

void runtime_sample_clear(struct runtime_sample *sample)
{
	for (size_t i = 0; i < sample->n; i++) {
		free(sample->ones[i].addresses);
		free(sample->ones[i].names);
	}
	free(sample->ones);
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

void runtime_answered(struct runtime_one *one)
{
	if (one->answer != RUNTIME_ANSWERS)
		one->since_us = now_us();
	one->answer = RUNTIME_ANSWERS;
	one->answered_once = true;
	one->why[0] = '\0';
}

void runtime_silent(struct runtime_one *one, const char *why)
{
	if (one->answer != RUNTIME_SILENT)
		one->since_us = now_us();
	one->answer = RUNTIME_SILENT;
	copy_text(one->why, sizeof(one->why), why);
	/* What it fetches is not known any more: nothing is stuck as far as is known. */
	one->pulls.n = 0;
	one->pulls_at_us = 0;
}

void runtime_take_process(struct runtime_one *one, const struct host *host, pid_t pid)
{
	struct runtime_process process = {0};

	(void)runtime_process_read(host->root, one->where.kind, pid, &process);
	if (pid == one->pid && process.started_us + SAME_START_US > one->started_us &&
		process.started_us < one->started_us + SAME_START_US)
		return;
	one->pid = pid;
	one->started_us = process.started_us;
	copy_text(one->binary, sizeof(one->binary), process.program);
	copy_text(one->working_directory, sizeof(one->working_directory), process.directory);
	copy_text(one->config_path, sizeof(one->config_path),
		process.config[0] ? process.config : one->where.config);
	/* What another process had in force says nothing of this one. */
	one->told_downloads[0] = one->told_timeout[0] = one->told_directory[0] = '\0';
	one->status_due_us = 0;
}

uint64_t runtime_pulls_pace(const struct runtime_one *one, const struct runtime_config *config)
{
	/* Before a restart it must be known that there is none. */
	return one->pulls.n > 0 || one->pulls.n_images > 0 || config->restart == RESTART_WHEN_IDLE
		       ? PULLING_EVERY_US
		       : PULLS_EVERY_US;
}

static struct runtime_one *find_one(struct runtime_one *ones, size_t n, const char *socket)
{
	for (size_t i = 0; i < n; i++)
		if (streq(ones[i].where.socket, socket))
			return &ones[i];
	return NULL;
}

/* What is found now keeps what is known of it; the rest is forgotten. */
static void discover(struct runtime_request *request)
{
	struct runtime_sample *sample = &request->sample;
	struct runtime found[RUNTIME_MAX];
	size_t n_found = runtime_discover(request->host->root, found), n = 0;
	struct runtime_one *ones = calloc(n_found ? n_found : 1, sizeof(*ones));

	if (!ones)
		return;
	for (size_t i = 0; i < n_found; i++) {
		struct runtime_one *known, *one = &ones[n];

		if (!runtime_is_wanted(&request->config, &found[i]))
			continue;
		n++;
		known = find_one(sample->ones, sample->n, found[i].socket);
		if (known) {
			*one = *known;
			known->addresses = NULL;
			known->names = NULL;
		} else {
			copy_text(one->config_path, sizeof(one->config_path), found[i].config);
		}
		one->where = found[i];
		if (!one->where.has_socket && one->answer == RUNTIME_ANSWERS)
			runtime_silent(one, "its socket is gone");
	}
	for (size_t i = 0; i < sample->n; i++) {
		free(sample->ones[i].addresses);
		free(sample->ones[i].names);
	}
	free(sample->ones);
	sample->ones = ones;
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

static void note_next(struct runtime_sample *sample)
{
	sample->next_us = sample->discover_due_us;
	for (size_t i = 0; i < sample->n_mirrors; i++)
		sample->next_us = MIN(sample->next_us, sample->mirrors[i].due_us);
	for (size_t i = 0; i < sample->n; i++) {
		const struct runtime_one *one = &sample->ones[i];

		if (!one->where.has_socket)
			continue;
		sample->next_us = MIN(sample->next_us, one->version_due_us);
		if (one->answer == RUNTIME_ANSWERS)
			sample->next_us =
				MIN(sample->next_us, MIN(one->status_due_us, one->pulls_due_us));
	}
}

void runtime_sample_update(struct runtime_request *request, const struct wait *wait)
{
	struct runtime_sample *sample = &request->sample;
	struct runtime_round round = {
		.host = request->host, .config = &request->config, .wait = wait};

	sample->now_us = round.now_us = now_us();
	sample->realtime_us = realtime_us();
	if (sample->now_us >= sample->discover_due_us)
		discover(request);
	list_mirrors(request);
	mirrors_check(sample->mirrors, sample->n_mirrors, request->host->root, wait);
	for (size_t i = 0; i < sample->n && !round.cancelled; i++) {
		struct runtime_one *one = &sample->ones[i];

		if (!one->where.has_socket)
			continue;
		if (one->where.kind == RUNTIME_DOCKER)
			runtime_sample_docker(one, &round);
		else
			runtime_sample_cri(one, &round);
		runtime_sample_files(one, &round);
		runtime_sample_store(request->host, &one->store);
	}
	request->cancelled = round.cancelled || runtime_sample_hosts(request) < 0;
	note_next(sample);
}
