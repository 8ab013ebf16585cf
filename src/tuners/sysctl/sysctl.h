/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kernel/host.h"

#include <headroom/tuner.h>

/* One configured sysctl and how it was found. */
struct sysctl_key {
	char name[SETTING_NAME_MAX];
	char configured[SETTING_VALUE_MAX];
	bool exact;
	bool from_profile;
	struct kept_file file;
	char actual[SETTING_VALUE_MAX];
	int error; /* 0 or -errno of reading it */
};

struct sysctl {
	const struct host *host;
	struct sysctl_key *keys;
	size_t n;
	char write_why[TUNER_WHY_MAX]; /* empty when /proc/sys can be written */
};
