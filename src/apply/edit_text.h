/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_EDIT_TEXT_H
#define APPLY_EDIT_TEXT_H

/*
 * One key of a configuration text; every other byte stays. Pure. text need not be terminated. 0;
 * -EBADMSG for a text that is not of its language, -EEXIST for a shape that is not edited, both
 * with why: "LINE:COLUMN: what"; -ENOMEM.
 */

#include <headroom/file.h>

#define EDIT_WHY_MAX 320

/* literal is as the text spells it, NULL when there is no such key; freed by the caller. */
int toml_key_get(const char *text, size_t len, const char *table, const char *key, char **literal,
	char why[static EDIT_WHY_MAX]);
int json_key_get(const char *text, size_t len, const char *key, char **literal,
	char why[static EDIT_WHY_MAX]);

/*
 * literal NULL removes the key; removing what was added gives the text from before. out is
 * terminated, and freed by the caller.
 */
int toml_key_set(const char *text, size_t len, const char *table, const char *key,
	const char *literal, char **out, size_t *out_len, char why[static EDIT_WHY_MAX]);
int json_key_set(const char *text, size_t len, const char *key, const char *literal, char **out,
	size_t *out_len, char why[static EDIT_WHY_MAX]);

/* The same by format; table is not used for EDIT_JSON. Not for EDIT_OWN. */
int edit_text_get(enum edit_format format, const char *text, size_t len, const char *table,
	const char *key, char **literal, char why[static EDIT_WHY_MAX]);
int edit_text_set(enum edit_format format, const char *text, size_t len, const char *table,
	const char *key, const char *literal, char **out, size_t *out_len,
	char why[static EDIT_WHY_MAX]);

/* The same text as a new, terminated buffer. NULL without memory. */
char *copy_bytes(const char *text, size_t len);

/* The text with the bytes from start to end replaced, terminated. 0 or -ENOMEM. */
int splice_bytes(const char *text, size_t len, size_t start, size_t end, const char *insert,
	char **out, size_t *out_len);

#endif
