/* SPDX-License-Identifier: Apache-2.0 */
#include "report/plan_json.h"

#include "base/cleanup.h"
#include "base/json.h"

#include <errno.h>
#include <string.h>

#include <cjson/cJSON.h>

static void add_text_or_null(cJSON *object, const char *name, const char *text)
{
	if (text && text[0])
		cJSON_AddStringToObject(object, name, text);
	else
		cJSON_AddNullToObject(object, name);
}

static cJSON *print_change(const struct change *change, bool done)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "name", change->name);
	cJSON_AddStringToObject(object, "tuner", change->tuner);
	cJSON_AddStringToObject(object, "old", change->old);
	if (change->left)
		cJSON_AddNullToObject(object, "new");
	else
		cJSON_AddStringToObject(object, "new", change->new);
	add_text_or_null(object, "actual", done ? change->actual : NULL);
	cJSON_AddStringToObject(object, "reason", change->reason);
	if (done && change->error < 0)
		add_text_or_null(
			object, "error", change->why ? change->why : strerror(-change->error));
	else
		cJSON_AddNullToObject(object, "error");
	return object;
}

int report_plan(const struct plan *plan, bool done, char **ret)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = cJSON_CreateObject();
	cJSON *changes = cJSON_AddArrayToObject(root, "changes");
	size_t failed = 0;

	for (size_t i = 0; i < plan->n; i++) {
		cJSON_AddItemToArray(changes, print_change(&plan->changes[i], done));
		failed += done && plan->changes[i].error < 0;
	}
	cJSON_AddNumberToObject(root, "failed", (double)failed);
	*ret = cJSON_Print(root);
	return *ret ? 0 : -ENOMEM;
}
