/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "base/json.h"
#include "base/log.h"

/* One sample is never waited for longer, however many programs are silent. */
#define SAMPLE_US (10 * USEC_PER_SEC)

static void run_sample(void *job, const struct wait *wait)
{
	struct tuner_status *tuner = job;
	struct wait bounded = wait_at_most(wait, SAMPLE_US);

	tuner->ops->sample(tuner->request, &bounded);
}

static void take_sample(void *job, void *userdata)
{
	struct agent *agent = userdata;
	struct tuner_status *tuner = job;

	/* What the first one brings is shown, and set, without waiting for the tick. */
	if (!tuner->sampled && agent->tick)
		(void)sd_event_source_set_time(agent->tick, now_us());
	tuner->sampled = true;
	tuner->files_stale = tuner->files_stale && !tuner->request_of_now;
	/* A reload may have closed the tuner meanwhile. */
	tuner->ops->sample_take(
		tuner->self == tuner->requester ? tuner->self : NULL, steal(tuner->request));
	agent->core.node.revision++; /* the documents show it, whatever the tick */
}

void agent_sample(struct agent *agent)
{
	bool urgent = agent->core.job != NULL;

	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		struct tuner_status *tuner = &agent->core.node.tuners[i];

		if (tuner->self && tuner->ops->sample_request && !tuner->request) {
			tuner->request =
				tuner->ops->sample_request(tuner->self, tuner->files_stale);
			tuner->requester = tuner->self;
			tuner->request_of_now = !agent->core.job;
			if (tuner->request && worker_submit(agent->worker, run_sample, take_sample,
						      tuner, agent) < 0)
				tuner->ops->sample_take(NULL, steal(tuner->request));
		}
		/* What asks for nothing at its start waits for nothing. */
		tuner->sampled |= tuner->self && !tuner->request;
		urgent |= tuner->request && (!tuner->sampled || tuner->files_stale);
	}
	/* All others are decided upon at the next tick: they are taken then. */
	worker_wakes_loop(agent->worker, urgent);
}

static void run_transfer(void *job, const struct wait *wait)
{
	const struct transfer_slot *slot = job;

	slot->ops->transfer(slot->request, wait);
}

static void take_transfer(void *job, void *userdata)
{
	struct transfer_slot *slot = job;
	struct agent *agent = userdata;
	void *self = NULL;

	/* A reload may have closed the tuner meanwhile. */
	for (size_t i = 0; i < agent->core.node.n_tuners; i++)
		if (agent->core.node.tuners[i].self == slot->requester)
			self = agent->core.node.tuners[i].self;
	slot->ops->transfer_take(self, steal(slot->request));
	agent->core.node.revision++;
	/* What waits for it begins without waiting for the tick. */
	if (agent->tick)
		(void)sd_event_source_set_time(agent->tick, now_us());
}

static bool begin_transfer(
	struct agent *agent, const struct tuner_status *tuner, struct transfer_slot *slot)
{
	slot->request = tuner->ops->transfer_request(tuner->self, tuner->memory);
	slot->requester = tuner->self;
	slot->ops = tuner->ops;
	if (!slot->request)
		return false;
	if (worker_new(agent->event, &slot->worker) == 0 &&
		worker_submit(slot->worker, run_transfer, take_transfer, slot, agent) == 0)
		return true;
	slot->ops->transfer_take(tuner->self, steal(slot->request));
	return false;
}

static void cancel_transfers(struct agent *agent, const struct tuner_status *tuner)
{
	const void *request;

	while (tuner->ops->transfer_cancel &&
		(request = tuner->ops->transfer_cancel(tuner->self, tuner->memory)))
		for (size_t i = 0; i < ARRAY_SIZE(agent->transfers); i++)
			if (agent->transfers[i].request == request)
				worker_cancel(agent->transfers[i].worker);
}

void agent_transfer(struct agent *agent)
{
	struct transfer_slot *slot, *end = agent->transfers + ARRAY_SIZE(agent->transfers);

	/* A thread that has nothing to do ends, and one that was cancelled takes nothing more. */
	for (slot = agent->transfers; slot < end; slot++)
		if (!slot->request && slot->worker)
			worker_free(steal(slot->worker));
	slot = agent->transfers;
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		const struct tuner_status *tuner = &agent->core.node.tuners[i];

		if (!tuner->ops->transfer_request || !tuner->self || tuner->mode != MODE_ENFORCE ||
			agent->core.lock < 0)
			continue;
		cancel_transfers(agent, tuner);
		for (; slot < end; slot++)
			if (!slot->request && !begin_transfer(agent, tuner, slot))
				break;
	}
}

/* error: of recording what was restored, or 0. */
static void answer(struct agent *agent, int error)
{
	const struct request *request = &agent->requests[0];
	_cleanup_(cleanup_cJSON_Delete) cJSON *plan = NULL;
	_cleanup_free_ char *json = NULL;

	agent->core.node.revision++; /* who gets the answer reads what it did */
	if (!request->restore)
		core_add_unset(&agent->core, request->only[0] ? request->only : NULL, &agent->done);
	plan = report_plan(&agent->done, true);
	if (request->restore && error < 0)
		http_reply(request->client, 507,
			"{\"error\": \"values were restored, but that could not be recorded: make room in, "
			"and give write access to, the state directory; headroom's log says more\"}");
	else if (request->restore && agent->core.journal && agent->core.journal->lost)
		http_reply(request->client, 500,
			"{\"error\": \"what is recorded has been restored; originals of files from before "
			"the journal was found torn are lost: see journal.json.bad in the state directory\"}");
	else
		http_reply(request->client, 200, json = must(cJSON_Print(plan)));
	agent->answering = false;
	plan_clear(&agent->done);
	agent->n_requests--;
	memmove(&agent->requests[0], &agent->requests[1], agent->n_requests * sizeof(*request));
}

static void on_files_done(void *job, void *userdata)
{
	struct agent *agent = userdata;
	struct core *core = &agent->core;
	const struct request *request = agent->answering ? &agent->requests[0] : NULL;
	int r;

	agent->resume_us = core->job->n_open > 0 || core->job->error < 0 ? now_us() + FILE_RETRY_US
									 : UINT64_MAX;
	r = core_take_files(core, job, request ? &agent->done : NULL);
	if (r < 0)
		log_error("journal.json", "not stored: %s: make room in %s", strerror(-r),
			core_state_name());
	if (!request)
		return;
	core_poll(core);
	answer(agent, r);
}

static int begin_files(struct agent *agent, enum file_task task, const char *only, bool forced)
{
	struct file_job *job = core_file_job(&agent->core, task, only, forced);
	int r;

	if (!job)
		return agent->core.journal_error < 0 ? agent->core.journal_error : -EBUSY;
	r = worker_submit(agent->worker, file_transaction, on_files_done, job, agent);
	if (r == 0) {
		worker_wakes_loop(agent->worker, true);
		return 0;
	}
	agent->core.job = NULL;
	plan_clear(&job->plan);
	free(job);
	return r;
}

static void begin_request(struct agent *agent)
{
	const struct request *request = &agent->requests[0];
	const char *only = request->only[0] ? request->only : NULL;
	struct core *core = &agent->core;
	int r;

	agent->answering = true;
	if (request->restore) {
		core_restore_values(core, only, &agent->done);
	} else {
		core_reset(core, only);
		core_poll(core);
		core_plan_only(core, only);
		core_apply_values(core, &agent->done);
	}
	r = begin_files(
		agent, request->restore ? FILE_RESTORE : FILE_APPLY, only, !request->restore);
	/* Limits and conditions follow at once, not at the next tick. */
	core_poll(core);
	if (r < 0)
		answer(agent, r);
}

void agent_work(struct agent *agent)
{
	struct core *core = &agent->core;

	while (!core->job && !agent->answering && agent->n_requests > 0)
		begin_request(agent);
	if (core->job || core->lock < 0 || !core->journal)
		return;
	if (now_us() >= agent->resume_us)
		(void)begin_files(agent, FILE_RESUME, NULL, false);
	else if (core->plan.n > 0)
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

void agent_request(void *userdata, bool restore, const char *only, struct http_connection *client)
{
	struct agent *agent = userdata;
	struct request *request = &agent->requests[agent->n_requests];
	const char *why = why_not(&agent->core, restore);

	if (why) {
		http_reply(client, 409, why);
		return;
	}
	if (agent->n_requests == REQUESTS_MAX) {
		http_reply(client, 503, "{\"error\": \"too many requests are waiting\"}");
		return;
	}
	*request = (struct request){.restore = restore, .client = client};
	copy_text(request->only, sizeof(request->only), only ? only : "");
	agent->n_requests++;
	agent_work(agent);
}
