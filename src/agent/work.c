/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/log.h"
#include "base/util.h"
#include "report/report.h"

#include <errno.h>

/* One sample is never waited for longer, however many programs are silent. */
#define SAMPLE_US (10 * USEC_PER_SEC)

/* What the worker asks for one tuner. */
struct sample {
	struct tuner_status *tuner;
	const struct tuner_ops *ops;
	void *self;    /* that made the request */
	void *request; /* owned */
	bool of_now;   /* no file job was under way when it was made */
};

static void run_sample(void *job, const struct wait *wait)
{
	struct sample *sample = job;
	struct wait bounded = wait_at_most(wait, SAMPLE_US);

	sample->ops->sample(sample->request, &bounded);
}

static void take_sample(void *job, void *userdata)
{
	struct agent *agent = userdata;
	struct sample *sample = job;
	struct tuner_status *tuner = sample->tuner;
	/* A reload may have closed the tuner meanwhile. */
	void *self = tuner->self == sample->self ? sample->self : NULL;

	tuner->sampling = false;
	/* What the first one brings is shown, and set, without waiting for the tick. */
	if (!tuner->sampled && agent->tick)
		(void)sd_event_source_set_time(agent->tick, now_us());
	tuner->sampled = true;
	tuner->files_stale = tuner->files_stale && !sample->of_now;
	sample->ops->sample_take(self, sample->request);
	agent->core.node.revision++; /* the documents show it, whatever the tick */
	free(sample);
}

static void begin_sample(struct agent *agent, struct tuner_status *tuner)
{
	void *request = tuner->ops->sample_request(tuner->self, tuner->files_stale);
	struct sample *sample = request ? malloc(sizeof(*sample)) : NULL;

	if (!request)
		return;
	if (sample) {
		*sample = (struct sample){.tuner = tuner,
			.ops = tuner->ops,
			.self = tuner->self,
			.request = request,
			.of_now = !agent->core.files_busy};
		if (worker_submit(agent->worker, run_sample, take_sample, sample, agent) == 0) {
			tuner->sampling = true;
			return;
		}
	}
	tuner->ops->sample_take(NULL, request);
	free(sample);
}

void agent_sample(struct agent *agent)
{
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		struct tuner_status *tuner = &agent->core.node.tuners[i];

		if (tuner->self && tuner->ops->sample_request && !tuner->sampling)
			begin_sample(agent, tuner);
	}
}

/* error: of recording what was restored, or 0. */
static void answer(struct agent *agent, int error)
{
	struct request *request = &agent->request;
	_cleanup_free_ char *json = NULL;

	if (!request->reply)
		return;
	agent->core.node.revision++; /* who gets the answer reads what it did */
	if (request->restore && error < 0)
		http_reply_finish(request->reply, 507,
			"{\"error\": \"values were restored, but that could not be recorded: make room in, "
			"and give write access to, the state directory; headroom's log says more\"}");
	else if (request->restore && agent->core.journal_lost)
		http_reply_finish(request->reply, 500,
			"{\"error\": \"what is recorded has been restored; originals of files from before "
			"the journal was found torn are lost: see journal.json.bad in the state directory\"}");
	else if (report_plan(&agent->done, true, &json) < 0)
		http_reply_finish(request->reply, 500, "{\"error\": \"out of memory\"}");
	else
		http_reply_finish(request->reply, 200, json);
	request->reply = NULL;
	plan_clear(&agent->done);
}

static void on_files_done(void *job, void *userdata)
{
	struct agent *agent = userdata;
	struct core *core = &agent->core;
	bool requested = agent->request.reply != NULL;
	int r;

	agent->resume_us = agent->job->n_open > 0 || agent->job->error < 0
				   ? now_us() + FILE_RETRY_US
				   : UINT64_MAX;
	agent->job = NULL;
	r = core_take_files(core, job, requested ? &agent->done : NULL);
	if (r < 0)
		log_error("journal.json", "not stored: %s: make room in %s", strerror(-r),
			core_state_directory());
	if (!requested)
		return;
	if (core_poll(core) < 0)
		log_error("agent", "%s: this poll was incomplete", strerror(ENOMEM));
	if (!agent->request.restore)
		core_add_unset(
			core, agent->request.only[0] ? agent->request.only : NULL, &agent->done);
	answer(agent, r);
}

static int begin_files(struct agent *agent, enum file_task task, const char *only, bool forced)
{
	struct file_job *job = core_file_job(&agent->core, task, only, forced);
	int r;

	if (!job)
		return agent->core.journal_error < 0 ? agent->core.journal_error : -ENOMEM;
	r = worker_submit(agent->worker, file_transaction, on_files_done, job, agent);
	if (r == 0) {
		agent->job = job;
		return 0;
	}
	agent->core.files_busy = false;
	file_job_clear(job);
	free(job);
	return r;
}

static void begin_request(struct agent *agent, const struct request *request)
{
	const char *only = request->only[0] ? request->only : NULL;
	struct core *core = &agent->core;
	int r = 0;

	agent->request = *request;
	if (request->restore) {
		r = core_restore_values(core, only, &agent->done);
	} else {
		core_reset(core, only);
		r = core_poll(core);
		core_plan_only(core, only);
		core_apply_values(core, &agent->done);
	}
	if (r == 0)
		r = begin_files(agent, request->restore ? FILE_RESTORE : FILE_APPLY, only,
			!request->restore);
	/* Limits and conditions follow at once, not at the next tick. */
	if (core_poll(core) < 0 || r == 0)
		return;
	if (!request->restore)
		core_add_unset(core, only, &agent->done);
	answer(agent, r);
}

static bool has_files(const struct plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->changes[i].file)
			return true;
	return false;
}

void agent_work(struct agent *agent)
{
	struct core *core = &agent->core;

	while (!agent->job && !agent->request.reply && agent->n_requests > 0) {
		struct request request = agent->requests[0];

		agent->n_requests--;
		memmove(&agent->requests[0], &agent->requests[1],
			agent->n_requests * sizeof(request));
		begin_request(agent, &request);
	}
	if (agent->job || core->lock < 0 || !core->journal)
		return;
	if (now_us() >= agent->resume_us)
		(void)begin_files(agent, FILE_RESUME, NULL, false);
	else if (has_files(&core->plan))
		(void)begin_files(agent, FILE_APPLY, NULL, false);
}

/* Why this agent will not do it, as an answer; NULL when it will. */
static const char *why_not(const struct core *core, bool restore)
{
	bool wants = core_wants_to_write(core);

	if (core->lock < 0 && wants)
		return "{\"error\": \"the running agent cannot record originals and writes nothing: "
		       "headroom status says why\"}";
	if (core->lock < 0)
		return "{\"error\": \"the running agent only observes and writes nothing: stop it, or "
		       "start it without --observe and with mode: enforce\"}";
	if (restore && core->values_error < 0)
		return "{\"error\": \"the originals of values cannot be read, so nothing is restored: "
		       "headroom status says why\"}";
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
	agent_work(agent);
}
