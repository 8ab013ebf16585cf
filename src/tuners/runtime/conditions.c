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
	struct proposal *proposal, int type, const char *reason)
{
	struct condition_reading *reading = proposal_condition(proposal);

	if (reading)
		*reading = (struct condition_reading){.type = &runtime_conditions[type],
			.status = CONDITION_FALSE,
			.reason = reason};
	return reading;
}

/* Installed and not running is a choice; a socket that nobody serves is not. */
static bool is_missed(const struct runtime_one *one, uint64_t now)
{
	return one->where.socket && one->answer == RUNTIME_SILENT &&
	       pulls_age(now, one->since_us) >= SILENT_AFTER_US &&
	       (one->where.has_socket || one->answered_once);
}

static int judge_reach(const struct runtime_seen *seen, struct proposal *proposal)
{
	struct condition_reading *reading =
		read_condition(proposal, RUNTIME_UNREACHABLE, "runtime-answers");
	size_t used = 0, n = 0;

	if (!reading)
		return -ENOMEM;
	for (size_t i = 0; i < seen->n; i++) {
		const struct runtime_one *one = &seen->ones[i];

		n += one->where.socket != NULL;
		if (!is_missed(one, seen->now_us) || used >= sizeof(reading->message) - 1)
			continue;
		used += (size_t)snprintf(reading->message + used, sizeof(reading->message) - used,
			"%s%s: %s: %.150s: see systemctl status %s", used > 0 ? "; " : "",
			one->where.name, one->where.socket, one->why, one->where.unit);
		reading->status = CONDITION_TRUE;
		reading->reason = "runtime-silent";
	}
	if (n == 0)
		reading->reason = "no-runtime";
	return 0;
}

static int judge_restart(const struct runtime_memory *memory, struct proposal *proposal)
{
	struct condition_reading *reading =
		read_condition(proposal, RUNTIME_RESTART_PENDING, "none-pending");

	if (!reading)
		return -ENOMEM;
	if (!memory->restart_pending)
		return 0;
	reading->status = CONDITION_TRUE;
	reading->reason = "restart-pending";
	copy_text(reading->message, sizeof(reading->message), memory->restart_why);
	return 0;
}

/* The fullest of the stores, which may be one and the same file system. */
static const struct runtime_store *fullest(const struct runtime_seen *seen)
{
	const struct runtime_store *found = NULL;

	for (size_t i = 0; i < seen->n; i++) {
		const struct runtime_store *store = &seen->ones[i].store;

		if (store->known && (!found || store->used / (store->size / 100 + 1) >
						       found->used / (found->size / 100 + 1)))
			found = store;
	}
	return found;
}

static int judge_store(
	const struct runtime_seen *seen, struct runtime_memory *memory, struct proposal *proposal)
{
	const struct runtime_store *store = fullest(seen);
	struct condition_reading *reading =
		read_condition(proposal, IMAGE_STORE_FULL, "within-limit");
	double percent;

	if (!reading)
		return -ENOMEM;
	if (!store) {
		reading->status = CONDITION_UNKNOWN;
		reading->reason = "store-unknown";
		return 0;
	}
	percent = 100.0 * (double)store->used / (double)store->size;
	memory->store_full =
		percent >= (memory->store_full ? STORE_ROOMY_PERCENT : STORE_FULL_PERCENT);
	snprintf(reading->message, sizeof(reading->message), "%.100s (%s%s%s) is %.0f %% full",
		store->directory, store->filesystem, store->device[0] ? " on " : "", store->device,
		percent);
	if (!memory->store_full)
		return 0;
	reading->status = CONDITION_TRUE;
	reading->reason = "store-nearly-full";
	copy_text(reading->message + strlen(reading->message),
		sizeof(reading->message) - strlen(reading->message),
		": remove images that nobody runs, or give it more room");
	return 0;
}

static void name_stuck(const struct runtime_one *one, const struct pull_layer *layer, uint64_t now,
	struct condition_reading *reading)
{
	char registry[64];

	pulls_registry_of(layer->image, registry);
	snprintf(reading->message, sizeof(reading->message),
		"%s: %.90s of %.100s from %s: %llu of %llu bytes, none more for %llu s; %zu other "
		"layers are being fetched: look at the registry or mirror, then pull again",
		one->where.name, layer->piece.ref,
		layer->image[0] ? layer->image : "an image not known", registry,
		(unsigned long long)layer->piece.offset, (unsigned long long)layer->piece.total,
		(unsigned long long)(pulls_age(now, layer->moved_us) / USEC_PER_SEC),
		one->pulls.n - 1 + one->pulls.more);
}

static int judge_pulls(const struct runtime_seen *seen, struct proposal *proposal)
{
	struct condition_reading *reading = read_condition(proposal, PULL_STUCK, "pulls-move");

	if (!reading)
		return -ENOMEM;
	for (size_t i = 0; i < seen->n && reading->status == CONDITION_FALSE; i++) {
		const struct pull_layer *layer = pulls_stuck(&seen->ones[i].pulls, seen->now_us);

		if (!layer)
			continue;
		reading->status = CONDITION_TRUE;
		reading->reason = "no-progress";
		name_stuck(&seen->ones[i], layer, seen->now_us, reading);
	}
	return 0;
}

int runtime_decide_conditions(
	const struct runtime_seen *seen, struct runtime_memory *memory, struct proposal *proposal)
{
	int r = judge_reach(seen, proposal);

	if (r == 0)
		r = judge_restart(memory, proposal);
	if (r == 0)
		r = judge_store(seen, memory, proposal);
	return r < 0 ? r : judge_pulls(seen, proposal);
}

int runtime_decide_limits(const struct runtime_seen *seen, struct proposal *proposal)
{
	const struct runtime_store *store = fullest(seen);
	struct limit_reading *limit;

	if (!store)
		return 0;
	limit = proposal_limit(proposal);
	if (!limit)
		return -ENOMEM;
	copy_text(limit->name, sizeof(limit->name), "images/store");
	limit->unit = "bytes";
	limit->used = store->used;
	limit->max = store->size;
	return 0;
}
