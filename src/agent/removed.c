/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file shows settings that were set and are no longer configured, from the records of
 * originals. A setting without a wanted value shows each of them, and on_removed: restore gives it
 * its original as the wanted value. Nothing here writes a value.
 */
#include "agent/core.h"

#include "tuners/raise.h"

/* A restore leaves this much room: LimitPressure begins above it. */
#define USED_SHARE 0.8

bool core_leaves_room(const struct core *core, const struct value_record *record,
	const char *actual, char why[static SETTING_WHY_MAX])
{
	const char *name, *last = strrchr(record->original, ' ');
	double original = strtod(last ? last : record->original, NULL);
	int order;

	/* Only a limit that becomes smaller matters. */
	if (value_compare(NULL, record->original, actual, &order) < 0 || order == 1)
		return true;
	for (size_t i = 0; (name = sysctl_bounds(record->name, i)); i++) {
		const struct limit *limit =
			find_named(core->node.limits, core->node.n_limits, name);

		if (limit && (double)limit->now.used < USED_SHARE * original)
			continue;
		/* Its other name spaces are not counted on each node. */
		if (!limit && i > 0)
			continue;
		if (!limit)
			snprintf(why, SETTING_WHY_MAX, "the use of %s is not known", name);
		else
			snprintf(why, SETTING_WHY_MAX,
				"%" PRIu64 " of the original %s are in use: see headroom top %s",
				limit->now.used, record->original, name);
		return false;
	}
	return true;
}

bool core_may_restore(const struct core *core, const struct value_record *record,
	const char *actual, char why[static SETTING_WHY_MAX])
{
	bool is_threshold = record->target.kind == VALUE_NEIGHTBL;
	bool was_configured = record->configured && !core->files_lost;

	why[0] = '\0';
	if (config_choice(core->config, "on_removed") != ON_REMOVED_RESTORE) {
		snprintf(why, SETTING_WHY_MAX, "or configure it again%s",
			was_configured && !is_threshold ? ", or write on_removed: restore" : "");
	} else if (is_threshold) {
		copy_text(why, SETTING_WHY_MAX, "thresholds of neighbour tables are not restored");
	} else if (!was_configured) {
		copy_text(why, SETTING_WHY_MAX,
			"not restored: a default, a profile or a file that was lost had asked for "
			"it");
	} else {
		return core_leaves_room(core, record, actual, why);
	}
	return false;
}

/* Returns whether the tuner leaves the value alone without an obstacle. */
static bool is_kept(const struct want *want)
{
	return !want->wanted[0] && want->error >= 0 &&
	       (want->reason == REASON_NONE || want->reason == REASON_KEPT);
}

static void add_value(
	struct core *core, struct tuner_status *tuner, const struct value_record *record)
{
	struct proposal *proposal = &tuner->proposal;
	struct want *want = find_named(proposal->wants, proposal->n_wants, record->name);
	char actual[SETTING_VALUE_MAX], why[SETTING_WHY_MAX];
	bool writes = core_may_write(core) && core->values;

	if ((want && !is_kept(want)) ||
		host_read_value(core->host, record->target.path, actual) < 0)
		return;
	if (value_equal(actual, record->original)) {
		if (writes)
			value_store_forget(core->values, record->name);
		return;
	}
	if (value_is_foreign(record, actual))
		return;
	if (writes && core->files_lost)
		value_store_mark(core->values, record->name, false);
	if (!want) {
		want = proposal_value(proposal);
		set_text(want->name, record->name);
		set_text(want->actual, actual);
		want->target = record->target;
	}
	want->reason = REASON_NO_LONGER_CONFIGURED;
	if (tuner->mode == MODE_ENFORCE && core_may_restore(core, record, actual, why))
		set_text(want->wanted, record->original);
}

/*
 * A key of a file: what a program has in force is known to its tuner. Without a want, only a tuner
 * that is off has dropped it: others have not found the program yet.
 */
static void add_key(struct tuner_status *tuner, const struct key_record *key)
{
	struct proposal *proposal = &tuner->proposal;
	struct want *want = find_named(proposal->wants, proposal->n_wants, key->name);

	if (!want && tuner->mode == MODE_OFF) {
		want = proposal_file(proposal, NULL);
		set_text(want->name, key->name);
		set_text(want->file->path, key->path);
	} else if (!want || !is_kept(want) || value_equal(want->actual, key->in_force_originally)) {
		return;
	}
	want->reason = REASON_NO_LONGER_CONFIGURED;
}

void core_add_removed(struct core *core, struct tuner_status *tuner)
{
	/* A release has restored them. Without its configuration nothing can be said. */
	if (tuner->mode == MODE_RELEASED || core->config_is_faulty || core_other_owner(core))
		return;
	for (size_t i = 0; core->values && i < core->values->n; i++)
		if (streq(core->values->records[i].tuner, tuner->ops->name))
			add_value(core, tuner, &core->values->records[i]);
	for (size_t i = 0; i < core->n_keys; i++)
		if (streq(core->keys[i].tuner, tuner->ops->name))
			add_key(tuner, &core->keys[i]);
}

void core_mark_configured(struct core *core, const struct tuner_status *tuner)
{
	if (!core_may_write(core) || !core->values || tuner->mode != MODE_ENFORCE)
		return;
	for (size_t i = 0; i < tuner->proposal.n_wants; i++) {
		const struct want *want = &tuner->proposal.wants[i];

		if (want->kind == SETTING_VALUE && want->wanted[0] &&
			want->reason != REASON_NO_LONGER_CONFIGURED)
			value_store_mark(core->values, want->name, want->requested);
	}
}
