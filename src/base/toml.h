/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A terminated TOML text (toml.io/en/v1.0.0) has two readers. toml_parse() reads all of it: facts
 * come from its document. For editors, the scan finds where tables, keys and values begin and end
 * and skips comments, strings and arrays of several lines. It does not check values. It does not
 * find names with escapes or keys of inline tables: an editor must have the result checked by the
 * program that reads the file.
 *
 * Names have one spelling here, bare if possible, else "quoted":
 * plugins."io.containerd.grpc.v1.cri".registry. The top of the text is the table "".
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

#define TOML_TEXT_MAX ((size_t)1 << 20) /* bytes; a configuration has some thousand */
#define TOML_NAME_MAX 256
#define TOML_WHY_MAX  128

/*
 * Parses a whole text. A table is an object; a time or a number that JSON lacks is a string with
 * its spelling. 0 with the document, which the caller deletes, or -EBADMSG with why:
 * "LINE:COLUMN: what".
 */
int toml_parse(const char *text, size_t len, cJSON **document, char why[static TOML_WHY_MAX]);

/* A header, or a key with its value. Positions are offsets into the text. */
struct toml_item {
	bool header;               /* [table]; else key = value */
	char table[TOML_NAME_MAX]; /* the table's name; an element of an array of tables has [] */
	char key[TOML_NAME_MAX];   /* the last part of the key's name; "" for a header */
	size_t start;              /* where the header or the key's whole name begins */
	size_t last;               /* where the last part of the key's name begins */
	size_t value, value_end;
	size_t end; /* where the line ends, comments included, without its line break */
};

struct toml_scan {
	const char *text;
	size_t len, at;
	char table[TOML_NAME_MAX]; /* named by the last header */
	char why[TOML_WHY_MAX];    /* explains -EBADMSG: "LINE:COLUMN: what" */
};

/* Returns 1 with the next item, 0 at the end, or -EBADMSG if the text is not TOML. */
int toml_next(struct toml_scan *scan, struct toml_item *item);

/*
 * Finds the item of a key. Returns 0, -ENOENT, -EBADMSG, or -EEXIST if an inline table has the key
 * or one of its tables. why may be NULL and explains -EBADMSG and -EEXIST.
 */
int toml_find(const char *text, size_t len, const char *table, const char *key,
	struct toml_item *item, char *why);

/* Writes the full name of a key, with its table; of a header, the name of the table. */
#define TOML_FULL_MAX (2 * TOML_NAME_MAX)
const char *toml_name(const struct toml_item *item, char name[static TOML_FULL_MAX]);

/*
 * Copies a value without its quotes. A string with escapes or of several lines is copied as
 * spelled. Returns whether it fits.
 */
bool toml_value(const char *text, const struct toml_item *item, char *out, size_t size);

/* Copies the value of a key, whose name is TABLE.KEY. False without such a value. */
bool toml_lookup(const char *text, const char *name, char *out, size_t size);

/* Copies the next string of an array of plain strings, from *at on. Returns false at its end. */
bool toml_next_string(
	const char *text, const struct toml_item *item, size_t *at, char *out, size_t size);

/* Writes a string in quotes. Returns false if it needs escapes or does not fit. */
bool toml_quote(const char *string, char *out, size_t size);
