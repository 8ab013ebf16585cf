/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core.h"

#include "apply/reconcile.h"
#include "base/log.h"
#include "tuners/table.h"

/* Three times JOB_TIMEOUT_US. */
#define JOB_OVERDUE_US (30 * USEC_PER_SEC)

static void judge_agent(const struct core *core, struct condition_reading *degraded)
{
	bool writes = core_wants_to_write(core);
	int error = core->values_error;

	for (size_t i = 0; i < core->node.n_tuners; i++) {
		const struct tuner_status *tuner = &core->node.tuners[i];

		if (tuner->state == TUNER_DEGRADED)
			condition_raise(degraded, REASON_TUNER_DEGRADED, "%s: %s", tuner->ops->name,
				tuner->why);
	}
	if (error < 0 && writes)
		condition_raise(degraded, REASON_VALUES_UNRECORDED,
			"/run/headroom: %s: originals of values cannot be recorded, so values are "
			"only observed: %s",
			core_describe_values_error(error),
			error == -ENOSPC    ? "make room in it"
			: error == -EBADMSG ? "remove it, or restart the node"
			: core->host.root[0]
				? "mount the host's /run/headroom there, writable, and its "
				  "root at HEADROOM_HOST_ROOT"
				: "give write access to it");
	if (core->journal_error < 0 && writes)
		condition_raise(degraded, REASON_JOURNAL_UNUSABLE, "%s: %s", core_state_name(),
			file_journal_describe(core->journal_error));
	if (core->agent_error[0])
		condition_raise(degraded, REASON_TUNER_DEGRADED, "%s", core->agent_error);
}

static void observe(struct core *core, const struct condition_reading *reading)
{
	static const int levels[] = {[SEVERITY_ADVICE] = LOG_NOTICE,
		[SEVERITY_WARNING] = LOG_WARNING,
		[SEVERITY_CRITICAL] = LOG_CRIT};
	struct condition *condition = core->node.conditions;
	enum condition_status before;
	bool known;

	while (condition->now.type != reading->type)
		condition++;
	known = condition->since_us > 0;
	before = condition->now.status;
	condition->now = *reading;
	condition_add_end(&condition->now, now_us(), realtime_us());
	if (known && before == reading->status)
		return;
	condition->since_us = realtime_us();
	if (reading->status == CONDITION_TRUE)
		log_line(levels[condition_severity(reading)], reading->type->name, "%s",
			reading->message);
	/* Do not log that a condition is False at first: each start would do so. */
	else if (known && (before == CONDITION_TRUE || reading->status == CONDITION_UNKNOWN))
		log_notice(reading->type->name, "%s: %s", condition_status_names[reading->status],
			reading->message[0] ? reading->message : condition_reason(reading));
}

static void judge(struct core *core)
{
	struct condition_reading readings[] = {
		[CORE_SETTING_DRIFTED] = {.reason = REASON_ALL_IN_SYNC},
		[CORE_SETTING_FAILED] = {.reason = REASON_NONE_FAILED},
		[CORE_AGENT_DEGRADED] = {.reason = REASON_ALL_ACTIVE},
		[CORE_CONFIG_INVALID] = {.reason = REASON_CONFIG_VALID},
	};
	struct condition_reading *failed = &readings[CORE_SETTING_FAILED];
	char actual[SETTING_VALUE_MAX];

	for (size_t i = 0; i < core->node.n_settings; i++) {
		const struct setting *setting = &core->node.settings[i];

		if (setting->state == SETTING_YIELDED || setting->state == SETTING_DRIFTED)
			condition_raise(&readings[CORE_SETTING_DRIFTED], setting->reason,
				"%s: is %s, wanted %s: changed %llu times, the last time by %s",
				setting->name, setting->actual, setting->wanted,
				(unsigned long long)setting->drift.total,
				setting->drift.at_start ? "its program when it started"
							: "another writer");
		if (setting->state == SETTING_FAILED)
			condition_raise(failed, setting->reason, "%s: %s (%s)", setting->name,
				setting->why[0] ? setting->why : strerror(-setting->error),
				reason_rows[setting->reason].slug);
	}
	/* Values of released tuners that are no longer configured and could not be restored. */
	for (size_t i = 0; core->values && i < core->values->n; i++) {
		const struct value_record *record = &core->values->records[i];

		if (record->name[0] &&
			find_named(core->released.tuners, core->released.n, record->tuner) &&
			!node_setting(&core->node, record->name) &&
			host_read_value(&core->host, record->target.path, actual) != -ENOENT)
			condition_raise(failed, REASON_NOT_RESTORED,
				"%s: the original could not be restored (not-restored)",
				record->name);
	}
	judge_agent(core, &readings[CORE_AGENT_DEGRADED]);
	if (core->config_fault[0])
		condition_raise(&readings[CORE_CONFIG_INVALID], REASON_CONFIG_FAULT, "%s",
			core->config_fault);
	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		readings[i].type = &core_tables.conditions[i];
		observe(core, &readings[i]);
	}
}

/* Updates the mode of a tuner and since_us. */
static void settle_mode(const struct core *core, struct tuner_status *tuner)
{
	const struct release *release =
		find_named(core->released.tuners, core->released.n, tuner->ops->name);
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

bool core_job_is_overdue(const struct tuner_status *tuner, enum job_kind kind, uint64_t now)
{
	return tuner->under_way[kind] > 0 && now > tuner->requested_us[kind] + JOB_OVERDUE_US;
}

/*
 * Neither a deadline nor cancelling ends a job that hangs in the kernel, such as a read of a hung
 * file system. Then the last sample of the tuner is too old.
 */
static void judge_jobs(struct tuner_status *tuner, uint64_t now)
{
	struct proposal *proposal = &tuner->proposal;
	const char *path = tuner->sample_path;

	if (core_job_is_overdue(tuner, JOB_LOAD, now))
		set_text(tuner->why,
			"BPF: loading has not ended for 30 s: restart the node if it stays so");
	if (!core_job_is_overdue(tuner, JOB_SAMPLE, now))
		return;
	snprintf(tuner->why, sizeof(tuner->why),
		"%s hangs: a sample has not ended: repair or unmount the file system, or "
		"see the kernel stack of the agent's threads",
		path ? path : "a file system or a program");
	if (tuner->ops->sense)
		return;
	for (size_t i = 0; i < proposal->n_wants; i++) {
		proposal->wants[i].error = 0;
		proposal->wants[i].wanted[0] = '\0';
		proposal->wants[i].reason = REASON_SAMPLE_OVERDUE;
	}
	for (size_t i = 0; i < proposal->n_conditions; i++) {
		condition_unknown(&proposal->conditions[i], REASON_SAMPLE_OVERDUE);
		copy_text(proposal->conditions[i].message, CONDITION_MESSAGE_MAX, tuner->why);
	}
}

static void poll_tuner(struct core *core, struct tuner_status *tuner, uint64_t now)
{
	struct node *node = &core->node;
	struct decide_input input = {
		.files = core->files,
		.n_files = core->n_files,
		.pins = core->pins,
		.n_pins = core->n_pins,
		.settings = node->settings,
		.n_settings = node->n_settings,
		.limits = node->limits,
		.n_limits = node->n_limits,
		.now_us = now,
		.force = tuner->force,
	};
	struct proposal *proposal = &tuner->proposal;
	struct reconcile_input wanted = {
		.tuner = tuner->ops->name,
		.proposal = proposal,
		.decide = &input,
		.on_drift = tuner->force ? ON_DRIFT_ENFORCE
					 : (enum on_drift)config_choice(core->config, "on_drift"),
		/* A command without the lock shows the changes of an agent. */
		.values_recordable = !core->loop.event || (core->lock >= 0 && core->values),
		.files_recordable = !core->loop.event || (core->lock >= 0 && core->journal),
		.drifts = core->drifts,
		.n_drifts = core->n_drifts,
		.transferring = node_transfers(node),
		.files_busy = core->job || tuner->files_stale,
	};

	if (core->values) {
		input.values = core->values->records;
		input.n_values = core->values->n;
	}
	settle_mode(core, tuner);
	input.mode = tuner->mode;
	proposal_clear(proposal);
	if (tuner->mode != MODE_OFF) {
		if (tuner->ops->sense)
			tuner->ops->sense(tuner->self, now);
		tuner->ops->decide(tuner->self, &input, tuner->memory, proposal);
		if (tuner->loop.arm)
			tuner->loop.arm(tuner->self, tuner->memory);
		set_text(tuner->why, proposal->why);
		judge_jobs(tuner, now);
		tuner->state = tuner->why[0] ? TUNER_DEGRADED : TUNER_ACTIVE;
	}
	reconcile(node, &wanted, &core->plan);
	tuner->force = false;
	for (size_t l = 0; l < proposal->n_limits; l++) {
		struct limit *limit =
			find_named(node->limits, node->n_limits, proposal->limits[l].name);

		if (!limit) {
			limit = add_element(
				&node->limits, &node->n_limits, &node->limits_allocated);
			core_recall_peak(core, limit, proposal->limits[l].name);
		}
		limit_observe(limit, &proposal->limits[l], now);
	}
}

void core_poll_tuner(struct core *core, struct tuner_status *tuner)
{
	plan_clear(&core->plan);
	poll_tuner(core, tuner, now_us());
	core_keep_drifts(core);
}

void core_poll(struct core *core)
{
	uint64_t now = now_us();
	size_t kept = 0;

	plan_clear(&core->plan);
	for (size_t i = 0; i < core->node.n_tuners; i++)
		poll_tuner(core, &core->node.tuners[i], now);
	for (size_t i = 0; i < core->node.n_limits; i++)
		if (core->node.limits[i].seen_at_us == now)
			core->node.limits[kept++] = core->node.limits[i];
		else
			limit_release(&core->node.limits[i]);
	core->node.n_limits = kept;
	core_keep_peaks(core);
	core_keep_events(core);
	core_keep_drifts(core);
	/* Each type has one reading; without one, the tuner is off. */
	for (size_t i = 0; i < core->node.n_tuners; i++) {
		const struct proposal *proposal = &core->node.tuners[i].proposal;
		const struct condition_type *type = core->node.tuners[i].ops->tables->conditions;

		for (; type && type->name; type++) {
			struct condition_reading none = {.type = type,
				.status = CONDITION_UNKNOWN,
				.reason = REASON_TUNER_OFF};
			const struct condition_reading *reading = &none;

			for (size_t c = 0; c < proposal->n_conditions; c++)
				if (proposal->conditions[c].type == type)
					reading = &proposal->conditions[c];
			observe(core, reading);
		}
	}
	judge(core);
	core->node.heartbeat_us = now;
	core->node.revision++;
}
