/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/apply.h"

#include "apply/reconcile.h"
#include "apply/writer.h"
#include "base/log.h"
#include "base/util.h"
#include "tuners/table.h"

#include <errno.h>

/* -ERANGE: the write went through, and another value stands there. */
static void set_and_read_back(const struct host *host, struct change *change)
{
	int r = writer_set(host, &change->place, change->new, change->urgent);
	int read = host_read_value(host, change->place.path, change->actual);

	change->error = r < 0 ? r : read;
	if (change->error == 0 && !value_equal(change->actual, change->new))
		change->error = -ERANGE;
}

void setting_fail(struct setting *setting, const char *reason, int error, const char *why,
	uint64_t retry_at_us)
{
	/* A retry that fails in the same way is no news. */
	if (setting->retry_at_us == 0)
		log_warning(setting->want.name, "not set to %s: %s: %s", setting->want.wanted,
			why ? why : strerror(-error), reason_help(reason));
	setting->state = SETTING_FAILED;
	setting->reason = reason;
	setting->error = error;
	copy_text(setting->why, sizeof(setting->why), why ? why : "");
	setting->retry_at_us = retry_at_us;
}

/* A table that grows is worth one line: gc_thresh2 only goes along with gc_thresh3. */
static bool is_companion(const struct change *change)
{
	return change->place.level == 2 && streq(change->reason, "growing");
}

static void follow(struct setting *setting, const struct change *change, uint64_t now)
{
	copy_text(setting->want.actual, sizeof(setting->want.actual), change->actual);
	if (change->error == 0 || change->error == -ERANGE)
		setting->drifted = false;
	if (change->error == 0) {
		log_line(is_companion(change) ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, change->name,
			"%s -> %s (%s)", change->old, change->actual, change->reason);
		setting->state = SETTING_IN_SYNC;
		setting->reason = "in-sync";
		setting->error = 0;
		setting->retry_at_us = 0;
		copy_text(setting->confirmed, sizeof(setting->confirmed), change->actual);
	} else if (change->error != -ERANGE) {
		setting_fail(setting, "write-refused", change->error, NULL, now + RETRY_US);
	} else if (setting->rounds == 0) {
		setting_fail(setting, "not-taken", change->error, NULL, now + RETRY_US);
	}
	/* Else someone was quicker than the read, in a fight: the next look counts a round. */
}

void apply_plan(const struct host *host, struct plan *plan, struct node *node, uint64_t now)
{
	plan_sort(plan);
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];
		struct setting *setting = node ? node_setting(node, change->name) : NULL;

		if (change->record_only || change->place.kind == PLACE_EDIT)
			continue;
		set_and_read_back(host, change);
		if (setting)
			follow(setting, change, now);
	}
}

/* Only raising can be in a hurry, and only to a value that the record names in advance. */
static bool is_raised_ahead(const struct change *change, const struct journal *durable)
{
	const struct record *record =
		record_find(durable->records, durable->n_records, change->name);
	int order;

	return record && !change->record_only && ladder_has(&record->ahead, change->new) &&
	       value_compare(change->new, change->old, &order) == 0 && order > 0;
}

/* Thresholds of one table keep their order only when they move together: all of them, or none. */
static bool is_urgent(
	const struct plan *plan, const struct change *change, const struct journal *durable)
{
	for (size_t i = 0; i < plan->n; i++) {
		const struct change *other = &plan->changes[i];

		if (change->place.kind == PLACE_NEIGHTBL && other->place.kind == PLACE_NEIGHTBL &&
			other->place.family == change->place.family && !other->record_only &&
			!is_raised_ahead(other, durable))
			return false;
	}
	return is_raised_ahead(change, durable);
}

int plan_take_urgent(struct plan *plan, const struct journal *durable, struct plan *urgent)
{
	size_t kept = 0;

	for (size_t i = 0; i < plan->n; i++) {
		struct change *moved;

		plan->changes[i].urgent = is_urgent(plan, &plan->changes[i], durable);
		if (!plan->changes[i].urgent)
			continue;
		moved = plan_add(urgent);
		if (!moved)
			return -ENOMEM;
		*moved = plan->changes[i];
	}
	for (size_t i = 0; i < plan->n; i++)
		if (!plan->changes[i].urgent)
			plan->changes[kept++] = plan->changes[i];
	plan->n = kept;
	return 0;
}

void plan_drop_outdated(struct plan *plan, const struct node *node)
{
	size_t kept = 0;

	for (size_t i = 0; i < plan->n; i++) {
		const struct change *change = &plan->changes[i];
		const struct setting *setting = node_setting(node, change->name);

		if (setting && setting->mode == MODE_ENFORCE &&
			value_equal(setting->want.wanted, change->new))
			plan->changes[kept++] = *change;
		else
			change_release(&plan->changes[i]);
	}
	plan->n = kept;
}

void apply_refused(struct plan *plan, struct node *node, int error, uint64_t now)
{
	for (size_t i = 0; i < plan->n; i++) {
		struct setting *setting = node_setting(node, plan->changes[i].name);

		if (plan->changes[i].record_only)
			continue;
		plan->changes[i].error = error;
		copy_text(plan->changes[i].actual, SETTING_VALUE_MAX, plan->changes[i].old);
		if (setting)
			setting_fail(setting, "not-recorded", error, NULL, now + RETRY_US);
	}
}

/*
 * A thing that has gone (a device, a module) took its value with it; or it cannot be seen from
 * where we are. Either way its record stays until the next boot ends it.
 */
static void settle_restore(struct change *change, const struct record *record, int read)
{
	change->gone = read == -ENOENT;
	change->error = change->gone ? 0 : read;
	change->left = change->gone || (read == 0 && record_is_foreign(record, change->old));
	change->reason = change->gone   ? "not-in-this-kernel"
			 : change->left ? "changed-since"
					: "original";
	if (!change->left)
		copy_text(change->new, sizeof(change->new), record->original);
}

int restore_make_plan(const struct host *host, const struct journal *journal, const char *tuner,
	struct plan *plan)
{
	for (size_t i = 0; i < journal->n_records; i++) {
		const struct record *record = &journal->records[i];
		char actual[SETTING_VALUE_MAX] = "";
		struct change *change;
		int r;

		if (record->place.kind == PLACE_EDIT || (tuner && !streq(tuner, record->tuner)))
			continue;
		r = host_read_value(host, record->place.path, actual);
		change = plan_add(plan);
		if (!change)
			return -ENOMEM;
		copy_text(change->name, sizeof(change->name), record->name);
		copy_text(change->tuner, sizeof(change->tuner), record->tuner);
		change->place = record->place;
		copy_text(change->old, sizeof(change->old), actual);
		copy_text(change->actual, sizeof(change->actual), actual);
		settle_restore(change, record, r);
	}
	plan_sort(plan);
	return 0;
}

static void restore_change(const struct host *host, struct change *change)
{
	if (!change->left && !value_equal(change->old, change->new))
		set_and_read_back(host, change);
}

void restore_plan(const struct host *host, struct journal *journal, const char *tuner,
	const char *const *tuners, struct plan *plan)
{
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];

		restore_change(host, change);
		if (change->error < 0)
			log_error(change->name, "not put back to %s: %s", change->new,
				strerror(-change->error));
	}
	for (size_t i = 0; i < plan->n; i++)
		if (plan->changes[i].error == 0 && !plan->changes[i].gone)
			journal_forget(journal, plan->changes[i].name);
	for (; *tuners; tuners++)
		if (!tuner || streq(tuner, *tuners))
			journal_release(journal, *tuners);
}

size_t plan_failures(const struct plan *plan)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->n; i++)
		n += plan->changes[i].error < 0;
	return n;
}
