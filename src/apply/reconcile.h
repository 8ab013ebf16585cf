/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_RECONCILE_H
#define APPLY_RECONCILE_H

/*
 * From what a tuner wants to what should be written now. Drift is judged here: a setting that was
 * in sync and is not any more was changed by someone else.
 */

#include <stdbool.h>
#include <stdint.h>

#include "model/node.h"

#include <headroom/plan.h>

/* A setting put back this often without a quiet time is left to whoever keeps changing it. */
#define DRIFT_ROUNDS_MAX 5

/* Without drift for this long, a setting's rounds are forgotten. */
#define DRIFT_QUIET_US (600 * UINT64_C(1000000))

/* A setting that could not be written is tried again after this long. */
#define RETRY_US (15 * UINT64_C(1000000))

/* One in a file: each try may run a program twice. */
#define RETRY_FILE_US (60 * UINT64_C(1000000))

/* One that its program refused: the file, or the program, has to change first. */
#define RETRY_REFUSED_US (600 * UINT64_C(1000000))

/* A file that stands as wanted is made to take effect again after this long, when it has not. */
#define RESTART_AGAIN_US (3600 * UINT64_C(1000000))
#define RELOAD_AGAIN_US  (600 * UINT64_C(1000000))

enum on_drift {
	ON_DRIFT_ENFORCE,
	ON_DRIFT_YIELD,
	ON_DRIFT_REPORT,
};

struct reconcile_input {
	struct tuner_status *tuner; /* whose settings these are */
	const struct want *wants;   /* of it */
	size_t n_wants;
	const struct record *records;
	size_t n_records;
	enum on_drift on_drift;
	const char *observe_reason; /* MODE_OBSERVE: "observe-mode" or "restored" */
	uint32_t config;            /* its checksum: what broke under it is not tried again */
	bool may_record;            /* false for a while after the journal could not be stored */
	uint64_t now_us;
};

/*
 * Brings the node's settings of one tuner up to date with its proposal and adds to plan what should
 * be written. Settings that it no longer mentions are dropped. 0 or -ENOMEM.
 */
int reconcile(struct node *node, const struct reconcile_input *input, struct plan *plan);

/* Why a setting waits whose file stands as wanted: a slug. */
const char *waiting_reason(const struct service *service);

/*
 * Forgets what was yielded, drifted or failed, so that the next reconcile tries everything again.
 * tuner NULL: of all. A new configuration and `headroom apply` do this.
 */
void reconcile_reset(struct node *node, const char *tuner);

#endif
