/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_ACTIVATE_H
#define AGENT_ACTIVATE_H

/* Between pipeline.c and activate.c. */

#include "agent/pipeline.h"

/* Makes the services of the files that were changed take them, one after the other, then ends. */
void pipeline_activate(struct pipeline *pipeline);

/* Notes in the journal that the unit is about to be restarted. 0 or -errno. */
int pipeline_mark(struct pipeline *pipeline);

/* With that stored, it is; without (-errno), it is not. */
void pipeline_marked(struct pipeline *pipeline, int stored);

/* The old file is back, and that is noted: the runtime gets one more restart, with it. */
void pipeline_restart_again(struct pipeline *pipeline);

/* The configuration has changed since it began: what is left to do would be against it. */
bool pipeline_is_outdated(const struct pipeline *pipeline);

/*
 * By today's configuration the file at hand may be put back and its unit restarted; it was another
 * configuration maybe that wanted the restart.
 */
bool pipeline_may_put_back(const struct pipeline *pipeline);

/* On to a step that waits for the journal. */
void pipeline_ask_to_store(struct pipeline *pipeline, enum pipeline_step step);

/* The run is over. */
void pipeline_end(struct pipeline *pipeline);

/* A new run: what the last one left is cleared. */
void pipeline_begin(struct pipeline *pipeline, bool restoring);

int pipeline_start_job(struct pipeline *pipeline, enum pipeline_step step, struct edits *edits,
	void (*run)(struct edits *edits), void (*done)(int result, void *userdata));

#endif
