/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "apply/reconcile.h"
#include "base/json.h"
#include "base/log.h"

#include <malloc.h>
#include <sched.h>
#include <systemd/sd-daemon.h>

/* Room for the timer to fall together with other wake-ups of the machine. */
#define TICK_ACCURACY_US (75 * USEC_PER_MSEC)

/* The lowest real-time priority is above all ordinary work, and below all other real time. */
#define URGENT_PRIORITY 1

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

static void begin_samples(struct agent *agent)
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

static void take_transfer(void *request, void *userdata)
{
	struct transfer_slot *slot = userdata;
	struct agent *agent = slot->agent;
	void *self = NULL;

	/* A reload may have closed the tuner meanwhile. */
	for (size_t i = 0; i < agent->core.node.n_tuners; i++)
		if (agent->core.node.tuners[i].self == slot->requester)
			self = agent->core.node.tuners[i].self;
	slot->request = NULL;
	slot->ops->transfer_take(self, request);
	agent->core.node.revision++;
	/* What waits for it begins without waiting for the tick. */
	if (agent->tick)
		(void)sd_event_source_set_time(agent->tick, now_us());
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

static void begin_transfers(struct agent *agent)
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
		for (; slot < end; slot++) {
			if (slot->request)
				continue;
			slot->request = tuner->ops->transfer_request(tuner->self, tuner->memory);
			slot->requester = tuner->self;
			slot->ops = tuner->ops;
			slot->agent = agent;
			if (!slot->request)
				break;
			if (worker_new(agent->event, &slot->worker) == 0 &&
				worker_submit(slot->worker, slot->ops->transfer, take_transfer,
					slot->request, slot) == 0)
				continue;
			slot->ops->transfer_take(tuner->self, steal(slot->request));
			break;
		}
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
	if (request->restore && agent->core.journal_error < 0) {
		must(asprintf(&json, "{\"error\": \"values were restored, files were not: %s\"}",
			     file_journal_describe(agent->core.journal_error)) < 0
				? NULL
				: json);
		http_reply(request->client, 500, json);
	} else if (request->restore && error < 0) {
		http_reply(request->client, 507,
			"{\"error\": \"values were restored, but that could not be recorded: make room in, "
			"and give write access to, the state directory; headroom's log says more\"}");
	} else {
		http_reply(request->client, 200, json = must(cJSON_Print(plan)));
	}
	plan_clear(&agent->done);
	agent->n_requests--;
	memmove(&agent->requests[0], &agent->requests[1], agent->n_requests * sizeof(*request));
}

static void on_files_done(void *job, void *userdata)
{
	struct agent *agent = userdata;
	struct core *core = &agent->core;
	/* All others are neither forced nor do they restore. */
	bool requested = core->job->forced || core->job->task == FILE_RESTORE;
	int r;

	agent->resume_us = core->job->n_open > 0 || core->job->error < 0 ? now_us() + FILE_RETRY_US
									 : UINT64_MAX;
	r = core_take_files(core, job, requested ? &agent->done : NULL);
	if (r < 0)
		log_error("journal.json", "not stored: %s: make room in %s", strerror(-r),
			core_state_name());
	if (!requested)
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

/* The requests one after the other, and what the plan or the journal has for files. */
static void work(struct agent *agent)
{
	const struct request *request = &agent->requests[0];
	struct core *core = &agent->core;

	while (!core->job && agent->n_requests > 0) {
		const char *only = request->only[0] ? request->only : NULL;
		int r;

		if (request->restore) {
			core_restore_values(core, only, &agent->done);
		} else {
			core_reset(core, only);
			core_poll(core);
			core_plan_only(core, only);
			core_apply_values(core, &agent->done);
		}
		r = begin_files(agent, request->restore ? FILE_RESTORE : FILE_APPLY, only,
			!request->restore);
		/* Limits and conditions follow at once, not at the next tick. */
		core_poll(core);
		if (r < 0)
			answer(agent, r);
	}
	if (core->job || core->lock < 0 || !core->journal)
		return;
	if (now_us() >= agent->resume_us)
		(void)begin_files(agent, FILE_RESUME, NULL, false);
	else if (core->plan.n > 0)
		(void)begin_files(agent, FILE_APPLY, NULL, false);
}

void agent_request(void *userdata, bool restore, const char *only, struct http_connection *client)
{
	struct agent *agent = userdata;
	const struct core *core = &agent->core;
	struct request *request = &agent->requests[agent->n_requests];
	bool wants = core_wants_to_write(core);
	const char *why = NULL;

	if (core->lock < 0 && wants)
		why = "{\"error\": \"the running agent cannot record originals and writes nothing: "
		      "headroom status says why\"}";
	else if (core->lock < 0)
		why = "{\"error\": \"the running agent only observes and writes nothing: stop it, or "
		      "start it without --observe and with mode: enforce\"}";
	else if (restore && core->values_error < 0)
		why = "{\"error\": \"the originals of values cannot be read, so nothing is restored: "
		      "headroom status says why\"}";
	else if (!restore && !wants)
		why = "{\"error\": \"the configuration says mode: observe: nothing is written\"}";
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
	work(agent);
}

void agent_poll(struct agent *agent)
{
	struct core *core = &agent->core;
	char line[STATUS_LINE_MAX];

	worker_take(agent->worker);
	core_poll(core);
	/* Limits and metrics follow the new values at once, not at the next tick. */
	if (core_apply_values(core, NULL) > 0)
		core_poll(core);
	core->node.applied = true;
	/* Before the worker's thread begins, which inherits the privileges that are left. */
	if (!agent->ready) {
		agent_drop_privileges(agent);
		malloc_trim(0); /* loading BPF took megabytes for a moment */
		sd_notify(0, "READY=1");
	}
	agent->ready = true;
	work(agent);
	begin_samples(agent);
	begin_transfers(agent);
	report_line(&core->node, line);
	if (streq(line, agent->status))
		return;
	copy_text(agent->status, sizeof(agent->status), line);
	sd_notifyf(0, "STATUS=%s", line);
}

static uint64_t next_tick_us(const struct agent *agent)
{
	uint64_t soonest = TICK_US;

	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		const struct tuner_status *tuner = &agent->core.node.tuners[i];
		uint64_t next_poll_us =
			tuner->self && tuner->ops->next_poll_us
				? tuner->ops->next_poll_us(tuner->self, tuner->memory)
				: 0;

		if (next_poll_us > 0)
			soonest = MIN(soonest, next_poll_us);
	}
	return soonest;
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent *agent = userdata;
	struct core *core = &agent->core;
	bool observing = core->values_error < 0;
	uint64_t next;

	(void)usec;
	/* The directory may come to be writable later: a mount, a tmpfs with room again. */
	if ((observing || core->journal_error != 0) && now_us() >= core->writer_retry_us &&
		core_wants_to_write(core) && !core->job) {
		core->writer_retry_us = now_us() + RETRY_US;
		if (core_become_writer(core, "agent") == 0 && observing)
			log_notice("/run/headroom",
				"originals can be recorded: values are set from now on");
	}
	agent_watch_config(agent);
	agent_poll(agent);
	agent_serve(agent);
	if (agent->reloaded)
		sd_notify(0, "READY=1");
	agent->reloaded = false;
	/* Only for who asked: each message wakes the service manager. */
	if (sd_watchdog_enabled(0, NULL) > 0)
		sd_notify(0, "WATCHDOG=1");
	next = next_tick_us(agent);
	/* A table that fills cannot wait for other wake-ups. */
	sd_event_source_set_time_accuracy(
		source, next < TICK_US ? USEC_PER_MSEC : TICK_ACCURACY_US);
	return sd_event_source_set_time(source, now_us() + next);
}

static int on_watch(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct agent *agent = userdata;

	(void)fd;
	(void)events;
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		struct tuner_status *tuner = &agent->core.node.tuners[i];

		if (tuner->watch != source)
			continue;
		tuner->ops->drain(tuner->self);
		core_poll_tuner(&agent->core, tuner);
		core_apply_values(&agent->core, NULL);
	}
	return 0;
}

int agent_watch_tuners(struct agent *agent)
{
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		struct tuner_status *tuner = &agent->core.node.tuners[i];
		int fd = tuner->self && tuner->ops->event_fd ? tuner->ops->event_fd(tuner->self)
							     : -1;
		int r;

		if (tuner->self && tuner->self != tuner->attached && tuner->ops->attach)
			tuner->ops->attach(tuner->self, agent->event);
		tuner->attached = tuner->self;
		tuner->watch = sd_event_source_disable_unref(tuner->watch);
		if (fd < 0)
			continue;
		r = sd_event_add_io(agent->event, &tuner->watch, fd, EPOLLIN, on_watch, agent);
		if (r < 0)
			return r;
		/* Before a scrape that came at the same moment. */
		sd_event_source_set_priority(tuner->watch, SD_EVENT_PRIORITY_IMPORTANT);
	}
	return 0;
}

/*
 * A table of a thousand entries fills in two milliseconds, and on a busy node an ordinary process
 * waits longer than that for a CPU. So the loop sleeps, and wakes for what is urgent, with a
 * real-time priority; everything else, above all what clients ask for, is done with an ordinary
 * one.
 */
static void set_urgent(struct agent *agent, bool urgent)
{
	struct sched_param parameter = {.sched_priority = urgent ? URGENT_PRIORITY : 0};

	if (agent->never_urgent || agent->urgent == urgent)
		return;
	/* The worker's thread inherits nothing of it. */
	if (sched_setscheduler(0, (urgent ? SCHED_FIFO : SCHED_OTHER) | SCHED_RESET_ON_FORK,
		    &parameter) == 0) {
		agent->urgent = urgent;
		return;
	}
	log_info("agent",
		"no real-time priority: %s: on a busy node growth may come late: give CAP_SYS_NICE or RLIMIT_RTPRIO 1, "
		"and on cgroup v1 its cgroup a cpu.rt_runtime_us",
		strerror(errno));
	agent->never_urgent = true;
}

/* A tuner can wake the loop; pending: it does just now. */
static bool is_watched(const struct agent *agent, bool pending)
{
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		sd_event_source *watch = agent->core.node.tuners[i].watch;

		if (watch && (!pending || sd_event_source_get_pending(watch) > 0))
			return true;
	}
	return false;
}

int agent_loop(struct agent *agent)
{
	int r = sd_event_add_time(agent->event, &agent->tick, CLOCK_MONOTONIC,
		now_us() + next_tick_us(agent), TICK_ACCURACY_US, on_tick, agent);

	/* A timer fires once: on_tick sets the next, after its work. */
	if (r >= 0)
		r = sd_event_source_set_enabled(agent->tick, SD_EVENT_ON);
	while (r >= 0 && sd_event_get_state(agent->event) != SD_EVENT_FINISHED) {
		r = sd_event_prepare(agent->event);
		if (r == 0) {
			set_urgent(agent, agent->core.lock >= 0 && is_watched(agent, false));
			r = sd_event_wait(agent->event, UINT64_MAX);
		}
		if (r <= 0)
			continue;
		/* What is urgent has the higher priority in the loop too: dispatched first. */
		if (!is_watched(agent, true))
			set_urgent(agent, false);
		r = sd_event_dispatch(agent->event);
	}
	return r;
}
