/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>

/* A runtime that restarts is away for less. */
#define SILENT_AFTER_US (3 * USEC_PER_SEC)

/* The kubelet begins to delete images at 85 %: imageGCHighThresholdPercent. */
#define STORE_FULL_PERCENT  85
#define STORE_ROOMY_PERCENT 80

static struct condition_reading *read_condition(
	const struct runtime_decision *decision, int type, const char *reason)
{
	struct condition_reading *reading = proposal_condition(decision->proposal);

	if (reading)
		*reading = (struct condition_reading){.type = &runtime_conditions[type],
			.status = CONDITION_FALSE,
			.reason = reason};
	return reading;
}

static int judge_reach(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = decision->sample;
	struct condition_reading *reading =
		read_condition(decision, RUNTIME_UNREACHABLE, "runtime-answers");
	size_t used = 0;

	if (!reading)
		return -ENOMEM;
	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];
		uint64_t silent_us = pulls_age(decision->input->now_us, runtime->since_us);

		/* Installed and not running is a choice; a socket that nobody serves is not. */
		if (runtime->answer != RUNTIME_SILENT || used >= sizeof(reading->message) - 1 ||
			(silent_us < SILENT_AFTER_US && !decision->once) ||
			(!runtime->found.has_socket && !runtime->answered_once))
			continue;
		used += (size_t)snprintf(reading->message + used, sizeof(reading->message) - used,
			"%s%s: %s: %.150s: see systemctl status %s", used > 0 ? "; " : "",
			runtime->found.name, runtime->found.socket, runtime->why,
			runtime->found.unit);
		reading->status = CONDITION_TRUE;
		reading->reason = "runtime-silent";
	}
	if (sample->n == 0)
		reading->reason = "no-runtime";
	return 0;
}

/* What is written and waits for a start. */
static int judge_restart(const struct runtime_decision *decision)
{
	const struct proposal *proposal = decision->proposal;
	struct condition_reading *reading =
		read_condition(decision, RUNTIME_RESTART_PENDING, "none-pending");

	if (!reading)
		return -ENOMEM;
	for (size_t i = 0; i < proposal->n_files; i++) {
		const struct file_want *want = &proposal->files[i];
		const struct service *service = want->edit ? &want->edit->service : NULL;

		if (!service || service->activation != ACTIVATE_RESTART || !want->wanted[0] ||
			want->error < 0 || !value_equal(want->on_disk, want->wanted) ||
			value_equal(want->actual, want->wanted))
			continue;
		reading->status = CONDITION_TRUE;
		reading->reason = "restart-pending";
		snprintf(reading->message, sizeof(reading->message),
			"%s is %s in %.80s, and %s is in force: restart %s%s", want->name,
			want->wanted, want->target.path,
			want->actual[0] ? want->actual : "an unknown value", service->unit,
			service->restart == RESTART_NEVER ? ", or set runtime.restart" : "");
		break;
	}
	return 0;
}

/* The fullest of the stores, which may be one and the same file system. */
static const struct runtime_store *fullest(const struct runtime_sample *sample)
{
	const struct runtime_store *found = NULL;

	for (size_t i = 0; i < sample->n; i++) {
		const struct runtime_store *store = &sample->runtimes[i].store;

		if (store->known && (!found || store->used / (store->size / 100 + 1) >
						       found->used / (found->size / 100 + 1)))
			found = store;
	}
	return found;
}

static int judge_store(const struct runtime_decision *decision)
{
	const struct runtime_store *store = fullest(decision->sample);
	struct condition_reading *reading =
		read_condition(decision, IMAGE_STORE_FULL, "within-limit");
	bool *full = &decision->memory->store_full;
	struct limit_reading *limit;
	double percent;

	if (!reading)
		return -ENOMEM;
	if (!store) {
		reading->status = CONDITION_UNKNOWN;
		reading->reason = "store-unknown";
		return 0;
	}
	percent = 100.0 * (double)store->used / (double)store->size;
	*full = percent >= (*full ? STORE_ROOMY_PERCENT : STORE_FULL_PERCENT);
	snprintf(reading->message, sizeof(reading->message), "%.100s (%s%s%s) is %.0f %% full%s",
		store->directory, store->filesystem, store->device[0] ? " on " : "", store->device,
		percent, *full ? ": remove images that nobody runs, or give it more room" : "");
	if (*full) {
		reading->status = CONDITION_TRUE;
		reading->reason = "store-nearly-full";
	}
	limit = proposal_limit(decision->proposal);
	if (!limit)
		return -ENOMEM;
	copy_text(limit->name, sizeof(limit->name), "images/store");
	limit->unit = "bytes";
	limit->used = store->used;
	limit->max = store->size;
	return 0;
}

static int judge_pulls(const struct runtime_decision *decision)
{
	uint64_t now = decision->input->now_us;
	struct condition_reading *reading = read_condition(decision, PULL_STUCK, "pulls-move");

	if (!reading)
		return -ENOMEM;
	for (size_t i = 0; i < decision->sample->n; i++) {
		const struct node_runtime *runtime = &decision->sample->runtimes[i];
		const struct pull_layer *layer = pulls_stuck(&runtime->pulls, now);
		char registry[64];

		if (!layer)
			continue;
		pulls_registry_of(layer->image, registry);
		reading->status = CONDITION_TRUE;
		reading->reason = "no-progress";
		snprintf(reading->message, sizeof(reading->message),
			"%s: %.90s of %.100s from %s: %llu of %llu bytes, no progress for %llu s; "
			"%zu other layers are being fetched: check the registry or mirror, then "
			"pull again",
			runtime->found.name, layer->piece.ref,
			layer->image[0] ? layer->image : "an unknown image", registry,
			(unsigned long long)layer->piece.offset,
			(unsigned long long)layer->piece.total,
			(unsigned long long)(pulls_age(now, layer->moved_us) / USEC_PER_SEC),
			runtime->pulls.n - 1 + runtime->pulls.more);
		break;
	}
	return 0;
}

int runtime_decide_health(const struct runtime_decision *decision)
{
	int r = judge_reach(decision);

	if (r == 0)
		r = judge_restart(decision);
	if (r == 0)
		r = judge_store(decision);
	return r < 0 ? r : judge_pulls(decision);
}
