/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/reconcile.h"

#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <stdlib.h>

static void become(struct setting *setting, enum setting_state state, const char *reason, int error)
{
	if (state != SETTING_FAILED || !setting->reason || !streq(setting->reason, reason))
		setting->why[0] = '\0';
	setting->state = state;
	setting->reason = reason;
	setting->error = error;
}

static bool is_left_alone(const struct setting *setting)
{
	return setting->state == SETTING_YIELDED || setting->state == SETTING_DRIFTED;
}

/* What would be written over: of a file what stands in it, whatever its program runs with. */
static const char *standing(const struct want *want)
{
	return want->place.kind == PLACE_EDIT ? want->on_disk : want->actual;
}

/*
 * Changed by someone else: it stood at what was confirmed and does not now, or, before this process
 * knew it, at a value that the journal knows nothing of.
 */
static bool is_drift(const struct setting *setting, const struct record *record)
{
	const char *stands = standing(&setting->want);

	if (setting->confirmed[0])
		return !value_equal(stands, setting->confirmed);
	return record && record_is_foreign(record, stands);
}

static void judge_drift(struct setting *setting, const struct reconcile_input *input)
{
	setting->drifted = true;
	setting->drift_total++;
	setting->drift_at_us = input->now_us;
	setting->rounds++;
	log_notice(setting->want.name, "someone else changed it to %s (wanted %s)",
		standing(&setting->want)[0] ? standing(&setting->want) : "nothing",
		setting->want.wanted);
	if (input->on_drift == ON_DRIFT_REPORT)
		become(setting, SETTING_DRIFTED, "left-by-on-drift", 0);
	else if (input->on_drift == ON_DRIFT_YIELD)
		become(setting, SETTING_YIELDED, "left-by-on-drift", 0);
	else if (setting->rounds > DRIFT_ROUNDS_MAX)
		become(setting, SETTING_YIELDED, "rewritten-too-often", 0);
	else
		become(setting, SETTING_PENDING, "drift", 0);
}

static void confirm(struct setting *setting, uint64_t now)
{
	setting->drifted = false;
	copy_text(setting->confirmed, sizeof(setting->confirmed), standing(&setting->want));
	if (now - setting->drift_at_us > DRIFT_QUIET_US)
		setting->rounds = 0;
}

static void judge_in_sync(struct setting *setting, uint64_t now)
{
	become(setting, SETTING_IN_SYNC, "in-sync", 0);
	setting->retry_at_us = 0;
	confirm(setting, now);
}

const char *waiting_reason(const struct service *service)
{
	return service->activation == ACTIVATE_RELOAD ? "reload-pending" : "restart-pending";
}

/* The file stands as wanted, and its program runs with another value still. */
static void judge_waiting(struct setting *setting, uint64_t now)
{
	confirm(setting, now);
	if (setting->state != SETTING_PENDING || !streq(setting->reason, "restart-refused"))
		become(setting, SETTING_PENDING, waiting_reason(&setting->want.edit->service), 0);
}

static void judge_difference(
	struct setting *setting, const struct record *record, const struct reconcile_input *input)
{
	if (is_left_alone(setting))
		return;
	if (setting->state == SETTING_FAILED && input->now_us < setting->retry_at_us)
		return;
	/* While the journal is being stored, or cannot be, it is still the same drift. */
	if (setting->drifted)
		become(setting, SETTING_PENDING, "drift", 0);
	else if (is_drift(setting, record))
		judge_drift(setting, input);
	else
		become(setting, SETTING_PENDING, setting->want.reason, 0);
}

static bool is_different(const struct want *want)
{
	return !value_equal(want->actual, want->wanted) ||
	       !value_equal(standing(want), want->wanted);
}

/* Of a setting in a file the tuner knows better: it is the runtime that lacks or keeps it. */
static const char *own_reason(const struct want *want, const char *ordinary)
{
	return want->place.kind == PLACE_EDIT && want->reason ? want->reason : ordinary;
}

static void judge(struct setting *setting, const struct reconcile_input *input)
{
	const struct want *want = &setting->want;
	const struct record *record = record_find(input->records, input->n_records, want->name);

	/* Until something is written, what stands there is the original. */
	copy_text(setting->original, sizeof(setting->original),
		record ? record->original : want->actual);
	if (want->place.kind == PLACE_EDIT && want->wanted[0] && !want->edit)
		setting->want.error = -EINVAL;
	setting->mode = input->tuner->mode;
	if (want->error == -ENOENT)
		become(setting, SETTING_UNSUPPORTED, own_reason(want, "not-in-this-kernel"), 0);
	else if (want->error < 0)
		become(setting, SETTING_FAILED, "unreadable", want->error);
	else if (want->wanted[0] == '\0')
		become(setting, SETTING_OBSERVED, own_reason(want, "kept"), 0);
	else if (setting->mode == MODE_OBSERVE)
		become(setting, SETTING_OBSERVED, input->observe_reason, 0);
	else if (!is_different(want))
		judge_in_sync(setting, input->now_us);
	else if (record && record->given_up != 0 && record->given_up == input->config)
		become(setting, SETTING_FAILED, "did-not-come-back", -ETIMEDOUT);
	else if (!value_equal(standing(want), want->wanted))
		judge_difference(setting, record, input);
	else
		judge_waiting(setting, input->now_us);
}

/*
 * The file stands as wanted: whether its program should be made to take it now. Whoever tries sets
 * retry_at_us.
 */
static bool may_activate(const struct setting *setting, uint64_t now)
{
	const struct want *want = &setting->want;
	const struct service *service = want->edit ? &want->edit->service : NULL;

	if (want->place.kind != PLACE_EDIT || setting->state != SETTING_PENDING || !service ||
		!value_equal(want->on_disk, want->wanted) || now < setting->retry_at_us)
		return false;
	return service->activation == ACTIVATE_RELOAD ||
	       (service->activation == ACTIVATE_RESTART &&
		       (service->restart == RESTART_NOW ||
			       (service->restart == RESTART_WHEN_IDLE && !service->busy)));
}

static bool is_to_be_written(const struct setting *setting)
{
	return setting->state == SETTING_PENDING &&
	       !value_equal(standing(&setting->want), setting->want.wanted);
}

/* What may have to be written in a hurry later is recorded now, while there is time. */
static bool needs_record(const struct setting *setting, const struct reconcile_input *input)
{
	const struct want *want = &setting->want;
	const struct record *record = record_find(input->records, input->n_records, want->name);

	if (!input->may_record || want->ahead.n == 0 || want->error < 0 ||
		setting->mode != MODE_ENFORCE)
		return false;
	return !record || !ladder_covers(&record->ahead, &want->ahead);
}

static int plan_setting(const struct setting *setting, struct plan *plan)
{
	struct change *change = plan_add(plan);

	if (!change || change_take_edit(change, setting->want.edit) < 0)
		return -ENOMEM;
	copy_text(change->name, sizeof(change->name), setting->want.name);
	copy_text(change->tuner, sizeof(change->tuner), setting->tuner);
	change->place = setting->want.place;
	copy_text(change->old, sizeof(change->old), setting->want.actual);
	copy_text(change->new, sizeof(change->new), setting->want.wanted);
	copy_text(change->on_disk, sizeof(change->on_disk), setting->want.on_disk);
	change->ahead = setting->want.ahead;
	change->record_only = setting->state != SETTING_PENDING;
	change->activate_only = !change->record_only && !is_to_be_written(setting);
	if (change->record_only)
		copy_text(change->new, sizeof(change->new), setting->want.actual);
	change->reason = setting->reason;
	return 0;
}

/* Finds the setting of a want, or makes it, and moves it to index i of the tuner's stretch. */
static struct setting *place_setting(
	struct node *node, size_t i, const char *tuner, const struct want *want)
{
	for (size_t j = i; j < node->n_settings; j++) {
		struct setting found = node->settings[j];

		if (found.tuner != tuner || !streq(found.want.name, want->name))
			continue;
		if (j > i) {
			memmove(&node->settings[i + 1], &node->settings[i],
				(j - i) * sizeof(found));
			node->settings[i] = found;
		}
		return &node->settings[i];
	}
	if (grow_array(&node->settings, node->n_settings, &node->settings_allocated,
		    sizeof(*node->settings)) < 0)
		return NULL;
	memmove(&node->settings[i + 1], &node->settings[i],
		(node->n_settings - i) * sizeof(*node->settings));
	node->n_settings++;
	node->settings[i] = (struct setting){.tuner = tuner};
	return &node->settings[i];
}

/* A tuner's settings stand together: where they begin, or the end when it has none. */
static size_t first_of(const struct node *node, const char *tuner)
{
	size_t i = 0;

	while (i < node->n_settings && node->settings[i].tuner != tuner)
		i++;
	return i;
}

/* What a tuner no longer mentions follows its stretch: dropped. */
static void drop_rest(struct node *node, size_t from, const char *tuner)
{
	size_t end = from;

	while (end < node->n_settings && node->settings[end].tuner == tuner)
		end++;
	if (end == from)
		return;
	memmove(&node->settings[from], &node->settings[end],
		(node->n_settings - end) * sizeof(*node->settings));
	node->n_settings -= end - from;
}

int reconcile(struct node *node, const struct reconcile_input *input, struct plan *plan)
{
	const char *tuner = input->tuner->ops->name;
	size_t i = first_of(node, tuner);

	for (size_t w = 0; w < input->n_wants; w++, i++) {
		struct setting *setting = place_setting(node, i, tuner, &input->wants[w]);

		if (!setting)
			return -ENOMEM;
		setting->want = input->wants[w];
		judge(setting, input);
		if (!is_to_be_written(setting) && !may_activate(setting, input->now_us) &&
			!needs_record(setting, input))
			continue;
		if (plan_setting(setting, plan) < 0)
			return -ENOMEM;
	}
	drop_rest(node, i, tuner);
	return 0;
}

void reconcile_reset(struct node *node, const char *tuner)
{
	for (size_t i = 0; i < node->n_settings; i++) {
		struct setting *setting = &node->settings[i];

		if (tuner && !streq(setting->tuner, tuner))
			continue;
		setting->confirmed[0] = '\0';
		setting->drifted = false;
		setting->rounds = 0;
		setting->retry_at_us = 0;
		setting->want.edit = NULL; /* the tuner is about to state its wants anew */
		if (is_left_alone(setting) || setting->state == SETTING_FAILED ||
			setting->state == SETTING_PENDING)
			become(setting, SETTING_PENDING, "configured", 0);
	}
}
