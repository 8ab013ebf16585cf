/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_journal.h"

#include "base/json.h"

#include <zlib.h>

/*
 * {"schema": 4, "checksum": "crc32:0badc0de", "body": {...}}: the checksum is over the body as this
 * library prints it without white space.
 */
#define SCHEMA 4

#define SECONDS_MAX 1e12 /* the year 33658: times a million it is still a number of ours */

/* A member of a struct and of its JSON object. */
struct field {
	const char *name;
	enum {
		TEXT,
		FLAG,
		NUMBER,
		TIME,
		LIST
	} kind; /* char[], bool, unsigned or an enum, uint64_t */
	size_t offset, size;
	const struct field *of; /* LIST, an array of structs: of an element, */
	size_t stride, count;   /* its size, and where the number of them is */
};

#define FIELD(type, kind, name, member)                                                     \
	{                                                                                   \
		name, kind, offsetof(type, member), sizeof(((type *)0)->member), NULL, 0, 0 \
	}
#define FIELD_LIST(type, name, member, number, of)                                   \
	{                                                                            \
		name, LIST, offsetof(type, member), sizeof(((type *)0)->member), of, \
			sizeof(((type *)0)->member[0]), offsetof(type, number)       \
	}

static const struct field key_fields[] = {
	FIELD(struct file_record, TEXT, "name", name),
	FIELD(struct file_record, TEXT, "table", target.table),
	FIELD(struct file_record, TEXT, "key", target.key),
	FIELD(struct file_record, TEXT, "in_force_originally", original),
	FIELD(struct file_record, TEXT, "on_disk_originally", on_disk),
	FIELD(struct file_record, TEXT, "value_before", before),
	FIELD(struct file_record, TEXT, "wanted", wanted),
	FIELD(struct file_record, TEXT, "failed", failed),
	{0},
};

static const struct field note_fields[] = {
	FIELD(struct file_note, TEXT, "path", path),
	FIELD(struct file_note, TEXT, "tuner", tuner),
	FIELD(struct file_note, NUMBER, "format", format),
	FIELD(struct file_note, NUMBER, "directories", directories),
	FIELD(struct file_note, TEXT, "original", original),
	FIELD(struct file_note, TEXT, "ours", ours[0]),
	FIELD(struct file_note, TEXT, "ours_next", ours[1]),
	FIELD(struct file_note, NUMBER, "activation", service.activation),
	FIELD(struct file_note, NUMBER, "restart", service.restart),
	FIELD(struct file_note, NUMBER, "verifier", service.verifier),
	FIELD(struct file_note, TEXT, "unit", service.unit),
	FIELD(struct file_note, TEXT, "socket", service.socket),
	FIELD(struct file_note, TEXT, "binary", service.binary),
	FIELD(struct file_note, TEXT, "version", service.version),
	FIELD(struct file_note, TEXT, "config", service.config),
	FIELD(struct file_note, TEXT, "directory", service.directory),
	FIELD(struct file_note, TEXT, "program", service.program),
	FIELD(struct file_note, TEXT, "pid_file", service.pid_file),
	FIELD_LIST(struct file_note, "keys", keys, n_keys, key_fields),
	{0},
};

static const struct field release_fields[] = {
	FIELD(struct release, TEXT, "tuner", tuner),
	FIELD(struct release, TIME, "since", since_s),
	{0},
};

static const struct field tried_fields[] = {
	FIELD(struct tried, TEXT, "name", name),
	FIELD(struct tried, TEXT, "value", value),
	FIELD(struct tried, FLAG, "last", last),
	{0},
};

static const struct field unit_fields[] = {
	FIELD(struct unit_mark, TEXT, "unit", unit),
	FIELD(struct unit_mark, TIME, "at", at_s),
	FIELD(struct unit_mark, FLAG, "open", open),
	FIELD(struct unit_mark, NUMBER, "answered", answered),
	FIELD_LIST(struct unit_mark, "tried", tried, n_tried, tried_fields),
	{0},
};

/* Of the body, but for its files: only they have no greatest number. */
static const struct field journal_fields[] = {
	FIELD_LIST(struct file_journal, "released", released.tuners, released.n, release_fields),
	FIELD_LIST(struct file_journal, "restarts", units, n_units, unit_fields),
	{0},
};

/* An object appended to an array. */
static cJSON *add_object(cJSON *array)
{
	cJSON *object = must(cJSON_CreateObject());

	(void)cJSON_AddItemToArray(array, object);
	return object;
}

/* Texts as they are: base/json.h is for people, and cuts what is long. */
static void print(cJSON *object, const struct field *field, const void *from)
{
	for (; field->name; field++) {
		const char *name = field->name;
		const void *member = (const char *)from + field->offset;
		const void *count = (const char *)from + field->count;
		cJSON *item = NULL;

		switch (field->kind) {
		case TEXT:
			item = cJSON_AddStringToObject(object, name, member);
			break;
		case FLAG:
			item = cJSON_AddBoolToObject(object, name, *(const bool *)member);
			break;
		case NUMBER:
			item = cJSON_AddNumberToObject(object, name, *(const unsigned *)member);
			break;
		case TIME:
			item = cJSON_AddNumberToObject(
				object, name, (double)*(const uint64_t *)member);
			break;
		case LIST:
			item = must(cJSON_AddArrayToObject(object, name));
			for (size_t i = 0; i < *(const size_t *)count; i++)
				print(add_object(item), field->of,
					(const char *)member + i * field->stride);
		}
		must(item);
	}
}

static void checksum_of(const char *body, char checksum[static 16])
{
	snprintf(checksum, 16, "crc32:%08lx",
		crc32(0, (const unsigned char *)body, (unsigned)strlen(body)));
}

char *file_journal_print(const struct file_journal *journal)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = must(cJSON_CreateObject());
	cJSON *body = must(cJSON_AddObjectToObject(root, "body"));
	cJSON *files = must(cJSON_AddArrayToObject(body, "files"));
	_cleanup_free_ char *printed = NULL;
	char checksum[16];

	for (size_t i = 0; i < journal->n_files; i++)
		print(add_object(files), note_fields, &journal->files[i]);
	print(body, journal_fields, journal);
	printed = must(cJSON_PrintUnformatted(body));
	checksum_of(printed, checksum);
	must(cJSON_AddNumberToObject(root, "schema", SCHEMA));
	must(cJSON_AddStringToObject(root, "checksum", checksum));
	return must(cJSON_Print(root));
}

/* False for anything that this version does not write. */
static bool take(const cJSON *object, const struct field *field, void *to)
{
	bool good = true;

	for (; good && field->name; field++) {
		const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, field->name), *element;
		void *member = (char *)to + field->offset, *count = (char *)to + field->count;
		double number = cJSON_IsNumber(item) ? item->valuedouble : -1;
		size_t n = 0;

		switch (field->kind) {
		case TEXT:
			good = cJSON_IsString(item) &&
			       copy_text(member, field->size, item->valuestring);
			break;
		case FLAG:
			good = cJSON_IsBool(item);
			*(bool *)member = cJSON_IsTrue(item);
			break;
		case NUMBER:
			good = number >= 0 && number <= UINT32_MAX;
			*(unsigned *)member = good ? (unsigned)number : 0;
			break;
		case TIME:
			good = number >= 0 && number <= SECONDS_MAX;
			*(uint64_t *)member = good ? (uint64_t)number : 0;
			break;
		case LIST:
			good = cJSON_IsArray(item) &&
			       (size_t)cJSON_GetArraySize(item) <= field->size / field->stride;
			cJSON_ArrayForEach (element, item)
				good = good && take(element, field->of,
						       (char *)member + n++ * field->stride);
			*(size_t *)count = good ? n : 0;
		}
	}
	return good;
}

/* What its keys have in common with it is there once. */
static bool take_note(const cJSON *object, struct file_journal *journal)
{
	struct file_note note = {0};

	if (!take(object, note_fields, &note))
		return false;
	for (size_t i = 0; i < note.n_keys; i++) {
		struct file_record *key = &note.keys[i];

		copy_text(key->tuner, sizeof(key->tuner), note.tuner);
		copy_text(key->target.path, sizeof(key->target.path), note.path);
		key->target.format = note.format;
	}
	file_journal_put(journal, &note);
	return true;
}

static int take_body(const cJSON *body, struct file_journal *journal)
{
	const cJSON *files = cJSON_GetObjectItemCaseSensitive(body, "files"), *item;
	bool good = cJSON_IsArray(files) && take(body, journal_fields, journal);

	cJSON_ArrayForEach (item, files)
		good = good && take_note(item, journal);
	if (!good)
		journal->n_files = journal->released.n = journal->n_units = 0;
	journal->dirty = false;
	return good ? 0 : -EBADMSG;
}

int file_journal_parse(struct file_journal *journal, const char *text)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = cJSON_Parse(text);
	const cJSON *body = cJSON_GetObjectItemCaseSensitive(root, "body");
	const cJSON *schema = cJSON_GetObjectItemCaseSensitive(root, "schema");
	_cleanup_free_ char *printed = body ? must(cJSON_PrintUnformatted(body)) : NULL;
	const char *stored =
		cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "checksum"));
	char computed[16];

	if (!body || !cJSON_IsNumber(schema) || schema->valuedouble < SCHEMA)
		return -EBADMSG;
	if (schema->valuedouble > SCHEMA)
		return -EPROTO;
	checksum_of(printed, computed);
	return stored && streq(stored, computed) ? take_body(body, journal) : -EBADMSG;
}
