/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/editor.h"

#include "base/json.h"
#include "base/toml.h"

/* Precedes an added table, which is removed with its last key. */
#define MARK "# Added by headroom"

#define BLANKS " \t\r\n"
#define EMPTY  "{\n}\n" /* stands for a file of white space alone */

void text_copy(struct file_bytes *text, const char *bytes, size_t len)
{
	char *copy = must(calloc(1, len + 1));

	if (len > 0)
		memcpy(copy, bytes, len);
	*text = (struct file_bytes){.bytes = copy, .len = len};
}

/* Replaces bytes with the formatted text. */
static int PRINTF_LIKE(4, 5)
	splice(struct file_bytes *text, size_t start, size_t end, const char *format, ...)
{
	_cleanup_free_ char *insert = NULL;
	size_t n, rest = text->len - end;
	va_list args;
	char *bytes;

	va_start(args, format);
	must_do(vasprintf(&insert, format, args) >= 0);
	va_end(args);
	n = strlen(insert);
	bytes = must(malloc(start + n + rest + 1));
	memcpy(bytes, text->bytes, start);
	memcpy(bytes + start, insert, n);
	memcpy(bytes + start + n, text->bytes + end, rest);
	bytes[start + n + rest] = '\0';
	free(text->bytes);
	text->bytes = bytes;
	text->len = start + n + rest;
	return 0;
}

/* ---- TOML ---- */

static const char *line_break(const struct file_bytes *text, size_t from)
{
	const char *begin = text->bytes + from, *end = memchr(begin, '\n', text->len - from);

	return end && end > begin && end[-1] == '\r' ? "\r\n" : "\n";
}

static size_t line_start(const char *text, size_t at)
{
	while (at > 0 && text[at - 1] != '\n')
		at--;
	return at;
}

/* The offset of the line break before a line, or the offset itself. */
static size_t before_break(const char *text, size_t at)
{
	if (at > 0 && text[at - 1] == '\n')
		at--;
	return at > 0 && text[at] == '\n' && text[at - 1] == '\r' ? at - 1 : at;
}

/* Also removes the header and mark of an added table with its last key. */
static int remove_key(struct file_bytes *text, const struct toml_item *key)
{
	const char *bytes = text->bytes;
	struct toml_scan scan = {.text = bytes, .len = text->len};
	struct toml_item item, header = {0};
	size_t first = text_mark(bytes, text->len), end = key->end, n = 0, mark;
	size_t start = line_start(bytes, key->start);

	while (toml_next(&scan, &item) > 0) {
		bool same = streq(item.table, key->table);

		if (same && item.header)
			header = item;
		n += same && !item.header;
	}
	mark = line_start(bytes, before_break(bytes, header.start));
	if (n == 1 && header.header && mark + strlen(MARK) == before_break(bytes, header.start) &&
		memcmp(bytes + mark, MARK, strlen(MARK)) == 0)
		start = mark > 0 ? before_break(bytes, mark) : 0;
	start = MAX(start, first);
	if (start > first)
		start = before_break(bytes, start);
	else if (end < text->len) /* on the first line: remove the line break behind it */
		end += strlen(line_break(text, end));
	return splice(text, start, end, "%s", "");
}

static int toml_key_set(struct file_bytes *text, const char *table, const char *key,
	const char *literal, char why[static EDIT_WHY_MAX])
{
	const char *bytes = text->bytes, *br;
	size_t len = text->len, mark = text_mark(bytes, len), at, indent, prefix;
	struct toml_scan scan = {.text = bytes, .len = len};
	bool ends = len > 0 && bytes[len - 1] == '\n';
	struct toml_item item, anchor = {0};
	int r = toml_find(bytes, len, table, key, &item, why);

	if (r == 0 && literal)
		return splice(text, item.value, item.value_end, "%s", literal);
	if (r == 0)
		return remove_key(text, &item);
	if (r != -ENOENT || !literal)
		return r == -ENOENT ? 0 : r;
	/* After the table's header or last key, with the same indentation and dotted prefix. */
	while (toml_next(&scan, &item) > 0)
		if (streq(item.table, table))
			anchor = item;
	if (anchor.end > 0) {
		indent = anchor.start;
		prefix = anchor.header ? anchor.start : anchor.last;
		while (indent > 0 && strchr(" \t", bytes[indent - 1]))
			indent--;
		return splice(text, anchor.end, anchor.end, "%s%.*s%s = %s", line_break(text, 0),
			(int)(prefix - indent), bytes + indent, key, literal);
	}
	/* A key without a table goes to the beginning. */
	if (!table[0])
		return splice(text, mark, mark, "%s = %s%s", key, literal, line_break(text, 0));
	/* A table goes to the end. The text still ends with a line break, or without one. */
	br = line_break(text, ends ? len - MIN(len, 2) : 0);
	at = ends ? len - strlen(br) : len;
	return splice(text, at, at, "%s%s" MARK "%s[%s]%s%s = %s%s", len > 0 ? br : "",
		len > 0 ? br : "", br, table, br, key, literal, len > 0 ? "" : br);
}

/* ---- JSON: keys of the root object ---- */

/* A key, whose value_end is 0 if it is missing, and the last of n members. */
struct found {
	struct json_member key, last;
	size_t n;
};

static struct found find_member(const char *text, const char *key)
{
	struct json_member member = {0};
	struct found found = {0};
	size_t n = strlen(key);

	for (; json_next(text, &member); found.n++) {
		if (member.key_end - member.key == n + 2 &&
			memcmp(text + member.key + 1, key, n) == 0)
			found.key = member;
		found.last = member;
	}
	return found;
}

/* Inserts the last member, in the style of the one before it. */
static int insert_member(
	struct file_bytes *text, const struct found *found, const char *key, const char *literal)
{
	const char *bytes = text->bytes;
	const struct json_member *last = &found->last;
	size_t at = strcspn(bytes, "{") + 1, start = last->key;

	if (found->n == 0)
		return splice(text, at, at, "%s\"%s\": %s",
			!memchr(bytes + at, '\n', strcspn(bytes + at, "}")) ? ""
			: bytes[at] == '\r'                                 ? "\r\n    "
									    : "\n    ",
			key, literal);
	while (strchr(BLANKS, bytes[start - 1]))
		start--;
	return splice(text, last->value_end, last->value_end, ",%s%.*s\"%s\"%s%s",
		found->n == 1 && start == last->key ? " " : "", (int)(last->key - start),
		bytes + start, key, last->value == last->key_end + 1 ? ":" : ": ", literal);
}

static bool is_same(const cJSON *a, const cJSON *b)
{
	_cleanup_free_ char *x = cJSON_PrintUnformatted(a), *y = cJSON_PrintUnformatted(b);

	return x && y ? streq(x, y) : !a && !b;
}

static int json_key_set(struct file_bytes *text, const char *key, const char *literal,
	char why[static EDIT_WHY_MAX])
{
	_cleanup_(file_bytes_clear) struct file_bytes new = {0};
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL, *edited = NULL, *has = NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *value = literal ? cJSON_Parse(literal) : NULL;
	size_t start, end, comma;
	struct found found;

	if (json_parse(text->bytes, text->len, &object, why) < 0)
		return -EBADMSG;
	text_copy(&new, object ? text->bytes : EMPTY, object ? text->len : strlen(EMPTY));
	if (!object)
		object = must(cJSON_CreateObject());
	found = find_member(new.bytes, key);
	start = found.key.key;
	end = found.key.value_end;
	if (end > 0 && literal) {
		splice(&new, found.key.value, end, "%s", literal);
	} else if (end > 0) {
		/* Also remove the comma before the member, or after it if it is the first. */
		comma = end + strspn(new.bytes + end, BLANKS);
		while (strchr(BLANKS, new.bytes[start - 1]))
			start--;
		if (new.bytes[start - 1] == ',') {
			start--;
		} else if (new.bytes[comma] == ',') {
			start = found.key.key;
			end = comma + 1 + strspn(new.bytes + comma + 1, BLANKS);
		}
		splice(&new, start, end, "%s", "");
	} else if (literal) {
		insert_member(&new, &found, key, literal);
	}
	/* Only this key may differ, and it must occur at most once. */
	(void)json_parse(new.bytes, new.len, &edited, why);
	has = cJSON_DetachItemFromObjectCaseSensitive(edited, key);
	while (cJSON_GetObjectItemCaseSensitive(object, key))
		cJSON_DeleteItemFromObjectCaseSensitive(object, key);
	if (!is_same(edited, object) || !is_same(has, value)) {
		snprintf(why, EDIT_WHY_MAX,
			"%s is not changed: the file is not plain JSON, or has the key twice", key);
		return -EBADMSG;
	}
	free(text->bytes);
	text->bytes = steal(new.bytes);
	text->len = new.len;
	return 0;
}

/* ---- both ---- */

int edit_get(enum edit_format format, const struct file_bytes *text, const char *table,
	const char *key, char **literal, char why[static EDIT_WHY_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;
	struct json_member member;
	struct toml_item item;
	int r;

	*literal = NULL;
	if (format == EDIT_JSON) {
		r = json_parse(text->bytes, text->len, &object, why);
		member = object ? find_member(text->bytes, key).key : (struct json_member){0};
		if (member.value_end > 0)
			*literal = must(strndup(
				text->bytes + member.value, member.value_end - member.value));
		return r;
	}
	r = toml_find(text->bytes, text->len, table, key, &item, why);
	if (r == 0)
		*literal = must(strndup(text->bytes + item.value, item.value_end - item.value));
	return r == -ENOENT ? 0 : r;
}

int edit_set(enum edit_format format, struct file_bytes *text, const char *table, const char *key,
	const char *literal, char why[static EDIT_WHY_MAX])
{
	return format == EDIT_TOML ? toml_key_set(text, table, key, literal, why)
				   : json_key_set(text, key, literal, why);
}
