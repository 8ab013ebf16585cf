/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the kubelet's configuration says of pulling and collecting images. */

#include "runtime/kubelet.h"

#include <headroom/tuner.h>

struct kubelet {
	const struct host *host;
	struct kubelet_seen seen;
	bool manage;             /* configured */
	uint64_t next_sample_us; /* CLOCK_MONOTONIC */
};
