/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/edit_text.h"

#include "base/toml.h"
#include "base/util.h"
#include "runtime/docker_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

char *copy_bytes(const char *text, size_t len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return NULL;
	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

static void say(char why[static EDIT_WHY_MAX], size_t line, size_t column, const char *message)
{
	if (line > 0)
		snprintf(why, EDIT_WHY_MAX, "line %zu, column %zu: %s", line, column, message);
}

static int get_toml(const char *text, size_t len, const char *table, const char *key,
	char **literal, char why[static EDIT_WHY_MAX])
{
	struct toml_error error = {0};
	struct toml_value value = {0};
	int r = toml_get(text, len, table, key, &value, &error);

	if (r == -ENOENT) {
		*literal = NULL;
		return 0;
	}
	if (r < 0) {
		say(why, error.line, error.column, error.message);
		return r;
	}
	*literal = copy_bytes(text + value.at, value.len);
	toml_value_clear(&value);
	return *literal ? 0 : -ENOMEM;
}

static int get_json(const char *text, size_t len, const char *key, char **literal,
	char why[static EDIT_WHY_MAX])
{
	struct docker_config_fault fault = {0};
	int r = docker_config_get(text, len, key, literal, &fault);

	if (r == -ENOENT)
		*literal = NULL;
	else if (r < 0)
		say(why, fault.line, fault.column, fault.message);
	return r == -ENOENT ? 0 : r == -EINVAL ? -EBADMSG : r;
}

int edit_text_get(enum edit_format format, const char *text, size_t len, const char *table,
	const char *key, char **literal, char why[static EDIT_WHY_MAX])
{
	return format == EDIT_JSON ? get_json(text, len, key, literal, why)
				   : get_toml(text, len, table, key, literal, why);
}

static int set_toml(const char *text, size_t len, const char *table, const char *key,
	const char *literal, char **out, size_t *out_len, char why[static EDIT_WHY_MAX])
{
	struct toml_error error = {0};
	int r = literal ? toml_set(text, len, table, key, literal, out, out_len, &error)
			: toml_remove(text, len, table, key, out, out_len, &error);

	if (r == -ENOENT && !literal) {
		*out = copy_bytes(text, len);
		*out_len = len;
		return *out ? 0 : -ENOMEM;
	}
	if (r < 0)
		say(why, error.line, error.column, error.message);
	return r;
}

int edit_text_set(enum edit_format format, const char *text, size_t len, const char *table,
	const char *key, const char *literal, char **out, size_t *out_len,
	char why[static EDIT_WHY_MAX])
{
	struct docker_config_fault fault = {0};
	int r;

	if (format != EDIT_JSON)
		return set_toml(text, len, table, key, literal, out, out_len, why);
	r = docker_config_set(text, len, key, literal, out, out_len, &fault);
	if (r < 0)
		say(why, fault.line, fault.column, fault.message);
	return r == -EINVAL && fault.line > 0 ? -EBADMSG : r;
}
