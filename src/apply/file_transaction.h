/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes configuration files and puts them in force: keep the original, edit, verify, replace,
 * restart or reload, probe, roll back. Pins are changed here too. Each step is durable before the
 * next. When the process is killed, or the wait is cancelled, the next job completes or rolls back
 * the unfinished step.
 *
 * A job blocks and uses only its own memory and the journal. The agent runs it as a task;
 * commands call it directly.
 */

#include "apply/file.h"
#include "base/wait.h"
#include "kernel/host.h"

#include <headroom/plan.h>

/* The delay before a failed change is tried again, and if the program refused the text. */
#define FILE_RETRY_US   (60 * UINT64_C(1000000))
#define FILE_REFUSED_US (600 * UINT64_C(1000000))

/* After a reload without effect. */
#define FILE_RELOAD_AGAIN_US (600 * UINT64_C(1000000))

/* After a restart: by then the tuner has read the value in force. */
#define FILE_SEEN_US (30 * UINT64_C(1000000))

enum file_task {
	FILE_RESUME, /* complete the work of an earlier process, as every task does first */
	FILE_APPLY,
	FILE_RESTORE,
	FILE_PLAN_RESTORE, /* what FILE_RESTORE would do: nothing is written */
};

struct file_job {
	struct file_journal *journal; /* no one else uses it until the job is done */
	struct host host;             /* only its root and state are used */
	enum file_task task;
	/*
	 * FILE_APPLY: the changes of files and pins. Their results are in error, reason, why, held,
	 * and retry_us, which is UINT64_MAX if only another value may be tried. FILE_RESTORE and
	 * FILE_PLAN_RESTORE: gets the changes.
	 */
	struct plan plan;
	char only[32]; /* FILE_RESTORE, forced: a tuner; empty: all */
	bool forced;   /* `headroom apply`: also retry values that failed or had no effect */
	enum restart_policy restart; /* as configured: of a restore */
	bool undo;         /* roll back a program that does not come back, also when resuming */
	atomic_bool stale; /* set by the loop: the configuration has changed, begin nothing */
	const struct wait *wait; /* bounds the call */

	/* Results. */
	int error;     /* the last store of the journal failed with it */
	size_t n_open; /* restarts without a known result: FILE_RESUME again after FILE_RETRY_US */
};

/* job is a struct file_job. It is the run() of a task. */
void file_transaction(void *job, const struct wait *wait);

/* ---- for pin.c ---- */

#define FILE_STALE "the configuration has changed meanwhile" /* why of -ESTALE */

/* Sets a change's result. why may be NULL. */
void file_result(
	struct change *change, enum reason reason, int error, const char *why, uint64_t retry_us);

/* Returns whether job->only is empty or this tuner. */
bool file_is_chosen(const struct file_job *job, const char *tuner);

/* Stores the journal; job->error gets the result. 0 or -errno. */
int file_store(struct file_job *job);

/* Pins or unpins an image. */
void pin_apply(struct file_job *job, struct change *change);

/* Unpins the images that were not pinned before, and adds the changes to the plan. */
void pins_restore(struct file_job *job);
