/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A task is blocking work beside the loop: a function on a thread of its own, because a file that
 * it reads may hang in the kernel, where neither its deadline nor a cancel ends it. So nobody waits
 * for a task without a deadline, and a task that hangs keeps its thread and memory until the
 * process ends. The thread uses nothing but the data of its task. Work that needs an order is one
 * task after the other. Call all functions on the loop's thread.
 */

#include <pthread.h>
#include <systemd/sd-event.h>

#include "base/util.h"
#include "base/wait.h"

struct task {
	void (*run)(void *data, const struct wait *wait);
	/* In the loop: adopts the results. May be NULL. */
	void (*done)(void *data, void *userdata);
	void *data, *userdata;
	uint64_t timeout_us; /* bounds the wait; UINT64_MAX: not at all */
	bool idle;           /* work for strangers: it runs only when nothing else wants the CPU */

	/* Set by task_start(). */
	struct task **slot;
	struct wait wait;
	const char *_Atomic path; /* set by wait_path(); NULL: none */
	pthread_t thread;
	int ended_fd; /* readable when run() has returned; -1: nobody waits for it */
	sd_event_source *source;
};

/*
 * Copies the task and starts it. *slot has the copy until the loop or task_end() calls done().
 * event NULL: only task_end() does. Returns 0, or -errno with nothing started.
 */
int task_start(struct task **slot, sd_event *event, const struct task *task);

/*
 * Sets whether the end of run() wakes the loop, or waits for task_end(): the loop is awake every
 * second anyway.
 */
void task_wakes_loop(struct task *task, bool wakes);

/* Makes the wait of run() return -ECANCELED. task may be NULL. */
void task_cancel(struct task *task);

/*
 * Waits for the end of run() until deadline_us of CLOCK_MONOTONIC, 0 not at all, then calls done()
 * and frees the task. Returns false while it still runs. *slot may be NULL.
 */
bool task_end(struct task **slot, uint64_t deadline_us);
