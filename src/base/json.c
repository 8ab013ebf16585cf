/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/util.h"

#include <errno.h>

/* The longest text of the model, a message of 320 bytes, if each of them had to be replaced. */
#define CLEAN_MAX 1024

static cJSON *add(struct json *json, cJSON *parent, const char *key, cJSON *item)
{
	if (item && cJSON_AddItemToObjectCS(parent, key, item))
		return item;
	cJSON_Delete(item);
	json->failed = true;
	return NULL;
}

void json_begin(struct json *json)
{
	*json = (struct json){.root = cJSON_CreateObject()};
	json->failed = !json->root;
}

cJSON *json_object(struct json *json, cJSON *parent, const char *key)
{
	return add(json, parent, key, cJSON_CreateObject());
}

cJSON *json_array(struct json *json, cJSON *parent, const char *key)
{
	return add(json, parent, key, cJSON_CreateArray());
}

cJSON *json_append(struct json *json, cJSON *array)
{
	cJSON *item = cJSON_CreateObject();

	if (item && cJSON_AddItemToArray(array, item))
		return item;
	cJSON_Delete(item);
	json->failed = true;
	return NULL;
}

void json_text(struct json *json, cJSON *parent, const char *key, const char *text)
{
	char clean[CLEAN_MAX];

	utf8_copy(clean, sizeof(clean), text ? text : "");
	add(json, parent, key, cJSON_CreateString(clean));
}

void json_number(struct json *json, cJSON *parent, const char *key, double number)
{
	add(json, parent, key, cJSON_CreateNumber(number));
}

void json_numbers(struct json *json, cJSON *parent, const struct json_number *numbers)
{
	for (; numbers->key; numbers++)
		json_number(json, parent, numbers->key, numbers->number);
}

void json_bool(struct json *json, cJSON *parent, const char *key, bool value)
{
	add(json, parent, key, cJSON_CreateBool(value));
}

void json_null(struct json *json, cJSON *parent, const char *key)
{
	add(json, parent, key, cJSON_CreateNull());
}

void json_time(struct json *json, cJSON *parent, const char *key, uint64_t realtime_us)
{
	char text[TIME_TEXT_MAX];

	if (realtime_us == 0) {
		json_null(json, parent, key);
		return;
	}
	time_text(realtime_us, text);
	json_text(json, parent, key, text);
}

void json_adopt(struct json *json, cJSON *parent, const char *key, cJSON *item)
{
	add(json, parent, key, item);
}

cJSON *json_take(struct json *json)
{
	if (!json->failed)
		return json->root;
	cJSON_Delete(json->root);
	return NULL;
}

int json_end(struct json *json, bool pretty, char **ret, size_t *len)
{
	_cleanup_free_ char *printed = NULL;
	int n = -1;

	if (!json->failed)
		printed = pretty ? cJSON_Print(json->root) : cJSON_PrintUnformatted(json->root);
	cJSON_Delete(json->root);
	json->root = NULL;
	if (printed)
		n = asprintf(ret, "%s\n", printed);
	if (n > 0 && len)
		*len = (size_t)n;
	return n < 0 ? -ENOMEM : 0;
}

const cJSON *json_at(const cJSON *object, const char *path)
{
	while (object && *path) {
		char key[64];
		size_t len = strcspn(path, "/");

		snprintf(key, sizeof(key), "%.*s", (int)len, path);
		if (cJSON_IsArray(object))
			object = cJSON_GetArrayItem(object, atoi(key));
		else
			object = cJSON_GetObjectItemCaseSensitive(object, key);
		path += len + (path[len] == '/');
	}
	return object;
}

const char *json_text_at(const cJSON *object, const char *path)
{
	const char *text = cJSON_GetStringValue(json_at(object, path));

	return text ? text : "";
}

double json_number_at(const cJSON *object, const char *path)
{
	const cJSON *item = json_at(object, path);

	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

void json_make_printable(cJSON *item)
{
	for (; item; item = item->next) {
		if (item->valuestring)
			text_make_printable(item->valuestring);
		json_make_printable(item->child);
	}
}
