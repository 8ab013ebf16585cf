/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"
#include "tuners/table.h"

#include "base/log.h"
#include "base/util.h"
#include "workload/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* After something was written the next samples come this soon, for so long. */
#define SOON_US     (1 * USEC_PER_SEC)
#define SOON_FOR_US (20 * USEC_PER_SEC)

struct runtime_tuner {
	const struct host *host;
	bool once; /* a command without an agent */
	struct runtime_config config;
	struct runtime_sample sample;
	bool due;               /* at once: the configuration or a file has changed */
	uint64_t soon_until_us; /* CLOCK_MONOTONIC */
	/* As decide() left it. */
	uint64_t records_tag;
	struct runtime_recorded recorded;
};

static int runtime_open(const struct host *host, bool watch, void **self)
{
	struct runtime_tuner *tuner = calloc(1, sizeof(*tuner));

	if (!tuner)
		return -ENOMEM;
	tuner->host = host;
	tuner->once = !watch;
	*self = tuner;
	return 0;
}

static int runtime_configure(void *self, const struct config *config)
{
	struct runtime_tuner *tuner = self;

	runtime_read_config(config, &tuner->config);
	tuner->due = true;
	return 0;
}

/* A daemon that was restarted is not waited for until its next turn: procfs is looked at. */
static bool has_ended(struct node_runtime *runtime)
{
	uint64_t started;

	if (runtime->pid <= 0 || runtime->answer != RUNTIME_ANSWERS ||
		process_start("", runtime->pid, &started) != -ESRCH)
		return false;
	runtime->pid = 0;
	runtime->no_cri = false;
	runtime->due_us = 0;
	return true;
}

static void *runtime_sample_request(void *self, bool at_once)
{
	struct runtime_tuner *tuner = self;
	struct runtime_request *request;
	uint64_t now = now_us(), next = tuner->sample.next_us;

	tuner->due = tuner->due || at_once;
	for (size_t i = 0; i < tuner->sample.n; i++)
		if (has_ended(&tuner->sample.runtimes[i]))
			tuner->due = true;
	if (now < tuner->soon_until_us)
		next = MIN(next, tuner->sample.now_us + SOON_US);
	if (!tuner->once && !tuner->due && now < next)
		return NULL;
	request = calloc(1, sizeof(*request));
	if (!request || runtime_sample_copy(&tuner->sample, &request->sample) < 0) {
		free(request);
		return NULL;
	}
	request->host = tuner->host;
	request->config = tuner->config;
	request->recorded = tuner->recorded;
	/* What was written may be in force already. */
	for (size_t i = 0; i < request->sample.n && (tuner->once || now < tuner->soon_until_us);
		i++)
		request->sample.runtimes[i].due_us = 0;
	if (tuner->due)
		request->sample.discover_due_us = 0;
	tuner->due = false;
	return request;
}

static void runtime_sample(void *request, const struct wait *wait)
{
	runtime_sample_update(request, wait);
}

/* Gives the names on that were asked for, and forgets those of runtimes that are gone. */
static void pass_names(struct runtime_tuner *tuner, struct runtime_sample *sample)
{
	struct names *names = tuner->host->names;

	for (size_t i = 0; i < tuner->sample.n; i++)
		if (names && !runtime_find(sample, tuner->sample.runtimes[i].found.socket))
			(void)names_replace(names, tuner->sample.runtimes[i].found.socket, NULL, 0);
	for (size_t i = 0; i < sample->n; i++) {
		struct node_runtime *runtime = &sample->runtimes[i];

		if (names && runtime->names_new)
			(void)names_replace(names, runtime->found.socket, steal(runtime->names),
				runtime->n_names);
		runtime->names_new = false;
	}
}

static void runtime_sample_take(void *self, void *data)
{
	struct runtime_tuner *tuner = self;
	struct runtime_request *request = data;

	if (tuner && !request->cancelled) {
		struct runtime_sample before = tuner->sample;

		pass_names(tuner, &request->sample);
		tuner->sample = request->sample;
		request->sample = before;
	}
	runtime_sample_clear(&request->sample);
	free(request);
}

static int runtime_decide_op(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct runtime_tuner *tuner = self;
	struct runtime_decision decision = {.sample = &tuner->sample,
		.config = &tuner->config,
		.once = tuner->once,
		.input = input,
		.memory = memory,
		.proposal = proposal};

	return runtime_decide(&decision);
}

/* Which files the next sample has to look at, and whether it comes soon. */
static void runtime_arm(void *self, const void *data)
{
	const struct runtime_memory *memory = data;
	struct runtime_tuner *tuner = self;

	if (tuner->records_tag == memory->records_tag)
		return;
	tuner->recorded = memory->recorded;
	tuner->records_tag = memory->records_tag;
	tuner->soon_until_us = now_us() + SOON_FOR_US;
}

/* What somebody could mend, so that the number of downloads can be set. */
static bool is_refused(const struct node_runtime *runtime, const struct runtime_config *config)
{
	const struct containerd_key *key = &runtime->containerd.keys[CONTAINERD_DOWNLOADS];

	return runtime->found.kind == RUNTIME_CONTAINERD && runtime->files_known &&
	       runtime->found.managed_by != RUNTIME_OF_DOCKER && config->downloads > 0 &&
	       runtime->downloads[0] && !streq(runtime->downloads, "0") &&
	       strtoull(runtime->downloads, NULL, 10) < config->downloads &&
	       key->refusal != CONTAINERD_FINE && key->refusal != CONTAINERD_CRI_OFF;
}

/* A silent runtime is a condition of its own; a broken file is what is missing. */
static enum tuner_state runtime_state(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct runtime_tuner *tuner = self;

	why[0] = '\0';
	for (size_t i = 0; i < tuner->sample.n && !why[0]; i++) {
		const struct node_runtime *runtime = &tuner->sample.runtimes[i];

		copy_text(why, TUNER_WHY_MAX, runtime_file_why(runtime));
		if (!why[0] && is_refused(runtime, &tuner->config))
			copy_text(why, TUNER_WHY_MAX,
				runtime->containerd.keys[CONTAINERD_DOWNLOADS].why);
	}
	return why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
}

static struct cJSON *runtime_document(const void *self, const void *memory, bool trusted)
{
	const struct runtime_tuner *tuner = self;

	(void)memory;
	(void)trusted;
	return runtime_document_make(&tuner->sample);
}

static void runtime_metrics(const void *self, const void *memory, struct metric_sink *sink)
{
	const struct runtime_tuner *tuner = self;

	(void)memory;
	runtime_metrics_write(&tuner->sample, sink);
}

static void memory_clear(void *memory)
{
	runtime_memory_clear(memory);
}

static void runtime_close(void *self)
{
	struct runtime_tuner *tuner = self;

	runtime_sample_clear(&tuner->sample);
	free(tuner);
}

const struct tuner_ops runtime_tuner = {
	.name = "runtime",
	.summary =
		"Sets how many layers the container runtime fetches at once and from which mirrors, "
		"and watches pulls and the image store.",
	.options = runtime_options,
	.limits = runtime_limits,
	.explanations = runtime_explanations,
	.conditions = runtime_conditions,
	.reasons = runtime_reasons,
	.metric_rows = runtime_metric_rows,
	.capabilities = runtime_capabilities,
	.validate = runtime_validate,
	.open = runtime_open,
	.configure = runtime_configure,
	.sample_request = runtime_sample_request,
	.sample = runtime_sample,
	.sample_take = runtime_sample_take,
	.memory_size = sizeof(struct runtime_memory),
	.memory_clear = memory_clear,
	.decide = runtime_decide_op,
	.arm = runtime_arm,
	.state = runtime_state,
	.document_name = "runtime",
	.document = runtime_document,
	.view = &runtime_view,
	.metrics = runtime_metrics,
	.close = runtime_close,
};
