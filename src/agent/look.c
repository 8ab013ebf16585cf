/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core.h"

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
			snprintf(text, sizeof(text), "is %s, wanted %s", setting->want.actual,
				setting->want.wanted);
			add_cause(drifted, setting->reason, setting->want.name, text);
		}
		if (setting->state == SETTING_FAILED) {
			snprintf(text, sizeof(text), "%s (%s)",
				setting->why[0] ? setting->why : strerror(-setting->error),
				setting->reason);
			add_cause(failed, setting->reason, setting->want.name, text);
		}
	}
}

static void judge_agent(const struct core *core, struct condition_reading *degraded)
{
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		const struct tuner_status *tuner = &core->node.tuners[i];

		if (tuner->state == TUNER_DEGRADED)
			add_cause(degraded, "tuner-degraded", tuner->ops->name, tuner->why);
	}
	if (core->journal_error < 0)
		add_cause(degraded, "journal-unusable", core_state_directory(),
			journal_describe(core->journal_error));
	else if (core->journal && core->journal->lost)
		add_cause(
			degraded, "journal-unusable", core_state_directory(), core->journal->note);
	if (core->trouble[0])
		add_cause(degraded, "tuner-degraded", "", core->trouble);
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
		log_notice(reading->type->name, "%s: %s", condition_status_name(reading->status),
			reading->message[0] ? reading->message : reading->reason);
}

void core_judge(struct core *core)
{
	struct condition_reading drifted = {
		.type = &core_tables.conditions[CORE_SETTING_DRIFTED], .reason = "all-in-sync"};
	struct condition_reading failed = {
		.type = &core_tables.conditions[CORE_SETTING_FAILED], .reason = "none-failed"};
	struct condition_reading degraded = {
		.type = &core_tables.conditions[CORE_AGENT_DEGRADED], .reason = "all-active"};
	struct condition_reading config = {
		.type = &core_tables.conditions[CORE_CONFIG_INVALID], .reason = "config-valid"};

	judge_settings(&core->node, &drifted, &failed);
	judge_agent(core, &degraded);
	if (core->config_fault[0])
		add_cause(&config, "config-fault", "", core->config_fault);
	observe(core, &drifted);
	observe(core, &failed);
	observe(core, &degraded);
	observe(core, &config);
}

/* What the mode of a tuner is now, and why it is observe. */
static const char *settle_mode(const struct core *core, struct tuner_status *tuner)
{
	const char *reason = "observe-mode";

	if (tuner->mode == MODE_OFF)
		return reason;
	tuner->mode = core->options.observe ? MODE_OBSERVE : tuner_mode(tuner->ops, core->config);
	if (tuner->mode == MODE_ENFORCE && core->journal &&
		journal_is_released(core->journal, tuner->ops->name, core->checksum)) {
		tuner->mode = MODE_OBSERVE;
		reason = "restored";
	}
	return reason;
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

static struct want *add_want(struct core *core)
{
	if (grow_array(&core->wants, core->n_wants, &core->wants_allocated, sizeof(*core->wants)) <
		0)
		return NULL;
	return &core->wants[core->n_wants++];
}

static int add_value(struct core *core, const struct value_want *value)
{
	struct want *want = add_want(core);

	if (!want)
		return -ENOMEM;
	copy_text(want->name, sizeof(want->name), value->name);
	copy_text(want->actual, sizeof(want->actual), value->actual);
	copy_text(want->wanted, sizeof(want->wanted), value->wanted);
	copy_text(want->place.path, sizeof(want->place.path), value->target.path);
	want->place.kind = value->target.kind == VALUE_FILE ? PLACE_FILE : PLACE_NEIGHTBL;
	want->place.family = value->target.family;
	want->place.level = value->target.level;
	want->error = value->error;
	want->reason = value->reason;
	if (value->grown)
		ladder_add(&want->ahead, value->wanted);
	return 0;
}

static int add_file(struct core *core, const struct file_want *file)
{
	struct want *want = add_want(core);

	if (!want)
		return -ENOMEM;
	copy_text(want->name, sizeof(want->name), file->name);
	copy_text(want->actual, sizeof(want->actual), file->actual);
	copy_text(want->on_disk, sizeof(want->on_disk), file->on_disk);
	copy_text(want->wanted, sizeof(want->wanted), file->wanted);
	want->place = (struct place){.kind = PLACE_EDIT, .format = file->target.format};
	copy_text(want->place.path, sizeof(want->place.path), file->target.path);
	copy_text(want->place.table, sizeof(want->place.table), file->target.table);
	copy_text(want->place.key, sizeof(want->place.key), file->target.key);
	want->error = file->error;
	want->reason = file->reason;
	want->edit = file->edit;
	return 0;
}

static int join_wants(struct core *core, const struct proposal *proposal)
{
	int r = 0;

	core->n_wants = 0;
	for (size_t i = 0; r == 0 && i < proposal->n_values; i++)
		r = add_value(core, &proposal->values[i]);
	for (size_t i = 0; r == 0 && i < proposal->n_files; i++)
		r = add_file(core, &proposal->files[i]);
	return r;
}

static void split_record(struct core *core, const struct record *record)
{
	struct value_record value = {.grown = ladder_has(&record->ahead, record->target)};
	struct file_record file = {0};

	if (record->place.kind == PLACE_EDIT) {
		copy_text(file.name, sizeof(file.name), record->name);
		copy_text(file.tuner, sizeof(file.tuner), record->tuner);
		copy_text(file.original, sizeof(file.original), record->original);
		copy_text(file.on_disk, sizeof(file.on_disk), record->on_disk);
		copy_text(file.before, sizeof(file.before), record->before);
		copy_text(file.wanted, sizeof(file.wanted), record->target);
		if (record->given_up != 0)
			copy_text(file.failed, sizeof(file.failed), record->target);
		core->file_records[core->n_file_records++] = file;
		return;
	}
	copy_text(value.name, sizeof(value.name), record->name);
	copy_text(value.tuner, sizeof(value.tuner), record->tuner);
	copy_text(value.original, sizeof(value.original), record->original);
	copy_text(value.before, sizeof(value.before), record->before);
	copy_text(value.wanted, sizeof(value.wanted), record->target);
	core->value_records[core->n_value_records++] = value;
}

static void split_records(struct core *core)
{
	size_t n = core->journal ? core->journal->n_records : 0;

	free(core->value_records);
	free(core->file_records);
	core->value_records = calloc(n + 1, sizeof(*core->value_records));
	core->file_records = calloc(n + 1, sizeof(*core->file_records));
	core->n_value_records = core->n_file_records = 0;
	for (size_t i = 0; i < n && core->value_records && core->file_records; i++)
		split_record(core, &core->journal->records[i]);
}

static int poll_tuner(struct core *core, size_t i, const struct decide_input *input)
{
	struct tuner_status *tuner = &core->node.tuners[i];
	struct proposal *proposal = &core->proposals[i];
	struct reconcile_input request = {
		.tuner = tuner,
		.records = core->journal ? core->journal->records : NULL,
		.n_records = core->journal ? core->journal->n_records : 0,
		.on_drift = tuner->force ? ON_DRIFT_ENFORCE
					 : (enum on_drift)config_choice(core->config, "on_drift"),
		.observe_reason = settle_mode(core, tuner),
		.config = core->checksum,
		.may_record = input->now_us >= core->journal_retry_us,
		.now_us = input->now_us,
	};
	int r = 0;

	proposal_reset(proposal);
	if (tuner->mode != MODE_OFF) {
		tuner->ops->sense(tuner->self);
		r = tuner->ops->decide(tuner->self, input, tuner->memory, proposal);
		if (r == 0 && tuner->ops->arm)
			tuner->ops->arm(tuner->self, tuner->memory);
		tuner->state = tuner->ops->state(tuner->self, tuner->why);
	}
	if (r == 0)
		r = join_wants(core, proposal);
	request.wants = core->wants;
	request.n_wants = core->n_wants;
	if (r == 0)
		r = reconcile(&core->node, &request, &core->plan);
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

static struct decide_input make_decide_input(struct core *core)
{
	split_records(core);
	return (struct decide_input){
		.values = core->value_records,
		.n_values = core->n_value_records,
		.files = core->file_records,
		.n_files = core->n_file_records,
		.now_us = now_us(),
	};
}

int core_poll_tuner(struct core *core, size_t i)
{
	struct decide_input input = make_decide_input(core);
	int r;

	plan_reset(&core->plan);
	r = poll_tuner(core, i, &input);
	plan_sort(&core->plan);
	return r;
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
	plan_sort(&core->plan);
	take_conditions(core);
	core_judge(core);
	core->node.heartbeat_us = input.now_us;
	core->node.revision++;
	return 0;
}
