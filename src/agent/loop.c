/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include "apply/reconcile.h"
#include "base/log.h"

#include <sched.h>
#include <systemd/sd-daemon.h>

/* Lets the kernel coalesce the tick with other timers. */
#define TICK_ACCURACY_US (75 * USEC_PER_MSEC)

/* The lowest real-time priority precedes all ordinary processes only. */
#define URGENT_PRIORITY 1

/* error: of recording the restore, or 0. */
static void answer(struct agent *agent, int error)
{
	const struct request *request = &agent->requests[0];
	_cleanup_(cleanup_cJSON_Delete) cJSON *plan = NULL;
	_cleanup_free_ char *json = NULL;

	agent->core.node.revision++; /* the client may read the result now */
	if (!request->restore)
		core_add_unset(&agent->core, request->only[0] ? request->only : NULL, &agent->done);
	plan = report_plan(&agent->done, true);
	if (request->restore && agent->core.journal_error < 0) {
		must_do(asprintf(&json, "{\"error\": \"values were restored, files were not: %s\"}",
				file_journal_describe(agent->core.journal_error)) >= 0);
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

static void adopt_files(void *self, void *job)
{
	struct agent *agent = self;
	struct core *core = &agent->core;
	/* Only jobs of a request are forced or restore. */
	bool requested = core->job->forced || core->job->task == FILE_RESTORE;
	int r;

	/* Samples under way began before this job. */
	for (size_t i = 0; i < JOBS_MAX; i++)
		agent->jobs[i].is_after_files = false;
	agent->resume_us = core->job->n_open > 0 || core->job->error < 0 ? now_us() + FILE_RETRY_US
									 : UINT64_MAX;
	r = core_adopt_files(core, job, requested ? &agent->done : NULL);
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
	static const struct job_ops ops = {.run = file_transaction, .adopt = adopt_files};
	struct file_job *job = core_file_job(&agent->core, task, only, forced);
	int r;

	if (!job)
		return agent->core.journal_error < 0 ? agent->core.journal_error : -EBUSY;
	r = agent_submit(agent, &(struct job){.ops = &ops, .request = job});
	if (r == 0) {
		worker_wakes_loop(agent->worker, true);
		return 0;
	}
	agent->core.job = NULL;
	plan_clear(&job->plan);
	free(job);
	return r;
}

/* Works off the requests, one at a time, and begins the file job of the plan or the journal. */
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
		/* Update limits and conditions now, not at the next tick. */
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

void agent_request(void *userdata, bool restore, const char *only, const char *owner,
	struct http_connection *client)
{
	struct agent *agent = userdata;
	const struct core *core = &agent->core;
	struct request *request = &agent->requests[agent->n_requests];
	bool wants = core_wants_to_write(core);
	const char *why = NULL;
	char foreign[256];

	snprintf(foreign, sizeof(foreign),
		"{\"error\": \"the values of this node belong to %s: restore there, or use --force\"}",
		core_owner());
	if (core->lock < 0 && wants)
		why = "{\"error\": \"the running agent cannot record originals and writes nothing: "
		      "headroom status says why\"}";
	else if (core->lock < 0)
		why = "{\"error\": \"the running agent only observes and writes nothing: stop it, or "
		      "start it without --observe and with mode: enforce\"}";
	else if (restore && owner && !streq(owner, core_owner()))
		why = foreign;
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
	set_text(request->only, only ? only : "");
	agent->n_requests++;
	agent_wake(agent);
}

void agent_poll(struct agent *agent)
{
	struct core *core = &agent->core;
	char line[STATUS_LINE_MAX];

	agent_finish_jobs(agent);
	core_poll(core);
	/* Update limits and metrics now, not at the next tick. */
	if (core_apply_values(core, NULL) > 0)
		core_poll(core);
	core->node.applied = true;
	/* Before the worker's thread begins: it inherits the remaining capabilities. */
	if (!agent->ready) {
		agent_drop_privileges(agent);
		sd_notify(0, "READY=1");
	}
	agent->ready = true;
	work(agent);
	if (agent->unsaved && core->lock >= 0 && core->journal)
		last_good_save(agent);
	agent_begin_jobs(agent);
	report_line(&core->node, line);
	if (streq(line, agent->status))
		return;
	set_text(agent->status, line);
	sd_notifyf(0, "STATUS=%s", line);
}

void agent_wake(struct agent *agent)
{
	/* A time in the past: now could be delayed by TICK_ACCURACY_US. */
	if (agent->tick)
		(void)sd_event_source_set_time(agent->tick, 0);
}

void agent_poll_tuner(struct tuner_loop *loop)
{
	struct agent *agent = loop->agent;

	for (size_t i = 0; i < agent->core.node.n_tuners; i++)
		if (&agent->core.node.tuners[i].loop == loop)
			core_poll_tuner(&agent->core, &agent->core.node.tuners[i]);
	core_apply_values(&agent->core, NULL);
}

/* Only the process with the lock writes files. */
static void record(struct agent *agent)
{
	struct core *core = &agent->core;
	char directory[PATH_MAX + sizeof(INCIDENTS_DIRECTORY)], boot[SETTING_VALUE_MAX] = "";

	if (!agent->recorder) {
		if (core->lock < 0 || !core->journal || !core->state[0])
			return;
		(void)host_read_value(&core->host, "/proc/sys/kernel/random/boot_id", boot);
		snprintf(directory, sizeof(directory), "%s" INCIDENTS_DIRECTORY, core->state);
		agent->recorder = recorder_open(agent->event, directory, boot);
	}
	recorder_tick(agent->recorder, &core->node, &core->facts.names, now_us());
}

static int on_tick(sd_event_source *source, uint64_t, void *userdata)
{
	struct agent *agent = userdata;
	struct core *core = &agent->core;
	bool observing = core->values_error < 0;

	/* The directory may become writable later. */
	if ((observing || core->journal_error != 0) && now_us() >= core->writer_retry_us &&
		core_wants_to_write(core) && !core->job) {
		core->writer_retry_us = now_us() + RETRY_US;
		if (core_become_writer(core, "agent") == 0 && observing)
			log_notice("/run/headroom",
				"originals can be recorded: values are set from now on");
	}
	agent_watch_config(agent);
	agent_poll(agent);
	record(agent);
	agent_serve(agent);
	if (agent->reloaded)
		sd_notify(0, "READY=1");
	agent->reloaded = false;
	/* Each message wakes the service manager. */
	if (sd_watchdog_enabled(0, NULL) > 0)
		sd_notify(0, "WATCHDOG=1");
	return sd_event_source_set_time(source, now_us() + TICK_US);
}

/*
 * A table of a thousand entries fills in two milliseconds. On a busy node, an ordinary process
 * waits longer for a CPU. So the loop sleeps and handles urgent events with a real-time priority.
 * All other work, above all for clients, has an ordinary priority.
 */
static void set_urgent(struct agent *agent, bool urgent)
{
	struct sched_param parameter = {.sched_priority = urgent ? URGENT_PRIORITY : 0};

	if (agent->never_urgent || agent->urgent == urgent)
		return;
	/* Threads do not inherit it. */
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

/* Whether a tuner has an urgent source; pending: with an event now. */
static bool has_urgent(const struct agent *agent, bool pending)
{
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		sd_event_source *source = agent->core.node.tuners[i].loop.urgent;

		if (source && (!pending || sd_event_source_get_pending(source) > 0))
			return true;
	}
	return false;
}

int agent_loop(struct agent *agent)
{
	int r = sd_event_add_time(agent->event, &agent->tick, CLOCK_MONOTONIC, now_us() + TICK_US,
		TICK_ACCURACY_US, on_tick, agent);

	/* on_tick() sets the next time, after its work. */
	if (r >= 0)
		r = sd_event_source_set_enabled(agent->tick, SD_EVENT_ON);
	while (r >= 0 && sd_event_get_state(agent->event) != SD_EVENT_FINISHED) {
		r = sd_event_prepare(agent->event);
		if (r == 0) {
			set_urgent(agent, agent->core.lock >= 0 && has_urgent(agent, false));
			r = sd_event_wait(agent->event, UINT64_MAX);
		}
		if (r <= 0)
			continue;
		/* The loop dispatches urgent sources first. */
		if (!has_urgent(agent, true))
			set_urgent(agent, false);
		r = sd_event_dispatch(agent->event);
	}
	return r;
}
