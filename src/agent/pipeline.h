/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_PIPELINE_H
#define AGENT_PIPELINE_H

/*
 * The way of configuration files from a plan to a runtime that has taken them, beside the loop: one
 * thing after the other, each step either a job of src/base/job.h, a stored journal, or an answer
 * of systemd. The agent and the commands that work without one use the same.
 */

#include "agent/core.h"
#include "apply/edit.h"
#include "apply/restart.h"
#include "base/job.h"

enum pipeline_step {
	PIPELINE_IDLE,
	PIPELINE_PREPARING,  /* a job: read, edit, verify, keep the original */
	PIPELINE_NOTING,     /* waits for the journal */
	PIPELINE_WRITING,    /* a job */
	PIPELINE_RESTORING,  /* a job: originals go back, as was asked for */
	PIPELINE_FORGETTING, /* waits for the journal */
	PIPELINE_SWEEPING,   /* a job: kept bytes that nothing needs any more */
	PIPELINE_ACTIVATING, /* waits for systemd */
	PIPELINE_MARKING,    /* waits for the journal: systemd is about to be asked for a restart */
	PIPELINE_PUTTING_BACK, /* a job: the runtime did not come back */
	PIPELINE_GIVING_UP,    /* waits for the journal */
	PIPELINE_RESTARTING,   /* waits for systemd, the old file in place again */
};

struct pipeline {
	struct core *core;
	sd_event *event;
	void (*store)(struct pipeline *pipeline); /* it wants the journal stored; may be NULL */
	void (*ended)(struct pipeline *pipeline); /* edits.plan has the results; may be NULL */
	void *userdata;
	uint64_t timeout_us; /* for a runtime to answer again; 0: the usual */

	enum pipeline_step step;
	bool restoring;
	uint32_t config; /* the configuration's checksum when it began */
	int store_error; /* of a restore: it is done and could not be noted */
	struct edits edits;
	struct edits back; /* what a runtime that did not come back is given again */
	struct job *job;
	struct {
		struct edits *edits;
		void (*run)(struct edits *edits);
	} work; /* the job's */
	struct restart *restart;
	size_t at;                  /* index of the file whose service is being activated */
	enum answer_level answered; /* how much of that did before it was restarted */
	char why[EDIT_WHY_MAX];     /* it did not come back */
	uint64_t resume_us;         /* when pipeline_resume() may ask systemd again */
};

/*
 * Begins with a restart that the journal tells of and whose end nobody saw, for the process that
 * asked for it was killed: when the runtime does not answer in time, its files go back and it is
 * restarted once more, as ever. Only when idle, and before anything else. True when it began.
 */
bool pipeline_resume(struct pipeline *pipeline);

/*
 * Takes the changes of files out of a plan and begins with them; while it is busy with others they
 * are dropped, for the next look plans them again. True when it began.
 */
bool pipeline_apply(struct pipeline *pipeline, struct plan *plan);

/* Begins to put back what a tuner (NULL: all) changed. Only when idle. True when it began. */
bool pipeline_restore(struct pipeline *pipeline, const char *only);

/*
 * When true: the journal has to be stored with what pipeline_note() adds to it (0 or -errno), then
 * pipeline_stored() has to be called with the result of that.
 */
bool pipeline_wants_store(const struct pipeline *pipeline);
int pipeline_note(struct pipeline *pipeline);
void pipeline_stored(struct pipeline *pipeline, int result);

/* Runs it to its end in its loop, storing the journal by itself: for commands. May block. */
void pipeline_run(struct pipeline *pipeline);

/* Ends it, whatever it is at; a job's end is waited for. */
void pipeline_close(struct pipeline *pipeline);

/*
 * Ends at once: true when a job that may take its time goes on meanwhile. Then all that it works
 * with, the pipeline, the journal and the lock, has to stay until the process ends.
 */
bool pipeline_abandon(struct pipeline *pipeline);

#endif
