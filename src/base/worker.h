/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A thread for blocking work, which runs one job after the other. No other thread touches the
 * memory of a job until it is done. Call all functions on the loop's thread.
 */

#include <systemd/sd-event.h>

#include "base/util.h"
#include "base/wait.h"

struct worker;

/*
 * The thread starts with the first job. event NULL: the loop has ended, so only worker_finish(),
 * worker_drain() and worker_free() adopt jobs. Returns 0 or -errno.
 */
int worker_new(sd_event *event, struct worker **ret);

/*
 * Queues run(job, wait) for the thread. Afterwards the loop calls done(job, userdata). wait has the
 * descriptor that cancels but no deadline. Returns 0, or -errno with nothing queued.
 */
int worker_submit(struct worker *worker, void (*run)(void *job, const struct wait *wait),
	void (*done)(void *job, void *userdata), void *job, void *userdata);

/*
 * Sets whether a finished job wakes the loop, or waits for worker_finish(). The loop is awake every
 * second anyway.
 */
void worker_wakes_loop(struct worker *worker, bool wakes);

/* Calls done for the finished jobs. */
void worker_finish(struct worker *worker);

/* Cancels all jobs. Only worker_join() and worker_free() may follow. */
void worker_cancel(struct worker *worker);

/*
 * Lets the thread run the queued jobs and end by itself: neither it nor worker_free() waits then,
 * which would wake the process once more. No other job may follow.
 */
void worker_end(struct worker *worker);

/* worker_end(), and waits until deadline_us at most. Returns false if the thread has not ended. */
bool worker_drain(struct worker *worker, uint64_t deadline_us);

/*
 * Runs run(job, wait) on a thread of its own. Returns 0; -ETIMEDOUT if it hangs until deadline_us:
 * then it uses job until the process ends; or -errno.
 */
int worker_run(void (*run)(void *job, const struct wait *wait), void *job, uint64_t deadline_us);

/*
 * Waits until the thread of a cancelled worker has ended, until deadline_us of CLOCK_MONOTONIC at
 * most. Returns false if it has not: it hangs in the kernel.
 */
bool worker_join(struct worker *worker, uint64_t deadline_us);

/*
 * Cancels all jobs, waits for the running one, and calls done for all, even if they were not run.
 * done must not submit jobs. worker may be NULL.
 */
void worker_free(struct worker *worker);
DEFINE_CLEANUP(struct worker, worker_free)
