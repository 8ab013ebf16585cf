/* SPDX-License-Identifier: Apache-2.0 */
#include "base/job.h"

#include "base/cleanup.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>

struct job {
	struct job **owner;
	pthread_t thread;
	int fd; /* written by the thread when it is done */
	sd_event_source *source;
	int (*run)(void *argument);
	void *argument;
	int result;
	void (*done)(int result, void *userdata);
	void *userdata;
};

static void *run_job(void *userdata)
{
	struct job *job = userdata;
	uint64_t one = 1;

	job->result = job->run(job->argument);
	/* An eventfd that was never written before cannot be full. */
	(void)!write(job->fd, &one, sizeof(one));
	return NULL;
}

static void release(struct job *job)
{
	sd_event_source_disable_unref(job->source);
	cleanup_close(&job->fd);
	free(job);
}

static int on_done(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct job *job = userdata;
	void (*done)(int, void *) = job->done;
	void *done_userdata = job->userdata;
	int result;

	(void)source;
	(void)fd;
	(void)events;
	pthread_join(job->thread, NULL);
	result = job->result;
	*job->owner = NULL;
	release(job);
	done(result, done_userdata);
	return 0;
}

int job_start(sd_event *event, struct job **owner, int (*run)(void *argument), void *argument,
	void (*done)(int result, void *userdata), void *userdata)
{
	struct job *job = calloc(1, sizeof(*job));
	int r;

	if (!job)
		return -ENOMEM;
	*job = (struct job){.owner = owner,
		.run = run,
		.argument = argument,
		.done = done,
		.userdata = userdata};
	job->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = job->fd < 0 ? -errno
			: sd_event_add_io(event, &job->source, job->fd, EPOLLIN, on_done, job);
	if (r >= 0)
		r = -pthread_create(&job->thread, NULL, run_job, job);
	if (r < 0) {
		release(job);
		return r;
	}
	*owner = job;
	return 0;
}

void job_finish(struct job **owner)
{
	struct job *job = *owner;

	if (!job)
		return;
	pthread_join(job->thread, NULL);
	*owner = NULL;
	release(job);
}

void job_abandon(struct job **owner)
{
	struct job *job = *owner;

	if (!job)
		return;
	job->source = sd_event_source_disable_unref(job->source);
	pthread_detach(job->thread);
	*owner = NULL;
}
