/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "apply/apply.h"
#include "base/log.h"
#include "base/util.h"
#include "report/plan_json.h"

#include <errno.h>
#include <stdio.h>

static int run_store(void *argument)
{
	const struct store *store = argument;

	return journal_store_text(store->dir, store->text, store->twice);
}

/* When all that was asked for is done. */
static void answer(struct agent *agent)
{
	_cleanup_free_ char *json = NULL;

	if (!agent->reply || agent->asked_values || agent->asked_files)
		return;
	agent->core.node.revision++; /* who gets the answer reads what it did */
	if (agent->not_noted)
		http_reply_finish(agent->reply, 507,
			"{\"error\": \"not all could be put back and noted: make room in the state directory: "
			"headroom's log says more\"}");
	else if (agent->not_known)
		http_reply_finish(agent->reply, 500,
			"{\"error\": \"what was set since the journal was found torn has been put back; the "
			"originals from before are lost: see journal.json.bad in the state directory\"}");
	else if (report_plan(&agent->done, true, &json) < 0)
		http_reply_finish(agent->reply, 500, "{\"error\": \"out of memory\"}");
	else
		http_reply_finish(agent->reply, 200, json);
	agent->reply = NULL;
	plan_clear(&agent->done);
}

static void take_done(struct agent *agent, struct plan *done)
{
	if (plan_append(&agent->done, done) < 0)
		log_error("agent", "%s: the answer is incomplete", strerror(ENOMEM));
}

static void on_files_ended(struct pipeline *files)
{
	struct agent *agent = files->userdata;

	if (!agent->asked_files)
		return;
	agent->asked_files = false;
	agent->not_noted = agent->not_noted || files->store_error < 0;
	take_done(agent, &files->edits.plan);
	answer(agent);
}

static void on_files_store(struct pipeline *files)
{
	agent_pump(files->userdata);
}

void agent_begin_files(struct agent *agent)
{
	agent->files = (struct pipeline){.core = &agent->core,
		.event = agent->event,
		.store = on_files_store,
		.ended = on_files_ended,
		.userdata = agent};
}

static void write_plan(struct agent *agent)
{
	struct core *core = &agent->core;

	plan_drop_outdated(&agent->committing, &core->node);
	apply_plan(&core->host, &agent->committing, &core->node, now_us());
	if (core->journal)
		journal_note_actual(core->journal, &agent->committing);
}

/* The journal is durable, or was not needed: now the node may change. */
static void finish(struct agent *agent, int stored)
{
	struct core *core = &agent->core;
	bool noted = !agent->restoring || stored == 0, files = agent->storing_files;

	if (!noted)
		log_error("journal.json", "not stored after restore: %s", strerror(-stored));
	else if (stored < 0)
		apply_refused(&agent->committing, &core->node, stored, now_us());
	else if (!agent->restoring)
		write_plan(agent);
	core->node.applied = true;
	agent->restoring = false;
	agent->storing_files = false;
	if (agent->asked_values) {
		agent->asked_values = false;
		agent->not_noted = agent->not_noted || !noted;
		take_done(agent, &agent->committing);
	}
	plan_reset(&agent->committing);
	if (files)
		pipeline_stored(&agent->files, stored);
	/* Limits and metrics follow the new values at once, not at the next tick. */
	if (core_poll(core) < 0)
		core_judge(core);
	answer(agent);
}

static void on_stored(int result, void *userdata)
{
	struct agent *agent = userdata;
	struct journal *journal = agent->core.journal;

	free(steal(agent->store.text));
	if (result < 0) {
		agent->core.journal_retry_us = now_us() + RETRY_US;
		if (!agent->restoring)
			journal_take_back(journal, agent->take_back);
		journal->dirty = true;
	}
	journal_close(agent->take_back);
	agent->take_back = NULL;
	finish(agent, result);
	agent_pump(agent);
}

/* Starts storing the journal, so that the loop never waits for a disk. */
static int start_storing(struct agent *agent)
{
	struct journal *journal = agent->core.journal;
	struct store *store = &agent->store;
	int r = journal_print(journal, &store->text);

	if (r < 0)
		return r;
	store->dir = journal->dir;
	store->twice = journal->added;
	r = job_start(agent->event, &agent->job, run_store, store, on_stored, agent);
	if (r < 0) {
		free(steal(store->text));
		return r;
	}
	/* What changes from here on is not in the text that is being stored. */
	journal->dirty = journal->added = false;
	return 0;
}

static void commit(struct agent *agent)
{
	struct core *core = &agent->core;
	struct journal *journal = core->journal;
	int r = journal ? 0 : core->journal_error;

	agent->storing_files = pipeline_wants_store(&agent->files);
	if (!journal || core->lock < 0) {
		finish(agent, r < 0 ? r : -EROFS);
		return;
	}
	agent->take_back = journal_copy(journal);
	if (!agent->take_back)
		r = -ENOMEM;
	if (r == 0 && !agent->restoring)
		r = journal_note(journal, &agent->committing);
	if (r == 0 && agent->storing_files)
		r = pipeline_note(&agent->files);
	journal_set_config(journal, core->checksum);
	if (r == 0 && journal->dirty)
		r = start_storing(agent);
	if (r == 0 && agent->job)
		return;
	if (r < 0 && agent->take_back)
		journal_take_back(journal, agent->take_back);
	if (agent->take_back)
		journal_close(agent->take_back);
	agent->take_back = NULL;
	finish(agent, r);
}

static void take_plan(struct agent *agent)
{
	struct plan emptied = agent->committing;

	agent->committing = agent->core.plan;
	agent->core.plan = emptied;
	plan_reset(&agent->core.plan);
}

static bool may_write(const struct core *core)
{
	return core->journal && core->lock >= 0;
}

static void begin_request(struct agent *agent, const struct request *request)
{
	struct core *core = &agent->core;
	const char *only = request->only[0] ? request->only : NULL;

	agent->reply = request->reply;
	agent->restoring = request->restore;
	agent->asked_values = agent->asked_files = true;
	agent->not_noted = false;
	agent->not_known = request->restore && core->journal && core->journal->lost;
	if (request->restore) {
		/* The pause after it lasts while this configuration stays, applied or not yet. */
		if (core->journal)
			journal_set_config(core->journal, core->checksum);
		core_restore(core, only);
		agent->asked_files = may_write(core) && pipeline_restore(&agent->files, only);
		agent->not_noted = may_write(core) && !agent->asked_files;
	} else {
		core_reset(core, only);
		core_poll(core);
		core_plan_only(core, only);
		if (!may_write(core) || !pipeline_apply(&agent->files, &core->plan))
			agent->asked_files = false;
	}
	take_plan(agent);
	commit(agent);
	if (request->restore)
		core_poll(core);
}

/*
 * The note of what was written ahead is stored when the hurry is over: until then the record itself
 * says that the value may be ours.
 */
#define STORE_BEHIND_US (5 * USEC_PER_SEC)

static bool is_behind(const struct agent *agent)
{
	const struct core *core = &agent->core;
	uint64_t now = now_us();

	return core->lock >= 0 && core->journal && core->journal->dirty &&
	       now >= core->journal_retry_us && now - agent->urgent_at_us >= STORE_BEHIND_US;
}

void agent_pump(struct agent *agent)
{
	agent_apply_urgent(agent);
	if (may_write(&agent->core))
		pipeline_resume(&agent->files);
	while (!agent->job && !agent->reply && agent->files.step == PIPELINE_IDLE &&
		agent->n_requests > 0) {
		struct request request = agent->requests[0];

		agent->n_requests--;
		memmove(&agent->requests[0], &agent->requests[1],
			agent->n_requests * sizeof(request));
		begin_request(agent, &request);
	}
	if (may_write(&agent->core))
		pipeline_apply(&agent->files, &agent->core.plan);
	if (agent->job)
		return;
	if (pipeline_wants_store(&agent->files) || agent->core.plan.n > 0 ||
		!agent->core.node.applied || is_behind(agent)) {
		take_plan(agent);
		commit(agent);
	}
}

/* Why this agent will not do it, as an answer; NULL when it will. */
static const char *why_not(const struct core *core, bool restore)
{
	bool wants = core_wants_to_write(core);

	if (core->lock < 0 && wants)
		return "{\"error\": \"the running agent has no journal and writes nothing: headroom "
		       "status says why\"}";
	if (core->lock < 0)
		return "{\"error\": \"the running agent only observes and writes nothing: stop it, or "
		       "start it without --observe and with mode: enforce\"}";
	if (!restore && !wants)
		return "{\"error\": \"the configuration says mode: observe: nothing is written\"}";
	return NULL;
}

void agent_request(struct agent *agent, bool restore, const char *only, struct http_reply *reply)
{
	struct request *request = &agent->requests[agent->n_requests];
	const char *why = why_not(&agent->core, restore);

	if (why) {
		http_reply_finish(reply, 409, why);
		return;
	}
	if (agent->n_requests == REQUESTS_MAX) {
		http_reply_finish(reply, 503, "{\"error\": \"too many requests are waiting\"}");
		return;
	}
	*request = (struct request){.restore = restore, .reply = reply};
	copy_text(request->only, sizeof(request->only), only ? only : "");
	agent->n_requests++;
	agent_pump(agent);
}
