/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kubelet tuner: settings for pulling and garbage-collecting images. */

#include "runtime/kubelet.h"

#include <headroom/tuner.h>

struct kubelet {
	const struct host *host;
	struct kubelet_seen seen;
	bool manage;             /* configured */
	uint64_t next_sample_us; /* CLOCK_MONOTONIC */
};
