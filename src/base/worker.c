/* SPDX-License-Identifier: Apache-2.0 */
#include "base/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

struct job {
	void (*run)(void *job, const struct wait *wait);
	void (*done)(void *job, void *userdata);
	void *job, *userdata;
};

/* Jobs go to the thread and back through pipes, which write and read each as a whole. */
struct worker {
	pthread_t thread;
	bool is_started, is_ending;
	int cancel_fd;
	int waiting[2], finished[2]; /* of pipe2(2) */
	sd_event_source *source;
};

static void *run_jobs(void *userdata)
{
	const struct worker *worker = userdata;
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = worker->cancel_fd};
	struct job job;

	while (wait_for(&wait, worker->waiting[0], POLLIN) == 0 &&
		read(worker->waiting[0], &job, sizeof(job)) == sizeof(job)) {
		job.run(job.job, &wait);
		(void)!write(worker->finished[1], &job, sizeof(job));
	}
	/* Cancelled: give the other jobs back without running them. */
	while (read(worker->waiting[0], &job, sizeof(job)) == sizeof(job))
		(void)!write(worker->finished[1], &job, sizeof(job));
	return NULL;
}

/* Calls done for the jobs in a pipe. */
static int finish(sd_event_source *, int fd, uint32_t, void *)
{
	struct job job;

	while (read(fd, &job, sizeof(job)) == sizeof(job))
		job.done(job.job, job.userdata);
	return 0;
}

int worker_new(sd_event *event, struct worker **ret)
{
	_cleanup_(cleanup_worker_free) struct worker *worker = must(malloc(sizeof(*worker)));
	int r;

	*worker = (struct worker){.waiting = {-1, -1}, .finished = {-1, -1}};
	worker->cancel_fd = eventfd(0, EFD_CLOEXEC);
	if (worker->cancel_fd < 0 || pipe2(worker->waiting, O_CLOEXEC | O_NONBLOCK) < 0 ||
		pipe2(worker->finished, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	r = event ? sd_event_add_io(
			    event, &worker->source, worker->finished[0], EPOLLIN, finish, NULL)
		  : 0;
	if (r < 0)
		return r;
	*ret = steal(worker);
	return 0;
}

int worker_submit(struct worker *worker, void (*run)(void *job, const struct wait *wait),
	void (*done)(void *job, void *userdata), void *job, void *userdata)
{
	const struct job new = {.run = run, .done = done, .job = job, .userdata = userdata};
	sigset_t all, before;
	int r = 0;

	if (worker->is_ending)
		return -ECANCELED;
	if (!worker->is_started) { /* the loop handles signals */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		r = pthread_create(&worker->thread, NULL, run_jobs, worker);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		worker->is_started = r == 0;
	}
	if (r > 0)
		return -r;
	return write(worker->waiting[1], &new, sizeof(new)) < 0 ? -errno : 0;
}

void worker_wakes_loop(struct worker *worker, bool wakes)
{
	if (worker->source)
		(void)sd_event_source_set_enabled(
			worker->source, wakes ? SD_EVENT_ON : SD_EVENT_OFF);
}

void worker_finish(struct worker *worker)
{
	finish(NULL, worker->finished[0], 0, NULL);
}

void worker_cancel(struct worker *worker)
{
	uint64_t one = 1;

	worker->is_ending = true;
	(void)!write(worker->cancel_fd, &one, sizeof(one));
}

bool worker_join(struct worker *worker, uint64_t deadline_us)
{
	const struct timespec until = timespec_of(deadline_us);

	if (worker->is_started &&
		pthread_clockjoin_np(worker->thread, NULL, CLOCK_MONOTONIC, &until) == 0)
		worker->is_started = false;
	return !worker->is_started;
}

void worker_end(struct worker *worker)
{
	worker->is_ending = true;
	cleanup_close(
		&worker->waiting[1]); /* the thread reads the end of the pipe after the jobs */
	worker->waiting[1] = -1;
}

bool worker_drain(struct worker *worker, uint64_t deadline_us)
{
	worker_end(worker);
	return worker_join(worker, deadline_us);
}

static void done_nothing(void *, void *)
{
}

int worker_run(void (*run)(void *job, const struct wait *wait), void *job, uint64_t deadline_us)
{
	struct worker *worker;
	int r = worker_new(NULL, &worker);

	if (r < 0)
		return r;
	r = worker_submit(worker, run, done_nothing, job, NULL);
	if (r == 0 && !worker_drain(worker, deadline_us))
		return -ETIMEDOUT;
	worker_free(worker);
	return r;
}

void worker_free(struct worker *worker)
{
	if (!worker)
		return;
	worker_cancel(worker);
	if (worker->is_started)
		pthread_join(worker->thread, NULL);
	sd_event_source_disable_unref(worker->source);
	finish(NULL, worker->finished[0], 0, NULL);
	finish(NULL, worker->waiting[0], 0, NULL);
	cleanup_close(&worker->cancel_fd);
	for (int i = 0; i < 2; i++) {
		cleanup_close(&worker->waiting[i]);
		cleanup_close(&worker->finished[i]);
	}
	free(worker);
}
