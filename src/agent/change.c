/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core.h"

#include "apply/reconcile.h"
#include "tuners/table.h"

void core_reset(struct core *core, const char *only)
{
	reconcile_reset(&core->node, only, true);
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		struct tuner_status *tuner = &core->node.tuners[i];

		if (only && !streq(only, tuner->ops->name))
			continue;
		tuner->force = true;
		release_set(&core->released, tuner->ops->name, false);
	}
	for (size_t i = 0; i < core->n_files; i++)
		if (!only || streq(only, core->files[i].tuner))
			core->files[i].failed[0] = '\0';
}

void core_plan_only(struct core *core, const char *only)
{
	size_t kept = 0;

	for (size_t i = 0; i < core->plan.n; i++)
		if (!only || streq(core->plan.changes[i].tuner, only))
			core->plan.changes[kept++] = core->plan.changes[i];
		else
			change_release(&core->plan.changes[i]);
	core->plan.n = kept;
}

size_t core_apply_values(struct core *core, struct plan *done)
{
	struct plan values = {0};
	size_t n;

	plan_move(&values, &core->plan, PLAN_VALUES);
	n = values.n;
	if (n > 0 && core->values && core->lock >= 0) {
		values_apply(&core->host, core->values, &values);
		reconcile_results(&core->node, &values, now_us());
		core_keep_drifts(core);
	}
	if (done)
		plan_move(done, &values, PLAN_ALL);
	plan_clear(&values);
	return n;
}

void core_restore_values(struct core *core, const char *only, struct plan *done)
{
	struct plan plan = {0};

	for (size_t i = 0; i < core->node.n_tuners; i++)
		if (!only || streq(only, core->node.tuners[i].ops->name))
			release_set(&core->released, core->node.tuners[i].ops->name, true);
	if (core->values)
		values_restore(&core->host, core->values, only, &plan);
	for (size_t i = 0; i < plan.n; i++) {
		struct setting *setting = node_setting(&core->node, plan.changes[i].name);

		if (setting && plan.changes[i].error < 0)
			setting_become(setting, SETTING_FAILED, REASON_NOT_RESTORED,
				plan.changes[i].error, NULL);
	}
	if (done)
		plan_move(done, &plan, PLAN_ALL);
	plan_clear(&plan);
}

struct file_job *core_file_job(
	struct core *core, enum file_task task, const char *only, bool forced)
{
	struct file_job *job;

	if (!core->journal || core->lock < 0 || core->job)
		return NULL;
	job = must(calloc(1, sizeof(*job)));
	job->journal = core->journal;
	job->host = core->host;
	job->task = task;
	job->forced = forced;
	if (forced || task == FILE_RESTORE)
		core->journal->released = core->released;
	job->restart = (enum restart_policy)config_choice(core->config, "runtime.restart");
	job->undo = task == FILE_RESTORE || job->restart != RESTART_NEVER;
	set_text(job->only, only ? only : "");
	if (task == FILE_APPLY)
		plan_move(&job->plan, &core->plan, PLAN_FILES);
	core->job = job;
	return job;
}

static const struct condition *find_hiding(const struct core *core, const struct tuner_ops *ops)
{
	const struct condition *condition = core->node.conditions;

	for (size_t i = 0; i < core->node.n_conditions; i++, condition++)
		for (const struct condition_type *type = ops->tables->conditions;
			type && type->name; type++)
			if (type->hides_settings && condition->now.type == type &&
				condition->now.status == CONDITION_TRUE)
				return condition;
	return NULL;
}

void core_add_unset(const struct core *core, const char *only, struct plan *done)
{
	struct change *change;

	for (size_t i = 0; i < core->node.n_settings; i++) {
		const struct setting *setting = &core->node.settings[i];
		const struct reason_row *reason = &reason_rows[setting->reason];
		const char *why;
		bool untried = reason->unmet && (setting->state == SETTING_OBSERVED ||
							setting->state == SETTING_PENDING);
		bool unset = setting->state == SETTING_FAILED || untried ||
			     (setting->state == SETTING_UNSUPPORTED && setting->error < 0);

		for (size_t c = 0; c < done->n; c++)
			unset &= !streq(done->changes[c].name, setting->name) ||
				 done->changes[c].error >= 0;
		if (!unset || setting->mode != MODE_ENFORCE ||
			(only && !streq(setting->tuner, only)))
			continue;
		change = plan_add(done, NULL, setting->name, setting->tuner, setting->actual,
			setting->wanted);
		set_text(change->actual, setting->actual);
		change->reason = setting->reason;
		change->error = setting->error < 0 ? setting->error : -ECANCELED;
		why = setting->why[0]                         ? setting->why
		      : setting->state == SETTING_UNSUPPORTED ? reason->help
							      : NULL;
		change->why = why ? strdup(why) : NULL;
	}
	core_add_hidden(core, only, done);
}

void core_add_hidden(const struct core *core, const char *only, struct plan *done)
{
	for (size_t i = 0; tuner_table[i]; i++) {
		const struct condition *hiding = find_hiding(core, tuner_table[i]);
		const char *name = tuner_table[i]->name;
		struct change *change;

		if (!hiding || (only && !streq(only, name)))
			continue;
		change = plan_add(done, NULL, name, name, "", "configured");
		change->reason = hiding->now.reason;
		change->error = -ETIMEDOUT;
		change->why = strdup(hiding->now.message);
	}
}
