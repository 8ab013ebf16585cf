/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_KUBELET_KUBELET_H
#define TUNERS_KUBELET_KUBELET_H

/* What the kubelet's configuration says of pulling and collecting images. */

#include "runtime/kubelet.h"

#include <headroom/tuner.h>

#define KUBELET_ADVICES_MAX 3
#define KUBELET_SETTING     "kubelet.serializeImagePulls"

struct kubelet {
	const struct host *host;
	struct kubelet_seen seen;
	bool manage;             /* configured */
	uint64_t next_sample_us; /* CLOCK_MONOTONIC */
};

/* Member of struct tuner_ops. */
void kubelet_decide(const void *self, const struct decide_input *input, void *memory,
	struct proposal *proposal);

/* The advices that fit what was seen. Returns how many. */
size_t kubelet_advise(const struct kubelet_seen *seen,
	char advices[static KUBELET_ADVICES_MAX][CONDITION_MESSAGE_MAX]);

/* Why the setting cannot be written, and the cure; NULL when it can. */
const char *kubelet_unmanageable(const struct kubelet_seen *seen);

/* Its condition. */
extern const struct condition_type kubelet_conditions[];

#endif
