/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_JSON_SCAN_H
#define RUNTIME_JSON_SCAN_H

/*
 * Where things stand in a JSON text (RFC 8259, strictly), for editing it in place: what cJSON
 * cannot tell. Pure.
 */

#include <stddef.h>

#define JSON_SCAN_DEPTH_MAX 100

/* A member of an object, as places in the text; key and value without white space around them. */
struct json_member {
	size_t key, key_end; /* the quotes included */
	size_t value, value_end;
};

struct json_object {
	size_t open, close; /* its braces */
	struct json_member *members;
	size_t n, allocated;
};

/* Lines and columns (bytes) count from 1. */
struct json_place {
	unsigned int line, column;
};

/* Why a text is no JSON object, and where. */
struct json_fault {
	struct json_place place;
	const char *what; /* a constant: what is wrong, and the cure */
};

/*
 * The text, from start on, as one object and nothing after it but white space. 0, -EINVAL with a
 * fault, or -ENOMEM. text[len] is a terminator. The caller frees the members.
 */
int json_scan_object(const char *text, size_t len, size_t start, struct json_object *object,
	struct json_fault *fault);

struct json_place json_place(const char *text, size_t at);

/* 0 when the text is one JSON value and nothing else, else -EINVAL. text[len] is a terminator. */
int json_scan_value(const char *text, size_t len);

#endif
