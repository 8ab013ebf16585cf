/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/edit_text.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/util.h"
#include "runtime/json_scan.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>

#define EMPTY "{\n}\n" /* what a file of white space alone counts as */

DEFINE_CLEANUP(cJSON, cJSON_Delete)

/* Where a key is, and what is around it. */
struct found {
	struct json_scan scan;
	struct json_member key, previous, next, last;
	bool has_key, has_previous, has_next;
};

static int find(const char *text, size_t len, const char *key, struct found *found, char *why)
{
	struct json_member member;
	size_t n = strlen(key);
	int r;

	*found = (struct found){.scan = {.text = text, .len = len}};
	while ((r = json_next(&found->scan, &member)) > 0) {
		bool equal = member.key_end - member.key == n + 2 &&
			     memcmp(text + member.key + 1, key, n) == 0;

		if (found->has_key && !found->has_next) {
			found->next = member;
			found->has_next = true;
		}
		if (equal) {
			found->key = member;
			found->previous = found->last;
			found->has_key = true;
			found->has_previous = found->scan.n > 1;
			found->has_next = false;
		}
		found->last = member;
	}
	if (r < 0)
		copy_text(why, EDIT_WHY_MAX, found->scan.why);
	return r;
}

int json_key_get(const char *text, size_t len, const char *key, char **literal,
	char why[static EDIT_WHY_MAX])
{
	struct found found;
	int r = find(text, len, key, &found, why);

	*literal = NULL;
	if (r < 0 || !found.has_key)
		return r;
	*literal = copy_bytes(text + found.key.value, found.key.value_end - found.key.value);
	return *literal ? 0 : -ENOMEM;
}

/* As the last member, in the style of the one before it. */
static int insert(const char *text, size_t len, const struct found *found, const char *key,
	const char *literal, char **out, size_t *out_len)
{
	const struct json_member *last = &found->last;
	const struct json_scan *scan = &found->scan;
	bool any = scan->n > 0;
	size_t at = any ? last->value_end : scan->open + 1, start = any ? last->key : at;
	const char *blanks = "";
	char *member;
	int r;

	if (any) {
		while (strchr(" \t\r\n", text[start - 1]))
			start--;
		/* One line break is enough. */
		for (size_t i = last->key; i > start; i--)
			if (text[i - 1] == '\n') {
				start = i - (i - 1 > start && text[i - 2] == '\r' ? 2 : 1);
				break;
			}
		if (scan->n == 1 && start == last->key)
			blanks = " ";
	} else if (memchr(text + at, '\n', scan->close - at)) {
		blanks = text[at] == '\r' ? "\r\n    " : "\n    ";
	}
	if (asprintf(&member, "%s%s%.*s\"%s\"%s%s", any ? "," : "", blanks,
		    any ? (int)(last->key - start) : 0, text + start, key,
		    any && last->value == last->key_end + 1 ? ":" : ": ", literal) < 0)
		return -ENOMEM;
	r = splice_bytes(text, len, at, at, member, out, out_len);
	free(member);
	return r;
}

static int change(const char *text, size_t len, const struct found *found, const char *key,
	const char *literal, char **out, size_t *out_len)
{
	const struct json_member *member = &found->key;
	size_t start = member->value, end = member->value_end;

	if (!found->has_key && literal)
		return insert(text, len, found, key, literal, out, out_len);
	if (!found->has_key)
		return splice_bytes(text, len, len, len, "", out, out_len);
	if (!literal) {
		start = found->has_previous ? found->previous.value_end
			: found->has_next   ? member->key
					    : found->scan.open + 1;
		if (!found->has_previous && found->has_next)
			end = found->next.key;
	}
	return splice_bytes(text, len, start, end, literal ? literal : "", out, out_len);
}

/* Equal also in the order of keys, and in keys that are there twice. */
static bool same(const cJSON *a, const cJSON *b)
{
	const cJSON *x = a->child, *y = b->child;

	if ((a->type & 0xff) != (b->type & 0xff) || !a->string != !b->string ||
		(a->string && !streq(a->string, b->string)) ||
		(cJSON_IsString(a) && !streq(a->valuestring, b->valuestring)) ||
		(cJSON_IsNumber(a) &&
			memcmp(&a->valuedouble, &b->valuedouble, sizeof(double)) != 0))
		return false;
	for (; x && y; x = x->next, y = y->next)
		if (!same(x, y))
			return false;
	return !x && !y;
}

static cJSON *parse(const char *text, size_t len)
{
	size_t mark = text_mark(text, len);

	return cJSON_ParseWithLengthOpts(text + mark, len - mark + 1, NULL, 1);
}

/* Takes a key out, however often it is there, and gives the last one and how many there were. */
static cJSON *detach(cJSON *object, const char *key, size_t *n)
{
	cJSON *last = NULL, *next;

	*n = 0;
	for (cJSON *item = object->child; item; item = next) {
		next = item->next;
		if (!item->string || !streq(item->string, key))
			continue;
		cJSON_Delete(last);
		last = cJSON_DetachItemViaPointer(object, item);
		(*n)++;
	}
	return last;
}

/* The new text is the old one with this key: once and with this value, or not at all. */
static bool is_proved(const char *old, size_t old_len, const char *new, size_t len, const char *key,
	const char *literal)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *before = parse(old, old_len);
	_cleanup_(cleanup_cJSON_Delete) cJSON *after = parse(new, len);
	_cleanup_(cleanup_cJSON_Delete) cJSON *had = NULL, *has = NULL, *wanted = NULL;
	size_t n_had, n_has;

	if (!before || !after || !cJSON_IsObject(before) || !cJSON_IsObject(after))
		return false;
	had = detach(before, key, &n_had);
	has = detach(after, key, &n_has);
	if (!same(before, after) || n_has != (literal ? 1 : 0))
		return false;
	wanted = literal ? cJSON_Parse(literal) : NULL;
	if (has) {
		free(has->string);
		has->string = NULL;
	}
	return !literal || (wanted && same(wanted, has));
}

int json_key_set(const char *text, size_t len, const char *key, const char *literal, char **out,
	size_t *out_len, char why[static EDIT_WHY_MAX])
{
	_cleanup_free_ char *terminated = copy_bytes(text, len);
	size_t mark = text_mark(text, len);
	struct found found;
	int r;

	if (!terminated)
		return -ENOMEM;
	if (mark + strspn(terminated + mark, " \t\r\n") == len) {
		text = EMPTY;
		len = strlen(EMPTY);
	} else {
		text = terminated;
	}
	r = find(text, len, key, &found, why);
	if (r == 0)
		r = change(text, len, &found, key, literal, out, out_len);
	if (r < 0 || is_proved(text, len, *out, *out_len, key, literal))
		return r;
	free(steal(*out));
	snprintf(why, EDIT_WHY_MAX, "%s is not changed: the file is no plain JSON, or has it twice",
		key);
	return -EBADMSG;
}
