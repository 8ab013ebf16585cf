/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/journal.h"

#include "apply/files_json.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cjson/cJSON.h>
#include <zlib.h>

/*
 * {"schema": 1, "checksum": "crc32:0badc0de", "body": {...}}: the checksum is over the body as this
 * library prints it without white space. Who knows only schema 1 would lose the files of schema 2.
 * Restarts need no schema of their own: who does not know them stores a journal without them, and
 * all originals.
 */
#define SCHEMA       1
#define SCHEMA_FILES 2

#define SECONDS_MAX 1e12 /* the year 33658: times a million it is still a number of ours */

/* How much of a unit's program answered before it was restarted. */
static const char *const levels[] = {[ANSWER_NONE] = "none",
	[ANSWER_CONNECT] = "connect",
	[ANSWER_GRPC] = "grpc",
	[ANSWER_CRI] = "cri"};

DEFINE_CLEANUP(cJSON, cJSON_Delete)

static void checksum_of(const char *body, char checksum[static 16])
{
	snprintf(checksum, 16, "crc32:%08lx",
		crc32(0, (const unsigned char *)body, (unsigned)strlen(body)));
}

static const char *kind_name(enum place_kind kind)
{
	return kind == PLACE_NEIGHTBL ? "neightbl" : kind == PLACE_EDIT ? "edit" : "file";
}

static void print_ladder(cJSON *object, const struct ladder *ladder)
{
	cJSON *rungs = cJSON_AddArrayToObject(object, "ahead");

	for (unsigned i = 0; i < ladder->n; i++)
		cJSON_AddItemToArray(rungs, cJSON_CreateString(ladder->rungs[i]));
}

static cJSON *print_record(const struct record *record)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "name", record->name);
	cJSON_AddStringToObject(object, "tuner", record->tuner);
	cJSON_AddStringToObject(object, "kind", kind_name(record->place.kind));
	cJSON_AddStringToObject(object, "path", record->place.path);
	if (record->place.kind == PLACE_NEIGHTBL) {
		cJSON_AddNumberToObject(object, "family", record->place.family == AF_INET ? 4 : 6);
		cJSON_AddNumberToObject(object, "level", record->place.level);
	}
	if (record->place.kind == PLACE_EDIT) {
		cJSON_AddStringToObject(object, "format", edit_format_name(record->place.format));
		cJSON_AddStringToObject(object, "table", record->place.table);
		cJSON_AddStringToObject(object, "key", record->place.key);
		cJSON_AddStringToObject(object, "on_disk", record->on_disk);
		cJSON_AddNumberToObject(object, "given_up", record->given_up);
	}
	cJSON_AddStringToObject(object, "original", record->original);
	cJSON_AddStringToObject(object, "before", record->before);
	cJSON_AddStringToObject(object, "target", record->target);
	if (record->ahead.n > 0)
		print_ladder(object, &record->ahead);
	return object;
}

/* Half of them would be worse than none: false without memory. */
static bool print_files(const struct journal *journal, cJSON *body)
{
	cJSON *files = cJSON_AddArrayToObject(body, "files");

	for (size_t i = 0; files && i < journal->n_files; i++) {
		cJSON *note = file_note_print(&journal->files[i]);

		if (!note || !cJSON_AddItemToArray(files, note)) {
			cJSON_Delete(note);
			return false;
		}
	}
	return files;
}

/* Also false without memory. */
static bool print_restarts(const struct journal *journal, cJSON *body)
{
	cJSON *restarts = cJSON_AddArrayToObject(body, "restarts");

	for (size_t i = 0; restarts && i < journal->n_restarts; i++) {
		const struct journal_restart *restart = &journal->restarts[i];
		cJSON *object = cJSON_CreateObject();

		if (!object || !cJSON_AddItemToArray(restarts, object)) {
			cJSON_Delete(object);
			return false;
		}
		if (!cJSON_AddStringToObject(object, "unit", restart->unit) ||
			!cJSON_AddNumberToObject(object, "at", (double)restart->at_s) ||
			!cJSON_AddBoolToObject(object, "open", restart->open) ||
			!cJSON_AddStringToObject(object, "answered", levels[restart->answered]) ||
			!cJSON_AddNumberToObject(object, "config", restart->config))
			return false;
	}
	return restarts;
}

static cJSON *print_body(const struct journal *journal)
{
	cJSON *body = cJSON_CreateObject();
	cJSON *records = cJSON_AddArrayToObject(body, "records");
	cJSON *released = cJSON_AddArrayToObject(body, "released");

	cJSON_AddStringToObject(body, "boot", journal->boot);
	cJSON_AddNumberToObject(body, "config", journal->config);
	for (size_t i = 0; i < journal->n_records; i++)
		cJSON_AddItemToArray(records, print_record(&journal->records[i]));
	for (size_t i = 0; i < journal->n_released; i++) {
		cJSON *object = cJSON_CreateObject();

		cJSON_AddStringToObject(object, "tuner", journal->released[i].tuner);
		cJSON_AddNumberToObject(object, "config", journal->released[i].config);
		cJSON_AddItemToArray(released, object);
	}
	return body;
}

int journal_print(const struct journal *journal, char **text)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = cJSON_CreateObject();
	cJSON *body = print_body(journal);
	bool whole = (journal->n_files == 0 || print_files(journal, body)) &&
		     (journal->n_restarts == 0 || print_restarts(journal, body));
	_cleanup_free_ char *printed = whole ? cJSON_PrintUnformatted(body) : NULL;
	char checksum[16];

	if (!printed) {
		cJSON_Delete(body);
		return -ENOMEM;
	}
	checksum_of(printed, checksum);
	cJSON_AddNumberToObject(root, "schema", journal->n_files > 0 ? SCHEMA_FILES : SCHEMA);
	cJSON_AddStringToObject(root, "checksum", checksum);
	cJSON_AddItemToObject(root, "body", body);
	*text = cJSON_Print(root);
	return *text ? 0 : -ENOMEM;
}

static bool take_text(const cJSON *object, const char *name, char *out, size_t size)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

	return text && copy_text(out, size, text);
}

static bool take_number(const cJSON *object, const char *name, double *out)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

	if (!cJSON_IsNumber(item))
		return false;
	*out = item->valuedouble;
	return true;
}

static bool take_place(const cJSON *object, struct place *place)
{
	char kind[16];
	double family, level;

	if (!take_text(object, "kind", kind, sizeof(kind)) ||
		!take_text(object, "path", place->path, sizeof(place->path)))
		return false;
	if (streq(kind, "file")) {
		place->kind = PLACE_FILE;
		return true;
	}
	if (streq(kind, "edit")) {
		char format[8];

		place->kind = PLACE_EDIT;
		return take_text(object, "format", format, sizeof(format)) &&
		       edit_format_by_name(format, &place->format) &&
		       take_text(object, "table", place->table, sizeof(place->table)) &&
		       take_text(object, "key", place->key, sizeof(place->key));
	}
	if (!streq(kind, "neightbl") || !take_number(object, "family", &family) ||
		!take_number(object, "level", &level) || level < 1 || level > 3)
		return false;
	place->kind = PLACE_NEIGHTBL;
	place->family = family == 4 ? AF_INET : AF_INET6;
	place->level = (int)level;
	return true;
}

/* Only records of files have these. */
static bool take_on_disk(const cJSON *object, struct record *record)
{
	double given_up;

	if (record->place.kind != PLACE_EDIT)
		return true;
	if (!take_text(object, "on_disk", record->on_disk, sizeof(record->on_disk)) ||
		!take_number(object, "given_up", &given_up))
		return false;
	record->given_up = (uint32_t)given_up;
	return true;
}

/* A record without it has an empty one. */
static bool take_ladder(const cJSON *object, struct ladder *ladder)
{
	const cJSON *rung;

	cJSON_ArrayForEach (rung, cJSON_GetObjectItemCaseSensitive(object, "ahead")) {
		const char *text = cJSON_GetStringValue(rung);

		if (!text || ladder->n == LADDER_RUNGS_MAX ||
			!copy_text(ladder->rungs[ladder->n++], sizeof(ladder->rungs[0]), text))
			return false;
	}
	return true;
}

static int take_record(const cJSON *object, struct journal *journal)
{
	struct record *record;

	if (grow_array(&journal->records, journal->n_records, &journal->records_allocated,
		    sizeof(*journal->records)) < 0)
		return -ENOMEM;
	record = &journal->records[journal->n_records];
	if (!take_text(object, "name", record->name, sizeof(record->name)) ||
		!take_text(object, "tuner", record->tuner, sizeof(record->tuner)) ||
		!take_place(object, &record->place) ||
		!take_text(object, "original", record->original, sizeof(record->original)) ||
		!take_text(object, "before", record->before, sizeof(record->before)) ||
		!take_text(object, "target", record->target, sizeof(record->target)) ||
		!take_on_disk(object, record) || !take_ladder(object, &record->ahead))
		return -EBADMSG;
	journal->n_records++;
	return 0;
}

static int take_release(const cJSON *object, struct journal *journal)
{
	struct journal_release *release = &journal->released[journal->n_released];
	double config;

	if (journal->n_released == JOURNAL_RELEASED_MAX)
		return -EBADMSG;
	if (!take_text(object, "tuner", release->tuner, sizeof(release->tuner)) ||
		!take_number(object, "config", &config))
		return -EBADMSG;
	release->config = (uint32_t)config;
	journal->n_released++;
	return 0;
}

static bool take_whole(const cJSON *object, const char *name, double max, uint64_t *out)
{
	double number;

	if (!take_number(object, name, &number) || !(number >= 0 && number <= max))
		return false;
	*out = (uint64_t)number;
	return true;
}

/* What this version does not understand is left out: the originals matter more. */
static void take_restart(const cJSON *object, struct journal *journal)
{
	struct journal_restart restart = {0};
	const cJSON *open = cJSON_GetObjectItemCaseSensitive(object, "open");
	size_t level = 0;
	uint64_t config;
	char answered[16];

	if (journal->n_restarts == JOURNAL_RESTARTS_MAX ||
		!take_text(object, "unit", restart.unit, sizeof(restart.unit)) ||
		!restart.unit[0] || journal_find_restart(journal, restart.unit) ||
		!take_whole(object, "at", SECONDS_MAX, &restart.at_s) || !cJSON_IsBool(open) ||
		!take_text(object, "answered", answered, sizeof(answered)) ||
		!take_whole(object, "config", UINT32_MAX, &config))
		return;
	while (level < ARRAY_SIZE(levels) && !streq(levels[level], answered))
		level++;
	if (level == ARRAY_SIZE(levels))
		level = ANSWER_NONE;
	restart.open = cJSON_IsTrue(open);
	restart.answered = (enum answer_level)level;
	restart.config = (uint32_t)config;
	journal->restarts[journal->n_restarts++] = restart;
}

static int take_file(const cJSON *object, struct journal *journal)
{
	if (grow_array(&journal->files, journal->n_files, &journal->files_allocated,
		    sizeof(*journal->files)) < 0)
		return -ENOMEM;
	/* Counted first: what an error leaves half filled is cleared with the others. */
	return file_note_parse(object, &journal->files[journal->n_files++]);
}

static int take_body(const cJSON *body, struct journal *journal)
{
	const cJSON *item;
	double config;
	int r = 0;

	if (!take_text(body, "boot", journal->boot, sizeof(journal->boot)) ||
		!take_number(body, "config", &config))
		return -EBADMSG;
	journal->config = (uint32_t)config;
	cJSON_ArrayForEach (item, cJSON_GetObjectItemCaseSensitive(body, "records")) {
		r = take_record(item, journal);
		if (r < 0)
			return r;
	}
	cJSON_ArrayForEach (item, cJSON_GetObjectItemCaseSensitive(body, "files")) {
		r = take_file(item, journal);
		if (r < 0)
			return r;
	}
	cJSON_ArrayForEach (item, cJSON_GetObjectItemCaseSensitive(body, "released")) {
		r = take_release(item, journal);
		if (r < 0)
			return r;
	}
	cJSON_ArrayForEach (item, cJSON_GetObjectItemCaseSensitive(body, "restarts"))
		take_restart(item, journal);
	return 0;
}

static int check_envelope(const cJSON *root, const cJSON *body)
{
	_cleanup_free_ char *printed = cJSON_PrintUnformatted(body);
	char stored[16], computed[16];
	double schema;

	if (!printed)
		return -ENOMEM;
	if (!take_number(root, "schema", &schema) || schema < 1)
		return -EBADMSG;
	if (schema > SCHEMA_FILES)
		return -EPROTO;
	checksum_of(printed, computed);
	if (!take_text(root, "checksum", stored, sizeof(stored)) || !streq(stored, computed))
		return -EBADMSG;
	return 0;
}

int journal_parse(struct journal *journal, const char *text)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = cJSON_Parse(text);
	const cJSON *body = cJSON_GetObjectItemCaseSensitive(root, "body");
	int r = body ? check_envelope(root, body) : -EBADMSG;

	if (r == 0)
		r = take_body(body, journal);
	if (r < 0) {
		journal->n_records = 0;
		journal->n_released = 0;
		journal->n_restarts = 0;
		for (size_t i = 0; i < journal->n_files; i++)
			file_note_clear(&journal->files[i]);
		journal->n_files = 0;
	}
	return r;
}
