/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_INTERNAL_H
#define CONFIG_INTERNAL_H

/*
 * The inside of a configuration. libyaml makes a tree of each file (document.c); the tree is
 * checked against the tables' rows, which then point into it (merge.c), later files over earlier
 * ones; profile and defaults fill the rest (load.c), and config.c reads the rows. Only src/config
 * and its tests include this.
 */

#include "config/config.h"
#include "config/value.h"

#include <yaml.h>

#define DOCUMENT_DEPTH_MAX 8    /* twice what the deepest option needs */
#define DOCUMENT_NODES_MAX 8192 /* bounds what comparing each key with each other may cost */

/* A file, or the text of a default. */
struct document {
	struct document *next;
	char *file;   /* places point to it */
	bool is_file; /* not the text of a default */
	yaml_document_t yaml;
};

/* A row of the tables and its value. */
struct row {
	const struct config_option *option;
	const char *text; /* as it was given, at last the default's; NULL: nothing yet, or a list */
	struct option_value parsed;
	struct document *document; /* of list */
	const yaml_node_t *list;   /* of an OPTION_LIST; NULL: a word */
	struct config_place place;
	bool cleared; /* a file took away what a profile may say of it */
};

struct config {
	const struct config_option *const *tables;
	struct row *rows; /* in the order of the tables */
	size_t n_rows, rows_allocated;
	struct config_sysctl *sysctls; /* sorted; while files are read, also such without a value */
	size_t n_sysctls, sysctls_allocated;
	struct document *documents;
	char profile[64]; /* "profile NAME": places point to it */
};

/*
 * A document of the configuration, which owns it; NULL after a fault: what comes after one of
 * syntax says nothing. text[len] is a terminator. Anchors, aliases and tags are refused: a
 * configuration needs none of them, and the first two expand without bound.
 */
struct document *document_load(struct config *config, const char *file, const char *text,
	size_t len, struct config_fault_list *faults);

static inline yaml_node_t *node_at(const struct document *document, int index)
{
	return document->yaml.nodes.start + index - 1;
}

/* What is given in the place of a value; NULL for null, a map or a list. */
const char *node_text(const yaml_node_t *node);
bool node_is_null(const yaml_node_t *node);

/* The value of a map's key, or NULL. */
const yaml_node_t *node_child(
	const struct document *document, const yaml_node_t *node, const char *key);
struct config_place node_place(const struct document *document, const yaml_node_t *node);

/*
 * Takes the values of a document over, in place of earlier ones. Adds its faults, by place and at
 * most CONFIG_FAULTS_MAX.
 */
void document_merge(struct config *config, struct document *document,
	struct config_fault_list *faults, struct config_fault_list *notices);

/* Takes the list that a row has for its default. */
void row_take_default_list(struct config *config, struct row *row);

/* The row, or field of a list's items, of a name; NULL for none. */
struct row *config_row(const struct config *config, const char *name);
const struct config_option *item_row(const struct config_option *option, const char *field);

/* The sysctl of that name, added without a value when there is none. */
struct config_sysctl *config_sysctl(struct config *config, const char *name);

#endif
