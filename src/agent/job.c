/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/internal.h"

#include <malloc.h>

static const uint64_t timeouts_us[JOB_KINDS] = {
	[JOB_LOAD] = JOB_TIMEOUT_US, [JOB_SAMPLE] = JOB_TIMEOUT_US, [JOB_TRANSFER] = UINT64_MAX};

static void run_job(void *data, const struct wait *wait)
{
	const struct job *job = data;
	struct wait bounded = wait_at_most(wait, job->tuner ? timeouts_us[job->kind] : UINT64_MAX);

	if (job->tuner && job->kind == JOB_SAMPLE)
		bounded.path = &job->tuner->sample_path;
	job->ops->run(job->request, &bounded);
}

static void adopt_job(void *data, void *userdata)
{
	struct agent *agent = userdata;
	struct job *job = data;
	struct tuner_status *tuner = job->tuner;
	bool is_current = tuner && job->generation == tuner->generation;

	if (!tuner) {
		job->ops->adopt(agent, steal(job->request));
		return;
	}
	/* Other samples wait for the tick. */
	if (job->kind != JOB_SAMPLE || !tuner->sampled)
		agent_wake(agent);
	if (job->kind == JOB_SAMPLE)
		tuner->sample_path = NULL; /* it may be part of the request */
	if (job->kind == JOB_SAMPLE && is_current) {
		tuner->sampled = true;
		tuner->files_stale = tuner->files_stale && !job->is_after_files;
	}
	tuner->under_way[job->kind]--;
	job->ops->adopt(is_current ? tuner->self : NULL, steal(job->request));
	malloc_trim(0); /* it took up to megabytes for a moment */
	agent->core.node.revision++;
}

int agent_submit(struct agent *agent, const struct job *new)
{
	struct job *job = agent->jobs;
	int r = 0;

	while (job < agent->jobs + JOBS_MAX && job->request)
		job++;
	if (job == agent->jobs + JOBS_MAX)
		return -EBUSY;
	worker_free(job->own);
	*job = *new;
	/* A file that hangs must stop one job only. */
	if (new->tuner)
		r = worker_new(agent->event, &job->own);
	if (r == 0)
		r = worker_submit(
			job->own ? job->own : agent->worker, run_job, adopt_job, job, agent);
	if (r < 0)
		job->request = NULL;
	else if (job->own)
		worker_end(job->own);
	return r;
}

/* False when no job is due, or it cannot be submitted. */
static bool begin_job(struct agent *agent, struct tuner_status *tuner, enum job_kind kind)
{
	struct job job = {
		.ops = &tuner->ops->jobs[kind],
		.tuner = tuner,
		.kind = kind,
		.generation = tuner->generation,
		.is_after_files = !agent->core.job,
	};

	job.request = job.ops->request(tuner->self, tuner->memory, tuner->files_stale);
	if (!job.request)
		return false;
	if (agent_submit(agent, &job) < 0) {
		job.ops->adopt(kind == JOB_SAMPLE ? NULL : tuner->self, job.request);
		return false;
	}
	tuner->under_way[kind]++;
	tuner->requested_us[kind] = now_us();
	return true;
}

/*
 * Cancels the transfers of a tuner that was closed or does not enforce. Returns whether it may
 * begin others: not before the old ones have ended.
 */
static bool cancel_transfers(struct agent *agent, const struct tuner_status *tuner)
{
	bool is_clear = true;

	for (struct job *job = agent->jobs; job < agent->jobs + JOBS_MAX; job++) {
		bool is_old = job->generation != tuner->generation;

		if (!job->request || job->tuner != tuner || job->kind != JOB_TRANSFER)
			continue;
		is_clear &= !is_old;
		if (is_old || tuner->mode != MODE_ENFORCE ||
			(job->ops->cancels && job->ops->cancels(job->request, tuner->memory)))
			worker_cancel(job->own);
	}
	return is_clear && tuner->mode == MODE_ENFORCE && agent->core.lock >= 0;
}

void agent_begin_loads(struct agent *agent)
{
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		struct tuner_status *tuner = &agent->core.node.tuners[i];

		if (tuner->self && tuner->mode != MODE_OFF && tuner->ops->jobs[JOB_LOAD].request &&
			tuner->under_way[JOB_LOAD] == 0)
			(void)begin_job(agent, tuner, JOB_LOAD);
	}
}

void agent_begin_jobs(struct agent *agent)
{
	bool is_urgent = agent->core.job != NULL;
	/* A restart would interrupt it. */
	bool may_transfer = !agent->core.job && !node_restart_due(&agent->core.node);

	/* Both need memory for a moment: a load twice the size of the kernel's types. */
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		const struct tuner_status *tuner = &agent->core.node.tuners[i];

		may_transfer &= tuner->under_way[JOB_LOAD] == 0 ||
				core_job_is_overdue(tuner, JOB_LOAD, now_us());
	}
	/* End threads without a job. */
	for (struct job *job = agent->jobs; job < agent->jobs + JOBS_MAX; job++)
		if (!job->request && job->own)
			worker_free(steal(job->own));
	agent_begin_loads(agent);
	for (size_t i = 0; i < agent->core.node.n_tuners; i++) {
		struct tuner_status *tuner = &agent->core.node.tuners[i];
		const struct job_ops *jobs = tuner->ops->jobs;
		bool transfers = jobs[JOB_TRANSFER].request && cancel_transfers(agent, tuner);
		/* A sample during the file job would show half of it. */
		bool waits = agent->core.job;

		if (!tuner->self || tuner->mode == MODE_OFF)
			continue;
		while (transfers && may_transfer && begin_job(agent, tuner, JOB_TRANSFER))
			;
		if (jobs[JOB_SAMPLE].request && !waits && tuner->under_way[JOB_SAMPLE] == 0)
			(void)begin_job(agent, tuner, JOB_SAMPLE);
		/* A tuner without a request does not delay the start. */
		tuner->sampled |= !waits && tuner->under_way[JOB_SAMPLE] == 0;
		is_urgent |=
			tuner->under_way[JOB_SAMPLE] > 0 && (!tuner->sampled || tuner->files_stale);
	}
	/* The results of other samples are adopted at the next tick. */
	for (struct job *job = agent->jobs; job < agent->jobs + JOBS_MAX; job++)
		if (job->own && job->kind == JOB_SAMPLE)
			worker_wakes_loop(job->own, is_urgent);
}

void agent_finish_jobs(struct agent *agent)
{
	worker_finish(agent->worker);
	for (struct job *job = agent->jobs; job < agent->jobs + JOBS_MAX; job++)
		if (job->own)
			worker_finish(job->own);
}

void agent_cancel_jobs(struct agent *agent)
{
	for (struct job *job = agent->jobs; job < agent->jobs + JOBS_MAX; job++)
		if (job->own)
			worker_cancel(job->own);
	/* The next agent finishes or undoes a cancelled file job. */
	if (agent->worker)
		worker_cancel(agent->worker);
}

bool agent_join_jobs(struct agent *agent, uint64_t deadline_us)
{
	bool ended = !agent->worker || worker_join(agent->worker, deadline_us);

	for (struct job *job = agent->jobs; job < agent->jobs + JOBS_MAX; job++) {
		/* Loading cannot be cancelled. */
		bool loads = job->request && job->kind == JOB_LOAD;

		ended = (!job->own || (!loads && worker_join(job->own, deadline_us))) && ended;
	}
	return ended;
}
