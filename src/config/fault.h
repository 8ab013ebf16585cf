/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_FAULT_H
#define CONFIG_FAULT_H

/* Faults of one file's tree, bounded in number. Only src/config includes this. */

#include "config/document.h"

/* The part of a message that varies. */
#define FAULT_DETAIL_MAX 256

struct fault_sink {
	const char *file;
	struct config_fault_list *faults;
	unsigned n; /* found; CONFIG_FAULTS_MAX of them are noted */
};

/* Where a node's value, or its key, stands. */
struct config_place fault_place(const struct fault_sink *sink, const struct node *node);
struct config_place fault_place_of_key(const struct fault_sink *sink, const struct node *node);

void fault_at(struct fault_sink *sink, struct config_place place, const char *format, ...)
	PRINTF_LIKE(3, 4);

#define fault_at_key(sink, node, ...)   fault_at(sink, fault_place_of_key(sink, node), __VA_ARGS__)
#define fault_at_value(sink, node, ...) fault_at(sink, fault_place(sink, node), __VA_ARGS__)

/* "name cannot be a map: write ...", with what the row takes; option NULL: a section. */
void fault_wrong_kind(struct fault_sink *sink, const struct config_option *option, const char *name,
	const struct node *node);

/* Says that the key is not known in the section ("" for the top) of tables, and what may be meant.
 */
void fault_unknown_key(struct fault_sink *sink, const struct config_option *const *tables,
	const char *section, const struct node *node);

#endif
