/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_TABLE_H
#define TUNERS_TABLE_H

#include "config/config.h"

#include <headroom/tuner.h>

/* A new tuner is a directory, and its line here. */
#define TUNERS(X)   \
	X(neighbor) \
	X(thp)      \
	X(dns)      \
	X(runtime)  \
	X(sysctl)   \
	X(kubelet)

#define DECLARE_TUNER(name)                         \
	extern const struct tuner_ops name##_tuner; \
	extern const struct config_option name##_options[];

TUNERS(DECLARE_TUNER)

/* All option tables: the agent's own, then each tuner's; ended by NULL. */
extern const struct config_option *const option_tables[];

/* The tuner of that name, or NULL. */
const struct tuner_ops *tuner_find(const char *name);

/* The tuner that alone may set this sysctl, or NULL. */
const struct tuner_ops *tuner_owning_sysctl(const char *sysctl);

/* What needs all tuners: each one's validate, and that no sysctl has two owners. */
void tuners_validate(const struct config *config, struct config_fault_list *faults);

/* What the configuration says of a tuner: its own mode, else the agent's. */
enum mode tuner_mode(const struct tuner_ops *ops, const struct config *config);

#endif
