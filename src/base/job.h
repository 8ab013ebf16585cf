/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JOB_H
#define BASE_JOB_H

/*
 * What may block runs beside the loop: a job is a thread that works on data which nobody else
 * touches meanwhile, hands a number back through an eventfd and ends. No thread exists while there
 * is nothing to do.
 */

#include <systemd/sd-event.h>

struct job;

/*
 * Runs run(argument) in a thread; then, in the loop, done(result, userdata), before which the job
 * is released and *job is NULL again. Until then, or until job_finish(), argument and *job have to
 * stay where they are. 0, or -errno with nothing started.
 */
int job_start(sd_event *event, struct job **job, int (*run)(void *argument), void *argument,
	void (*done)(int result, void *userdata), void *userdata);

/* Waits for the job and forgets it without calling done: for the end of the agent. */
void job_finish(struct job **job);

/*
 * Leaves the job to itself, and what it works on with it: for the end of a process that must not
 * wait. The end of the process ends it, as any crash would.
 */
void job_abandon(struct job **job);

#endif
