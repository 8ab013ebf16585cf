/* SPDX-License-Identifier: Apache-2.0 */
#include "base/toml.h"

#include "base/text.h"

#define BARE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

static int fault(struct toml_scan *scan, size_t at, const char *what)
{
	struct text_position position = text_position(scan->text, at);

	snprintf(scan->why, sizeof(scan->why), "%zu:%zu: %s", position.line, position.column, what);
	return -EBADMSG;
}

static size_t skip_blanks(const char *text, size_t at)
{
	return at + strspn(text + at, " \t");
}

/* Returns the end of the line, before its line break. */
static size_t line_end(const char *text, size_t at)
{
	size_t end = at + strcspn(text + at, "\n");

	return end > at && text[end - 1] == '\r' ? end - 1 : end;
}

/* Returns the position after a string of any of the four kinds; 0 without a closing quote. */
static size_t string_end(const char *text, size_t at)
{
	char quote = text[at];
	bool many = text[at + 1] == quote && text[at + 2] == quote;

	for (at += many ? 3 : 1; text[at] && (many || text[at] != '\n'); at++) {
		if (text[at] == '\\' && quote == '"' && text[at + 1]) {
			at++;
		} else if (text[at] == quote && !many) {
			return at + 1;
		} else if (text[at] == quote && text[at + 1] == quote && text[at + 2] == quote) {
			/* Up to two quotes may precede the closing ones. */
			for (at += 3; text[at] == quote;)
				at++;
			return at;
		}
	}
	return 0;
}

static int skip_string(struct toml_scan *scan, size_t *at)
{
	size_t end = string_end(scan->text, *at);

	if (end == 0)
		return fault(scan, *at, "a string without its closing quote");
	*at = end;
	return 0;
}

/* Skips a value: up to a comment or the end of the line outside of brackets. */
static int skip_value(struct toml_scan *scan, size_t *value_end)
{
	size_t start = scan->at, at = start, end = start, depth = 0;

	for (char c; (c = scan->text[at]) && (depth > 0 || (c != '\n' && c != '#'));) {
		if (c == '#') {
			at = line_end(scan->text, at);
			continue;
		}
		if (c == '"' || c == '\'') {
			if (skip_string(scan, &at) < 0)
				return -EBADMSG;
			end = at;
			continue;
		}
		depth += c == '[' || c == '{';
		if ((c == ']' || c == '}') && depth-- == 0)
			return fault(scan, at, "a bracket that nothing opened");
		at++;
		if (!strchr(" \t\r\n", c))
			end = at;
	}
	if (!strchr("\"'[{+-0123456789tfin", scan->text[start]))
		return fault(scan, start, "a value is expected here");
	if (depth > 0)
		return fault(scan, start, "a bracket that nothing closes");
	if (end == start)
		return fault(scan, start, "a key without a value");
	scan->at = at;
	*value_end = end;
	return 0;
}

/* Adds a part to a dotted name. A truncated name is not found: no caller wants a longer one. */
static void add_part(char *name, const char *part, size_t n, const char *quote)
{
	size_t used = strlen(name);

	snprintf(name + used, TOML_NAME_MAX - used, "%s%s%.*s%s", used > 0 ? "." : "", quote,
		(int)MIN(n, (size_t)TOML_NAME_MAX), part, quote);
}

/* Scans a dotted name: the last part is the key, all others are added to table. */
static int scan_name(struct toml_scan *scan, char *table, struct toml_item *item)
{
	for (;; scan->at++) {
		size_t at = skip_blanks(scan->text, scan->at);
		size_t n = strspn(scan->text + at, BARE), end = at + n;

		item->last = at;
		item->key[0] = '\0';
		if (scan->text[at] == '"' || scan->text[at] == '\'') {
			if (skip_string(scan, &end) < 0)
				return -EBADMSG;
			at++;
			n = end - at - 1;
			add_part(item->key, scan->text + at, n,
				n > 0 && strspn(scan->text + at, BARE) == n ? "" : "\"");
		} else if (n == 0) {
			return fault(scan, at, "a name is expected here");
		} else {
			add_part(item->key, scan->text + at, n, "");
		}
		scan->at = skip_blanks(scan->text, end);
		if (scan->text[scan->at] != '.')
			return 0;
		add_part(table, item->key, strlen(item->key), "");
	}
}

int toml_next(struct toml_scan *scan, struct toml_item *item)
{
	const char *text = scan->text;
	size_t brackets;

	for (size_t i = 0; scan->at == 0 && i < scan->len; i++)
		if (text[i] == '\0' || (text[i] == '\r' && text[i + 1] != '\n'))
			return fault(scan, i, "a byte that no TOML has");
	if (scan->at == 0)
		scan->at = text_mark(text, scan->len);
	while (text[scan->at += strspn(text + scan->at, " \t\r\n")] == '#')
		scan->at = line_end(text, scan->at);
	if (!text[scan->at])
		return 0;
	memset(item, 0, sizeof(*item));
	item->start = scan->at;
	item->header = text[scan->at] == '[';
	brackets = !item->header ? 0 : text[scan->at + 1] == '[' ? 2 : 1;
	scan->at += brackets;
	if (item->header)
		scan->table[0] = '\0';
	memcpy(item->table, scan->table, sizeof(item->table));
	if (scan_name(scan, item->table, item) < 0)
		return -EBADMSG;
	if (item->header) {
		add_part(item->table, item->key, strlen(item->key), "");
		for (size_t i = 0; i < brackets; i++, scan->at++)
			if (text[scan->at] != ']')
				return fault(scan, scan->at, "] is expected here");
		if (brackets == 2)
			text_append(item->table, sizeof(item->table), "[]");
		item->key[0] = '\0';
		memcpy(scan->table, item->table, sizeof(scan->table));
	} else {
		if (text[scan->at] != '=')
			return fault(scan, scan->at, "= is expected here");
		item->value = scan->at = skip_blanks(text, scan->at + 1);
		if (skip_value(scan, &item->value_end) < 0)
			return -EBADMSG;
	}
	item->end = line_end(text, item->header ? scan->at : item->value_end);
	scan->at = skip_blanks(text, scan->at);
	if (scan->at < item->end && text[scan->at] != '#')
		return fault(scan, scan->at, "the end of the line is expected here");
	scan->at = item->end;
	return 1;
}

const char *toml_name(const struct toml_item *item, char name[static TOML_FULL_MAX])
{
	snprintf(name, TOML_FULL_MAX, "%s%s%s", item->table,
		item->table[0] && !item->header ? "." : "", item->key);
	return name;
}

int toml_find(const char *text, size_t len, const char *table, const char *key,
	struct toml_item *item, char *why)
{
	struct toml_scan scan = {.text = text, .len = len};
	char wanted[TOML_FULL_MAX], name[TOML_FULL_MAX];
	int r;

	snprintf(wanted, sizeof(wanted), "%s%s%s", table, table[0] ? "." : "", key);
	while ((r = toml_next(&scan, item)) > 0) {
		if (item->header)
			continue;
		if (streq(toml_name(item, name), wanted))
			return 0;
		if (text[item->value] == '{' && starts_with(wanted, name) &&
			wanted[strlen(name)] == '.') {
			fault(&scan, item->start, "an inline table, which is not edited");
			r = -EEXIST;
			break;
		}
	}
	if (r < 0 && why)
		copy_text(why, TOML_WHY_MAX, scan.why);
	return r < 0 ? r : -ENOENT;
}

bool toml_value(const char *text, const struct toml_item *item, char *out, size_t size)
{
	const char *value = text + item->value;
	size_t n = item->value_end - item->value;
	/* On one line, in one pair of quotes, without escapes. */
	bool plain = n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n - 1] == value[0] &&
		     !(n > 2 && value[1] == value[0]) &&
		     !(value[0] == '"' && memchr(value, '\\', n));

	if (plain) {
		value++;
		n -= 2;
	}
	return (size_t)snprintf(out, size, "%.*s", (int)n, value) < size;
}

bool toml_lookup(const char *text, const char *name, char *out, size_t size)
{
	struct toml_item item;

	return toml_find(text, strlen(text), "", name, &item, NULL) == 0 &&
	       toml_value(text, &item, out, size);
}

bool toml_next_string(
	const char *text, const struct toml_item *item, size_t *at, char *out, size_t size)
{
	struct toml_item string = {.value = MAX(*at, item->value)};

	while (string.value < item->value_end && !strchr("\"'", text[string.value]))
		string.value =
			text[string.value] == '#' ? line_end(text, string.value) : string.value + 1;
	if (string.value >= item->value_end)
		return false;
	string.value_end = *at = string_end(text, string.value);
	return toml_value(text, &string, out, size);
}

bool toml_quote(const char *string, char *out, size_t size)
{
	for (const char *p = string; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '"' || *p == '\\')
			return false;
	return (size_t)snprintf(out, size, "\"%s\"", string) < size;
}
