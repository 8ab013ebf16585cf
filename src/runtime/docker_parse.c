/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker_parse.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/util.h"
#include "runtime/registry.h"

#include <errno.h>

#include <cjson/cJSON.h>

DEFINE_CLEANUP(cJSON, cJSON_Delete)

#define _cleanup_json_ _cleanup_(cleanup_cJSON_Delete)

static int parse(const char *text, size_t len, cJSON **object)
{
	cJSON *parsed = cJSON_ParseWithLength(text, len);

	if (!cJSON_IsObject(parsed)) {
		cJSON_Delete(parsed);
		return -EBADMSG;
	}
	*object = parsed;
	return 0;
}

static const cJSON *get(const cJSON *object, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *get_text(const cJSON *object, const char *key)
{
	const char *text = cJSON_GetStringValue(get(object, key));

	return text ? text : "";
}

/* Control characters would end a log's line or move a terminal. */
static void copy_line(char *dst, size_t size, const char *src)
{
	utf8_copy(dst, size, src);
	for (char *p = dst; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
}

static void copy_member(char *dst, size_t size, const cJSON *object, const char *key)
{
	copy_line(dst, size, get_text(object, key));
}

int docker_parse_version(const char *text, size_t len, struct docker_info *info)
{
	_cleanup_json_ cJSON *object = NULL;
	int r = parse(text, len, &object);

	if (r < 0)
		return r;
	if (*get_text(object, "Version") == '\0' || *get_text(object, "ApiVersion") == '\0')
		return -EBADMSG;
	copy_member(info->version, sizeof(info->version), object, "Version");
	return 0;
}

/* A list of addresses as words. /info puts a slash at the end of each, a reload's event does not.
 */
static int join_mirrors(const cJSON *list, char value[static DOCKER_VALUE_MAX])
{
	char *words = NULL;
	size_t used = 0;
	const cJSON *item;
	FILE *out = open_memstream(&words, &used);

	if (!out)
		return -ENOMEM;
	cJSON_ArrayForEach (item, list) {
		const char *mirror = cJSON_GetStringValue(item);
		size_t len = mirror ? strlen(mirror) : 0;

		while (len > 0 && mirror[len - 1] == '/')
			len--;
		if (len > 0)
			fprintf(out, "%s%.*s", ftell(out) > 0 ? " " : "", (int)len, mirror);
	}
	if (fclose(out) != 0)
		return -ENOMEM;
	for (char *p = words; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	registry_shorten_list(used > 0 ? words : "none", value, DOCKER_VALUE_MAX);
	free(words);
	return 0;
}

int docker_parse_info(const char *text, size_t len, struct docker_info *info)
{
	_cleanup_json_ cJSON *object = NULL;
	int r = parse(text, len, &object);

	if (r < 0)
		return r;
	if (!get(object, "Driver") || !get(object, "DockerRootDir"))
		return -EBADMSG;
	copy_member(info->storage_driver, sizeof(info->storage_driver), object, "Driver");
	copy_member(info->root_dir, sizeof(info->root_dir), object, "DockerRootDir");
	return join_mirrors(get(get(object, "RegistryConfig"), "Mirrors"), info->mirrors);
}

static bool is_event(const cJSON *object, const char *type, const char *action)
{
	return streq(get_text(object, "Type"), type) && streq(get_text(object, "Action"), action);
}

/* The attributes of a reload are texts, also where they hold numbers and lists. */
int docker_parse_reload(const char *text, size_t len, const char *key,
	char value[static DOCKER_VALUE_MAX], uint64_t *when_us)
{
	_cleanup_json_ cJSON *object = NULL, *list = NULL;
	const cJSON *attributes, *nano;
	int r = parse(text, len, &object);

	if (r < 0)
		return r;
	if (!is_event(object, "daemon", "reload"))
		return 0;
	nano = get(object, "timeNano");
	*when_us = cJSON_IsNumber(nano) && nano->valuedouble > 0
			   ? (uint64_t)(nano->valuedouble / 1000)
			   : 0;
	attributes = get(get(object, "Actor"), "Attributes");
	copy_member(value, DOCKER_VALUE_MAX, attributes, key);
	if (streq(key, "registry-mirrors")) {
		list = cJSON_Parse(get_text(attributes, key));
		r = join_mirrors(list, value);
	}
	return r < 0 ? r : 1;
}

/* The actor of a pull is the whole reference, its name attribute lacks the tag. */
int docker_parse_pull(const char *text, size_t len, char name[static DOCKER_NAME_MAX])
{
	_cleanup_json_ cJSON *object = NULL;
	int r = parse(text, len, &object);

	if (r < 0)
		return r;
	if (!is_event(object, "image", "pull"))
		return 0;
	copy_member(name, DOCKER_NAME_MAX, get(object, "Actor"), "ID");
	return 1;
}

int docker_parse_container(const char *text, size_t len, struct docker_container *container)
{
	_cleanup_json_ cJSON *object = NULL;
	const cJSON *labels;
	const char *name;
	int r = parse(text, len, &object);

	if (r < 0)
		return r;
	if (*get_text(object, "Id") == '\0')
		return -EBADMSG;
	*container =
		(struct docker_container){.running = streq(get_text(object, "State"), "running")};
	name = cJSON_GetStringValue(cJSON_GetArrayItem(get(object, "Names"), 0));
	if (name)
		copy_line(container->name, sizeof(container->name), name + (*name == '/'));
	copy_member(container->id, sizeof(container->id), object, "Id");
	labels = get(object, "Labels");
	copy_member(container->pod_namespace, sizeof(container->pod_namespace), labels,
		"io.kubernetes.pod.namespace");
	copy_member(
		container->pod_name, sizeof(container->pod_name), labels, "io.kubernetes.pod.name");
	copy_member(
		container->pod_uid, sizeof(container->pod_uid), labels, "io.kubernetes.pod.uid");
	return 0;
}

#define MESSAGE_MAX 8192 /* bytes of one that are looked at */

void docker_parse_refusal(const char *body, char why[static DOCKER_ERROR_MAX])
{
	_cleanup_json_ cJSON *object = cJSON_Parse(body);
	const char *message = get_text(object, "message");
	_cleanup_free_ char *text = strndup(*message ? message : body, MESSAGE_MAX);

	/* Secrets go before the text is cut, so that none is cut in two. */
	if (text)
		hide_secrets(text);
	copy_line(why, DOCKER_ERROR_MAX, text ? text : "");
}
