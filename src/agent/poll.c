/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core.h"

#include "apply/reconcile.h"
#include "base/log.h"
#include "base/util.h"
#include "tuners/table.h"

#include <errno.h>
#include <stdio.h>

/* Appends one more cause to a condition's message, as long as there is room. */
static void add_cause(
	struct condition_reading *reading, const char *reason, const char *object, const char *text)
{
	size_t used = strlen(reading->message);

	snprintf(reading->message + used, sizeof(reading->message) - used, "%s%s%s%s",
		used > 0 ? "; " : "", object, object[0] ? ": " : "", text);
	reading->status = CONDITION_TRUE;
	reading->reason = reason;
}

static void judge_settings(const struct node *node, struct condition_reading *drifted,
	struct condition_reading *failed)
{
	for (size_t i = 0; i < node->n_settings; i++) {
		const struct setting *setting = &node->settings[i];
		char text[2 * SETTING_VALUE_MAX + 32];

		if (setting->state == SETTING_YIELDED || setting->state == SETTING_DRIFTED) {
			snprintf(text, sizeof(text), "is %s, wanted %s", setting->actual,
				setting->wanted);
			add_cause(drifted, setting->reason, setting->name, text);
		}
		if (setting->state == SETTING_FAILED) {
			snprintf(text, sizeof(text), "%s (%s)",
				setting->why[0] ? setting->why : strerror(-setting->error),
				setting->reason);
			add_cause(failed, setting->reason, setting->name, text);
		}
	}
}

/* A value that no tuner wants any more, and whose original could not be restored. */
static void judge_leftovers(const struct core *core, struct condition_reading *failed)
{
	size_t n = 0;
	const struct value_record *records =
		core->values ? value_store_records(core->values, &n) : NULL;
	char actual[SETTING_VALUE_MAX];

	for (size_t i = 0; i < n; i++)
		if (core_released(core, records[i].tuner) &&
			!node_setting(&core->node, records[i].name) &&
			host_read_value(&core->host, records[i].target.path, actual) != -ENOENT)
			add_cause(failed, "not-restored", records[i].name,
				"the original could not be restored (not-restored)");
}

static void judge_agent(const struct core *core, struct condition_reading *degraded)
{
	bool writes = core_wants_to_write(core);
	char text[CONDITION_MESSAGE_MAX];

	for (size_t i = 0; i < core->node.n_tuners; i++) {
		const struct tuner_status *tuner = &core->node.tuners[i];

		if (tuner->state == TUNER_DEGRADED)
			add_cause(degraded, "tuner-degraded", tuner->ops->name, tuner->why);
	}
	if (core->values_error < 0 && writes) {
		snprintf(text, sizeof(text),
			"%s: originals of values cannot be recorded, so values are only observed: %s",
			core->values_error == -EBADMSG ? "values is no file of this version"
						       : strerror(-core->values_error),
			core->values_error == -ENOSPC    ? "make room in it"
			: core->values_error == -EBADMSG ? "remove it, or restart the node"
			: core->host.root[0] ? "mount the host's /run/headroom there, writable"
					     : "give write access to it");
		add_cause(degraded, "values-unrecorded", "/run/headroom", text);
	}
	if (core->journal_error < 0 && writes)
		add_cause(degraded, "journal-unusable", core_state_directory(),
			file_journal_describe(core->journal_error));
	else if (core->journal_lost)
		add_cause(degraded, "journal-unusable", core_state_directory(), core->journal_note);
	if (core->agent_error[0])
		add_cause(degraded, "tuner-degraded", "", core->agent_error);
}

static void observe(struct core *core, const struct condition_reading *reading)
{
	struct condition *condition = node_condition(&core->node, reading->type);
	bool known = condition->since_us > 0;
	enum condition_status before = condition->now.status;

	if (!condition_observe(condition, reading, realtime_us()))
		return;
	if (reading->status == CONDITION_TRUE)
		log_warning(reading->type->name, "%s", reading->message);
	/* That all is well where nothing was known is no news: each start would say it. */
	else if (known && (before == CONDITION_TRUE || reading->status == CONDITION_UNKNOWN))
		log_notice(reading->type->name, "%s: %s", condition_status_names[reading->status],
			reading->message[0] ? reading->message : reading->reason);
}

void core_judge(struct core *core)
{
	const struct condition_type *types = core_tables.conditions;
	struct condition_reading drifted = {
		.type = &types[CORE_SETTING_DRIFTED], .reason = "all-in-sync"};
	struct condition_reading failed = {
		.type = &types[CORE_SETTING_FAILED], .reason = "none-failed"};
	struct condition_reading degraded = {
		.type = &types[CORE_AGENT_DEGRADED], .reason = "all-active"};
	struct condition_reading config = {
		.type = &types[CORE_CONFIG_INVALID], .reason = "config-valid"};

	judge_settings(&core->node, &drifted, &failed);
	judge_leftovers(core, &failed);
	judge_agent(core, &degraded);
	if (core->config_fault[0])
		add_cause(&config, "config-fault", "", core->config_fault);
	observe(core, &drifted);
	observe(core, &failed);
	observe(core, &degraded);
	observe(core, &config);
}

const struct release *core_released(const struct core *core, const char *tuner)
{
	for (size_t i = 0; i < core->n_released; i++)
		if (streq(core->released[i].tuner, tuner))
			return &core->released[i];
	return NULL;
}

/* What the mode of a tuner is now, and since when. */
static void settle_mode(const struct core *core, struct tuner_status *tuner)
{
	const struct release *release = core_released(core, tuner->ops->name);
	enum mode mode = tuner_mode(tuner->ops, core->config);

	if (mode == MODE_OFF)
		release = NULL;
	else if (core->as_apply)
		mode = MODE_ENFORCE;
	else if (core->options.observe)
		mode = MODE_OBSERVE;
	else if (mode == MODE_ENFORCE && release)
		mode = MODE_RELEASED;
	if (mode == MODE_RELEASED)
		tuner->since_us = release->since_s * USEC_PER_SEC;
	else if (mode != tuner->mode || tuner->since_us == 0)
		tuner->since_us = realtime_us();
	if (mode == MODE_RELEASED && tuner->mode != MODE_RELEASED)
		log_notice(tuner->ops->name,
			"released by headroom restore: nothing is written until headroom apply");
	tuner->mode = mode;
}

static int take_limit(struct node *node, const struct limit_reading *reading, uint64_t now)
{
	struct limit *limit = node_limit(node, reading->name);

	if (!limit) {
		if (grow_array(&node->limits, node->n_limits, &node->limits_allocated,
			    sizeof(*node->limits)) < 0)
			return -ENOMEM;
		limit = &node->limits[node->n_limits++];
	}
	limit_observe(limit, reading, now);
	return 0;
}

static void drop_stale_limits(struct node *node, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < node->n_limits; i++)
		if (node->limits[i].seen_at_us == now)
			node->limits[kept++] = node->limits[i];
	node->n_limits = kept;
}

static struct decide_input make_decide_input(const struct core *core)
{
	struct decide_input input = {
		.files = core->files, .n_files = core->n_files, .now_us = now_us()};

	if (core->values)
		input.values = value_store_records(core->values, &input.n_values);
	return input;
}

static int poll_tuner(struct core *core, size_t i, const struct decide_input *input)
{
	struct tuner_status *tuner = &core->node.tuners[i];
	struct proposal *proposal = &core->proposals[i];
	struct reconcile_input wanted = {
		.tuner = tuner->ops->name,
		.proposal = proposal,
		.past = input,
		.on_drift = tuner->force ? ON_DRIFT_ENFORCE
					 : (enum on_drift)config_choice(core->config, "on_drift"),
		/* A command without the lock shows what an agent would do. */
		.values_recordable = !core->options.watch || (core->lock >= 0 && core->values),
		.files_busy = core->files_busy || tuner->files_stale,
	};
	int r = 0;

	settle_mode(core, tuner);
	wanted.mode = tuner->mode;
	proposal_reset(proposal);
	if (tuner->mode != MODE_OFF) {
		if (tuner->ops->sense)
			tuner->ops->sense(tuner->self);
		r = tuner->ops->decide(tuner->self, input, tuner->memory, proposal);
		if (r == 0 && tuner->ops->arm)
			tuner->ops->arm(tuner->self, tuner->memory);
		tuner->state = tuner->ops->state(tuner->self, tuner->why);
	}
	if (r == 0)
		r = reconcile(&core->node, &wanted, &core->plan);
	tuner->force = false;
	for (size_t l = 0; r == 0 && l < proposal->n_limits; l++)
		r = take_limit(&core->node, &proposal->limits[l], input->now_us);
	return r;
}

/* Each type of a tuner once: what it reports, or that it is off. */
static void take_conditions(struct core *core)
{
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		const struct condition_type *type = core->node.tuners[i].ops->conditions;

		for (; type && type->name; type++) {
			struct condition_reading none = {
				.type = type, .status = CONDITION_UNKNOWN, .reason = "tuner-off"};
			const struct condition_reading *reading = &none;

			for (size_t c = 0; c < core->proposals[i].n_conditions; c++)
				if (core->proposals[i].conditions[c].type == type)
					reading = &core->proposals[i].conditions[c];
			observe(core, reading);
		}
	}
}

int core_poll_tuner(struct core *core, size_t i)
{
	struct decide_input input = make_decide_input(core);

	plan_reset(&core->plan);
	return poll_tuner(core, i, &input);
}

int core_poll(struct core *core)
{
	struct decide_input input = make_decide_input(core);

	plan_reset(&core->plan);
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		int r = poll_tuner(core, i, &input);

		if (r < 0)
			return r;
	}
	drop_stale_limits(&core->node, input.now_us);
	take_conditions(core);
	core_judge(core);
	core->node.heartbeat_us = input.now_us;
	core->node.revision++;
	return 0;
}
