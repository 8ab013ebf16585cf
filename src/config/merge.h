/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_MERGE_H
#define CONFIG_MERGE_H

#include "config/document.h"
#include "config/store.h"

/*
 * Lays one file's tree over the configuration: maps merge, everything else replaces, null takes
 * away. file is owned by config. 0, also with faults added (at most CONFIG_FAULTS_MAX), or -ENOMEM.
 */
int merge_document(struct config *config, const char *file, struct node *root,
	struct config_fault_list *faults, struct config_fault_list *notices);

#endif
