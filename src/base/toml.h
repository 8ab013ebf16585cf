/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds tables and keys in a terminated TOML text (toml.io/en/v1.0.0). It knows where names and
 * values begin and end, past comments, strings and arrays of several lines; it does not judge
 * values. What it does not know (names with escapes, keys of inline tables) it does not find: a
 * caller that edits by it has the result checked by the program that reads the file.
 *
 * Names have one spelling here: bare where that is allowed, else "quoted":
 * plugins."io.containerd.grpc.v1.cri".registry. The table "" is the text's own top.
 */

#include <stdbool.h>
#include <stddef.h>

#define TOML_TEXT_MAX ((size_t)1 << 20) /* bytes; a containerd config has some thousand */
#define TOML_NAME_MAX 256
#define TOML_WHY_MAX  128

/* A header, or a key with its value. Places are offsets into the text. */
struct toml_item {
	bool header;               /* [table]; else key = value */
	char table[TOML_NAME_MAX]; /* the table's name; an element of an array of tables has [] */
	char key[TOML_NAME_MAX];   /* the last part of the key's name; "" for a header */
	size_t start;              /* of the header or of the key's whole name */
	size_t last;               /* of the last part of the key's name */
	size_t value, value_end;
	size_t end; /* of the line, comments included, without its line break */
};

struct toml_scan {
	const char *text;
	size_t len, at;
	char table[TOML_NAME_MAX]; /* of the last header */
	char why[TOML_WHY_MAX];    /* of -EBADMSG: "LINE:COLUMN: what" */
};

/* 1 with the next item, 0 at the end, -EBADMSG for what cannot be TOML. */
int toml_next(struct toml_scan *scan, struct toml_item *item);

/*
 * 0 with the key's item; -ENOENT; -EBADMSG with why (may be NULL); -EEXIST, with why, when the key
 * or a table on the way to it is inside an inline table.
 */
int toml_find(const char *text, size_t len, const char *table, const char *key,
	struct toml_item *item, char *why);

/* A key's whole name: the table's, a dot and the key's. A header's is its table's. */
#define TOML_FULL_MAX (2 * TOML_NAME_MAX)
const char *toml_name(const struct toml_item *item, char name[static TOML_FULL_MAX]);

/* A value without its quotes; what has escapes or several lines is copied as it is spelled. False
 * when it does not fit. */
bool toml_value(const char *text, const struct toml_item *item, char *out, size_t size);

/* The next string of an array of plain strings, from *at on. False at its end. */
bool toml_next_string(
	const char *text, const struct toml_item *item, size_t *at, char *out, size_t size);

/* A string as TOML spells it. False when it would need escapes, or does not fit. */
bool toml_quote(const char *string, char *out, size_t size);
