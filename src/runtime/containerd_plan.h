/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CONTAINERD_PLAN_H
#define RUNTIME_CONTAINERD_PLAN_H

/* The parts of containerd_config_plan(). */

#include "runtime/containerd_generation.h"

#include "base/toml.h"
#include "base/util.h"

#define PLAN_TABLE_MAX sizeof(((struct containerd_edit *)0)->table)

struct containerd_row {
	const char *sub; /* table below the CRI plugin's */
	const char *key;
};

struct containerd_plan {
	const struct containerd_config *config;
	const struct containerd_generation *generation;
	enum containerd_setting setting;
	const struct containerd_row *row;
	bool transfer; /* the key of the transfer service is the one that counts */
	struct containerd_edit *edit;
};

/* The text of a value, or NULL. Freed by the caller. */
char *plan_value(const struct containerd_file *file, const char *table, const char *key);

/* True when the file has a header of that table, or of one in it, or such a key. */
bool plan_has_table(const struct containerd_file *file, const char *table);

/* What a file says its version is, 0 for nothing, -1 for what is no version. */
long long plan_version(const struct containerd_file *file);

/* The table of the CRI plugin's images part in a file; NULL: in one that is to be made. */
const char *plan_cri_table(const struct containerd_plan *plan, const struct containerd_file *file);

/* The setting's table in a file, or, with the names of a dump, in the dump. */
void plan_table(const struct containerd_plan *plan, const struct containerd_file *file,
	char table[static PLAN_TABLE_MAX]);
void plan_dump_table(const struct containerd_plan *plan, char table[static PLAN_TABLE_MAX]);

bool plan_sets_the_key(const struct containerd_plan *plan, const struct containerd_file *file);

/* True when a file has a value in that table of the CRI plugin, whose name has `part` in it. */
bool plan_any_below(const struct containerd_plan *plan, const char *sub, const char *part);

/* True when 2.1 or later pulls with the client, and so by the CRI plugin's key. */
bool plan_pulls_the_old_way(const struct containerd_plan *plan);

bool plan_cri_is_off(const struct containerd_plan *plan);

/* How to change what another program writes into this file; NULL when none does. */
const char *plan_generated(
	const struct containerd_plan *plan, const char *path, const struct containerd_file *file);

/* The path of our own file: below the last import of the main file that would have it. */
bool plan_own_path(const struct containerd_plan *plan, char path[static PATH_MAX]);

const struct containerd_file *plan_find(const struct containerd_plan *plan, const char *path);

/* The file whose value would count over that of our own one, or NULL. */
const struct containerd_file *plan_winner_over(const struct containerd_plan *plan, const char *own);

/* The file to edit where none of our own is possible: where the key, or its section, counts. */
const struct containerd_file *plan_file_that_counts(const struct containerd_plan *plan);

#endif
