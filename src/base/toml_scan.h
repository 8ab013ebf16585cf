/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TOML_SCAN_H
#define BASE_TOML_SCAN_H

/* What toml.c is made of: names, strings, and one pass over a text that tells what stands where. */

#include "base/toml.h"

#include <stdbool.h>

#define TOML_NAME_MAX   4096 /* bytes of a whole dotted name */
#define TOML_ARRAYS_MAX 1024 /* arrays of tables in one text */

/* Ends each part of a name, and begins the number of an array's element: neither is in UTF-8. */
#define TOML_PART_END '\xff'
#define TOML_ELEMENT  '\xfe'

/* A text that grows. A name is one with its parts decoded, each with TOML_PART_END behind it. */
struct toml_buffer {
	char *bytes;
	size_t len, allocated;
};

int toml_buffer_add(struct toml_buffer *buffer, const char *bytes, size_t len);
void toml_buffer_clear(struct toml_buffer *buffer);

/* Parses a dotted name, spelled as TOML does, with no blank around it. Empty gives no part. */
int toml_name_parse(const char *spelled, struct toml_buffer *name);

/* Appends the name as TOML spells it, elements of arrays as [n]. */
int toml_name_spell(const char *name, size_t len, struct toml_buffer *spelled);

/* A place in a text, and where reading it failed. */
struct toml_cursor {
	const char *text;
	size_t len, at;
	const char *why; /* a constant sentence */
};

/* Reads the string that begins at the cursor, into decoded unless that is NULL. */
int toml_string_read(struct toml_cursor *cursor, bool many_lines, struct toml_buffer *decoded);

/* The number as a decimal one. -EINVAL for what is no TOML integer of 64 bits. */
int toml_integer_read(const char *text, size_t len, long long *value);

/* The type of a value without quotes or brackets. -EINVAL for what is none. */
int toml_scalar_type(const char *text, size_t len, enum toml_type *type);

enum toml_event_kind {
	TOML_EVENT_TABLE,   /* [name] */
	TOML_EVENT_ELEMENT, /* [[name]] */
	TOML_EVENT_VALUE,   /* name = value, or an element of an array; containers after what is in
			       them */
};

struct toml_event {
	enum toml_event_kind kind;
	enum toml_type type;
	const char *name; /* whole */
	size_t name_len;
	size_t context_len; /* as much of it is the table that the key was written in */
	size_t start;       /* of the key, of the header's bracket, of an array's element */
	size_t value, end;  /* of the value; end of a header: behind its bracket */
	size_t previous;    /* end of the value before it in the same braces, 0 for the first */
	size_t last;        /* arrays and inline tables: end of the last value in it, 0 for none */
	unsigned depth;     /* of arrays and inline tables around it */
};

/* A result other than 0 ends the pass and is returned. */
typedef int (*toml_sink)(const struct toml_event *event, void *userdata);

int toml_scan(
	const char *text, size_t len, toml_sink sink, void *userdata, struct toml_error *error);

/* A value alone, with nothing before or behind it. -EBADMSG for anything else. */
int toml_scan_literal(const char *literal, toml_sink sink, void *userdata);

/* Line and column of a place, with the message. */
void toml_error_set(struct toml_error *error, const char *text, size_t at, const char *message);

#endif
