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
	X(kubelet)  \
	X(limits)

#define DECLARE_TUNER(name)                         \
	extern const struct tuner_ops name##_tuner; \
	extern const struct config_option name##_options[];

TUNERS(DECLARE_TUNER)

/* What belongs to the agent and to no tuner: tables alone, no functions. */
extern const struct tuner_ops core_tables;

/* The agent's tables, then each tuner's; ended by NULL. */
extern const struct tuner_ops *const all_tables[];

/* The rows of core_tables.conditions. */
enum { CORE_SETTING_DRIFTED, CORE_SETTING_FAILED, CORE_CONFIG_INVALID, CORE_AGENT_DEGRADED };

/* What a slug means, or NULL for one that is in no table. */
const char *reason_help(const char *slug);

/* What the option NAME.mode of each tuner takes, ended by NULL. */
extern const char *const tuner_mode_words[];

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
