/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kernel/host.h"

#include <headroom/tuner.h>

/* One configured sysctl. */
struct sysctl_key {
	struct want want; /* wanted as configured, actual as read; its name comes first */
	bool exact;
};

struct sysctl {
	const struct host *host;
	struct sysctl_key *keys;
	size_t n;
	char write_why[TUNER_WHY_MAX]; /* empty when /proc/sys can be written */
};

struct config;

void sysctl_key_init(struct sysctl_key *key, const char *name, const char *value);

/*
 * Adds the keys of limits.raise, or raises those that the section sysctl has, and those of
 * storage.bound_writeback. keys has room.
 */
#define SYSCTL_RAISES_MAX 16
void sysctl_add_raises(struct sysctl *sysctl, const struct config *config);
