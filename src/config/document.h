/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_DOCUMENT_H
#define CONFIG_DOCUMENT_H

/*
 * A YAML file as a tree of maps, lists and texts, each with its place. Anchors, aliases and tags
 * are refused: a configuration needs none of them, and the first two expand without bound.
 */

#include "config/config.h"

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
	char *text; /* NODE_TEXT */
	unsigned line, column;
	char *key; /* below a map */
	unsigned key_line, key_column;
	struct node *children; /* NODE_MAP, NODE_LIST: the first */
	struct node *next;     /* the next sibling */
};

/*
 * 0 with *root, which node_free releases and which is NULL for a file without content; -EINVAL with
 * one fault added: what comes after a fault of syntax says nothing; -ENOMEM. text[len] is a
 * terminator, as read_file leaves it.
 */
int document_parse(const char *file, const char *text, size_t len, struct node **root,
	struct config_fault_list *faults);

void node_free(struct node *node); /* its children too, not its siblings */
DEFINE_CLEANUP(struct node, node_free)

#endif
