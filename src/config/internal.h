/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of a configuration. Each file becomes a tree (document.c), which is checked against
 * the tables' rows; these then point into it (merge.c), later files over earlier ones. Profile and
 * defaults fill the rest (load.c), and config.c reads the rows. Only src/config and its tests
 * include this.
 */

#include "config/config.h"

#define DOCUMENT_DEPTH_MAX 8    /* twice what the deepest option needs */
#define DOCUMENT_NODES_MAX 8192 /* bounds what comparing each key with each other may cost */

enum tree_kind {
	TREE_NULL,
	TREE_TEXT,
	TREE_LIST,
	TREE_MAP,
};

/* A value of a file, or that of a default, with what is below it. */
struct tree {
	struct tree *allocated; /* any other of the same config */
	enum tree_kind kind;
	struct config_position position;
	const struct tree *key;    /* of a value in a map; its text is a word once it was checked */
	struct tree *first, *next; /* of a list or map: its values, in order */
	char text[];               /* of TREE_NULL and TREE_TEXT; else empty */
};

/* A row of the tables and its value. */
struct row {
	const struct config_option *option;
	/* NULL: no file has it. TREE_NULL, or TREE_MAP for a row with others below it: a profile's
	 * value is not wanted either. Once loaded: a text, or the list of an OPTION_LIST. */
	const struct tree *tree;
};

struct config {
	const struct config_option *const *tables;
	struct row *rows; /* in the order of the tables */
	size_t n_rows, rows_allocated;
	struct config_sysctl *sysctls; /* sorted; while files are read, also such without a value */
	size_t n_sysctls, sysctls_allocated;
	char **files; /* places point to them */
	size_t n_files, files_allocated;
	struct tree *trees;                         /* all that were allocated */
	char profile[64];                           /* "profile NAME": places point to it */
	struct config_fault_list *faults, *notices; /* while it is loaded; the latter may be NULL */
};

/* A tree of config, which frees it. */
struct tree *tree_new(struct config *config, enum tree_kind kind, struct config_position position,
	const char *text);

/* The text of a TREE_TEXT; NULL for any other, and for NULL. */
const char *tree_text(const struct tree *tree);

/* The value of a map's key, or NULL. */
const struct tree *tree_child(const struct tree *map, const char *key);

/*
 * The tree of a file's text, which text[len] terminates; file NULL: of a default. NULL after a
 * fault: what comes after one of syntax says nothing. Anchors, aliases and tags are refused: a
 * configuration needs none of them, and the first two expand without bound.
 */
struct tree *document_load(struct config *config, const char *file, const char *text, size_t len);

/*
 * Takes the values of a file over, in place of earlier ones. Adds its faults, by place and at
 * most CONFIG_FAULTS_MAX.
 */
void document_merge(struct config *config, struct tree *root);

/* The row of a name; NULL for none. */
struct row *config_row(const struct config *config, const char *name);

/* The sysctl of that name, added without a value when there is none. */
struct config_sysctl *config_sysctl(struct config *config, const char *name);

/* The index of a word of the row; -1 for none. */
int value_word(const struct config_option *option, const char *text);

/*
 * "500ms", "20s", "30m" or "2h", without blanks, signs, fractions or leading zeros, as
 * microseconds. -EINVAL for anything else, -ERANGE above UINT64_MAX. *us is written only on
 * success.
 */
int duration_parse(const char *text, uint64_t *us);
