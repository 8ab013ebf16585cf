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
	/* What the kubelet that started then has read, although its files changed since. */
	struct kubelet_values running;
	uint64_t running_start_us; /* CLOCK_BOOTTIME; 0: not known */
	bool manage;               /* configured */
	uint64_t next_sample_us;   /* CLOCK_MONOTONIC */
};
