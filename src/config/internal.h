/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* config.c shares these with web.c, which reads another file in the same way, and with tests. */

#include "config/config.h"

#define DOCUMENT_DEPTH_MAX 8    /* twice what the deepest option needs */
#define DOCUMENT_NODES_MAX 8192 /* the check for duplicate keys is quadratic */

enum tree_kind {
	TREE_NULL,
	TREE_TEXT,
	TREE_LIST,
	TREE_MAP,
};

struct tree {
	struct tree *allocated; /* the next in config.trees */
	enum tree_kind kind;
	struct config_position position;
	const struct tree *key; /* in a map: the key of this value */
	struct tree *first;     /* TREE_LIST and TREE_MAP: the first value */
	struct tree *next;      /* in a list or map: the next value */
	char text[];            /* TREE_NULL and TREE_TEXT; else empty */
};

struct row {
	const struct config_option *option;
	/*
	 * NULL: no file sets the option. TREE_NULL or TREE_MAP: a file removes the value, also that
	 * of the profile. Once loaded always TREE_TEXT, or TREE_LIST for an OPTION_LIST.
	 */
	const struct tree *tree;
};

struct config {
	const struct config_option *const *tables;
	struct row *rows; /* in the order of the tables */
	size_t n_rows, rows_allocated;
	/* An empty value removes that of the profile. Once loaded, these are behind the others. */
	struct config_sysctl *sysctls;
	size_t n_sysctls, n_removed, sysctls_allocated;
	cJSON *files;       /* [{"name": NAME, "text": TEXT}]; positions point to the names */
	struct tree *trees; /* a list of all trees */
	char profile[64];   /* "profile NAME"; positions point to it */
	struct config_fault_list *faults; /* during config_load() */
	struct config_fault_list warnings;
	size_t n_literals; /* the first warnings: of texts with variables */
	bool draft;
};

/* Returns NULL unless tree is a TREE_TEXT. */
const char *tree_text(const struct tree *tree);

/*
 * Parses the text of a file, or of a default if file is NULL. text[len] is a NUL byte. Stops at the
 * first fault and returns NULL; only of templates it reports all. Anchors, aliases and tags are
 * refused: anchors and aliases can expand without bound.
 */
struct tree *document_load(struct config *config, const char *file, const char *text, size_t len);

/* Returns the index in words, which NULL ends, or -1. words may be NULL. */
int word_index(const char *const *words, const char *word);

/* From the largest to the smallest, ended by a row without a name. */
extern const struct duration_unit {
	const char *name;
	uint64_t us;
} duration_units[];

/*
 * Parses "500ms", "20s", "30m" or "2h" to microseconds. Blanks, signs, fractions and leading zeros
 * are -EINVAL; values above UINT64_MAX are -ERANGE.
 */
int duration_parse(const char *text, uint64_t *us);

/*
 * Reports a file or directory that users other than root can write: they could change the node.
 * allowed: mode bits that make it safe anyway.
 */
void config_check_writers(struct config *config, const char *path, mode_t allowed);

/* Mixes what changes with the file into *(uLong *)sum: see config_source_signature(). */
void config_mix_file(const char *path, bool optional, void *sum);
