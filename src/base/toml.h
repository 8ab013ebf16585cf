/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TOML_H
#define BASE_TOML_H

/*
 * One key of a TOML text (toml.io/en/v1.0.0): read it, set it, take it away, with every other byte
 * as it was. Texts in, texts out: no file is touched.
 *
 * A table and a key are given as TOML spells them: plugins."io.containerd.grpc.v1.cri".registry
 * and config_path; the table "" is the text's own top. Any spelling of the same name is found:
 * bare, "quoted", 'literal', dotted keys, headers, inline tables. An element of an array of tables
 * has no name here and is not found.
 *
 * All return 0 or
 *   -ENOENT    there is no such key
 *   -EBADMSG   the text is no TOML: error says where, and nothing is returned
 *   -EEXIST    a name on the way is no table, or the key is a table: error says where it stands
 *   -EINVAL    the table, key or literal that was asked for is no TOML
 *   -EFBIG     over TOML_TEXT_MAX
 *   -ENOMEM
 * error may be NULL; it is written for -EBADMSG and -EEXIST only.
 */

#include <stddef.h>

#define TOML_TEXT_MAX    ((size_t)1 << 20) /* bytes; a containerd config has some thousand */
#define TOML_NESTING_MAX 64                /* arrays and inline tables in one another */

struct toml_error {
	size_t line, column; /* from 1; columns count bytes, as editors count ASCII */
	char message[96];    /* what was expected there */
};

enum toml_type {
	TOML_STRING,
	TOML_INTEGER,
	TOML_FLOAT,
	TOML_BOOLEAN,
	TOML_DATE, /* a date, a time, or both */
	TOML_ARRAY,
	TOML_TABLE, /* an inline table */
};

struct toml_value {
	enum toml_type type;
	/*
	 * Terminated, freed by the caller. A string without quotes and escapes; an integer as a
	 * decimal number; all else as the text spells it.
	 */
	char *text;
	size_t at, len; /* the bytes it takes in the text */
	size_t line;    /* from 1 */
};

void toml_value_clear(struct toml_value *value);

/* Finds the value of a key. */
int toml_get(const char *text, size_t len, const char *table, const char *key,
	struct toml_value *value, struct toml_error *error);

/*
 * Returns in out (terminated, freed by the caller; out_len may be NULL) the text with the key set
 * to a value as TOML spells it. A value that stands there is replaced in place; else a line is
 * added to the table, or a table to the end of the text, marked as added. Equal value: equal text.
 */
int toml_set(const char *text, size_t len, const char *table, const char *key, const char *literal,
	char **out, size_t *out_len, struct toml_error *error);

/*
 * Returns in out the text without the key, and without the table that toml_set had added for it,
 * when that is empty now. After toml_set of a new key this gives the bytes from before it.
 */
int toml_remove(const char *text, size_t len, const char *table, const char *key, char **out,
	size_t *out_len, struct toml_error *error);

/* 0 when the whole text is TOML as far as this reader goes, else -EBADMSG, -EFBIG. */
int toml_check(const char *text, size_t len, struct toml_error *error);

/* The string as TOML spells it: "quoted", with escapes. Freed by the caller. -EINVAL: no UTF-8. */
int toml_quote(const char *string, char **literal);

/*
 * The strings of an array of strings, which is a literal as toml_get returns it. Freed by the
 * caller with toml_strings_free. -EINVAL when it holds anything else.
 */
int toml_strings(const char *literal, char ***strings, size_t *n);
void toml_strings_free(char **strings, size_t n);

/*
 * Called for every value and every table of the text. path is the whole dotted name in its normal
 * spelling (bare where that is allowed, else "quoted"), elements of arrays as name[0]. Arrays and
 * inline tables are told of after what is in them, as [...] and {}; an empty array is [].
 * A result other than 0 ends the walk and is returned.
 */
typedef int (*toml_visit)(const char *path, const struct toml_value *value, void *userdata);
int toml_walk(
	const char *text, size_t len, toml_visit visit, void *userdata, struct toml_error *error);

#endif
