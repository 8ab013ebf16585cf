/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker_parse.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/util.h"

#include <errno.h>
#include <limits.h>

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

static uint64_t get_count(const cJSON *object, const char *key)
{
	const cJSON *number = get(object, key);

	/* 2^53: below it a double holds every whole number. */
	if (!cJSON_IsNumber(number) || !(number->valuedouble > 0))
		return 0;
	return number->valuedouble < 9007199254740992.0 ? (uint64_t)number->valuedouble : 0;
}

static unsigned int get_small_count(const cJSON *object, const char *key)
{
	return (unsigned int)MIN(get_count(object, key), (uint64_t)UINT_MAX);
}

int docker_parse_version(const char *text, size_t len, struct docker_state *state)
{
	_cleanup_json_ cJSON *object = NULL;
	int r = parse(text, len, &object);

	if (r < 0)
		return r;
	if (*get_text(object, "Version") == '\0' || *get_text(object, "ApiVersion") == '\0')
		return -EBADMSG;
	copy_member(state->version, sizeof(state->version), object, "Version");
	copy_member(state->api_version, sizeof(state->api_version), object, "ApiVersion");
	return 0;
}

int docker_parse_info_version(const char *text, size_t len, struct docker_info *info)
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

/* A list of addresses as words, without the slash that /info puts at the end of each. */
static void join_mirrors(const cJSON *list, char text[static DOCKER_VALUE_MAX])
{
	const cJSON *item;
	size_t used = 0;

	copy_line(text, DOCKER_VALUE_MAX, "none");
	cJSON_ArrayForEach (item, list) {
		const char *mirror = cJSON_GetStringValue(item);
		size_t len = mirror ? strlen(mirror) : 0;

		while (len > 0 && mirror[len - 1] == '/')
			len--;
		if (len == 0 || used >= DOCKER_VALUE_MAX - 1)
			continue;
		used += (size_t)snprintf(text + used, DOCKER_VALUE_MAX - used, "%s%.*s",
			used > 0 ? " " : "", (int)len, mirror);
	}
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
}

int docker_parse_info_rest(const char *text, size_t len, struct docker_info *info)
{
	_cleanup_json_ cJSON *object = NULL;
	int r = parse(text, len, &object);

	if (r < 0)
		return r;
	if (!get(object, "Driver") || !get(object, "DockerRootDir"))
		return -EBADMSG;
	copy_member(info->storage_driver, sizeof(info->storage_driver), object, "Driver");
	copy_member(info->root_dir, sizeof(info->root_dir), object, "DockerRootDir");
	join_mirrors(get(get(object, "RegistryConfig"), "Mirrors"), info->mirrors);
	return 0;
}

static bool is_event(const cJSON *object, const char *type, const char *action)
{
	return streq(get_text(object, "Type"), type) && streq(get_text(object, "Action"), action);
}

/* The attributes of a reload are texts, also where they hold numbers and lists. */
int docker_parse_reload(
	const char *text, size_t len, const char *key, char value[static DOCKER_VALUE_MAX])
{
	_cleanup_json_ cJSON *object = NULL, *list = NULL;
	const cJSON *attributes;
	int r = parse(text, len, &object);

	if (r < 0)
		return r;
	if (!is_event(object, "daemon", "reload"))
		return 0;
	attributes = get(get(object, "Actor"), "Attributes");
	copy_member(value, DOCKER_VALUE_MAX, attributes, key);
	if (streq(key, "registry-mirrors")) {
		list = cJSON_Parse(get_text(attributes, key));
		join_mirrors(list, value);
	}
	return 1;
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

/* In order. /info has each with a slash at the end, a reload's event as the file has it. */
static void take_mirrors(const cJSON *list, struct docker_state *state)
{
	const cJSON *item;

	state->n_mirrors = 0;
	memset(state->mirrors, 0, sizeof(state->mirrors));
	cJSON_ArrayForEach (item, list) {
		char *mirror = state->mirrors[state->n_mirrors];

		if (!cJSON_IsString(item))
			continue;
		copy_line(mirror, DOCKER_NAME_MAX, item->valuestring);
		for (size_t n = strlen(mirror); n > 0 && mirror[n - 1] == '/'; n--)
			mirror[n - 1] = '\0';
		if (++state->n_mirrors == DOCKER_MIRRORS_MAX)
			return;
	}
}

/* DriverStatus is a list of pairs; only the image store of containerd says "driver-type". */
static bool is_containerd_store(const cJSON *info)
{
	const cJSON *pair;

	cJSON_ArrayForEach (pair, get(info, "DriverStatus")) {
		const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 0));
		const char *value = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 1));

		if (name && value && streq(name, "driver-type") &&
			starts_with(value, "io.containerd.snapshotter."))
			return true;
	}
	return false;
}

int docker_parse_info(const char *text, size_t len, struct docker_state *state)
{
	_cleanup_json_ cJSON *info = NULL;
	int r = parse(text, len, &info);

	if (r < 0)
		return r;
	if (!get(info, "Driver") || !get(info, "DockerRootDir"))
		return -EBADMSG;
	copy_member(state->storage_driver, sizeof(state->storage_driver), info, "Driver");
	copy_member(state->root_dir, sizeof(state->root_dir), info, "DockerRootDir");
	if (get(info, "Containerd"))
		copy_member(state->containerd, sizeof(state->containerd), get(info, "Containerd"),
			"Address");
	state->containerd_store = is_containerd_store(info);
	state->live_restore = cJSON_IsTrue(get(info, "LiveRestoreEnabled"));
	state->containers = get_small_count(info, "Containers");
	state->running = get_small_count(info, "ContainersRunning");
	state->images = get_small_count(info, "Images");
	take_mirrors(get(get(info, "RegistryConfig"), "Mirrors"), state);
	return 0;
}

/* The attributes of a reload are texts, also where they hold numbers and lists. */
static void take_reload(const cJSON *attributes, struct docker_state *state)
{
	const char *mirrors = get_text(attributes, "registry-mirrors");
	const char *live_restore = get_text(attributes, "live-restore");
	_cleanup_json_ cJSON *list = cJSON_Parse(mirrors);
	uint64_t count;

	state->reloads++;
	if (cJSON_IsArray(list))
		take_mirrors(list, state);
	if (*live_restore)
		state->live_restore = streq(live_restore, "true");
	state->source = DOCKER_SOURCE_NONE;
	if (parse_count(get_text(attributes, "max-concurrent-downloads"), &count) == 0 &&
		count <= INT_MAX) {
		state->max_downloads = (unsigned int)count;
		state->source = DOCKER_SOURCE_RELOAD;
	}
}

static bool find_kind(const char *type, const char *action, enum docker_event_kind *kind)
{
	static const struct {
		const char *type, *action;
		enum docker_event_kind kind;
	} kinds[] = {
		{"daemon", "reload", DOCKER_EVENT_RELOAD},
		{"image", "pull", DOCKER_EVENT_IMAGE_PULL},
		{"image", "load", DOCKER_EVENT_IMAGE_LOAD},
		{"image", "import", DOCKER_EVENT_IMAGE_OTHER},
		{"image", "tag", DOCKER_EVENT_IMAGE_OTHER},
		{"image", "untag", DOCKER_EVENT_IMAGE_OTHER},
		{"image", "delete", DOCKER_EVENT_IMAGE_OTHER},
		{"container", "start", DOCKER_EVENT_CONTAINER_START},
		{"container", "destroy", DOCKER_EVENT_CONTAINER_GONE},
		{"container", "rename", DOCKER_EVENT_CONTAINER_RENAMED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!streq(kinds[i].type, type) || !streq(kinds[i].action, action))
			continue;
		*kind = kinds[i].kind;
		return true;
	}
	return false;
}

int docker_parse_event(
	const char *text, size_t len, struct docker_event *event, struct docker_state *state)
{
	_cleanup_json_ cJSON *object = NULL;
	const cJSON *actor;
	struct docker_event found = {0};
	int r = parse(text, len, &object);

	if (r < 0)
		return r;
	if (!find_kind(get_text(object, "Type"), get_text(object, "Action"), &found.kind))
		return 0;
	actor = get(object, "Actor");
	copy_member(found.id, sizeof(found.id), actor, "ID");
	copy_member(found.name, sizeof(found.name), get(actor, "Attributes"), "name");
	/* A pull's actor is the whole reference, its name is without the tag. */
	if (found.kind == DOCKER_EVENT_IMAGE_PULL)
		copy_member(found.name, sizeof(found.name), actor, "ID");
	found.when_us = get_count(object, "time") * USEC_PER_SEC;
	if (found.kind == DOCKER_EVENT_RELOAD)
		take_reload(get(actor, "Attributes"), state);
	*event = found;
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
	copy_member(container->image, sizeof(container->image), object, "Image");
	labels = get(object, "Labels");
#define TAKE(member, label) copy_member(container->member, sizeof(container->member), labels, label)
	TAKE(pod_namespace, "io.kubernetes.pod.namespace");
	TAKE(pod_name, "io.kubernetes.pod.name");
	TAKE(pod_uid, "io.kubernetes.pod.uid");
	TAKE(container_name, "io.kubernetes.container.name");
	TAKE(compose_project, "com.docker.compose.project");
	TAKE(compose_service, "com.docker.compose.service");
#undef TAKE
	return 0;
}

/* An image without a name is listed as "<none>:<none>" by older daemons. */
static unsigned int take_names(const cJSON *list, struct docker_image *image)
{
	const cJSON *item;
	unsigned int n = 0;

	cJSON_ArrayForEach (item, list) {
		if (!cJSON_IsString(item) || starts_with(item->valuestring, "<none>"))
			continue;
		if (*image->name == '\0')
			copy_line(image->name, sizeof(image->name), item->valuestring);
		n++;
	}
	return n;
}

int docker_parse_image(const char *text, size_t len, struct docker_image *image)
{
	_cleanup_json_ cJSON *object = NULL;
	int r = parse(text, len, &object);

	if (r < 0)
		return r;
	if (*get_text(object, "Id") == '\0')
		return -EBADMSG;
	*image = (struct docker_image){.size = get_count(object, "Size"),
		.created_us = get_count(object, "Created") * USEC_PER_SEC};
	copy_member(image->id, sizeof(image->id), object, "Id");
	image->n_names = take_names(get(object, "RepoTags"), image);
	image->n_names += take_names(get(object, "RepoDigests"), image);
	return 0;
}

/* The daemon has words only, its registries' among them: registry/client errors, and the kernel's.
 */
static int error_of(const char *message)
{
	static const struct {
		const char *words;
		int error;
	} table[] = {
		{"toomanyrequests", -EDQUOT},
		{"429 Too Many Requests", -EDQUOT},
		{"no space left on device", -ENOSPC},
		{"disk quota exceeded", -ENOSPC},
		{"pull access denied", -EACCES},
		{"unauthorized", -EACCES},
		{"no basic auth credentials", -EACCES},
		{"denied:", -EACCES},
		{"manifest unknown", -ENOENT},
		{"not found", -ENOENT},
		{"no such image", -ENOENT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (strcasestr(message, table[i].words))
			return table[i].error;
	return -EIO;
}

#define MESSAGE_MAX 8192 /* bytes of one that are looked at */

/*
 * A failed pull quotes URLs: their secrets go before the text is cut, so that none is cut in two.
 * The cause may stand behind the cut.
 */
static int take_why(char why[static DOCKER_WHY_MAX], const char *message)
{
	_cleanup_free_ char *text = strndup(message, MESSAGE_MAX);

	if (!text)
		return -ENOMEM;
	hide_secrets(text);
	copy_line(why, DOCKER_WHY_MAX, text);
	return error_of(text);
}

int docker_parse_refusal(const char *body, char why[static DOCKER_WHY_MAX])
{
	_cleanup_json_ cJSON *object = cJSON_Parse(body);
	const char *message = get_text(object, "message");

	return take_why(why, *message ? message : body);
}

int docker_parse_progress(const char *text, size_t len, struct docker_progress *progress,
	char why[static DOCKER_WHY_MAX])
{
	_cleanup_json_ cJSON *object = NULL;
	struct docker_progress found = {0};
	const char *error;
	int r = parse(text, len, &object);

	if (r < 0)
		return r;
	error = get_text(get(object, "errorDetail"), "message");
	if (*error == '\0')
		error = get_text(object, "error");
	if (*error || get(object, "error") || get(object, "errorDetail"))
		return take_why(why, *error ? error : "an error without a message");
	copy_member(found.id, sizeof(found.id), object, "id");
	copy_member(found.status, sizeof(found.status), object, "status");
	found.current = get_count(get(object, "progressDetail"), "current");
	found.total = get_count(get(object, "progressDetail"), "total");
	*progress = found;
	return 0;
}
