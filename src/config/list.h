/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_LIST_H
#define CONFIG_LIST_H

/* The items of an OPTION_LIST. Only src/config includes this. */

#include "config/fault.h"
#include "config/value.h"

struct list_field {
	char *text; /* NULL: not given, the row's default */
	struct option_value parsed;
	struct config_place place; /* the item's where the field is not given */
};

struct list {
	size_t n, n_fields;
	struct list_field *fields;   /* n times n_fields, in the order of the rows */
	struct config_place *places; /* n: each item's own */
};

/*
 * Reads a node of kind NODE_LIST. 0 with *ret, which list_free releases; -EINVAL with at least one
 * fault; -ENOMEM.
 */
int list_read(const struct config_option *option, const struct node *node, struct fault_sink *sink,
	struct list **ret);

/*
 * The list of the row's default, [] without one. 0 with *ret; -EINVAL when the row itself does not
 * take it; -ENOMEM.
 */
int list_default(const struct config_option *option, struct list **ret);

/* The field's row; NULL when items have no such field. *index is its place among the rows. */
const struct config_option *list_row(
	const struct config_option *option, const char *field, size_t *index);

void list_free(struct list *list);
DEFINE_CLEANUP(struct list, list_free)

#endif
