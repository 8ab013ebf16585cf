/* SPDX-License-Identifier: Apache-2.0 */
#include "base/task.h"

#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>

static void *run_task(void *userdata)
{
	struct task *task = userdata;

	if (task->idle) /* 0: this thread */
		(void)sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
	task->run(task->data, &task->wait);
	if (task->ended_fd >= 0)
		(void)eventfd_write(task->ended_fd, 1);
	return NULL;
}

static int on_ended(sd_event_source *, int, uint32_t, void *userdata)
{
	struct task *task = userdata;

	(void)task_end(task->slot, UINT64_MAX);
	return 0;
}

static void free_task(struct task *task)
{
	sd_event_source_disable_unref(task->source);
	cleanup_close(&task->ended_fd);
	cleanup_close(&task->wait.cancel_fd);
	free(task);
}
DEFINE_CLEANUP(struct task, free_task)

int task_start(struct task **slot, sd_event *event, const struct task *new)
{
	_cleanup_(cleanup_free_task) struct task *task = must(malloc(sizeof(*task)));
	sigset_t all, before;
	int r = 0;

	*task = *new;
	task->slot = slot;
	task->ended_fd = event ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
	task->wait = (struct wait){.deadline_us = UINT64_MAX, .path = &task->path};
	task->wait = wait_at_most(&task->wait, task->timeout_us);
	task->wait.cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (task->wait.cancel_fd < 0 || (event && task->ended_fd < 0))
		return -errno;
	if (event)
		r = sd_event_add_io(event, &task->source, task->ended_fd, EPOLLIN, on_ended, task);
	if (r < 0)
		return r;
	sigfillset(&all); /* the loop handles signals */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&task->thread, NULL, run_task, task);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r > 0)
		return -r;
	*slot = steal(task);
	return 0;
}

void task_wakes_loop(struct task *task, bool wakes)
{
	if (task->source)
		(void)sd_event_source_set_enabled(task->source, wakes ? SD_EVENT_ON : SD_EVENT_OFF);
}

void task_cancel(struct task *task)
{
	if (task)
		(void)eventfd_write(task->wait.cancel_fd, 1);
}

bool task_end(struct task **slot, uint64_t deadline_us)
{
	const struct timespec until = timespec_of(deadline_us);
	struct task *task = *slot;

	if (!task)
		return true;
	if (pthread_clockjoin_np(task->thread, NULL, CLOCK_MONOTONIC, &until) != 0)
		return false;
	*slot = NULL;
	if (task->done)
		task->done(task->data, task->userdata);
	free_task(task);
	return true;
}
