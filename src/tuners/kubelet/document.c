/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"

#include "base/util.h"

#include <cjson/cJSON.h>
#include <stdio.h>

#define ADVICES_MAX 4

static bool add_value(cJSON *values, const struct kubelet_value *value, enum kubelet_field which)
{
	cJSON *object = cJSON_AddObjectToObject(values, kubelet_field_name(which));
	char from[SETTING_PATH_MAX + 16] = "default";

	if (value->origin == KUBELET_FLAG)
		copy_text(from, sizeof(from), "flag");
	else if (value->origin == KUBELET_FILE)
		snprintf(from, sizeof(from), "%s:%u", value->file, value->line);
	return object && cJSON_AddStringToObject(object, "value", value->text) &&
	       cJSON_AddStringToObject(object, "from", from);
}

static bool add_values(cJSON *document, const struct kubelet_seen *seen)
{
	cJSON *values = cJSON_AddObjectToObject(document, "values");

	for (int i = 0; values && i < KUBELET_FIELDS; i++)
		if (!add_value(values, &seen->values.field[i], (enum kubelet_field)i))
			return false;
	return values;
}

static bool add_advice(cJSON *document, const struct kubelet_seen *seen)
{
	char advices[ADVICES_MAX][CONDITION_MESSAGE_MAX];
	size_t n = kubelet_advise(seen, advices, ADVICES_MAX);
	cJSON *list = cJSON_AddArrayToObject(document, "advice");

	for (size_t i = 0; list && i < n; i++)
		if (!cJSON_AddItemToArray(list, cJSON_CreateString(advices[i])))
			return false;
	return list;
}

cJSON *kubelet_document(const struct kubelet_seen *seen)
{
	static const char *const presences[] = {"absent", "stopped", "running"};
	cJSON *document = cJSON_CreateObject();
	bool good = document &&
		    cJSON_AddStringToObject(document, "kubelet", presences[seen->presence]) &&
		    cJSON_AddStringToObject(document, "config", seen->config) &&
		    cJSON_AddStringToObject(document, "config_dir", seen->config_dir);

	if (good && seen->presence != KUBELET_ABSENT && seen->why[0] == '\0')
		good = add_values(document, seen) && add_advice(document, seen);
	if (good)
		return document;
	cJSON_Delete(document);
	return NULL;
}
