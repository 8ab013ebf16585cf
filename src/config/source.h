/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_SOURCE_H
#define CONFIG_SOURCE_H

#include "config/config.h"

/* Paths in the order in which they are merged. */
struct source_list {
	char **paths;
	size_t n, allocated;
};

/*
 * The *.yaml of a directory in name order (bytes, as in the C locale). Hidden ones are left out. A
 * missing directory has none. 0 with *list filled, or -errno.
 */
int source_list_read(const char *directory, struct source_list *list);

void source_list_clear(struct source_list *list);

#endif
