/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"
#include "tuners/table.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct runtime_tuner {
	const struct host *host;
	struct runtime_watch *watch;
	struct runtime_config config;
	struct runtime_seen seen;
	struct runtime_memory memory;
	bool attached;
};

static int runtime_open(const struct host *host, bool watch, void **self)
{
	struct runtime_tuner *tuner = calloc(1, sizeof(*tuner));

	(void)watch;
	if (!tuner)
		return -ENOMEM;
	tuner->host = host;
	tuner->watch = runtime_watch_open(host, &tuner->seen);
	if (!tuner->watch) {
		free(tuner);
		return -ENOMEM;
	}
	*self = tuner;
	return 0;
}

static int runtime_configure(void *self, const struct config *config)
{
	struct runtime_tuner *tuner = self;

	runtime_read_config(config, &tuner->config);
	runtime_watch_configure(tuner->watch, &tuner->config);
	return 0;
}

static int runtime_attach(void *self, struct sd_event *event)
{
	struct runtime_tuner *tuner = self;

	tuner->attached = true;
	return runtime_watch_attach(tuner->watch, event);
}

static bool runtime_settled(const void *self)
{
	const struct runtime_tuner *tuner = self;

	return runtime_watch_settled(tuner->watch);
}

static void look_at_mirrors(struct runtime_tuner *tuner)
{
	const struct mirrors *mirrors = runtime_watch_mirrors(tuner->watch);

	for (size_t i = 0; i < tuner->config.n_mirrors; i++) {
		const struct mirror *mirror =
			mirrors ? mirrors_find(mirrors, tuner->config.mirrors[i].url) : NULL;

		tuner->seen.mirror_states[i] = mirror ? mirror->state : MIRROR_UNKNOWN;
	}
}

static void runtime_sense(void *self)
{
	struct runtime_tuner *tuner = self;
	struct runtime_seen *seen = &tuner->seen;

	seen->now_us = now_us();
	seen->realtime_us = realtime_us();
	if (tuner->attached)
		runtime_watch_turn(tuner->watch, seen->now_us);
	for (size_t i = 0; i < seen->n; i++) {
		struct runtime_one *one = &seen->ones[i];

		if (!one->where.socket)
			continue;
		runtime_files_read(tuner->host, &tuner->config, one, seen->now_us);
		runtime_infer_running(one);
		runtime_store_read(tuner->host, &one->store);
	}
	look_at_mirrors(tuner);
	runtime_hosts_read(tuner->host, &tuner->config, &tuner->memory, seen);
}

static int runtime_decide_op(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	struct runtime_tuner *tuner = (struct runtime_tuner *)self; /* sensing needs its memory */

	(void)memory;
	return runtime_decide(&tuner->seen, &tuner->config, &tuner->memory, input, proposal);
}

/* What somebody could mend, so that the number of downloads can be set. */
static bool is_refused(const struct runtime_one *one, const struct runtime_config *config)
{
	const struct containerd_edit *edit = &one->edits[CONTAINERD_DOWNLOADS];

	return one->where.kind == RUNTIME_CONTAINERD &&
	       one->where.managed_by != RUNTIME_OF_DOCKER && config->downloads > 0 &&
	       one->downloads[0] && strtoull(one->downloads, NULL, 10) < config->downloads &&
	       edit->refusal != CONTAINERD_FINE && edit->refusal != CONTAINERD_CRI_OFF;
}

/* A runtime that is silent is a condition of its own; a file that is broken is what is missing. */
static enum tuner_state runtime_state(const void *self, char why[static TUNER_WHY_MAX])
{
	const struct runtime_tuner *tuner = self;

	why[0] = '\0';
	for (size_t i = 0; i < tuner->seen.n && !why[0]; i++) {
		const struct runtime_one *one = &tuner->seen.ones[i];

		if (one->where.socket && one->file_error < 0)
			copy_text(why, TUNER_WHY_MAX, one->file_why);
		else if (one->where.socket && is_refused(one, &tuner->config))
			copy_text(why, TUNER_WHY_MAX, one->edits[CONTAINERD_DOWNLOADS].why);
	}
	return why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
}

static struct cJSON *runtime_document(const void *self, const void *memory, bool trusted)
{
	const struct runtime_tuner *tuner = self;

	(void)memory;
	(void)trusted;
	return runtime_document_make(&tuner->seen, runtime_watch_mirrors(tuner->watch));
}

static void runtime_metrics(const void *self, const void *memory, struct metric_sink *sink)
{
	const struct runtime_tuner *tuner = self;

	(void)memory;
	runtime_metrics_write(&tuner->seen, sink);
}

static void runtime_close(void *self)
{
	struct runtime_tuner *tuner = self;

	runtime_watch_close(tuner->watch);
	runtime_hosts_clear(&tuner->seen);
	runtime_memory_clear(&tuner->memory);
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
	.attach = runtime_attach,
	.settled = runtime_settled,
	.configure = runtime_configure,
	.sense = runtime_sense,
	.decide = runtime_decide_op,
	.state = runtime_state,
	.document_name = "runtime",
	.document = runtime_document,
	.view = &runtime_view,
	.metrics = runtime_metrics,
	.close = runtime_close,
};
