/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What limits.raise sets, and the cure of a limit that a sysctl raises. */

#include "config/config.h"

#include <headroom/tuner.h>

/* A sysctl of a choice of limits.raise. */
struct raise {
	const char *name, *choice; /* name NULL ends the table */
	uint64_t value;            /* 0: it depends on the memory */
};

#define RAISES 9
extern const struct raise raises[RAISES + 1];

/* Returns the value that a choice sets. */
uint64_t raise_value(const struct raise *raise);

/* Returns the name of limit i that a sysctl bounds; NULL: there is none. */
const char *sysctl_bounds(const char *name, size_t i);

bool raise_is_chosen(const struct config *config, const char *choice);

/* The value of a sysctl. */
struct sysctl_value {
	const char *name; /* dotted; NULL ends a list */
	uint64_t value;
};

/*
 * Sets now to the command that sets these sysctls, and keep to the configuration that does. choice
 * is the choice of limits.raise for them, or NULL; it is proposed if it gives enough.
 */
void cure_with_sysctls(struct finding *finding, const struct decide_input *input,
	const char *choice, const struct sysctl_value *values);
#define CURE_WITH_SYSCTLS(finding, input, choice, ...) \
	cure_with_sysctls(finding, input, choice, (const struct sysctl_value[]){__VA_ARGS__, {0}})
