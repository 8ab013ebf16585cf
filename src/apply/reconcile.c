/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/reconcile.h"

#include "apply/file_transaction.h"
#include "base/log.h"
#include "tuners/table.h"

#define DAY_US   (86400 * USEC_PER_SEC)
#define FIGHT_US (FIGHT_SECONDS * USEC_PER_SEC)

/* A want, compared with the node and the record. */
struct comparison {
	const struct want *want;
	const char *current;  /* the value that would be replaced: on disk, for a file */
	const char *original; /* NULL without a record */
	bool foreign;         /* current is neither the original nor ours */
	bool failed;          /* the daemon did not come back with the wanted value */

	/* For a file that a restart puts in force: */
	bool restarts;
	enum reason refusal; /* REASON_NONE: the agent may restart the daemon now */
	uint64_t wait_us;    /* as of may_restart() */
	char why[SETTING_WHY_MAX];
};

/* Returns whether the file has a value that an earlier restart was to put in force. */
static bool was_tried(const struct restart_history *history, const struct want *want)
{
	const struct restart_value *tried =
		history ? find_named(history->tried, history->n_tried, want->name) : NULL;

	return tried && streq(tried->value, want->wanted) &&
	       value_equal(want->file->on_disk, want->wanted);
}

static struct comparison compare(const struct want *want, const struct reconcile_input *input)
{
	const struct decide_input *decide = input->decide;
	struct comparison seen = {.want = want, .current = want->actual};
	uint64_t now_s = decide->realtime_us / USEC_PER_SEC;
	const struct restart_history *history;
	const struct value_record *value;
	const struct key_record *key;
	struct daemon daemon;

	if (want->file) {
		seen.current = want->file->on_disk;
		if (want->file->activation == ACTIVATE_RESTART) {
			daemon = want->file->daemon;
			daemon.busy |= input->transferring;
			history = find_named(decide->restarts, decide->n_restarts, daemon.unit);
			seen.restarts = true;
			seen.refusal = may_restart(
				&daemon, history, want->file->restart, now_s, &seen.wait_us);
			/* No restart is needed to report that the last one had no effect. */
			if (was_tried(history, want) && seen.wait_us > 0 &&
				seen.wait_us < UINT64_MAX && seen.refusal != REASON_RESTART_REFUSED)
				seen.refusal = REASON_NONE;
			restart_describe(history, now_s, seen.refusal, seen.why);
		}
		key = find_named(decide->keys, decide->n_keys, want->name);
		if (!key)
			return seen;
		seen.original = key->in_force_originally;
		seen.foreign = !value_equal(seen.current, key->on_disk_originally) &&
			       !value_equal(seen.current, key->value_before) &&
			       !value_equal(seen.current, key->wanted);
		seen.failed = key->failed[0] && streq(key->failed, want->wanted);
	} else if (want->kind == SETTING_PIN) {
		if (find_named(decide->pins, decide->n_pins, want->name))
			seen.original = NOT_PINNED;
	} else {
		value = find_named(decide->values, decide->n_values, want->name);
		seen.original = value ? value->original : NULL;
		seen.foreign = value && value_is_foreign(value, want->actual);
	}
	return seen;
}

/* Returns whether drift was seen at least n times within this time, unless forgotten. */
static bool has_drifted(const struct drift *drift, uint64_t n, uint64_t within_us, uint64_t now)
{
	uint64_t at_us = drift->at_us[(drift->total - n) % ARRAY_SIZE(drift->at_us)];

	return drift->total >= n && at_us > 0 && now - at_us < within_us;
}

static void forget_times(struct drift *drift)
{
	drift->seen = drift->left = false;
	memset(drift->at_us, 0, sizeof(drift->at_us));
}

static void forget_drift(struct drift *drift)
{
	forget_times(drift);
	drift->confirmed[0] = '\0';
}

/*
 * Drift is a value other than the confirmed one. Before this process has confirmed any value, it is
 * a value that the record does not have.
 */
static void judge_difference(
	struct setting *setting, const struct comparison *seen, const struct reconcile_input *input)
{
	const struct want *want = seen->want;
	struct drift *drift = &setting->drift;
	bool differs =
		drift->confirmed[0] ? !value_equal(seen->current, drift->confirmed) : seen->foreign;
	enum on_drift on_drift = input->on_drift;
	uint64_t now = input->decide->now_us;

	if (setting->state == SETTING_YIELDED || setting->state == SETTING_DRIFTED ||
		(setting->state == SETTING_FAILED && now < setting->retry_at_us))
		return;
	/* The same drift lasts until the value is written. */
	if (!drift->seen && !differs) {
		setting_become(setting, SETTING_PENDING, want->reason, 0, NULL);
		return;
	}
	if (!drift->seen) {
		drift->seen = true;
		drift->at_us[drift->total++ % ARRAY_SIZE(drift->at_us)] = now;
		drift->at_start =
			setting->restarted_us > 0 && now - setting->restarted_us < FILE_SEEN_US;
		log_as(LOG_DRIFT, LOG_NOTICE, want->name, "%s changed it to %s (wanted %s)",
			drift->at_start ? "its program, when it started," : "someone else",
			seen->current[0] ? seen->current : "nothing", want->wanted);
	}
	/* A pull drops the pin of its image. That is not a fight. */
	drift->left |= on_drift == ON_DRIFT_ENFORCE && want->kind != SETTING_PIN &&
		       has_drifted(drift, FIGHT_ROUNDS + 1, FIGHT_US, now);
	if (on_drift != ON_DRIFT_ENFORCE)
		setting_become(setting,
			on_drift == ON_DRIFT_REPORT ? SETTING_DRIFTED : SETTING_YIELDED,
			REASON_LEFT_BY_ON_DRIFT, 0, NULL);
	else if (drift->left)
		setting_become(setting, SETTING_YIELDED, REASON_REWRITTEN_TOO_OFTEN, 0, NULL);
	else if (seen->refusal == REASON_RESTARTED_TOO_OFTEN)
		setting_become(setting, SETTING_YIELDED, seen->refusal, 0, seen->why);
	else
		setting_become(setting, SETTING_PENDING, REASON_DRIFT, 0, NULL);
}

/* The file has the value, which is not in force. */
static void judge_written(
	struct setting *setting, const struct comparison *seen, const struct reconcile_input *input)
{
	uint64_t now = input->decide->now_us;
	enum reason reason = seen->want->file->activation == ACTIVATE_RELOAD
				     ? REASON_RELOAD_PENDING
				     : REASON_RESTART_PENDING;
	bool yields = seen->refusal == REASON_RESTARTED_TOO_OFTEN &&
		      has_drifted(&setting->drift, 1, DAY_US, now);

	/* A job may have found a more exact reason. */
	if (setting->state == SETTING_YIELDED ||
		(now < setting->retry_at_us && setting->state == SETTING_PENDING))
		return;
	setting_become(setting, yields ? SETTING_YIELDED : SETTING_PENDING,
		seen->refusal ? seen->refusal : reason, 0, seen->why);
}

/* After a restart of the agent, only the record says that the value failed. */
static void judge_failed(struct setting *setting, const struct want *want)
{
	char why[SETTING_WHY_MAX];

	snprintf(why, sizeof(why),
		"%.60s did not answer after a restart with %.60s, so it has its old file again: if it does not run, systemctl restart %.60s",
		want->file->daemon.unit, want->wanted, want->file->daemon.unit);
	if (setting->why[0])
		set_text(why, setting->why);
	setting_become(setting, SETTING_FAILED, REASON_DID_NOT_COME_BACK, -ETIMEDOUT, why);
}

/* The node lacks descriptors or memory: that is no failure of the setting, and soon over. */
static bool is_shortage(int error)
{
	return error == -ENFILE || error == -EMFILE || error == -ENOMEM;
}

static void judge_setting(
	struct setting *setting, const struct comparison *seen, const struct reconcile_input *input)
{
	const struct want *want = seen->want;
	bool written = value_equal(seen->current, want->wanted);
	bool in_force = written && value_equal(want->actual, want->wanted);
	uint64_t now = input->decide->now_us;
	enum mode mode = input->decide->mode;
	/* For files and pins the tuner has a more exact reason. */
	enum reason own_reason =
		want->kind != SETTING_VALUE || want->reason == REASON_NO_LONGER_CONFIGURED
			? want->reason
			: REASON_NONE;
	const char *configured = want->configured[0] ? want->configured : want->wanted;
	bool is_impossible = want->error == -ENOENT || want->error == -EOPNOTSUPP;

	if (is_shortage(want->error) && setting->actual[0])
		return;
	/* A changed configuration is a new attempt. */
	if (setting->configured_anew && want->wanted[0]) {
		if (!value_equal(setting->drift.wanted, configured))
			forget_times(&setting->drift);
		setting->configured_anew = false;
	}
	if (want->wanted[0])
		copy_text(setting->drift.wanted, SETTING_VALUE_MAX, configured);
	if (mode != MODE_ENFORCE)
		setting->drift.confirmed[0] = '\0';
	set_text(setting->wanted, want->wanted);
	set_text(setting->actual, want->actual);
	set_text(setting->original, seen->original ? seen->original : want->actual);
	setting->mode = mode;
	setting->requested = want->requested;
	if (is_impossible && want->requested && own_reason && mode == MODE_ENFORCE) {
		setting_become(setting, SETTING_FAILED, own_reason, want->error, want->why);
	} else if (want->error == -ENOENT) {
		setting_become(setting, SETTING_UNSUPPORTED,
			own_reason ? own_reason : REASON_NOT_IN_THIS_KERNEL,
			want->requested ? want->error : 0, want->why);
	} else if (want->error == -EOPNOTSUPP) {
		setting_become(setting, SETTING_OBSERVED, own_reason, 0, want->why);
	} else if (want->error < 0) {
		setting_become(setting, SETTING_FAILED, REASON_UNREADABLE, want->error, NULL);
	} else if (want->wanted[0] == '\0') {
		setting_become(setting, SETTING_OBSERVED, own_reason ? own_reason : REASON_KEPT, 0,
			want->why);
	} else if (mode == MODE_RELEASED && seen->original) {
		setting_become(setting, SETTING_FAILED, REASON_NOT_RESTORED,
			setting->error ? setting->error : -EIO,
			setting->state == SETTING_FAILED ? setting->why : "");
	} else if (mode != MODE_ENFORCE) {
		setting_become(setting, SETTING_OBSERVED,
			mode == MODE_RELEASED ? REASON_RESTORED : REASON_OBSERVE_MODE, 0, NULL);
	} else if (want->kind == SETTING_VALUE ? !input->values_recordable
					       : !input->files_recordable) {
		setting_become(setting, SETTING_OBSERVED, REASON_NOT_RECORDED, 0, NULL);
	} else if (!in_force && seen->failed) {
		judge_failed(setting, want);
	} else if (!written) {
		judge_difference(setting, seen, input);
	} else if (in_force || setting->state != SETTING_FAILED || now >= setting->retry_at_us) {
		setting->drift.seen = setting->drift.left = false;
		copy_text(setting->drift.confirmed, SETTING_VALUE_MAX, seen->current);
		if (in_force) {
			setting_become(setting, SETTING_IN_SYNC,
				reason_rows[want->reason].chosen ? want->reason : REASON_IN_SYNC, 0,
				reason_rows[want->reason].chosen ? want->why : NULL);
			setting->retry_at_us = 0;
		} else {
			judge_written(setting, seen, input);
		}
	}
}

static void plan_setting(const struct setting *setting, const struct comparison *seen,
	const struct reconcile_input *input, struct plan *plan)
{
	const struct want *want = seen->want;
	bool written = value_equal(seen->current, want->wanted);
	struct change *change;

	if (setting->state != SETTING_PENDING ||
		(written && (input->decide->now_us < setting->retry_at_us || seen->refusal ||
				    want->file->activation == ACTIVATE_NOTHING)))
		return;
	change = plan_add(plan, want->file, want->name, setting->tuner, want->actual, want->wanted);
	set_text(change->actual, want->actual);
	change->reason = setting->reason;
	change->kind = want->kind;
	change->cost = want->cost ? must(strdup(want->cost)) : NULL;
	if (want->kind == SETTING_FILE) {
		change->file->state = written ? FILE_WRITTEN : FILE_WANTED;
		change->file->daemon.busy |= input->transferring;
	} else if (want->kind == SETTING_PIN) {
		change->pin = want->pin;
	} else {
		change->target = want->target;
		change->grown = want->grown;
	}
}

void reconcile(struct node *node, const struct reconcile_input *input, struct plan *plan)
{
	const struct proposal *proposal = input->proposal;
	size_t i = 0, end;

	/* The settings of a tuner are contiguous. */
	while (i < node->n_settings && node->settings[i].tuner != input->tuner)
		i++;
	for (size_t w = 0; w < proposal->n_wants; w++) {
		const struct want *want = &proposal->wants[w];
		struct setting moving = {.tuner = input->tuner, .configured_anew = true}, *setting;
		const struct drift *kept;
		struct drift before;
		size_t j = i;
		struct comparison seen = compare(want, input);
		/* Files are compared only after a sample that followed the last job. */
		bool stale = want->kind != SETTING_VALUE && input->files_busy;

		/* Find or add its setting, and keep the order of the proposal. */
		while (j < node->n_settings && (node->settings[j].tuner != input->tuner ||
						       !streq(node->settings[j].name, want->name)))
			j++;
		if (j < node->n_settings)
			moving = node->settings[j];
		else
			add_element(&node->settings, &node->n_settings, &node->settings_allocated);
		before = moving.drift;
		setting = &node->settings[i];
		memmove(setting + 1, setting, (j - i) * sizeof(moving));
		*setting = moving;
		i++;
		copy_text(setting->name, SETTING_NAME_MAX, want->name);
		if (!setting->drift.name[0]) {
			kept = find_named(input->drifts, input->n_drifts, want->name);
			if (kept)
				setting->drift = *kept;
			if (kept && input->decide->force)
				forget_drift(&setting->drift);
			copy_text(setting->drift.name, SETTING_NAME_MAX, want->name);
		}
		if (!stale || !setting->reason)
			judge_setting(setting, &seen, input);
		node->drifts_changed |= memcmp(&before, &setting->drift, sizeof(before)) != 0;
		if (!stale)
			plan_setting(setting, &seen, input, plan);
		setting->restart_due = setting->state == SETTING_PENDING && seen.restarts &&
				       seen.wait_us == 0 &&
				       input->decide->now_us >= setting->retry_at_us;
	}
	/* Drop the tuner's other settings, which follow. */
	for (end = i; end < node->n_settings && node->settings[end].tuner == input->tuner;)
		end++;
	node->drifts_changed |= end > i;
	if (end > i)
		memmove(&node->settings[i], &node->settings[end],
			(node->n_settings - end) * sizeof(*node->settings));
	node->n_settings -= end - i;
}

void reconcile_results(struct node *node, const struct plan *plan, uint64_t now)
{
	node->drifts_changed |= plan->n > 0;
	for (size_t i = 0; i < plan->n; i++) {
		const struct change *change = &plan->changes[i];
		struct setting *setting = node_setting(node, change->name);
		int r = change->error;

		if (!setting)
			continue;
		set_text(setting->actual, change->actual);
		setting->drift.seen &= r < 0 && r != -ERANGE;
		/* Someone changed it again before the read: the next poll counts that. */
		if (r == -ERANGE && !change->file && has_drifted(&setting->drift, 1, DAY_US, now))
			continue;
		if (change->file && change->file->state == FILE_ACTIVATED)
			setting->restarted_us = now;
		/* The file has it, whether or not it is in force. */
		if (change->file && change->file->state >= FILE_WRITTEN && r == 0)
			copy_text(setting->drift.confirmed, SETTING_VALUE_MAX, change->new);
		setting->retry_at_us =
			change->retry_us || r == 0 ? change->retry_us : now + RETRY_US;
		if (r < 0) {
			if (setting_become(setting, SETTING_FAILED, change->reason, r, change->why))
				log_as(LOG_SETTING_CHANGED, LOG_WARNING, change->name,
					"not set to %s: %s: %s", change->new,
					change->why ? change->why : strerror(-r),
					reason_rows[change->reason].help);
		} else if (change->held) {
			bool yields = change->held == REASON_RESTARTED_TOO_OFTEN &&
				      has_drifted(&setting->drift, 1, DAY_US, now);

			if (setting_become(setting, yields ? SETTING_YIELDED : SETTING_PENDING,
				    change->held, 0, change->why) &&
				!yields)
				log_as(LOG_SETTING_CHANGED, LOG_INFO, change->name,
					"%s is in %s and not in force yet: %s", change->new,
					change->file->path, reason_rows[change->held].help);
		} else {
			/* gc_thresh2 grows with gc_thresh3, whose line is enough. */
			bool minor = change->grown && change->target.level == 2;

			log_as(LOG_SETTING_CHANGED, minor ? LOG_DEBUG : LOG_INFO, change->name,
				"%s -> %s (%s)", change->old[0] ? change->old : "nothing",
				change->actual, reason_rows[change->reason].slug);
			copy_text(setting->drift.confirmed, SETTING_VALUE_MAX,
				change->file ? change->new : change->actual);
			setting_become(setting, SETTING_IN_SYNC, REASON_IN_SYNC, 0, NULL);
		}
	}
}

void reconcile_reset(struct node *node, const char *tuner, bool forget)
{
	node->drifts_changed |= forget;
	for (size_t i = 0; i < node->n_settings; i++) {
		struct setting *setting = &node->settings[i];

		if (tuner && !streq(setting->tuner, tuner))
			continue;
		setting->configured_anew = true;
		setting->retry_at_us = 0;
		if (forget)
			forget_drift(&setting->drift);
		if (setting->state == SETTING_YIELDED || setting->state == SETTING_DRIFTED ||
			setting->state == SETTING_FAILED || setting->state == SETTING_PENDING)
			setting_become(setting, SETTING_PENDING, REASON_CONFIGURED, 0, NULL);
	}
}
