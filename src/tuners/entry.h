/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_ENTRY_H
#define TUNERS_ENTRY_H

/*
 * Everything that has a name: `explain`, the completion and the documents are lists of these. An
 * entry is made from a row of one of the tables.
 */

#include <headroom/tuner.h>

struct entry {
	const char *name; /* a limit's or setting's may be a pattern of fnmatch(3) */
	const char
		*kind; /* "limit", "setting", "condition", "reason", "metric", "config key", ... */
	const char *detail; /* "critical when True"; NULL for none, as for all below */
	const char *help;
	const char *unit;
	const char *def;
	const char *option;
	const char *source;
	const char *const *labels;              /* of a metric; METRIC_LABELS_MAX of them */
	const struct config_option *row;        /* of a config key */
	const struct condition_type *condition; /* of a condition */
};

typedef void (*visit_entry)(const struct entry *entry, void *userdata);

/* Each entry of all tables once: the agent's, then each tuner's; at last the profiles. */
void each_entry(visit_entry visit, void *userdata);

/* False for a pattern, which names no single thing. */
bool entry_is_literal(const struct entry *entry);

#endif
