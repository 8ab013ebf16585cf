/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/changes.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/util.h"
#include "cli/cli.h"
#include "tuners/table.h"

#include <stdio.h>

#include <cjson/cJSON.h>

static const char *text_of(const cJSON *object, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static int name_width(const cJSON *changes)
{
	const cJSON *change;
	size_t width = 0;

	cJSON_ArrayForEach (change, changes) {
		const char *name = text_of(change, "name");

		width = MAX(width, name ? strlen(name) : 0);
	}
	return (int)MIN(width, 60);
}

/* A value may be empty; a blank would hide it. */
static const char *shown(const char *value)
{
	return value && value[0] ? value : "\"\"";
}

/* 1 when the change failed. */
static int print_change(const cJSON *change, int width)
{
	const char *name = text_of(change, "name");
	const char *old = text_of(change, "old");
	const char *new = text_of(change, "new");
	const char *error = text_of(change, "error");
	const char *reason = text_of(change, "reason");

	if (!name || !reason)
		return 0;
	/* It stands where it should already: a restore passes over much of this kind. */
	if (!error && old && new &&streq(old, new) && streq(reason, "original"))
		return 0;
	if (error)
		cli_fail(name, "not set to %s: %s", shown(new), error);
	else if (!new)
		printf("%-*s  %s left  (%s)\n", width, name, shown(old), reason);
	else
		printf("%-*s  %s -> %s  (%s)\n", width, name, shown(old), shown(new), reason);
	return error != NULL;
}

static bool said_before(const cJSON *change, const char *reason)
{
	for (change = change->prev; change && change->next; change = change->prev)
		if (streq(text_of(change, "reason"), reason))
			return true;
	return false;
}

static void print_legend(const cJSON *changes)
{
	const cJSON *change;

	cJSON_ArrayForEach (change, changes) {
		const char *reason = text_of(change, "reason");
		const char *help = reason ? reason_help(reason) : NULL;

		if (help && !said_before(change, reason))
			printf("  %s: %s\n", reason, help);
	}
}

int print_changes(const char *json)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = cJSON_Parse(json);
	const cJSON *changes = cJSON_GetObjectItemCaseSensitive(root, "changes");
	const cJSON *change;
	int width, failed = 0;

	if (!cJSON_IsArray(changes))
		return -1;
	json_make_printable(root);
	width = name_width(changes);
	cJSON_ArrayForEach (change, changes)
		failed += print_change(change, width);
	print_legend(changes);
	return failed;
}
