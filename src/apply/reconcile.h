/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From what a tuner wants to what should be written now. Drift is judged here: a setting that was
 * in sync and is not any more was changed by someone else.
 */

#include "model/node.h"

/* A setting that was set again this often without a quiet time is left to who keeps changing it. */
#define DRIFT_ROUNDS_MAX 5

/* Without drift for this long, a setting's rounds are forgotten. */
#define DRIFT_QUIET_US (600 * UINT64_C(1000000))

/* A value that could not be recorded or written is tried again after this long. */
#define RETRY_US (15 * UINT64_C(1000000))

struct reconcile_input {
	const char *tuner;                 /* of ops->name: whose settings these are */
	const struct proposal *proposal;   /* what it wants */
	const struct decide_input *decide; /* what its decide() got: records, mode, time */
	enum on_drift on_drift;
	/* False: the condition AgentDegraded says why, and settings are only observed. */
	bool values_recordable, files_recordable;
	bool files_busy; /* a job is changing files, or they were not read since */
};

/*
 * Brings the node's settings of one tuner up to date with its proposal and adds to plan what should
 * be written. Settings that it no longer mentions are dropped.
 */
void reconcile(struct node *node, const struct reconcile_input *input, struct plan *plan);

/* What became of the changes of a plan, to the node's settings and the log. */
void reconcile_results(struct node *node, const struct plan *plan, uint64_t now_us);

/*
 * Forgets what was yielded, drifted or failed, so that the next reconcile tries everything again.
 * tuner NULL: of all. A new configuration and `headroom apply` do this.
 */
void reconcile_reset(struct node *node, const char *tuner);
