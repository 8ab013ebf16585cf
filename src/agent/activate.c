/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/activate.h"

#include "apply/apply.h"
#include "apply/reconcile.h"
#include "apply/reload.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>

#define NEVER UINT64_MAX

static const struct service *service_at(const struct pipeline *pipeline, size_t i)
{
	return &pipeline->edits.files[i].service;
}

/* Two files of one program: it takes both at once. */
static bool is_same(const struct service *a, const struct service *b)
{
	return a->activation == b->activation && streq(a->unit, b->unit) &&
	       streq(a->pid_file, b->pid_file) && a->pid == b->pid;
}

/* Calls for each change that the service at index at takes effect for. */
static struct change *next_change(const struct pipeline *pipeline, size_t at, size_t *i)
{
	const struct plan *plan = &pipeline->edits.plan;

	for (; *i < plan->n; (*i)++) {
		struct change *change = &plan->changes[*i];

		for (size_t f = 0; f < pipeline->edits.n; f++)
			if (streq(pipeline->edits.files[f].note.path, change->place.path) &&
				is_same(service_at(pipeline, f), service_at(pipeline, at)) &&
				change->error == 0) {
				(*i)++;
				return change;
			}
	}
	return NULL;
}

/* The settings of the service wait until then, for this reason. */
static void hold(struct pipeline *pipeline, const char *reason, uint64_t until)
{
	struct change *change;

	for (size_t i = 0; (change = next_change(pipeline, pipeline->at, &i));) {
		struct setting *setting = node_setting(&pipeline->core->node, change->name);

		if (!pipeline->restoring && reason)
			change->reason = reason;
		if (!setting || setting->state != SETTING_PENDING)
			continue;
		setting->retry_at_us = until;
		if (reason)
			setting->reason = reason;
	}
}

/* It was said before, and nothing has changed since. */
static bool is_held(const struct pipeline *pipeline, const char *reason)
{
	const struct change *change;

	for (size_t i = 0; (change = next_change(pipeline, pipeline->at, &i));) {
		const struct setting *setting = node_setting(&pipeline->core->node, change->name);

		if (setting && streq(setting->reason, reason))
			return true;
	}
	return false;
}

static void fail_all(struct pipeline *pipeline, const char *reason, const char *why)
{
	uint64_t until = pipeline_is_outdated(pipeline) ? now_us() + RETRY_FILE_US : NEVER;
	struct change *change;

	for (size_t i = 0; (change = next_change(pipeline, pipeline->at, &i));) {
		struct setting *setting = node_setting(&pipeline->core->node, change->name);

		if (setting)
			setting_fail(setting, reason, -ETIMEDOUT, why, until);
		(void)replace_text(&change->why, why);
		change->error = -ETIMEDOUT;
	}
}

static bool was_written(const struct pipeline *pipeline, size_t at)
{
	for (size_t f = 0; f < pipeline->edits.n; f++)
		if (pipeline->edits.files[f].written &&
			is_same(service_at(pipeline, f), service_at(pipeline, at)))
			return true;
	return false;
}

/* Written now, or found to stand as wanted and not in force. */
static bool is_due(const struct pipeline *pipeline, size_t at)
{
	const struct change *change;

	for (size_t f = 0; f < at; f++)
		if (is_same(service_at(pipeline, f), service_at(pipeline, at)))
			return false;
	if (was_written(pipeline, at))
		return true;
	for (size_t i = 0; (change = next_change(pipeline, at, &i));)
		if (change->activate_only)
			return true;
	return false;
}

static void reload(struct pipeline *pipeline)
{
	const struct service *service = service_at(pipeline, pipeline->at);
	int r = reload_docker(&pipeline->core->host, service);

	if (r == 0)
		log_info("dockerd", "told to read its configuration again");
	else
		log_warning("dockerd", "not told to read its configuration again: %s",
			r == -ESRCH ? "no such process is seen from here" : strerror(-r));
	hold(pipeline, r < 0 ? "reload-pending" : NULL,
		now_us() + (r < 0 ? RETRY_FILE_US : RELOAD_AGAIN_US));
}

/* How long a unit has to be left, as RESTART_WHEN_IDLE tries once an hour; 0 for no longer. */
static uint64_t rest_us(const struct pipeline *pipeline, const char *unit)
{
	const struct journal_restart *last = journal_find_restart(pipeline->core->journal, unit);
	uint64_t now = realtime_us(), end;

	if (!last)
		return 0;
	end = last->at_s * USEC_PER_SEC + RESTART_AGAIN_US;
	/* Longer still: the clock was wrong then, or is now. */
	return end > now && end - now <= 2 * RESTART_AGAIN_US ? end - now : 0;
}

static bool is_open(const struct pipeline *pipeline, const char *unit)
{
	const struct journal_restart *last = journal_find_restart(pipeline->core->journal, unit);

	return last && last->open;
}

/*
 * By the policy that goes with the file; what forbids it otherwise, systemd is asked for. Of a
 * restore that was noted with the last write: what the configuration says by now counts too.
 */
static enum restart_policy policy_of(const struct pipeline *pipeline, bool *busy)
{
	const struct service *service = service_at(pipeline, pipeline->at);
	enum restart_policy policy = service->restart;
	const struct change *change;

	*busy = service->busy;
	for (size_t i = 0; (change = next_change(pipeline, pipeline->at, &i));) {
		const struct setting *setting = node_setting(&pipeline->core->node, change->name);

		if (!setting || !setting->want.edit)
			continue;
		policy = MIN(policy, setting->want.edit->service.restart);
		*busy = *busy || setting->want.edit->service.busy;
	}
	return policy;
}

static bool may_restart(struct pipeline *pipeline, const struct service *service)
{
	uint64_t rest = rest_us(pipeline, service->unit), now = now_us();
	bool busy;
	enum restart_policy policy = policy_of(pipeline, &busy);

	if (policy == RESTART_NEVER) {
		hold(pipeline, "restart-pending", 0);
		return false;
	}
	/* What came of the last one is seen first: systemd is asked for that again soon. */
	if (service->unit[0] && is_open(pipeline, service->unit)) {
		hold(pipeline, "restart-refused", now + RETRY_FILE_US);
		return false;
	}
	if (!service->unit[0]) {
		hold(pipeline, "restart-refused", now + RESTART_AGAIN_US);
		return false;
	}
	if (policy == RESTART_WHEN_IDLE && busy) {
		hold(pipeline, "restart-pending", 0);
		return false;
	}
	if (policy == RESTART_WHEN_IDLE && rest > 0 && !pipeline->restoring) {
		hold(pipeline, "restart-pending", now + rest);
		return false;
	}
	return true;
}

static void go_on(struct pipeline *pipeline)
{
	pipeline->at++;
	pipeline_activate(pipeline);
}

/* What came of it is known. Stored along with what comes next: till then it is looked at again. */
static void unmark(struct pipeline *pipeline)
{
	journal_end_restart(pipeline->core->journal, service_at(pipeline, pipeline->at)->unit);
}

/* It is down, and its mark stays: what could not be done now is tried again soon. */
static void leave_open(struct pipeline *pipeline)
{
	pipeline->resume_us = now_us() + RETRY_FILE_US;
	fail_all(pipeline, "did-not-come-back", pipeline->why);
	go_on(pipeline);
}

static size_t count_not_back(const struct pipeline *pipeline)
{
	size_t n = 0;

	for (size_t f = 0; f < pipeline->back.n; f++)
		n += pipeline->back.files[f].error < 0;
	return n;
}

static void on_put_back(int result, void *userdata)
{
	struct pipeline *pipeline = userdata;

	(void)result;
	for (size_t f = 0; f < pipeline->back.n; f++)
		if (pipeline->back.files[f].error < 0)
			log_error(pipeline->back.files[f].note.path, "not put back: %s",
				strerror(-pipeline->back.files[f].error));
	/* With the same files it would fail in the same way. */
	if (count_not_back(pipeline) == pipeline->back.n)
		leave_open(pipeline);
	else
		pipeline_ask_to_store(pipeline, PIPELINE_GIVING_UP);
}

/* It does not answer with the new file: the old one goes back. */
static void put_back(struct pipeline *pipeline, const char *why)
{
	const struct core *core = pipeline->core;
	const struct service *service = service_at(pipeline, pipeline->at);
	int r = 0;

	log_error("runtime",
		"%s: the file from before goes back, and it is restarted once more; this is not tried again until the configuration changes",
		why);
	copy_text(pipeline->why, sizeof(pipeline->why), why);
	edits_clear(&pipeline->back);
	for (size_t f = 0; r == 0 && f < pipeline->edits.n; f++)
		if (is_same(service_at(pipeline, f), service))
			r = edits_add_restore(&core->host, core->journal,
				pipeline->edits.files[f].note.path, &pipeline->back);
	if (r == 0 && pipeline->back.n > 0)
		r = pipeline_start_job(pipeline, PIPELINE_PUTTING_BACK, &pipeline->back,
			edits_restore, on_put_back);
	if (r == 0 && pipeline->back.n > 0)
		return;
	log_error(service->unit, "nothing was put back: %s",
		r < 0 ? strerror(-r) : "the file is not ours");
	if (r < 0) {
		leave_open(pipeline);
		return;
	}
	unmark(pipeline);
	fail_all(pipeline, "did-not-come-back", why);
	go_on(pipeline);
}

static void on_restarted(int result, const char *why, void *userdata)
{
	struct pipeline *pipeline = userdata;
	const char *unit = service_at(pipeline, pipeline->at)->unit;

	pipeline->restart = NULL;
	if (result == -ETIMEDOUT && !pipeline->restoring) {
		put_back(pipeline, why);
		return;
	}
	unmark(pipeline);
	if (result == 0) {
		log_notice(unit, "restarted: it answers, and runs with its file as it stands");
		hold(pipeline, NULL, NEVER);
	} else {
		if (result == -ETIMEDOUT || !is_held(pipeline, "restart-refused"))
			log_warning("runtime", "%s", why);
		hold(pipeline, "restart-refused", now_us() + RESTART_AGAIN_US);
	}
	go_on(pipeline);
}

/* Nothing speaks against it: the journal has to tell of it first. */
static void on_ready(enum answer_level answered, void *userdata)
{
	struct pipeline *pipeline = userdata;

	pipeline->answered = answered;
	pipeline_ask_to_store(pipeline, PIPELINE_MARKING);
}

int pipeline_mark(struct pipeline *pipeline)
{
	struct journal_restart mark = {.at_s = realtime_us() / USEC_PER_SEC,
		.answered = pipeline->answered,
		.config = pipeline->config};

	copy_text(mark.unit, sizeof(mark.unit), service_at(pipeline, pipeline->at)->unit);
	return journal_begin_restart(pipeline->core->journal, &mark);
}

void pipeline_marked(struct pipeline *pipeline, int stored)
{
	const char *unit = service_at(pipeline, pipeline->at)->unit;
	bool outdated = pipeline_is_outdated(pipeline);
	int r = stored;

	pipeline->step = PIPELINE_ACTIVATING;
	if (r == 0 && !outdated) {
		r = restart_go(pipeline->restart);
		if (r == 0)
			return;
	}
	restart_abandon(steal(pipeline->restart));
	unmark(pipeline);
	if (r < 0) {
		log_error(unit, "not restarted%s: %s",
			stored < 0 ? ", for it could not be noted in the journal" : "",
			strerror(-r));
		hold(pipeline, "restart-refused", now_us() + RETRY_FILE_US);
	}
	go_on(pipeline);
}

static int restart(struct pipeline *pipeline, enum restart_way way, restart_done done)
{
	struct restart_options options = {.host = &pipeline->core->host,
		.service = service_at(pipeline, pipeline->at),
		.way = way,
		.ready = on_ready,
		.answered = pipeline->answered,
		.deadline_us = pipeline->timeout_us};

	return restart_start(pipeline->event, &options, done, pipeline, &pipeline->restart);
}

static void on_restarted_again(int result, const char *why, void *userdata)
{
	struct pipeline *pipeline = userdata;
	const char *unit = service_at(pipeline, pipeline->at)->unit;

	pipeline->restart = NULL;
	if (result == 0)
		log_notice(unit, "it answers again, with the file from before");
	else
		log_error("runtime", "with the file from before too: %s", why);
	if (result != 0 &&
		(count_not_back(pipeline) > 0 || (result != -ETIMEDOUT && result != -EPERM))) {
		leave_open(pipeline);
		return;
	}
	unmark(pipeline);
	fail_all(pipeline, "did-not-come-back", pipeline->why);
	go_on(pipeline);
}

void pipeline_restart_again(struct pipeline *pipeline)
{
	int r;

	pipeline->step = PIPELINE_RESTARTING;
	r = restart(pipeline, RESTART_AGAIN, on_restarted_again);
	if (r < 0)
		on_restarted_again(r, strerror(-r), pipeline);
}

void pipeline_activate(struct pipeline *pipeline)
{
	pipeline->step = PIPELINE_ACTIVATING;
	for (; pipeline->at < pipeline->edits.n; pipeline->at++) {
		const struct service *service = service_at(pipeline, pipeline->at);
		int r;

		if (service->activation == ACTIVATE_NOTHING || !is_due(pipeline, pipeline->at) ||
			pipeline_is_outdated(pipeline))
			continue;
		if (service->activation == ACTIVATE_RELOAD) {
			reload(pipeline);
			continue;
		}
		if (!may_restart(pipeline, service))
			continue;
		r = restart(pipeline, RESTART_ASK, on_restarted);
		if (r == 0)
			return;
		log_warning(service->unit, "not restarted: %s", strerror(-r));
		hold(pipeline, "restart-refused", now_us() + RESTART_AGAIN_US);
	}
	pipeline_end(pipeline);
}

/* ---- a restart that another process asked for ---- */

static void on_resumed(int result, const char *why, void *userdata)
{
	struct pipeline *pipeline = userdata;
	const char *unit = service_at(pipeline, pipeline->at)->unit;

	pipeline->restart = NULL;
	if (result == -ETIMEDOUT && pipeline_may_put_back(pipeline)) {
		put_back(pipeline, why);
		return;
	}
	if (result == -ETIMEDOUT) {
		unmark(pipeline);
		log_error(unit,
			"%s: its file is left, and it is not restarted, as the configuration forbids it now",
			why);
		hold(pipeline, "restart-pending", now_us() + RETRY_FILE_US);
	} else if (result == 0 || result == -EPERM) {
		unmark(pipeline);
		log_notice(unit, "%s", result == 0 ? "it answers after the restart" : why);
		/* Time for its tuner to see what it runs with. */
		hold(pipeline, NULL, now_us() + RETRY_FILE_US);
	} else {
		pipeline->resume_us = now_us() + RETRY_FILE_US;
		log_warning(unit, "what came of its restart is not known: %s", why);
	}
	go_on(pipeline);
}

/* All files that we have changed for the unit. 0 or -ENOMEM. */
static int take_files(struct pipeline *pipeline, const char *unit)
{
	const struct core *core = pipeline->core;
	const struct journal *journal = core->journal;
	int r = 0;

	for (size_t i = 0; r == 0 && i < journal->n_files; i++)
		if (journal->files[i].service.activation == ACTIVATE_RESTART &&
			streq(journal->files[i].service.unit, unit))
			r = edits_add_restore(
				&core->host, journal, journal->files[i].path, &pipeline->edits);
	return r;
}

static bool resume(struct pipeline *pipeline, const struct journal_restart *mark)
{
	int r;

	pipeline_begin(pipeline, false);
	pipeline->config = mark->config;
	pipeline->answered = mark->answered;
	r = take_files(pipeline, mark->unit);
	if (r == 0 && pipeline->edits.n == 0) {
		/* They were put back meanwhile, or were not ours. */
		journal_end_restart(pipeline->core->journal, mark->unit);
		return false;
	}
	if (r == 0)
		r = restart(pipeline, RESTART_AWAIT, on_resumed);
	if (r < 0) {
		pipeline->resume_us = now_us() + RETRY_FILE_US;
		log_warning(mark->unit, "what came of its restart is not known: %s", strerror(-r));
		return false;
	}
	log_notice(mark->unit,
		"its restart was under way when this program last ended: waiting for it to answer");
	pipeline->step = PIPELINE_ACTIVATING;
	return true;
}

bool pipeline_resume(struct pipeline *pipeline)
{
	const struct journal *journal = pipeline->core->journal;

	if (pipeline->step != PIPELINE_IDLE || now_us() < pipeline->resume_us)
		return false;
	for (size_t i = 0; i < journal->n_restarts; i++)
		if (journal->restarts[i].open && resume(pipeline, &journal->restarts[i]))
			return true;
	return false;
}
