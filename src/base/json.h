/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Builds cJSON documents. No step returns an error: without memory the process aborts, and systemd
 * restarts it. Keys must be static text.
 */

#include <cjson/cJSON.h>

#include "base/util.h"

DEFINE_CLEANUP(cJSON, cJSON_Delete)

/* Adds a text without the secrets of URLs. */
void json_public(cJSON *parent, const char *key, const char *text);

/* Adds an item, which then belongs to parent. Returns it. */
cJSON *json_adopt(cJSON *parent, const char *key, cJSON *item);

/* Adds a copy of an item of another document; NULL: null. */
void json_copy(cJSON *parent, const char *key, const cJSON *item);

cJSON *json_object(cJSON *parent, const char *key);
cJSON *json_array(cJSON *parent, const char *key);
cJSON *json_append(cJSON *array); /* a new object at the array's end */
void json_append_text(cJSON *array, const char *text);
void json_text(cJSON *parent, const char *key, const char *text); /* NULL: "" */
void json_number(cJSON *parent, const char *key, double number);

/* Several numbers: JSON_NUMBERS(parent, {"used", 3}, {"max", 7}). */
struct json_number {
	const char *key; /* NULL ends a list */
	double number;
};
void json_numbers(cJSON *parent, const struct json_number *numbers);
#define JSON_NUMBERS(parent, ...) \
	json_numbers(parent, (const struct json_number[]){__VA_ARGS__, {0}})

void json_bool(cJSON *parent, const char *key, bool value);
void json_null(cJSON *parent, const char *key);
void json_time(cJSON *parent, const char *key, uint64_t realtime_us); /* 0: null */

/* Writes a document and a newline, and deletes the document. Returns whether it succeeded. */
bool json_put(FILE *out, cJSON *document, bool pretty);

/*
 * Read an item by its path, such as "latency/p50" or "top/0/workload"; "" is the item itself. An
 * agent of another version may lack it, or have another type: then they return NULL, "" or 0. The
 * text belongs to the document.
 */
const cJSON *json_at(const cJSON *object, const char *path);
const char *json_text_at(const cJSON *object, const char *path);
double json_number_at(const cJSON *object, const char *path);

/* A text to be parsed. Strings above text_max and repeated blanks are left out. */
struct json_compact {
	char *text; /* terminated, or NULL */
	size_t len, allocated;
	size_t memory; /* bytes that it and its document need at most */

	/* Internal. */
	size_t string; /* where the open string begins in text */
	bool quoted, escaped, skipped;
};

void json_compact_clear(struct json_compact *compact);

/* Adds a part of the text. An omitted string is empty. */
void json_compact_add(struct json_compact *compact, const char *part, size_t n, size_t text_max);

/*
 * Parses the next object of a list or of a stream of objects, and drops its text. Returns 1 with an
 * object, 0 when the rest does not have a whole one, or -EBADMSG for anything but an object.
 */
int json_compact_next(struct json_compact *compact, cJSON **object);

/* Returns the bytes of memory of an item and of those behind it. */
size_t json_memory(const cJSON *item);

/* Sorts an array by rank, the largest first. Equal items keep their order. */
void json_sort(cJSON *array, double (*rank)(const cJSON *item, const void *data), const void *data);

/* Appends the line "not counted in full" with the members of an object that are above 0. */
void json_append_losses(const cJSON *losses, char *text, size_t size);

/* Calls text_make_printable() for each text of a document. */
void json_make_printable(cJSON *item);

/* The same, but the texts of members with this key keep their ends of lines. */
void json_make_lines_printable(cJSON *item, const char *key);

/* ---- members of the top-level object, for edits in place ---- */

#define JSON_WHY_MAX 128

/*
 * Parses a terminated text. 0 with the object, which the caller deletes, or NULL for a blank text;
 * -EBADMSG with why: "LINE:COLUMN: what".
 */
int json_parse(const char *text, size_t len, cJSON **object, char why[static JSON_WHY_MAX]);

/* Offsets into the text. key includes the quotes. */
struct json_member {
	size_t key, key_end;
	size_t value, value_end;
};

/* Moves to the next member; {0} precedes the first one. text is valid for json_parse(). */
bool json_next(const char *text, struct json_member *member);

/* A key, and the last of n members. Of several members with the key the last one counts. */
struct json_place {
	const cJSON *item; /* NULL: the key is missing */
	struct json_member key, last;
	size_t n, n_keys;
};

/* object is the parsed text, or NULL for a blank one. */
struct json_place json_find(const char *text, const cJSON *object, const char *key);
