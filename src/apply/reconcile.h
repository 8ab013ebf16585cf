/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares a tuner's proposal with the node and plans the writes. Drift is detected here: someone
 * else changed a setting that was in sync.
 */

#include "model/node.h"

/* A value that could not be recorded or written is tried again after this long. */
#define RETRY_US (15 * UINT64_C(1000000))

struct reconcile_input {
	const char *tuner; /* ops->name */
	const struct proposal *proposal;
	const struct decide_input *decide; /* input of the tuner's decide(): records, mode, time */
	enum on_drift on_drift;
	/* If false, the settings are only observed, and the condition AgentDegraded reports why. */
	bool values_recordable, files_recordable;
	const struct drift *drifts; /* seen by an earlier process */
	size_t n_drifts;
	bool transferring; /* this agent transfers images: RESTART_WHEN_IDLE waits for it */
	bool files_busy;   /* a job is changing files, or they were not sampled after one */
};

/*
 * Updates the node's settings of one tuner and adds the changes to plan. Settings that the proposal
 * does not have are dropped.
 */
void reconcile(struct node *node, const struct reconcile_input *input, struct plan *plan);

/* Passes the results of a plan to the node's settings and the log. */
void reconcile_results(struct node *node, const struct plan *plan, uint64_t now_us);

/*
 * Makes yielded, drifted and failed settings of a tuner, or (NULL) of all, pending again: for a new
 * configuration and `headroom apply`, which also forgets how often others changed them.
 */
void reconcile_reset(struct node *node, const char *tuner, bool forget);
