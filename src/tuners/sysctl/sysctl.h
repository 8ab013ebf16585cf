/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kernel/host.h"

#include <headroom/tuner.h>

/* One configured sysctl. */
struct sysctl_key {
	struct want want; /* wanted as configured, actual as read; its name comes first */
	bool exact;
	char looked_up[SETTING_VALUE_MAX]; /* whose writer is in want.why */
	bool configured; /* in a configuration file, or in a profile that one names */
};

struct sysctl {
	const struct host *host;
	struct sysctl_key *keys;
	size_t n;
	char write_why[TUNER_WHY_MAX]; /* empty when /proc/sys can be written */
};
