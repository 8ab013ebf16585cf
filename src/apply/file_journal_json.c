/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_journal.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>

#include <cjson/cJSON.h>
#include <zlib.h>

/*
 * {"schema": 3, "checksum": "crc32:0badc0de", "body": {...}}: the checksum is over the body as this
 * library prints it without white space.
 */
#define SCHEMA 3

#define SECONDS_MAX 1e12 /* the year 33658: times a million it is still a number of ours */

DEFINE_CLEANUP(cJSON, cJSON_Delete)

static const char *const formats[] = {
	[EDIT_TOML] = "toml", [EDIT_JSON] = "json", [EDIT_OWN] = "own", NULL};
static const char *const activations[] = {[ACTIVATE_NOTHING] = "nothing",
	[ACTIVATE_RELOAD] = "reload",
	[ACTIVATE_RESTART] = "restart",
	NULL};
static const char *const policies[] = {
	[RESTART_NEVER] = "never", [RESTART_WHEN_IDLE] = "when-idle", [RESTART_NOW] = "now", NULL};
static const char *const verifiers[] = {[VERIFY_NOTHING] = "nothing",
	[VERIFY_CONTAINERD_DUMP] = "containerd",
	[VERIFY_DOCKERD] = "dockerd",
	NULL};

/* A member of a struct: text, or, with choices, an enum. */
struct field {
	const char *name;
	size_t offset, size;
	const char *const *choices;
};

#define TEXT(type, name, member)                                                \
	{                                                                       \
		name, offsetof(type, member), sizeof(((type *)0)->member), NULL \
	}
#define CHOICE(type, name, member, choices)              \
	{                                                \
		name, offsetof(type, member), 0, choices \
	}

static const struct field key_fields[] = {
	TEXT(struct file_record, "name", name),
	TEXT(struct file_record, "table", target.table),
	TEXT(struct file_record, "key", target.key),
	TEXT(struct file_record, "in_force_originally", original),
	TEXT(struct file_record, "on_disk_originally", on_disk),
	TEXT(struct file_record, "value_before", before),
	TEXT(struct file_record, "wanted", wanted),
	TEXT(struct file_record, "failed", failed),
	{NULL, 0, 0, NULL},
};

static const struct field service_fields[] = {
	CHOICE(struct service, "activation", activation, activations),
	CHOICE(struct service, "restart", restart, policies),
	CHOICE(struct service, "verifier", verifier, verifiers),
	TEXT(struct service, "unit", unit),
	TEXT(struct service, "socket", socket),
	TEXT(struct service, "binary", binary),
	TEXT(struct service, "version", version),
	TEXT(struct service, "config", config),
	TEXT(struct service, "directory", directory),
	TEXT(struct service, "program", program),
	TEXT(struct service, "pid_file", pid_file),
	{NULL, 0, 0, NULL},
};

static const struct field note_fields[] = {
	TEXT(struct file_note, "path", path),
	TEXT(struct file_note, "tuner", tuner),
	CHOICE(struct file_note, "format", format, formats),
	TEXT(struct file_note, "original", original),
	TEXT(struct file_note, "ours", ours[0]),
	TEXT(struct file_note, "ours_next", ours[1]),
	{NULL, 0, 0, NULL},
};

/* Texts as they are: base/json.h is for people, and cuts what is long. */
static bool print_fields(cJSON *object, const struct field *fields, const void *from)
{
	for (const struct field *field = fields; field->name; field++) {
		const char *member = (const char *)from + field->offset;

		if (field->choices)
			member = field->choices[*(const unsigned *)(const void *)member];
		if (!cJSON_AddStringToObject(object, field->name, member))
			return false;
	}
	return true;
}

static const char *text_of(const cJSON *object, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static bool take_fields(const cJSON *object, const struct field *fields, void *to)
{
	for (const struct field *field = fields; field->name; field++) {
		const char *text = text_of(object, field->name);
		void *member = (char *)to + field->offset;
		unsigned choice = 0;

		if (!text)
			return false;
		if (!field->choices) {
			if (!copy_text(member, field->size, text))
				return false;
			continue;
		}
		while (field->choices[choice] && !streq(field->choices[choice], text))
			choice++;
		if (!field->choices[choice])
			return false;
		*(unsigned *)member = choice;
	}
	return true;
}

/* An object appended to an array; NULL without memory. */
static cJSON *add_object(cJSON *array)
{
	cJSON *object = array ? cJSON_CreateObject() : NULL;

	if (object && cJSON_AddItemToArray(array, object))
		return object;
	cJSON_Delete(object);
	return NULL;
}

static bool print_note(cJSON *files, const struct file_note *note)
{
	cJSON *object = add_object(files);
	cJSON *service = object ? cJSON_AddObjectToObject(object, "service") : NULL;
	cJSON *keys = object ? cJSON_AddArrayToObject(object, "keys") : NULL;

	if (!service || !keys || !print_fields(object, note_fields, note) ||
		!cJSON_AddNumberToObject(object, "directories", note->directories) ||
		!print_fields(service, service_fields, &note->service))
		return false;
	for (size_t i = 0; i < note->n_keys; i++) {
		cJSON *key = add_object(keys);

		if (!key || !print_fields(key, key_fields, &note->keys[i]))
			return false;
	}
	return true;
}

static bool print_unit(cJSON *restarts, const struct unit_mark *mark)
{
	cJSON *object = add_object(restarts);
	cJSON *tried = object ? cJSON_AddArrayToObject(object, "tried") : NULL;

	if (!tried || !cJSON_AddStringToObject(object, "unit", mark->unit) ||
		!cJSON_AddNumberToObject(object, "at", (double)mark->at_s) ||
		!cJSON_AddBoolToObject(object, "open", mark->open) ||
		!cJSON_AddNumberToObject(object, "answered", mark->answered))
		return false;
	for (size_t i = 0; i < mark->n_tried; i++) {
		cJSON *one = add_object(tried);

		if (!one || !cJSON_AddStringToObject(one, "name", mark->tried[i].name) ||
			!cJSON_AddStringToObject(one, "value", mark->tried[i].value) ||
			!cJSON_AddBoolToObject(one, "last", mark->tried[i].last))
			return false;
	}
	return true;
}

/* Half of it would be worse than nothing: false without memory. */
static bool print_body(const struct file_journal *journal, cJSON *body)
{
	cJSON *files = cJSON_AddArrayToObject(body, "files");
	cJSON *released = cJSON_AddArrayToObject(body, "released");
	cJSON *restarts = cJSON_AddArrayToObject(body, "restarts");

	for (size_t i = 0; i < journal->n_files; i++)
		if (!print_note(files, &journal->files[i]))
			return false;
	for (size_t i = 0; i < journal->n_released; i++) {
		cJSON *object = add_object(released);

		if (!object ||
			!cJSON_AddStringToObject(object, "tuner", journal->released[i].tuner) ||
			!cJSON_AddNumberToObject(
				object, "since", (double)journal->released[i].since_s))
			return false;
	}
	for (size_t i = 0; i < journal->n_units; i++)
		if (!print_unit(restarts, &journal->units[i]))
			return false;
	return files && released && restarts;
}

static void checksum_of(const char *body, char checksum[static 16])
{
	snprintf(checksum, 16, "crc32:%08lx",
		crc32(0, (const unsigned char *)body, (unsigned)strlen(body)));
}

int file_journal_print(const struct file_journal *journal, char **text)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = cJSON_CreateObject();
	cJSON *body = cJSON_AddObjectToObject(root, "body");
	_cleanup_free_ char *printed = NULL;
	char checksum[16];

	if (!body || !print_body(journal, body) || !(printed = cJSON_PrintUnformatted(body)))
		return -ENOMEM;
	checksum_of(printed, checksum);
	if (!cJSON_AddNumberToObject(root, "schema", SCHEMA) ||
		!cJSON_AddStringToObject(root, "checksum", checksum))
		return -ENOMEM;
	*text = cJSON_Print(root);
	return *text ? 0 : -ENOMEM;
}

static bool take_number(const cJSON *object, const char *name, double max, uint64_t *out)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

	if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= max))
		return false;
	*out = (uint64_t)item->valuedouble;
	return true;
}

/* The name of a file in files/: nothing else may become a part of a path. */
static bool is_hash(const char *text)
{
	return text[0] == '\0' || streq(text, FILE_HASH_NONE) ||
	       (strlen(text) == HASH_TEXT_MAX - 1 &&
		       strspn(text, "0123456789abcdef") == HASH_TEXT_MAX - 1);
}

static int take_note(const cJSON *object, struct file_note *note)
{
	const cJSON *service = cJSON_GetObjectItemCaseSensitive(object, "service"), *item;
	uint64_t directories = 0;

	if (!take_fields(object, note_fields, note) ||
		!take_fields(service, service_fields, &note->service) || note->path[0] != '/' ||
		!is_hash(note->original) || !is_hash(note->ours[0]) || !is_hash(note->ours[1]) ||
		!take_number(object, "directories", 64, &directories))
		return -EBADMSG;
	note->directories = (unsigned)directories;
	cJSON_ArrayForEach (item, cJSON_GetObjectItemCaseSensitive(object, "keys")) {
		struct file_record *key = note_add_key(note, "");

		if (!key)
			return -ENOMEM;
		if (!take_fields(item, key_fields, key))
			return -EBADMSG;
	}
	return 0;
}

/* What this version does not understand is left out: the originals matter more. */
static void take_unit(const cJSON *object, struct file_journal *journal)
{
	const cJSON *open = cJSON_GetObjectItemCaseSensitive(object, "open"), *item;
	const char *unit = text_of(object, "unit");
	struct unit_mark *mark;
	uint64_t at, answered;

	if (!unit || !unit[0] || journal->n_units == JOURNAL_UNITS_MAX ||
		file_journal_unit(journal, unit, false) || !cJSON_IsBool(open) ||
		!take_number(object, "at", SECONDS_MAX, &at) ||
		!take_number(object, "answered", 16, &answered))
		return;
	mark = file_journal_unit(journal, unit, true);
	mark->at_s = at;
	mark->open = cJSON_IsTrue(open);
	mark->answered = (unsigned)answered;
	cJSON_ArrayForEach (item, cJSON_GetObjectItemCaseSensitive(object, "tried")) {
		const char *name = text_of(item, "name"), *value = text_of(item, "value");

		if (!name || !value || mark->n_tried == JOURNAL_TRIED_MAX)
			continue;
		mark->tried[mark->n_tried].last =
			cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "last"));
		copy_text(mark->tried[mark->n_tried].name, SETTING_NAME_MAX, name);
		copy_text(mark->tried[mark->n_tried++].value, SETTING_VALUE_MAX, value);
	}
}

static int take_body(const cJSON *body, struct file_journal *journal)
{
	const cJSON *files = cJSON_GetObjectItemCaseSensitive(body, "files"), *item;

	if (!cJSON_IsArray(files))
		return -EBADMSG;
	cJSON_ArrayForEach (item, files) {
		struct file_note note = {0};
		int r = take_note(item, &note);

		if (r == 0)
			r = file_journal_put(journal, &note);
		if (r < 0) {
			note_clear(&note);
			return r;
		}
	}
	cJSON_ArrayForEach (item, cJSON_GetObjectItemCaseSensitive(body, "released")) {
		struct release *release = &journal->released[journal->n_released];
		const char *tuner = text_of(item, "tuner");

		if (!tuner || journal->n_released == JOURNAL_RELEASED_MAX ||
			!copy_text(release->tuner, sizeof(release->tuner), tuner) ||
			!take_number(item, "since", SECONDS_MAX, &release->since_s))
			return -EBADMSG;
		journal->n_released++;
	}
	cJSON_ArrayForEach (item, cJSON_GetObjectItemCaseSensitive(body, "restarts"))
		take_unit(item, journal);
	return 0;
}

int file_journal_parse(struct file_journal *journal, const char *text)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = cJSON_Parse(text);
	const cJSON *body = cJSON_GetObjectItemCaseSensitive(root, "body");
	_cleanup_free_ char *printed = body ? cJSON_PrintUnformatted(body) : NULL;
	const char *stored = text_of(root, "checksum");
	char computed[16];
	uint64_t schema;
	int r;

	if (body && !printed)
		return -ENOMEM;
	if (!body || !take_number(root, "schema", 1e6, &schema) || schema < SCHEMA)
		return -EBADMSG;
	if (schema > SCHEMA)
		return -EPROTO;
	checksum_of(printed, computed);
	if (!stored || !streq(stored, computed))
		return -EBADMSG;
	r = take_body(body, journal);
	if (r < 0) {
		while (journal->n_files > 0)
			note_clear(&journal->files[--journal->n_files]);
		journal->n_released = journal->n_units = 0;
	}
	journal->dirty = false;
	return r;
}
