/* SPDX-License-Identifier: Apache-2.0 */
#include "base/toml.h"

#include "base/text.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>

/* The byte there, 0 at the end: no byte of TOML is that. */
static char byte_at(const struct toml_scan *scan, size_t at)
{
	return at < scan->len ? scan->text[at] : '\0';
}

static int fault(struct toml_scan *scan, size_t at, const char *what)
{
	struct text_position position = text_position(scan->text, MIN(at, scan->len));

	snprintf(scan->why, sizeof(scan->why), "%zu:%zu: %s", position.line, position.column, what);
	return -EBADMSG;
}

static size_t skip_blanks(const struct toml_scan *scan, size_t at)
{
	while (byte_at(scan, at) == ' ' || byte_at(scan, at) == '\t')
		at++;
	return at;
}

/* The end of the line, before its line break. */
static size_t line_end(const struct toml_scan *scan, size_t at)
{
	const char *end = at < scan->len ? memchr(scan->text + at, '\n', scan->len - at) : NULL;
	size_t n = end ? (size_t)(end - scan->text) : scan->len;

	return n > at && scan->text[n - 1] == '\r' ? n - 1 : n;
}

/* Past a string in any of the four kinds of quotes. */
static int skip_string(struct toml_scan *scan, size_t *at)
{
	size_t start = *at;
	char quote = scan->text[start];
	bool many = byte_at(scan, start + 1) == quote && byte_at(scan, start + 2) == quote;
	size_t i = start + (many ? 3 : 1);

	for (; i < scan->len; i++) {
		if (scan->text[i] == '\\' && quote == '"') {
			i++;
		} else if (scan->text[i] == '\n' && !many) {
			break;
		} else if (scan->text[i] == quote && !many) {
			*at = i + 1;
			return 0;
		} else if (scan->text[i] == quote && byte_at(scan, i + 1) == quote &&
			   byte_at(scan, i + 2) == quote) {
			/* Up to two quotes may stand before the closing ones. */
			for (i += 3; byte_at(scan, i) == quote;)
				i++;
			*at = i;
			return 0;
		}
	}
	return fault(scan, start, "a string without its closing quote");
}

/* Past a value: up to a comment or the end of the line, outside of all brackets. */
static int skip_value(struct toml_scan *scan, size_t *value_end)
{
	size_t start = scan->at, at = start, end = start, depth = 0;
	int r;

	for (char c; (c = byte_at(scan, at)) != '\0' && (depth > 0 || c != '\n');) {
		if (c == '#' && depth == 0)
			break;
		if (c == '#') {
			at = line_end(scan, at);
			continue;
		}
		if (c == '"' || c == '\'') {
			r = skip_string(scan, &at);
			if (r < 0)
				return r;
			end = at;
			continue;
		}
		if (c == '[' || c == '{')
			depth++;
		if ((c == ']' || c == '}') && depth-- == 0)
			return fault(scan, at, "a bracket that nothing opened");
		at++;
		if (!strchr(" \t\r\n", c))
			end = at;
	}
	if (!strchr("\"'[{+-0123456789tfin", byte_at(scan, start)))
		return fault(scan, start, "a value is expected here");
	if (depth > 0)
		return fault(scan, start, "a bracket that nothing closes");
	if (end == start)
		return fault(scan, start, "a key without a value");
	scan->at = at;
	*value_end = end;
	return 0;
}

static bool is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static bool all_bare(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_bare(text[i]))
			return false;
	return n > 0;
}

/* Adds a part to a dotted name. A name that does not fit is none that anybody looks for. */
static void add_part(char *name, const char *part, size_t n, bool quoted)
{
	size_t used = strlen(name);

	snprintf(name + used, TOML_NAME_MAX - used, "%s%s%.*s%s", used > 0 ? "." : "",
		quoted ? "\"" : "", (int)MIN(n, (size_t)TOML_NAME_MAX), part, quoted ? "\"" : "");
}

/* A dotted name: all of its parts but the last are added to table, the last one is key. */
static int scan_name(struct toml_scan *scan, char *table, struct toml_item *item)
{
	for (;;) {
		size_t at = skip_blanks(scan, scan->at), end = at;
		bool quoted = byte_at(scan, at) == '"' || byte_at(scan, at) == '\'';
		int r = quoted ? skip_string(scan, &end) : 0;

		if (r < 0)
			return r;
		while (!quoted && is_bare(byte_at(scan, end)))
			end++;
		if (end == at)
			return fault(scan, at, "a name is expected here");
		item->last = at;
		item->key[0] = '\0';
		quoted = quoted && !all_bare(scan->text + at + 1, end - at - 2);
		if (is_bare(scan->text[at]))
			add_part(item->key, scan->text + at, end - at, false);
		else
			add_part(item->key, scan->text + at + 1, end - at - 2, quoted);
		scan->at = skip_blanks(scan, end);
		if (byte_at(scan, scan->at) != '.')
			return 0;
		scan->at++;
		add_part(table, item->key, strlen(item->key), false);
	}
}

static int scan_header(struct toml_scan *scan, struct toml_item *item)
{
	bool array = byte_at(scan, scan->at + 1) == '[';
	int r;

	item->header = true;
	item->start = scan->at;
	scan->at += array ? 2 : 1;
	scan->table[0] = '\0';
	r = scan_name(scan, scan->table, item);
	if (r < 0)
		return r;
	add_part(scan->table, item->key, strlen(item->key), false);
	for (int i = 0; i < (array ? 2 : 1); i++)
		if (byte_at(scan, scan->at++) != ']')
			return fault(scan, scan->at - 1, "] is expected here");
	if (array)
		snprintf(scan->table + strlen(scan->table),
			sizeof(scan->table) - strlen(scan->table), "[]");
	item->key[0] = '\0';
	memcpy(item->table, scan->table, sizeof(item->table));
	return 0;
}

static int scan_key(struct toml_scan *scan, struct toml_item *item)
{
	int r;

	item->start = scan->at;
	memcpy(item->table, scan->table, sizeof(item->table));
	r = scan_name(scan, item->table, item);
	if (r < 0)
		return r;
	if (byte_at(scan, scan->at) != '=')
		return fault(scan, scan->at, "= is expected here");
	scan->at = skip_blanks(scan, scan->at + 1);
	item->value = scan->at;
	return skip_value(scan, &item->value_end);
}

int toml_next(struct toml_scan *scan, struct toml_item *item)
{
	int r;

	for (size_t i = 0; scan->at == 0 && i < scan->len; i++)
		if (scan->text[i] == '\0' ||
			(scan->text[i] == '\r' && byte_at(scan, i + 1) != '\n'))
			return fault(scan, i, "a byte that no TOML has");
	if (scan->at == 0)
		scan->at = text_mark(scan->text, scan->len);
	for (;; scan->at++) {
		char c = byte_at(scan, scan->at);

		if (c == '#')
			scan->at = line_end(scan, scan->at);
		else if (c == '\0' || !strchr(" \t\r\n", c))
			break;
	}
	if (scan->at >= scan->len)
		return 0;
	memset(item, 0, sizeof(*item));
	r = scan->text[scan->at] == '[' ? scan_header(scan, item) : scan_key(scan, item);
	if (r < 0)
		return r;
	item->end = line_end(scan, item->header ? scan->at : item->value_end);
	scan->at = skip_blanks(scan, scan->at);
	if (scan->at < item->end && scan->text[scan->at] != '#')
		return fault(scan, scan->at, "the end of the line is expected here");
	scan->at = item->end;
	return 1;
}

int toml_find(const char *text, size_t len, const char *table, const char *key,
	struct toml_item *item, char why[static TOML_WHY_MAX])
{
	struct toml_scan scan = {.text = text, .len = len};
	char wanted[2 * TOML_NAME_MAX], name[2 * TOML_NAME_MAX];
	int r;

	snprintf(wanted, sizeof(wanted), "%s%s%s", table, table[0] ? "." : "", key);
	while ((r = toml_next(&scan, item)) > 0) {
		size_t n = (size_t)snprintf(name, sizeof(name), "%s%s%s", item->table,
			item->table[0] ? "." : "", item->key);

		if (item->header)
			continue;
		if (streq(name, wanted))
			return 0;
		if (text[item->value] == '{' && strncmp(name, wanted, n) == 0 && wanted[n] == '.') {
			fault(&scan, item->start, "an inline table, which is not edited");
			r = -EEXIST;
			break;
		}
	}
	if (r < 0)
		copy_text(why, TOML_WHY_MAX, scan.why);
	return r < 0 ? r : -ENOENT;
}

/* A plain string: one line in one pair of quotes, without escapes. */
static bool is_plain(const char *text, size_t n)
{
	return n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n - 1] == text[0] &&
	       !(n > 2 && text[1] == text[0]) && !(text[0] == '"' && memchr(text, '\\', n));
}

bool toml_value(const char *text, const struct toml_item *item, char *out, size_t size)
{
	size_t n = item->value_end - item->value;
	bool plain = is_plain(text + item->value, n);

	return (size_t)snprintf(out, size, "%.*s", (int)(plain ? n - 2 : n),
		       text + item->value + (plain ? 1 : 0)) < size;
}

bool toml_next_string(
	const char *text, const struct toml_item *item, size_t *at, char *out, size_t size)
{
	struct toml_scan scan = {.text = text, .len = item->value_end};
	size_t i = MAX(*at, item->value), start;

	while (i < item->value_end && text[i] != '"' && text[i] != '\'')
		i = text[i] == '#' ? line_end(&scan, i) : i + 1;
	start = i;
	if (i >= item->value_end || skip_string(&scan, &i) < 0)
		return false;
	*at = i;
	return toml_value(text, &(struct toml_item){.value = start, .value_end = i}, out, size);
}

bool toml_quote(const char *string, char *out, size_t size)
{
	for (const char *p = string; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '"' || *p == '\\')
			return false;
	return (size_t)snprintf(out, size, "\"%s\"", string) < size;
}
