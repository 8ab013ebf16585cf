/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/text.h"

#include <ctype.h>

/* Room for a message of 320 bytes: each may become a replacement of three bytes. */
#define CLEAN_MAX 1024

cJSON *json_adopt(cJSON *parent, const char *key, cJSON *item)
{
	must_do(cJSON_AddItemToObjectCS(parent, key, item));
	return item;
}

/* Bytes of cJSON and malloc(3). */
#define ITEM_SIZE 80
#define TEXT_SIZE 24

void json_compact_add(struct json_compact *compact, const char *part, size_t n, size_t text_max)
{
	if (compact->len + n + 1 > compact->allocated) {
		compact->allocated = MAX(2 * compact->allocated, compact->len + n + 1);
		compact->text = must(realloc(compact->text, compact->allocated));
	}
	for (const char *at = part; at < part + n; at++) {
		bool quote = *at == '"' && !compact->escaped;
		char last = compact->len > 0 ? compact->text[compact->len - 1] : ' ';

		compact->escaped = compact->quoted && *at == '\\' && !compact->escaped;
		compact->quoted ^= quote;
		compact->skipped = compact->skipped && !quote;
		if (compact->skipped ||
			(!compact->quoted && !quote && isspace((unsigned char)*at) &&
				isspace((unsigned char)last)))
			continue;
		compact->text[compact->len++] = *at;
		compact->memory += 2;
		if (quote && compact->quoted) {
			compact->string = compact->len;
			compact->memory += TEXT_SIZE;
		}
		if (!compact->quoted && strchr("[{,", *at))
			compact->memory += ITEM_SIZE;
		compact->skipped = compact->quoted && compact->len - compact->string > text_max;
		if (compact->skipped) {
			compact->memory -= 2 * (compact->len - compact->string);
			compact->len = compact->string;
		}
	}
	compact->text[compact->len] = '\0';
}

void json_compact_clear(struct json_compact *compact)
{
	free(steal(compact->text));
}

static void drop(struct json_compact *compact, size_t n)
{
	compact->len -= n;
	compact->string -= MIN(n, compact->string);
	memmove(compact->text, compact->text + n, compact->len + 1);
}

int json_compact_next(struct json_compact *compact, cJSON **object)
{
	const char *end;

	drop(compact, strspn(compact->text, " \t\r\n,[]"));
	if (compact->text[0] != '{')
		return compact->text[0] ? -EBADMSG : 0;
	*object = cJSON_ParseWithOpts(compact->text, &end, 0);
	if (!*object)
		return 0;
	drop(compact, (size_t)(end - compact->text));
	compact->memory = 0;
	return 1;
}

size_t json_memory(const cJSON *item)
{
	size_t sum = 0;

	for (; item; item = item->next)
		sum += ITEM_SIZE + json_memory(item->child) +
		       (item->string ? strlen(item->string) + TEXT_SIZE : 0) +
		       (item->valuestring ? strlen(item->valuestring) + TEXT_SIZE : 0);
	return sum;
}

static cJSON *append(cJSON *array, cJSON *item)
{
	must_do(cJSON_AddItemToArray(array, item));
	return item;
}

void json_copy(cJSON *parent, const char *key, const cJSON *item)
{
	json_adopt(parent, key, item ? must(cJSON_Duplicate(item, true)) : cJSON_CreateNull());
}

cJSON *json_object(cJSON *parent, const char *key)
{
	return json_adopt(parent, key, cJSON_CreateObject());
}

cJSON *json_array(cJSON *parent, const char *key)
{
	return json_adopt(parent, key, cJSON_CreateArray());
}

cJSON *json_append(cJSON *array)
{
	return append(array, cJSON_CreateObject());
}

void json_append_text(cJSON *array, const char *text)
{
	const size_t size = strlen(UTF8_REPLACEMENT) * strlen(text) + 1;
	_cleanup_free_ char *clean = must(malloc(size));

	utf8_copy(clean, size, text);
	append(array, cJSON_CreateString(clean));
}

void json_text(cJSON *parent, const char *key, const char *text)
{
	char clean[CLEAN_MAX];

	utf8_copy(clean, sizeof(clean), text ? text : "");
	json_adopt(parent, key, cJSON_CreateString(clean));
}

void json_public(cJSON *parent, const char *key, const char *text)
{
	_cleanup_free_ char *whole = must(strdup(text ? text : ""));

	hide_secrets(whole);
	json_text(parent, key, whole);
}

void json_number(cJSON *parent, const char *key, double number)
{
	json_adopt(parent, key, cJSON_CreateNumber(number));
}

void json_numbers(cJSON *parent, const struct json_number *numbers)
{
	for (; numbers->key; numbers++)
		json_number(parent, numbers->key, numbers->number);
}

void json_bool(cJSON *parent, const char *key, bool value)
{
	json_adopt(parent, key, cJSON_CreateBool(value));
}

void json_null(cJSON *parent, const char *key)
{
	json_adopt(parent, key, cJSON_CreateNull());
}

void json_time(cJSON *parent, const char *key, uint64_t realtime_us)
{
	char text[TIME_TEXT_MAX];

	if (realtime_us == 0) {
		json_null(parent, key);
		return;
	}
	time_text(realtime_us, text);
	json_text(parent, key, text);
}

bool json_put(FILE *out, cJSON *document, bool pretty)
{
	_cleanup_free_ char *text =
		pretty ? cJSON_Print(document) : cJSON_PrintUnformatted(document);

	cJSON_Delete(document);
	return text && fprintf(out, "%s\n", text) >= 0;
}

const cJSON *json_at(const cJSON *object, const char *path)
{
	while (object && *path) {
		char key[64];
		size_t len = strcspn(path, "/");

		snprintf(key, sizeof(key), "%.*s", (int)len, path);
		if (cJSON_IsArray(object))
			object = isdigit((unsigned char)key[0])
					 ? cJSON_GetArrayItem(object, atoi(key))
					 : NULL;
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

void json_sort(cJSON *array, double (*rank)(const cJSON *item, const void *data), const void *data)
{
	for (int left = cJSON_GetArraySize(array); left > 0; left--) {
		cJSON *first = array->child, *item = first;

		for (int i = 0; i < left; i++, item = item->next)
			if (rank(item, data) > rank(first, data))
				first = item;
		append(array, cJSON_DetachItemViaPointer(array, first));
	}
}

void json_append_losses(const cJSON *losses, char *text, size_t size)
{
	const char *between = "  not counted in full: ";
	const cJSON *loss;

	cJSON_ArrayForEach (loss, losses) {
		if (!loss->string || !cJSON_IsNumber(loss) || loss->valuedouble <= 0)
			continue;
		text_append(text, size, "%s%s %.0f", between, loss->string, loss->valuedouble);
		between = ", ";
	}
	text_append(text, size, between[0] == ',' ? "\n" : "");
}

static void make_lines_printable(char *text)
{
	for (char *end; (end = strchr(text, '\n')); text++) {
		*end = '\0';
		text_make_printable(text);
		text += strlen(text);
		*text = '\n';
		memmove(text + 1, end + 1, strlen(end + 1) + 1);
	}
	text_make_printable(text);
}

void json_make_lines_printable(cJSON *item, const char *key)
{
	for (; item; item = item->next) {
		bool has_lines = key && item->string && streq(item->string, key);

		if (item->valuestring)
			(has_lines ? make_lines_printable : text_make_printable)(item->valuestring);
		json_make_lines_printable(item->child, key);
	}
}

void json_make_printable(cJSON *item)
{
	json_make_lines_printable(item, NULL);
}

/* ---- members of the top-level object, for edits in place ---- */

#define DIGITS "0123456789"

/* Returns the length of a number; 0: cJSON accepts it, and JSON does not, such as 007 and 1. */
static size_t number_length(const char *text)
{
	size_t n = text[0] == '-', digits = strspn(text + n, DIGITS);

	if (digits == 0 || (text[n] == '0' && digits > 1))
		return 0;
	n += digits;
	if (text[n] == '.') {
		digits = strspn(text + ++n, DIGITS);
		n += digits;
	}
	if (digits > 0 && (text[n] == 'e' || text[n] == 'E')) {
		n += 1 + (text[n + 1] == '-' || text[n + 1] == '+');
		digits = strspn(text + n, DIGITS);
		n += digits;
	}
	return digits > 0 ? n : 0;
}

/* Finds what cJSON accepts and other parsers refuse. Returns its offset, or the end. */
static size_t find_lenient(const char *text, size_t at, size_t end, const char **what)
{
	for (bool quoted = false; at < end; at++) {
		unsigned char c = (unsigned char)text[at];
		bool number = !quoted && strchr("-" DIGITS, c);
		size_t n = number ? number_length(text + at) : 1;

		*what = number ? "a number that JSON does not have" : "a control character";
		if (n == 0 || (c < ' ' && (quoted || !strchr("\t\r\n", c))))
			break;
		quoted ^= c == '"';
		at += n - 1 + (quoted && c == '\\');
	}
	return at;
}

int json_parse(const char *text, size_t len, cJSON **object, char why[static JSON_WHY_MAX])
{
	size_t start = text_mark(text, len);
	const char *end = text, *key, *before;
	const char *zero = memchr(text, '\0', len), *what = NULL;
	struct text_position at;

	*object = NULL;
	start += strspn(text + start, " \t\r\n");
	if (start == len)
		return 0;
	if (zero) {
		end = zero;
		what = "a zero byte";
	} else if (text[start] != '{') {
		end = text + start;
		what = "expected { in UTF-8";
	} else {
		*object = cJSON_ParseWithLengthOpts(text, len + 1, &end, 1);
		what = "invalid JSON";
		if (*object)
			end = text + find_lenient(text, start, len, &what);
		if (*object && end == text + len)
			return 0;
		/* cJSON stops after the first byte of a key without quotes: point at it. */
		key = before = end - !*object;
		cJSON_Delete(steal(*object));
		while (before > text && strchr(" \t\r\n", before[-1]))
			before--;
		if (before > text && strchr("{,", before[-1]) && !strchr("\" \t\r\n", *key))
			end = key;
	}
	at = text_position(text, MIN((size_t)(end - text), len));
	snprintf(why, JSON_WHY_MAX, "%zu:%zu: %s", at.line, at.column, what);
	return -EBADMSG;
}

/* cJSON treats all control characters as blanks. */
static size_t skip_blanks(const char *text, size_t at)
{
	while (text[at] && (unsigned char)text[at] <= ' ')
		at++;
	return at;
}

static size_t skip_value(const char *text, size_t at)
{
	const char *end = text + at;

	cJSON_Delete(cJSON_ParseWithOpts(text + at, &end, 0));
	return (size_t)(end - text);
}

bool json_next(const char *text, struct json_member *member)
{
	size_t at = member->value_end > 0 ? member->value_end : strcspn(text, "{");

	at = skip_blanks(text, at);
	if (text[at])
		at = skip_blanks(text, at + 1); /* past the brace or the comma */
	if (text[at] != '"')
		return false;
	member->key = at;
	member->key_end = skip_value(text, at);
	at = skip_blanks(text, member->key_end);
	member->value = skip_blanks(text, at + (text[at] == ':'));
	member->value_end = skip_value(text, member->value);
	return true;
}

struct json_place json_find(const char *text, const cJSON *object, const char *key)
{
	struct json_member member = {0};
	struct json_place found = {0};

	for (const cJSON *item = object ? object->child : NULL; item && json_next(text, &member);
		item = item->next, found.n++) {
		if (streq(item->string, key)) {
			found.key = member;
			found.item = item;
			found.n_keys++;
		}
		found.last = member;
	}
	return found;
}
