/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/files_json.h"

#include "base/util.h"

#include <errno.h>

static const char *const formats[] = {
	[EDIT_TOML] = "toml", [EDIT_JSON] = "json", [EDIT_OWN] = "own"};
static const char *const activations[] = {[ACTIVATE_NOTHING] = "nothing",
	[ACTIVATE_RELOAD] = "docker-reload",
	[ACTIVATE_RESTART] = "containerd-restart"};
static const char *const policies[] = {
	[RESTART_NEVER] = "never", [RESTART_WHEN_IDLE] = "when-idle", [RESTART_NOW] = "now"};

/* The index of a name in a table, or -1. */
static int index_of(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; name && i < n; i++)
		if (streq(names[i], name))
			return (int)i;
	return -1;
}

const char *edit_format_name(enum edit_format format)
{
	return formats[format];
}

bool edit_format_by_name(const char *name, enum edit_format *format)
{
	int i = index_of(formats, ARRAY_SIZE(formats), name);

	if (i < 0)
		return false;
	*format = (enum edit_format)i;
	return true;
}

/* Texts as they are: base/json.h is for people, and cuts what is long. */
static bool put(cJSON *object, const char *name, const char *text)
{
	return !text || cJSON_AddStringToObject(object, name, text);
}

static bool print_key(cJSON *keys, const struct file_key *key)
{
	cJSON *object = cJSON_CreateObject();

	if (!object || !cJSON_AddItemToArray(keys, object)) {
		cJSON_Delete(object);
		return false;
	}
	return put(object, "name", key->name) && put(object, "table", key->table) &&
	       put(object, "key", key->key) && put(object, "original", key->original) &&
	       put(object, "before", key->before) && put(object, "target", key->target);
}

static bool print_keys(cJSON *object, const struct file_note *note)
{
	cJSON *keys = cJSON_AddArrayToObject(object, "keys");

	for (size_t i = 0; keys && i < note->n_keys; i++)
		if (!print_key(keys, &note->keys[i]))
			return false;
	return keys;
}

static bool print_ours(cJSON *object, const struct file_note *note)
{
	const char *const hashes[] = {note->ours[0], note->ours[1]};
	cJSON *ours = cJSON_CreateStringArray(hashes, ARRAY_SIZE(hashes));

	if (ours && cJSON_AddItemToObject(object, "ours", ours))
		return true;
	cJSON_Delete(ours);
	return false;
}

static bool print_service(cJSON *object, const struct service *service)
{
	cJSON *inner = cJSON_AddObjectToObject(object, "service");

	return inner && put(inner, "activation", activations[service->activation]) &&
	       put(inner, "restart", policies[service->restart]) &&
	       put(inner, "unit", service->unit) && put(inner, "socket", service->socket) &&
	       put(inner, "config", service->config) && put(inner, "pid_file", service->pid_file);
}

cJSON *file_note_print(const struct file_note *note)
{
	cJSON *object = cJSON_CreateObject();

	if (object && put(object, "path", note->path) && put(object, "tuner", note->tuner) &&
		put(object, "format", formats[note->format]) &&
		cJSON_AddNumberToObject(object, "directories", note->directories) &&
		put(object, "original", note->original) && print_ours(object, note) &&
		print_service(object, &note->service) && print_keys(object, note))
		return object;
	cJSON_Delete(object);
	return NULL;
}

static const char *text_of(const cJSON *object, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static bool take(const cJSON *object, const char *name, char *out, size_t size)
{
	const char *text = text_of(object, name);

	return text && copy_text(out, size, text);
}

static bool take_service(const cJSON *object, struct service *service)
{
	int activation =
		index_of(activations, ARRAY_SIZE(activations), text_of(object, "activation"));
	int policy = index_of(policies, ARRAY_SIZE(policies), text_of(object, "restart"));

	if (activation < 0 || policy < 0 ||
		!take(object, "unit", service->unit, sizeof(service->unit)) ||
		!take(object, "socket", service->socket, sizeof(service->socket)) ||
		!take(object, "config", service->config, sizeof(service->config)) ||
		!take(object, "pid_file", service->pid_file, sizeof(service->pid_file)))
		return false;
	service->activation = (enum activation)activation;
	service->restart = (enum restart_policy)policy;
	return true;
}

static int take_key(const cJSON *object, struct file_note *note)
{
	struct place place;
	char name[SETTING_NAME_MAX];
	struct file_key *key;

	if (!take(object, "name", name, sizeof(name)) ||
		!take(object, "table", place.table, sizeof(place.table)) ||
		!take(object, "key", place.key, sizeof(place.key)))
		return -EBADMSG;
	key = file_note_add_key(note, name, &place);
	if (!key || replace_text(&key->original, text_of(object, "original")) < 0 ||
		replace_text(&key->before, text_of(object, "before")) < 0 ||
		replace_text(&key->target, text_of(object, "target")) < 0)
		return -ENOMEM;
	return 0;
}

static bool take_ours(const cJSON *array, struct file_note *note)
{
	const cJSON *item;
	size_t n = 0;

	cJSON_ArrayForEach (item, array) {
		const char *text = cJSON_GetStringValue(item);

		if (!text || n == ARRAY_SIZE(note->ours) ||
			!copy_text(note->ours[n++], HASH_TEXT_MAX, text))
			return false;
	}
	return true;
}

/* The name of a file in files/: nothing else may become a part of a path. */
static bool is_hash(const char *text)
{
	return streq(text, FILE_HASH_NONE) ||
	       (strlen(text) == HASH_TEXT_MAX - 1 &&
		       strspn(text, "0123456789abcdef") == HASH_TEXT_MAX - 1);
}

int file_note_parse(const cJSON *object, struct file_note *note)
{
	const cJSON *directories = cJSON_GetObjectItemCaseSensitive(object, "directories");
	const cJSON *item;
	int r = 0;

	if (!take(object, "path", note->path, sizeof(note->path)) || note->path[0] != '/' ||
		!take(object, "tuner", note->tuner, sizeof(note->tuner)) ||
		!edit_format_by_name(text_of(object, "format"), &note->format) ||
		!cJSON_IsNumber(directories) || directories->valuedouble < 0 ||
		directories->valuedouble > 64 ||
		!take(object, "original", note->original, sizeof(note->original)) ||
		!is_hash(note->original) ||
		!take_ours(cJSON_GetObjectItemCaseSensitive(object, "ours"), note) ||
		!take_service(cJSON_GetObjectItemCaseSensitive(object, "service"), &note->service))
		return -EBADMSG;
	note->directories = (unsigned)directories->valuedouble;
	cJSON_ArrayForEach (item, cJSON_GetObjectItemCaseSensitive(object, "keys")) {
		r = take_key(item, note);
		if (r < 0)
			return r;
	}
	return 0;
}
