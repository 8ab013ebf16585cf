/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker_config.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "base/util.h"
#include "runtime/docker_keys.h"
#include "runtime/json_scan.h"

#include <errno.h>
#include <limits.h>

#include <cjson/cJSON.h>

#define BOM       "\xef\xbb\xbf"
#define EMPTY     "{\n}\n" /* what an empty file counts as; a key goes on a line of its own */
#define NEW_STYLE "\n    "

DEFINE_CLEANUP(cJSON, cJSON_Delete)

/* A daemon.json, parsed: where its members are. */
struct document {
	char *text; /* a copy with a terminator, or EMPTY after the mark */
	size_t len;
	struct json_object object;
};

static void document_clear(struct document *document)
{
	free(document->text);
	free(document->object.members);
}

#define _cleanup_document_ _cleanup_(document_clear)

static size_t mark_length(const char *text, size_t len)
{
	return len >= 3 && memcmp(text, BOM, 3) == 0 ? 3 : 0;
}

static bool is_blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!memchr(" \t\r\n", text[i], 4))
			return false;
	return true;
}

static void tell(
	struct docker_config_fault *fault, unsigned int line, unsigned int column, const char *what)
{
	if (!fault)
		return;
	*fault = (struct docker_config_fault){.line = line, .column = column};
	copy_text(fault->message, sizeof(fault->message), what);
}

static int copy_document(struct document *document, const char *text, size_t len)
{
	size_t mark = mark_length(text, len);
	bool blank = is_blank(text + mark, len - mark);

	document->len = blank ? mark + strlen(EMPTY) : len;
	document->text = malloc(document->len + 1);
	if (!document->text)
		return -ENOMEM;
	if (len > 0)
		memcpy(document->text, text, blank ? mark : len);
	if (blank)
		memcpy(document->text + mark, EMPTY, strlen(EMPTY));
	document->text[document->len] = '\0';
	return 0;
}

static int read_document(
	struct document *document, const char *text, size_t len, struct docker_config_fault *fault)
{
	struct json_fault found;
	int r;

	if (len > DOCKER_CONFIG_MAX)
		return -EFBIG;
	if (len >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0)) {
		tell(fault, 1, 1, "UTF-16: save the file as UTF-8");
		return -EINVAL;
	}
	r = copy_document(document, text, len);
	if (r < 0)
		return r;
	r = json_scan_object(document->text, document->len,
		mark_length(document->text, document->len), &document->object, &found);
	if (r == -EINVAL)
		tell(fault, found.place.line, found.place.column, found.what);
	return r;
}

/* Keys may be written with escapes: cJSON undoes them. */
static bool is_key(const struct document *document, size_t i, const char *key)
{
	const struct json_member *member = &document->object.members[i];
	const char *text = document->text + member->key;
	size_t len = member->key_end - member->key;
	_cleanup_(cleanup_cJSON_Delete) cJSON *string = NULL;

	if (!memchr(text, '\\', len))
		return len == strlen(key) + 2 && memcmp(text + 1, key, len - 2) == 0;
	string = cJSON_ParseWithLength(text, len);
	return string && streq(string->valuestring, key);
}

/* The last member with this key, as dockerd takes it, or n. */
static size_t find_last(const struct document *document, const char *key)
{
	for (size_t i = document->object.n; i > 0; i--)
		if (is_key(document, i - 1, key))
			return i - 1;
	return document->object.n;
}

int docker_config_get(const char *text, size_t len, const char *key, char **value,
	struct docker_config_fault *fault)
{
	_cleanup_document_ struct document document = {0};
	const struct json_member *member;
	size_t i;
	char *copy;
	int r = read_document(&document, text, len, fault);

	if (r < 0)
		return r;
	i = find_last(&document, key);
	if (i == document.object.n)
		return -ENOENT;
	member = &document.object.members[i];
	copy = strndup(document.text + member->value, member->value_end - member->value);
	if (!copy)
		return -ENOMEM;
	*value = copy;
	return 0;
}

int docker_config_get_count(const char *text, size_t len, const char *key, unsigned int *value,
	struct docker_config_fault *fault)
{
	_cleanup_free_ char *found = NULL;
	uint64_t count;
	int r = docker_config_get(text, len, key, &found, fault);

	if (r < 0)
		return r;
	if (parse_count(found, &count) < 0 || count > INT_MAX)
		return -ERANGE;
	*value = (unsigned int)count;
	return 0;
}

static bool same(const cJSON *a, const cJSON *b);

static bool same_children(const cJSON *a, const cJSON *b)
{
	const cJSON *x = a->child, *y = b->child;

	for (; x && y; x = x->next, y = y->next)
		if (!same(x, y))
			return false;
	return !x && !y;
}

/* Also of keys and their order: cJSON_Compare ignores both order and doubles. */
static bool same(const cJSON *a, const cJSON *b)
{
	if ((a->type & 0xff) != (b->type & 0xff) || !a->string != !b->string)
		return false;
	if (a->string && !streq(a->string, b->string))
		return false;
	if (cJSON_IsString(a))
		return streq(a->valuestring, b->valuestring);
	/* Nobody computes with these: the same digits give the same bits. */
	if (cJSON_IsNumber(a))
		return memcmp(&a->valuedouble, &b->valuedouble, sizeof(double)) == 0;
	return same_children(a, b);
}

static cJSON *parse_whole(const char *text, size_t len)
{
	size_t mark = mark_length(text, len);

	return cJSON_ParseWithLengthOpts(text + mark, len - mark + 1, NULL, 1);
}

/* Takes the key out, all doubles of it; gives the last of them, or NULL. */
static cJSON *detach(cJSON *object, const char *key)
{
	cJSON *last = NULL, *next;

	for (cJSON *item = object->child; item; item = next) {
		next = item->next;
		if (!item->string || !streq(item->string, key))
			continue;
		cJSON_Delete(last);
		last = cJSON_DetachItemViaPointer(object, item);
	}
	return last;
}

/* The new text has this value under the key, or no such key, and all else is the same. */
static bool verify(const struct document *old, const char *text, size_t len, const char *key,
	const char *value)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *before = parse_whole(old->text, old->len);
	_cleanup_(cleanup_cJSON_Delete) cJSON *after = parse_whole(text, len);
	_cleanup_(cleanup_cJSON_Delete) cJSON *had = NULL, *has = NULL, *wanted = NULL;

	if (!before || !after || !cJSON_IsObject(before) || !cJSON_IsObject(after))
		return false;
	had = detach(before, key);
	has = detach(after, key);
	if (!same(before, after))
		return false;
	if (!value)
		return !has;
	wanted = cJSON_Parse(value);
	if (!wanted || !has)
		return false;
	free(has->string);
	has->string = NULL;
	return same(wanted, has);
}

/* Whether the value there means the same as the wanted one, however it is written. */
static bool has_value(const struct document *document, size_t i, const char *value)
{
	const struct json_member *member = &document->object.members[i];
	_cleanup_(cleanup_cJSON_Delete) cJSON *is = cJSON_ParseWithLength(
		document->text + member->value, member->value_end - member->value);
	_cleanup_(cleanup_cJSON_Delete) cJSON *wanted = cJSON_Parse(value);

	return is && wanted && same(is, wanted);
}

/* Replaces the bytes from start to end. */
static char *splice(const struct document *document, size_t start, size_t end, const char *text,
	size_t *out_len)
{
	size_t len = strlen(text);
	char *out = malloc(document->len - (end - start) + len + 1);

	if (!out)
		return NULL;
	memcpy(out, document->text, start);
	memcpy(out + start, text, len);
	memcpy(out + start + len, document->text + end, document->len - end + 1);
	*out_len = document->len - (end - start) + len;
	return out;
}

/* What stands before the last key, so that the new one goes the same way: at most one line break.
 */
static char *style_of_last(const struct document *document)
{
	const struct json_object *object = &document->object;
	const char *text = document->text;
	size_t end = object->members[object->n - 1].key;
	size_t start = end, line;

	while (memchr(" \t\r\n", text[start - 1], 4))
		start--;
	for (line = end; line > start && text[line - 1] != '\n';)
		line--;
	if (line > start)
		start = line - (line - 1 > start && text[line - 2] == '\r' ? 2 : 1);
	else if (object->n == 1 && start == end && text[object->members[0].value - 1] == ' ')
		return strdup(" ");
	return strndup(text + start, end - start);
}

static bool is_spaced(const struct document *document)
{
	const struct json_object *object = &document->object;

	return object->n == 0 || document->text[object->members[object->n - 1].value - 1] != ':';
}

/* As the last member. Of an empty object: on a line of its own where the braces are on two. */
static char *insert(
	const struct document *document, const char *key, const char *value, size_t *out_len)
{
	const struct json_object *object = &document->object;
	size_t at = object->n ? object->members[object->n - 1].value_end : object->open + 1;
	const char *colon = is_spaced(document) ? ": " : ":";
	_cleanup_free_ char *style = NULL, *text = NULL;

	if (object->n > 0)
		style = style_of_last(document);
	else if (!memchr(document->text + at, '\n', object->close - at))
		style = strdup("");
	else
		style = strdup(document->text[at] == '\r' ? "\r" NEW_STYLE : NEW_STYLE);
	if (!style || asprintf(&text, "%s%s\"%s\"%s%s", object->n ? "," : "", style, key, colon,
			      value) < 0)
		return NULL;
	return splice(document, at, at, text, out_len);
}

/*
 * All members with this key, each with the comma and the white space before it, so that taking out
 * what insert() put in gives the text from before; the first one with those after it.
 */
static char *take_out(const struct document *document, const char *key, size_t *out_len)
{
	const struct json_object *object = &document->object;
	char *out = malloc(document->len + 1);
	bool any = false;
	size_t at = object->open + 1, rest = object->members[object->n - 1].value_end;

	if (!out)
		return NULL;
	memcpy(out, document->text, at);
	for (size_t i = 0; i < object->n; i++) {
		size_t start = i > 0 ? object->members[i - 1].value_end : object->members[0].key;

		if (is_key(document, i, key))
			continue;
		if (!any) {
			at = object->members[0].key;
			memcpy(out, document->text, at);
			start = object->members[i].key;
		}
		any = true;
		memcpy(out + at, document->text + start, object->members[i].value_end - start);
		at += object->members[i].value_end - start;
	}
	memcpy(out + at, document->text + rest, document->len - rest + 1);
	*out_len = at + document->len - rest;
	return out;
}

static char *change(
	const struct document *document, const char *key, const char *value, size_t *out_len)
{
	size_t i = find_last(document, key);
	const struct json_member *member;

	if (!value)
		return take_out(document, key, out_len);
	if (i == document->object.n)
		return insert(document, key, value, out_len);
	member = &document->object.members[i];
	return splice(document, member->value, member->value_end, value, out_len);
}

/* A key that needs no escape, and one line of JSON. */
static bool may_be_set(const char *key, const char *value)
{
	for (const char *p = key; *p; p++)
		if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f || strchr("\"\\", *p))
			return false;
	if (*key == '\0' || strlen(key) >= DOCKER_CONFIG_KEY_MAX)
		return false;
	return !value || json_scan_value(value, strlen(value)) == 0;
}

static int unchanged(const char *text, size_t len, char **out, size_t *out_len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return -ENOMEM;
	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	*out = copy;
	*out_len = len;
	return 0;
}

int docker_config_set(const char *text, size_t len, const char *key, const char *value, char **out,
	size_t *out_len, struct docker_config_fault *fault)
{
	_cleanup_document_ struct document document = {0};
	_cleanup_free_ char *changed = NULL;
	size_t i, changed_len;
	int r = read_document(&document, text, len, fault);

	if (r < 0)
		return r;
	if (!may_be_set(key, value)) {
		tell(fault, 0, 0, "not a key and value that could be set");
		return -EINVAL;
	}
	i = find_last(&document, key);
	if (value ? i < document.object.n && has_value(&document, i, value)
		  : i == document.object.n)
		return unchanged(text, len, out, out_len);
	changed = change(&document, key, value, &changed_len);
	if (!changed)
		return -ENOMEM;
	if (!verify(&document, changed, changed_len, key, value))
		return -EILSEQ;
	*out = steal(changed);
	*out_len = changed_len;
	return 0;
}

char *docker_config_list(const char *const *strings, size_t n)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = cJSON_CreateArray();

	if (!list)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		cJSON *string = cJSON_CreateString(strings[i]);

		if (!string)
			return NULL;
		cJSON_AddItemToArray(list, string);
	}
	return cJSON_PrintUnformatted(list);
}

/* The first key of an object that this version does not know, or NULL. */
static const char *first_unknown(const cJSON *object, const char *version, size_t *index)
{
	const cJSON *item, *inner;

	*index = 0;
	cJSON_ArrayForEach (item, object) {
		if (!cJSON_IsObject(item) || docker_config_is_flat(item->string)) {
			if (!docker_config_knows(version, item->string))
				return item->string;
		} else {
			/* dockerd takes the keys of such an object as if they stood outside. */
			cJSON_ArrayForEach (inner, item)
				if (!docker_config_knows(version, inner->string))
					return inner->string;
		}
		(*index)++;
	}
	return NULL;
}

int docker_config_unknown_key(const char *text, size_t len, const char *version,
	char key[static DOCKER_CONFIG_KEY_MAX], struct docker_config_fault *fault)
{
	_cleanup_document_ struct document document = {0};
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;
	struct json_place place;
	const char *unknown;
	size_t i;
	int r = read_document(&document, text, len, fault);

	if (r < 0)
		return r;
	object = parse_whole(document.text, document.len);
	if (!object)
		return -ENOMEM;
	unknown = first_unknown(object, version, &i);
	if (!unknown)
		return 0;
	utf8_copy(key, DOCKER_CONFIG_KEY_MAX, unknown);
	place = json_place(document.text, document.object.members[i].key);
	tell(fault, place.line, place.column, "a key that this version of dockerd does not know");
	return 1;
}
