/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/edit_text.h"

#include "base/text.h"
#include "base/toml.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Before a table that is added; it goes with its last key. */
#define MARK "# Added by headroom"

char *copy_bytes(const char *text, size_t len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return NULL;
	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

/* Replaces the bytes from start to end. */
int splice_bytes(const char *text, size_t len, size_t start, size_t end, const char *insert,
	char **out, size_t *out_len)
{
	size_t n = strlen(insert);
	char *bytes = malloc(len - (end - start) + n + 1);

	if (!bytes)
		return -ENOMEM;
	if (len > 0)
		memcpy(bytes, text, start);
	memcpy(bytes + start, insert, n);
	if (len > end)
		memcpy(bytes + start + n, text + end, len - end);
	*out_len = len - (end - start) + n;
	bytes[*out_len] = '\0';
	*out = bytes;
	return 0;
}

int toml_key_get(const char *text, size_t len, const char *table, const char *key, char **literal,
	char why[static EDIT_WHY_MAX])
{
	struct toml_item item;
	int r = toml_find(text, len, table, key, &item, why);

	*literal = NULL;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	*literal = copy_bytes(text + item.value, item.value_end - item.value);
	return *literal ? 0 : -ENOMEM;
}

/* The last line of the table that a key can go after: the header, or a key in it. */
static bool find_anchor(const char *text, size_t len, const char *table, struct toml_item *anchor)
{
	struct toml_scan scan = {.text = text, .len = len};
	struct toml_item item;
	bool found = false;

	while (toml_next(&scan, &item) > 0) {
		if (!streq(item.table, table))
			continue;
		*anchor = item;
		found = true;
	}
	return found;
}

static const char *line_break(const char *text, size_t len)
{
	const char *end = memchr(text, '\n', len);

	return end && end > text && end[-1] == '\r' ? "\r\n" : "\n";
}

/* Behind the anchor, indented and spelled as that is: it may be a dotted key of another table. */
static int insert_key(const char *text, size_t len, const struct toml_item *anchor, const char *key,
	const char *literal, char **out, size_t *out_len)
{
	size_t indent = anchor->start, prefix = anchor->header ? anchor->start : anchor->last;
	char *line;
	int r;

	while (indent > 0 && (text[indent - 1] == ' ' || text[indent - 1] == '\t'))
		indent--;
	if (asprintf(&line, "%s%.*s%s = %s", line_break(text, len), (int)(prefix - indent),
		    text + indent, key, literal) < 0)
		return -ENOMEM;
	r = splice_bytes(text, len, anchor->end, anchor->end, line, out, out_len);
	free(line);
	return r;
}

/* At the end, so that what the text ends with stays: a line break, or none. */
static int append_table(const char *text, size_t len, const char *table, const char *key,
	const char *literal, char **out, size_t *out_len)
{
	bool ends = len > 0 && text[len - 1] == '\n';
	const char *br = !ends                              ? line_break(text, len)
			 : len > 1 && text[len - 2] == '\r' ? "\r\n"
							    : "\n";
	size_t at = ends ? len - strlen(br) : len;
	char *block;
	int r;

	if (asprintf(&block, "%s%s" MARK "%s[%s]%s%s = %s%s", len > 0 ? br : "", len > 0 ? br : "",
		    br, table, br, key, literal, len > 0 ? "" : br) < 0)
		return -ENOMEM;
	r = splice_bytes(text, len, at, at, block, out, out_len);
	free(block);
	return r;
}

/* A key of the text's own top goes before everything. */
static int insert_first(const char *text, size_t len, const char *key, const char *literal,
	char **out, size_t *out_len)
{
	size_t at = text_mark(text, len);
	char *line;
	int r;

	if (asprintf(&line, "%s = %s%s", key, literal, line_break(text, len)) < 0)
		return -ENOMEM;
	r = splice_bytes(text, len, at, at, line, out, out_len);
	free(line);
	return r;
}

static size_t line_start(const char *text, size_t at)
{
	while (at > 0 && text[at - 1] != '\n')
		at--;
	return at;
}

/* Where the line break before a line begins; the same place where there is none. */
static size_t before_break(const char *text, size_t at)
{
	if (at > 0 && text[at - 1] == '\n')
		at--;
	return at > 0 && text[at] == '\n' && text[at - 1] == '\r' ? at - 1 : at;
}

/* With its table's header and mark, when it is the last key in a table that was added. */
static int remove_key(
	const char *text, size_t len, const struct toml_item *key, char **out, size_t *out_len)
{
	struct toml_scan scan = {.text = text, .len = len};
	struct toml_item item, header = {0};
	size_t first = text_mark(text, len), end = key->end, n = 0, mark;
	size_t start = line_start(text, key->start);

	while (toml_next(&scan, &item) > 0) {
		if (!streq(item.table, key->table))
			continue;
		if (item.header)
			header = item;
		else
			n++;
	}
	mark = line_start(text, before_break(text, header.start));
	if (n == 1 && header.header && mark + strlen(MARK) < header.start &&
		memcmp(text + mark, MARK, strlen(MARK)) == 0)
		start = mark > 0 ? before_break(text, mark) : 0;
	start = start > first ? start : first;
	if (start > first)
		start = before_break(text, start);
	else if (end < len) /* the first line: the line break behind it goes */
		end += strlen(line_break(text + end, len - end));
	return splice_bytes(text, len, start, end, "", out, out_len);
}

int toml_key_set(const char *text, size_t len, const char *table, const char *key,
	const char *literal, char **out, size_t *out_len, char why[static EDIT_WHY_MAX])
{
	struct toml_item item, anchor;
	int r = toml_find(text, len, table, key, &item, why);

	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0 && !literal)
		return remove_key(text, len, &item, out, out_len);
	if (r == 0)
		return splice_bytes(text, len, item.value, item.value_end, literal, out, out_len);
	if (!literal)
		return splice_bytes(text, len, len, len, "", out, out_len);
	if (find_anchor(text, len, table, &anchor))
		return insert_key(text, len, &anchor, key, literal, out, out_len);
	if (!table[0])
		return insert_first(text, len, key, literal, out, out_len);
	return append_table(text, len, table, key, literal, out, out_len);
}
