/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kubelet tuner: settings for pulling and garbage-collecting images. */

#include "runtime/kubelet.h"
#include "workload/facts.h"

#include <headroom/tuner.h>

struct kubelet {
	const struct host *host;
	struct facts *facts; /* belongs to the loop: not for a task */
	struct kubelet_seen seen;
	bool manage;             /* configured */
	uint64_t next_sample_us; /* CLOCK_MONOTONIC */
};
