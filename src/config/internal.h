/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_INTERNAL_H
#define CONFIG_INTERNAL_H

/*
 * The inside of a configuration. Each file becomes a tree (document.c), which is checked against
 * the tables (check.c) and laid over those before it (load.c); the tables' rows then point into the
 * merged tree (rows.c), and config.c reads them. Only src/config and its tests include this.
 */

#include "config/config.h"
#include "config/value.h"

#define DOCUMENT_DEPTH_MAX 8    /* twice what the deepest option needs */
#define DOCUMENT_NODES_MAX 4096 /* bounds what comparing each key with each other may cost */

enum node_kind {
	NODE_NULL, /* nothing, null or ~ */
	NODE_TEXT,
	NODE_MAP,
	NODE_LIST,
};

struct node {
	enum node_kind kind;
	bool whole;       /* a map that replaces an earlier one instead of being merged with it */
	bool cleared;     /* a map that replaced null or a word: no profile's values below it */
	char *text;       /* NODE_TEXT */
	const char *file; /* owned by the config */
	unsigned line, column;
	char *key; /* below a map */
	unsigned key_line, key_column;
	struct node *children; /* NODE_MAP, NODE_LIST: the first */
	struct node *next;     /* the next sibling */
};

/* A row of the tables and its effective value. */
struct row {
	const struct config_option *option;
	const struct node *list; /* of an OPTION_LIST; NULL: a word */
	const char *text;        /* as it was given; the default's, else "" */
	struct option_value parsed;
	struct config_place place;
	struct node *fallback; /* of an OPTION_LIST whose default is a list: that list */
};

struct config {
	const struct config_option *const *tables;
	struct row *rows; /* in the order of the tables */
	size_t n_rows;
	struct node *root;             /* all files, merged */
	struct config_sysctl *sysctls; /* sorted */
	size_t n_sysctls, sysctls_allocated;
	char **names; /* of files and profile: places point to them */
	size_t n_names, names_allocated;
};

/*
 * 0 with *root, which node_free releases and which is NULL for a file without content; -EINVAL with
 * one fault added: what comes after a fault of syntax says nothing; -ENOMEM. text[len] is a
 * terminator. Anchors, aliases and tags are refused: a configuration needs none of them, and the
 * first two expand without bound.
 */
int document_parse(const char *file, const char *text, size_t len, struct node **root,
	struct config_fault_list *faults);
void node_free(struct node *node); /* its children too, not its siblings */
DEFINE_CLEANUP(struct node, node_free)

/* The child of a map, or NULL. */
struct node *node_child(const struct node *map, const char *key);
struct config_place node_place(const struct node *node);

/*
 * Adds the faults of a file's tree, by place and at most CONFIG_FAULTS_MAX; keys that are there
 * twice are removed, sysctls renamed to their one spelling. before: the files that were merged.
 */
void check_document(const struct config_option *const *tables, const struct node *before,
	struct node *root, struct config_fault_list *faults, struct config_fault_list *notices);

/*
 * The value's node of a sysctl, V or {value: V, exact: true}; NULL when it has not this form, with
 * the child that does not fit, if there is one.
 */
const struct node *sysctl_value_node(
	const struct node *node, bool *exact, const struct node **unfit);

/* The field's row of a list's items; NULL when they have no such field. */
const struct config_option *item_row(const struct config_option *option, const char *field);

/* rows.c: a configuration without files. 0 or -ENOMEM. */
int config_new(const struct config_option *const *tables, struct config **ret);

/* A copy of prefix and name that lives as long as the configuration; NULL without memory. */
const char *config_keep_name(struct config *config, const char *prefix, const char *name);

/* Points the rows into the merged tree, which has no fault, and checks the rules. 0 or -ENOMEM. */
int config_settle(struct config *config, struct config_fault_list *faults);

/* The value of a row; NULL when no table has it. */
struct row *config_row(const struct config *config, const char *name);

/* Adds faults for effective values that are well formed but cannot work. */
void rules_check(const struct config *config, struct config_fault_list *faults);

#endif
