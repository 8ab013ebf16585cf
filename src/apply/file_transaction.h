/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes configuration files and makes their programs take them: keep the original, edit, verify,
 * replace, restart or reload, probe, roll back. Each step is durable before the next; when the
 * process is killed, or its wait cancelled, the next job finishes or undoes what it began.
 *
 * A job blocks and touches only its own memory and the journal: the agent runs it on its worker,
 * commands call it directly.
 */

#include <stdatomic.h>

#include "apply/file_journal.h"
#include "base/wait.h"
#include "kernel/host.h"

#include <headroom/plan.h>

/* A setting that its program refused: the file, or the program, has to change first. */
#define FILE_REFUSED_US (600 * UINT64_C(1000000))

/* Any other failure: each try may run a program twice. */
#define FILE_RETRY_US (60 * UINT64_C(1000000))

/* A restart that was refused, or the next one of RESTART_WHEN_IDLE; a reload without effect. */
#define FILE_RESTART_AGAIN_US (3600 * UINT64_C(1000000))
#define FILE_RELOAD_AGAIN_US  (600 * UINT64_C(1000000))

/* After a restart: by then the tuner has seen what its program runs with. */
#define FILE_SEEN_US (30 * UINT64_C(1000000))

enum file_task {
	FILE_RESUME, /* only what an earlier process left open; the other tasks begin with that */
	FILE_APPLY,
	FILE_RESTORE,
};

struct file_job {
	struct file_journal *journal; /* no one else touches it until the job is done */
	struct host host;             /* only its root is used */
	enum file_task task;
	/*
	 * FILE_APPLY: changes of files alone; afterwards with results: error, reason and why; held:
	 * written, and why it is not in force; retry_us: not to be submitted again before,
	 * UINT64_MAX: not while nothing changes. FILE_RESTORE: empty; afterwards what was done.
	 */
	struct plan plan;
	char only[32]; /* FILE_RESTORE, forced: one tuner; "": all */
	bool forced;   /* `headroom apply`: also what failed or had no effect before */
	bool undo; /* of a restart left open too: a program that is not back gets its old files */
	atomic_bool stale; /* set by others: the configuration has changed, begin nothing more */
	const struct wait *wait; /* of the call */

	/* Results. */
	int error;     /* the journal could not be stored: not all is recorded */
	size_t n_open; /* restarts whose end is not known: FILE_RESUME again, after FILE_RETRY_US */
};

/* job is a struct file_job: for worker_submit(). */
void file_transaction(void *job, const struct wait *wait);
