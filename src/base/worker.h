/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A thread for what may block: it runs one job after the other, and sleeps in between. A job works
 * on memory that nobody else touches until it is done. All functions are for the loop's thread.
 */

#include <systemd/sd-event.h>

#include "base/util.h"
#include "base/wait.h"

struct worker;

/* The thread starts with the first job. 0 or -errno. */
int worker_new(sd_event *event, struct worker **ret);

/*
 * Queues run(job, wait) for the thread; then the loop calls done(job, userdata), which owns the job
 * again. wait carries the descriptor that cancels and no deadline: run sets its own. 0, or -errno
 * with nothing queued.
 */
int worker_submit(struct worker *worker, void (*run)(void *job, const struct wait *wait),
	void (*done)(void *job, void *userdata), void *job, void *userdata);

/*
 * Whether a job that is done wakes the loop; else it waits for worker_finish(). A loop that is
 * awake every second anyway need not be woken for what can wait so long.
 */
void worker_wakes_loop(struct worker *worker, bool wakes);

/* Calls done for the jobs that are. */
void worker_finish(struct worker *worker);

/* Cancels the running job, and takes no other from then on: only worker_free() is left. */
void worker_cancel(struct worker *worker);

/*
 * Cancels the running job, waits for its end, and calls done for every job left, whether it was run
 * or not. done may submit nothing any more. NULL is allowed.
 */
void worker_free(struct worker *worker);
DEFINE_CLEANUP(struct worker, worker_free)
