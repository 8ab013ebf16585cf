/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/pipeline.h"

#include "agent/activate.h"
#include "apply/apply.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>

/* Over one set of edits, to which the loop does not reach meanwhile. */
static int run_work(void *argument)
{
	const struct pipeline *pipeline = argument;

	pipeline->work.run(pipeline->work.edits);
	return 0;
}

int pipeline_start_job(struct pipeline *pipeline, enum pipeline_step step, struct edits *edits,
	void (*run)(struct edits *edits), void (*done)(int result, void *userdata))
{
	int r;

	pipeline->work.edits = edits;
	pipeline->work.run = run;
	r = job_start(pipeline->event, &pipeline->job, run_work, pipeline, done, pipeline);
	if (r < 0)
		return r;
	pipeline->step = step;
	return 0;
}

void pipeline_ask_to_store(struct pipeline *pipeline, enum pipeline_step step)
{
	pipeline->step = step;
	if (pipeline->store)
		pipeline->store(pipeline);
}

void pipeline_end(struct pipeline *pipeline)
{
	pipeline->step = PIPELINE_IDLE;
	edits_clear(&pipeline->back);
	if (pipeline->ended)
		pipeline->ended(pipeline);
}

static void on_prepared(int result, void *userdata)
{
	struct pipeline *pipeline = userdata;

	(void)result;
	pipeline_ask_to_store(pipeline, PIPELINE_NOTING);
}

static void settle(struct pipeline *pipeline)
{
	edits_settle(&pipeline->edits, &pipeline->core->node, now_us());
	pipeline_activate(pipeline);
}

static void on_written(int result, void *userdata)
{
	(void)result;
	settle(userdata);
}

static void on_restored(int result, void *userdata)
{
	struct pipeline *pipeline = userdata;

	(void)result;
	pipeline_ask_to_store(pipeline, PIPELINE_FORGETTING);
}

static void on_swept(int result, void *userdata)
{
	(void)result;
	pipeline_activate(userdata);
}

/* Of all originals that the journal tells of. NULL without memory: then nothing is swept. */
static char *kept_hashes(const struct journal *journal)
{
	char *kept = calloc(journal->n_files + 1, HASH_TEXT_MAX);

	for (size_t i = 0; kept && i < journal->n_files; i++) {
		char *end = kept + i * HASH_TEXT_MAX;

		copy_text(end, HASH_TEXT_MAX, journal->files[i].original);
		memset(end + strlen(end), ' ', HASH_TEXT_MAX - strlen(end));
	}
	return kept;
}

void pipeline_begin(struct pipeline *pipeline, bool restoring)
{
	edits_clear(&pipeline->edits);
	pipeline->restoring = restoring;
	pipeline->config = pipeline->core->checksum;
	pipeline->store_error = 0;
	pipeline->at = 0;
}

static bool has_files(const struct plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->changes[i].place.kind == PLACE_EDIT)
			return true;
	return false;
}

static bool has_writes(const struct edits *edits)
{
	for (size_t i = 0; i < edits->plan.n; i++)
		if (!edits->plan.changes[i].activate_only)
			return true;
	return false;
}

/* Another run is under way, and these would be outdated after it. */
static void drop_files(struct plan *plan)
{
	size_t kept = 0;

	for (size_t i = 0; i < plan->n; i++)
		if (plan->changes[i].place.kind == PLACE_EDIT)
			change_release(&plan->changes[i]);
		else
			plan->changes[kept++] = plan->changes[i];
	plan->n = kept;
}

bool pipeline_apply(struct pipeline *pipeline, struct plan *plan)
{
	struct core *core = pipeline->core;
	int r;

	if (!has_files(plan))
		return false;
	if (pipeline->step != PIPELINE_IDLE) {
		drop_files(plan);
		return false;
	}
	pipeline_begin(pipeline, false);
	r = edits_take(plan, &pipeline->edits);
	if (r == 0)
		r = edits_make(&core->host, core->journal, &pipeline->edits);
	pipeline->edits.kept = kept_hashes(core->journal);
	if (r == 0 && !has_writes(&pipeline->edits)) {
		pipeline->step = PIPELINE_ACTIVATING;
		pipeline_activate(pipeline);
		return true;
	}
	if (r == 0)
		r = pipeline_start_job(
			pipeline, PIPELINE_PREPARING, &pipeline->edits, edits_prepare, on_prepared);
	if (r < 0) {
		drop_files(plan);
		edits_refused(&pipeline->edits, r);
		settle(pipeline);
	}
	return true;
}

bool pipeline_restore(struct pipeline *pipeline, const char *only)
{
	struct core *core = pipeline->core;
	int r;

	pipeline_begin(pipeline, true);
	r = edits_make_restore(&core->host, core->journal, only, &pipeline->edits);
	/* With no file to put back there may be a trial to clear away. */
	pipeline->edits.kept = kept_hashes(core->journal);
	if (r == 0)
		r = pipeline_start_job(
			pipeline, PIPELINE_RESTORING, &pipeline->edits, edits_restore, on_restored);
	if (r < 0) {
		log_error("agent", "files are not put back: %s", strerror(-r));
		pipeline->store_error = r;
	}
	return r == 0;
}

bool pipeline_wants_store(const struct pipeline *pipeline)
{
	return pipeline->step == PIPELINE_NOTING || pipeline->step == PIPELINE_FORGETTING ||
	       pipeline->step == PIPELINE_MARKING || pipeline->step == PIPELINE_GIVING_UP;
}

/* The old file is back, and another restart is next. */
static int note_given_up(struct pipeline *pipeline)
{
	for (size_t i = 0; i < pipeline->back.plan.n; i++)
		journal_give_up(pipeline->core->journal, pipeline->back.plan.changes[i].name,
			pipeline->config);
	return pipeline_mark(pipeline);
}

int pipeline_note(struct pipeline *pipeline)
{
	struct journal *journal = pipeline->core->journal;

	if (pipeline->step == PIPELINE_NOTING)
		return edits_note(&pipeline->edits, journal);
	if (pipeline->step == PIPELINE_FORGETTING)
		edits_finish_restore(&pipeline->edits, journal);
	if (pipeline->step == PIPELINE_MARKING)
		return pipeline_mark(pipeline);
	if (pipeline->step == PIPELINE_GIVING_UP)
		return note_given_up(pipeline);
	return 0;
}

bool pipeline_is_outdated(const struct pipeline *pipeline)
{
	return !pipeline->restoring && pipeline->config != pipeline->core->checksum;
}

bool pipeline_may_put_back(const struct pipeline *pipeline)
{
	const struct core *core = pipeline->core;
	const char *tuner = pipeline->edits.files[pipeline->at].note.tuner;

	if (core->config && config_choice(core->config, "runtime.restart") == (int)RESTART_NEVER)
		return false;
	for (size_t i = 0; i < core->node.n_tuners; i++)
		if (streq(core->node.tuners[i].ops->name, tuner))
			return core->node.tuners[i].mode == MODE_ENFORCE;
	return true;
}

static void write_noted(struct pipeline *pipeline, int stored)
{
	int r = stored;

	/* Preparing took its time: what the configuration says now is for the next look to find. */
	if (r == 0 && pipeline_is_outdated(pipeline))
		r = -ESTALE;
	if (r == 0)
		r = pipeline_start_job(
			pipeline, PIPELINE_WRITING, &pipeline->edits, edits_write, on_written);
	if (r == 0)
		return;
	edits_refused(&pipeline->edits, r);
	settle(pipeline);
}

/* What was forgotten durably needs its bytes no more. */
static void sweep(struct pipeline *pipeline)
{
	int r = pipeline->store_error;

	free(steal(pipeline->edits.kept));
	pipeline->edits.kept = kept_hashes(pipeline->core->journal);
	if (r == 0)
		r = pipeline_start_job(
			pipeline, PIPELINE_SWEEPING, &pipeline->edits, edits_sweep, on_swept);
	if (r < 0)
		pipeline_activate(pipeline);
}

void pipeline_stored(struct pipeline *pipeline, int result)
{
	if (pipeline->step == PIPELINE_NOTING) {
		write_noted(pipeline, result);
	} else if (pipeline->step == PIPELINE_FORGETTING) {
		pipeline->store_error = result;
		sweep(pipeline);
	} else if (pipeline->step == PIPELINE_MARKING) {
		pipeline_marked(pipeline, result);
	} else if (pipeline->step == PIPELINE_GIVING_UP) {
		pipeline_restart_again(pipeline);
	}
}

static void store_now(struct pipeline *pipeline)
{
	int r = pipeline_note(pipeline);

	if (r == 0)
		r = journal_store(pipeline->core->journal);
	pipeline_stored(pipeline, r);
}

void pipeline_run(struct pipeline *pipeline)
{
	int r;

	while (pipeline->step != PIPELINE_IDLE) {
		if (pipeline_wants_store(pipeline))
			store_now(pipeline);
		else if (sd_event_run(pipeline->event, UINT64_MAX) < 0)
			return;
	}
	/* That a restart has ended waits for the next store, and there is none. */
	r = pipeline->core->journal ? journal_store(pipeline->core->journal) : 0;
	if (r < 0)
		log_warning("journal.json", "not stored: %s", strerror(-r));
}

void pipeline_close(struct pipeline *pipeline)
{
	restart_abandon(steal(pipeline->restart));
	job_finish(&pipeline->job);
	edits_clear(&pipeline->edits);
	edits_clear(&pipeline->back);
}

bool pipeline_abandon(struct pipeline *pipeline)
{
	/* Only a dry run of somebody else's program takes long: nothing is written meanwhile. */
	if (!pipeline->job || pipeline->step != PIPELINE_PREPARING) {
		pipeline_close(pipeline);
		return false;
	}
	job_abandon(&pipeline->job);
	return true;
}
