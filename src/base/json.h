/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

/*
 * Building a cJSON document without a check at every step: the first shortage of memory is kept and
 * told at the end. Keys must be static text. Parents may be NULL after a failure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/cleanup.h"

DEFINE_CLEANUP(cJSON, cJSON_Delete)

struct json {
	cJSON *root;
	bool failed;
};

void json_begin(struct json *json);
cJSON *json_object(struct json *json, cJSON *parent, const char *key);
cJSON *json_array(struct json *json, cJSON *parent, const char *key);
cJSON *json_append(struct json *json, cJSON *array); /* a new object at the array's end */
void json_text(struct json *json, cJSON *parent, const char *key, const char *text); /* NULL: "" */
void json_number(struct json *json, cJSON *parent, const char *key, double number);

/* Several numbers: JSON_NUMBERS(json, parent, {"used", 3}, {"max", 7}). */
struct json_number {
	const char *key; /* NULL ends a list */
	double number;
};
void json_numbers(struct json *json, cJSON *parent, const struct json_number *numbers);
#define JSON_NUMBERS(json, parent, ...) \
	json_numbers(json, parent, (const struct json_number[]){__VA_ARGS__, {0}})

void json_bool(struct json *json, cJSON *parent, const char *key, bool value);
void json_null(struct json *json, cJSON *parent, const char *key);
void json_time(
	struct json *json, cJSON *parent, const char *key, uint64_t realtime_us); /* 0: null */

/* Takes over an item made elsewhere; NULL counts as a shortage of memory. */
void json_adopt(struct json *json, cJSON *parent, const char *key, cJSON *item);

/* The document, which is then the caller's; NULL, and released, when memory was short. */
cJSON *json_take(struct json *json);

/*
 * Prints, with a newline at the end, and releases the document. 0 or -ENOMEM. ret is terminated and
 * freed by the caller; len (may be NULL) is without the terminator.
 */
int json_end(struct json *json, bool pretty, char **ret, size_t *len);

/*
 * Reading a document that may lack anything. path: "latency/p50", "top/0/workload". NULL, "" or 0
 * where there is no such item; the text is the document's.
 */
const cJSON *json_at(const cJSON *object, const char *path);
const char *json_text_at(const cJSON *object, const char *path);
double json_number_at(const cJSON *object, const char *path);

/* Each text of a document that is to be printed: names in it are chosen by others. */
void json_make_printable(cJSON *item);

#endif
