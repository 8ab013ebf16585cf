/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TOML_PLACE_H
#define BASE_TOML_PLACE_H

/* Where in a text a key stands, or would have to. */

#include "base/toml_scan.h"

/* What is known of the key's table, from the surest to the least sure way to add a key there. */
struct toml_place {
	struct toml_buffer name; /* of the key, its table's first */
	size_t table_len;        /* as much of it is the table's */

	bool found;
	struct toml_event event; /* of the key's value; its name is not kept */

	/* An inline table on the way, the innermost: nothing can be added but in its braces. */
	bool braces;
	size_t braces_name_len; /* as much of name is its name */
	size_t braces_end, braces_last;

	/* [table]. At is behind what the line of its last key ends in, or of the header itself. */
	bool header;
	size_t header_start, header_at;
	size_t header_keys;

	/* Keys of the table spelled with dots below another table: a header would be refused. */
	bool dotted;
	size_t dotted_context_len, dotted_at;

	/* The last key before the first header, for the text's own top. */
	size_t top_at;
};

void toml_place_clear(struct toml_place *place);

/* 0 whether or not the key was found; else as toml_get(), but for -ENOENT. */
int toml_find(const char *text, size_t len, const char *table, const char *key,
	struct toml_place *place, struct toml_error *error);

/* True when the value of the event is the literal's, however either is spelled. */
bool toml_equal(const char *text, const struct toml_event *event, const char *literal);

#endif
