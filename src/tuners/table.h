/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "config/config.h"

#include <headroom/tuner.h>

/* A new tuner is a directory, and its line here. */
#define TUNERS(X)   \
	X(neighbor) \
	X(thp)      \
	X(dns)      \
	X(runtime)  \
	X(images)   \
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

/* The row of a reason; NULL for none. */
const struct reason *reason_find(const char *slug);

/* What the entry of a kind ("reason", "condition", ...) and name says; NULL for none. */
const char *entry_help(const char *kind, const char *name);

/* What the option NAME.mode of each tuner takes, ended by NULL; and its row. */
extern const char *const tuner_mode_choices[];
#define MODE_OPTION(tuner)                                                                   \
	{                                                                                    \
		.name = tuner ".mode", .type = OPTION_CHOICE, .choices = tuner_mode_choices, \
		.help = "This tuner's own mode; empty: the agent's."                         \
	}

/* The options of each of all_tables, in its order; ended by NULL. */
extern const struct config_option *const option_tables[];

/* A close for tuners whose self and memory own nothing. */
void tuner_free(void *self, void *memory);

/* The tuner of that name, or NULL. */
const struct tuner_ops *tuner_find(const char *name);

/* What needs all tuners: each one's validate, and that no sysctl has two owners. */
void tuners_validate(const struct config *config, struct config_fault_list *faults);

/* What the configuration says of a tuner: its own mode, else the agent's. */
enum mode tuner_mode(const struct tuner_ops *ops, const struct config *config);

/*
 * Each entry of all tables once: the agent's, then each tuner's; at last the profiles. The caller
 * frees the array, not what it points to.
 */
struct explanation *all_entries(size_t *n);

/* False for a pattern, which names no single thing. */
bool entry_is_literal(const struct explanation *entry);
