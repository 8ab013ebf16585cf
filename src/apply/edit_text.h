/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_EDIT_TEXT_H
#define APPLY_EDIT_TEXT_H

#include <headroom/file.h>

#define EDIT_WHY_MAX 320

/*
 * One value of a configuration text, in the file's language. text need not be terminated. Both
 * write why when they fail for what the text says. 0; -EBADMSG for a text that is not of that
 * language, -EINVAL for a value that is not, -EEXIST for a table in the place of the key, -EFBIG,
 * -ENOMEM.
 */

/* literal is NULL when there is no such key; else freed by the caller. Not for EDIT_OWN. */
int edit_text_get(enum edit_format format, const char *text, size_t len, const char *table,
	const char *key, char **literal, char why[static EDIT_WHY_MAX]);

/* literal NULL takes the key out. out is terminated, and freed by the caller. */
int edit_text_set(enum edit_format format, const char *text, size_t len, const char *table,
	const char *key, const char *literal, char **out, size_t *out_len,
	char why[static EDIT_WHY_MAX]);

/* The same text as a new, terminated buffer. NULL without memory. */
char *copy_bytes(const char *text, size_t len);

#endif
