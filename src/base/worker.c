/* SPDX-License-Identifier: Apache-2.0 */
#include "base/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>

struct job {
	void (*run)(void *job, const struct wait *wait);
	void (*done)(void *job, void *userdata);
	void *job, *userdata;
	struct job *next;
};

struct queue {
	struct job *first, **end;
};

struct worker {
	pthread_t thread;
	bool is_started, is_ending;
	pthread_mutex_t mutex; /* of the queues and is_ending */
	pthread_cond_t more;
	struct queue waiting, finished;
	int cancel_fd, done_fd;
	sd_event_source *source;
};

static void put(struct queue *queue, struct job *job)
{
	job->next = NULL;
	*queue->end = job;
	queue->end = &job->next;
}

static struct job *take(struct queue *queue)
{
	struct job *job = queue->first;

	if (!job)
		return NULL;
	queue->first = job->next;
	if (!queue->first)
		queue->end = &queue->first;
	return job;
}

static void *run_jobs(void *userdata)
{
	struct worker *worker = userdata;
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = worker->cancel_fd};
	uint64_t one = 1;

	pthread_mutex_lock(&worker->mutex);
	while (!worker->is_ending) {
		struct job *job = take(&worker->waiting);

		if (!job) {
			pthread_cond_wait(&worker->more, &worker->mutex);
			continue;
		}
		pthread_mutex_unlock(&worker->mutex);
		job->run(job->job, &wait);
		pthread_mutex_lock(&worker->mutex);
		put(&worker->finished, job);
		(void)!write(worker->done_fd, &one, sizeof(one));
	}
	pthread_mutex_unlock(&worker->mutex);
	return NULL;
}

static void finish(struct worker *worker, struct queue *queue)
{
	for (;;) {
		struct job *job;

		pthread_mutex_lock(&worker->mutex);
		job = take(queue);
		pthread_mutex_unlock(&worker->mutex);
		if (!job)
			return;
		job->done(job->job, job->userdata);
		free(job);
	}
}

static int on_done(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct worker *worker = userdata;
	uint64_t n;

	(void)source;
	(void)events;
	(void)!read(fd, &n, sizeof(n));
	finish(worker, &worker->finished);
	return 0;
}

int worker_new(sd_event *event, struct worker **ret)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int r;

	if (!worker)
		return -ENOMEM;
	worker->waiting.end = &worker->waiting.first;
	worker->finished.end = &worker->finished.first;
	pthread_mutex_init(&worker->mutex, NULL);
	pthread_cond_init(&worker->more, NULL);
	worker->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	worker->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = worker->cancel_fd < 0 || worker->done_fd < 0 ? -EMFILE : 0;
	if (r == 0)
		r = sd_event_add_io(
			event, &worker->source, worker->done_fd, EPOLLIN, on_done, worker);
	if (r < 0) {
		worker_free(worker);
		return r;
	}
	*ret = worker;
	return 0;
}

/* Signals are for the loop. */
static int start(struct worker *worker)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&worker->thread, NULL, run_jobs, worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	worker->is_started = r == 0;
	return r;
}

int worker_submit(struct worker *worker, void (*run)(void *job, const struct wait *wait),
	void (*done)(void *job, void *userdata), void *job, void *userdata)
{
	struct job *new;
	int r = worker->is_ending ? -ECANCELED : worker->is_started ? 0 : start(worker);

	if (r < 0)
		return r;
	new = malloc(sizeof(*new));
	if (!new)
		return -ENOMEM;
	*new = (struct job){.run = run, .done = done, .job = job, .userdata = userdata};
	pthread_mutex_lock(&worker->mutex);
	put(&worker->waiting, new);
	pthread_mutex_unlock(&worker->mutex);
	/* Only now: the thread would wake up for the mutex alone. */
	pthread_cond_signal(&worker->more);
	return 0;
}

void worker_free(struct worker *worker)
{
	uint64_t one = 1;

	if (!worker)
		return;
	pthread_mutex_lock(&worker->mutex);
	worker->is_ending = true;
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->mutex);
	(void)!write(worker->cancel_fd, &one, sizeof(one));
	if (worker->is_started)
		pthread_join(worker->thread, NULL);
	sd_event_source_disable_unref(worker->source);
	finish(worker, &worker->finished);
	finish(worker, &worker->waiting);
	cleanup_close(&worker->cancel_fd);
	cleanup_close(&worker->done_fd);
	pthread_cond_destroy(&worker->more);
	pthread_mutex_destroy(&worker->mutex);
	free(worker);
}
