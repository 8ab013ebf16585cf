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

/* ---- the document ---- */

#define DEPTH_MAX 64

/* cJSON leaves valueint of an object or array to its user: how a table came to be. */
enum {
	TABLE_IMPLIED, /* by a longer header: it may get a header of its own */
	TABLE_DEFINED,
	TABLE_INLINE, /* complete */
	TABLE_LIST,   /* an array of tables */
};

/* Adds a character of a \u or \U escape of n digits. Returns false for an invalid one. */
static bool add_escaped(FILE *out, const char *digits, size_t n)
{
	unsigned long c;
	char hex[9] = "";

	strncpy(hex, digits, n);
	c = strtoul(hex, NULL, 16);
	if (strspn(hex, "0123456789abcdefABCDEF") != n || c == 0 || c > 0x10ffff ||
		(c >= 0xd800 && c < 0xe000))
		return false;
	if (c < 0x80)
		fputc((int)c, out);
	else if (c < 0x800)
		fprintf(out, "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 0x3f)));
	else if (c < 0x10000)
		fprintf(out, "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 0x3f)),
			(int)(0x80 | (c & 0x3f)));
	else
		fprintf(out, "%c%c%c%c", (int)(0xf0 | c >> 18), (int)(0x80 | (c >> 12 & 0x3f)),
			(int)(0x80 | (c >> 6 & 0x3f)), (int)(0x80 | (c & 0x3f)));
	return true;
}

/* Writes the character of an escape, after its backslash. Returns its length, or 0 for an unknown
 * one. */
static size_t read_escape(const char *text, bool many, FILE *out)
{
	static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
	const char *plain = text[0] ? strchr(from, text[0]) : NULL;
	size_t digits = text[0] == 'u' ? 4 : text[0] == 'U' ? 8 : 0, blanks = strspn(text, " \t");

	if (plain)
		return fputc(to[plain - from], out) >= 0;
	if (digits > 0)
		return add_escaped(out, text + 1, digits) ? 1 + digits : 0;
	/* A backslash at the end of a line joins it with the next one. */
	return many && strchr("\r\n", text[blanks]) ? strspn(text, " \t\r\n") : 0;
}

/* Reads a string, which the caller frees, and moves past it. */
static int read_string(struct toml_scan *scan, size_t *at, char **string)
{
	const char *text = scan->text;
	char quote = text[*at];
	bool many = text[*at + 1] == quote && text[*at + 2] == quote;
	size_t end = *at, i = *at + (many ? 3 : 1), size = 0, n;
	FILE *out;
	int r = skip_string(scan, &end);

	if (r < 0)
		return r;
	if (many)
		i += text[i] == '\r' ? 2 : text[i] == '\n';
	out = must(open_memstream(string, &size));
	for (; r == 0 && i < end - (many ? 3 : 1); i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\\' && quote == '"') {
			n = read_escape(text + i + 1, many, out);
			i += n;
			if (n == 0)
				r = fault(scan, i, "an escape that TOML does not have");
		} else if ((c < ' ' && c != '\t' && !(many && strchr("\r\n", c))) || c == 0x7f) {
			r = fault(scan, i, "a control character in a string");
		} else {
			fputc(c, out);
		}
	}
	fclose(out);
	must(*string);
	if (r < 0)
		free(steal(*string));
	*at = end;
	return r;
}

/* Skips blanks, and between items of an array also line breaks and comments. */
static size_t skip_to_item(const char *text, size_t at)
{
	while (text[at += strspn(text + at, " \t\r\n")] == '#')
		at = line_end(text, at);
	return at;
}

static int read_value(struct toml_scan *scan, size_t *at, unsigned depth, cJSON **value);
static int read_pair(struct toml_scan *scan, size_t *at, unsigned depth, cJSON *table);

/* Reads an array or an inline table. */
static int read_list(struct toml_scan *scan, size_t *at, unsigned depth, cJSON **list)
{
	const char *text = scan->text;
	char end = text[*at] == '[' ? ']' : '}';
	size_t start = *at;
	int r = 0;

	if (depth > DEPTH_MAX)
		return fault(scan, start, "too many brackets");
	*list = must(end == ']' ? cJSON_CreateArray() : cJSON_CreateObject());
	*at = skip_to_item(text, start + 1);
	while (r == 0 && text[*at] != end) {
		cJSON *item = NULL;

		r = end == '}' ? read_pair(scan, at, depth + 1, *list)
			       : read_value(scan, at, depth + 1, &item);
		if (item)
			must_do(cJSON_AddItemToArray(*list, item));
		*at = skip_to_item(text, *at);
		if (r == 0 && text[*at] == ',')
			*at = skip_to_item(text, *at + 1);
		else if (r == 0 && text[*at] != end)
			r = fault(scan, *at, "a comma is expected here");
	}
	(*list)->valueint = TABLE_INLINE;
	++*at;
	return r;
}

/* Reads true, false, a number or a time, which may have a blank before its hour. */
static int read_word(struct toml_scan *scan, size_t *at, cJSON **value)
{
	const char *text = scan->text + *at;
	size_t n = strcspn(text, ",]}# \t\r\n"), digits = 0;
	char word[64], plain[64], *end;
	bool is_special, is_time = n == 10 && text[4] == '-' && text[7] == '-';

	if (is_time && text[n] == ' ' && text[n + 1] >= '0' && text[n + 1] <= '9')
		n += 1 + strcspn(text + n + 1, ",]}# \t\r\n");
	snprintf(word, sizeof(word), "%.*s", (int)MIN(n, sizeof(word) - 1), text);
	for (const char *c = word; *c; c++)
		if (*c != '_')
			plain[digits++] = *c;
	plain[digits] = '\0';
	is_special = streq(word + strspn(word, "+-"), "inf") ||
		     streq(word + strspn(word, "+-"), "nan") ||
		     (strchr("+-0123456789", word[0]) &&
			     strspn(word, "+-:. TZtzxob_0123456789abcdefABCDEF") == strlen(word));
	if (n == 0 || n >= sizeof(word) ||
		!(streq(word, "true") || streq(word, "false") || is_special))
		return fault(scan, *at, "a value is expected here");
	if (word[0] == 't' || word[0] == 'f') {
		*value = must(cJSON_CreateBool(word[0] == 't'));
	} else {
		double number = strtod(plain, &end);
		bool is_decimal = strspn(plain, "+-.eE0123456789") == digits;

		*value = must(is_decimal && !*end ? cJSON_CreateNumber(number)
						  : cJSON_CreateString(word));
	}
	*at += n;
	return 0;
}

static int read_value(struct toml_scan *scan, size_t *at, unsigned depth, cJSON **value)
{
	_cleanup_free_ char *string = NULL;
	char c = scan->text[*at];
	int r;

	if (c == '[' || c == '{')
		return read_list(scan, at, depth, value);
	if (c != '"' && c != '\'')
		return read_word(scan, at, value);
	r = read_string(scan, at, &string);
	if (r == 0)
		*value = must(cJSON_CreateString(string));
	return r;
}

/* Reads a part of a name, which the caller frees. */
static int read_part(struct toml_scan *scan, size_t *at, char **part)
{
	const char *text = scan->text;
	size_t n = strspn(text + *at, BARE);

	if (text[*at] == '"' || text[*at] == '\'')
		return read_string(scan, at, part);
	if (n == 0)
		return fault(scan, *at, "a name is expected here");
	*part = must(strndup(text + *at, n));
	*at += n;
	return 0;
}

/* Moves from a table to the one with this name, which may be made. */
static int enter_table(struct toml_scan *scan, size_t at, const char *name, cJSON **table)
{
	cJSON *next = cJSON_GetObjectItemCaseSensitive(*table, name);

	if (!next) {
		next = must(cJSON_CreateObject());
		must_do(cJSON_AddItemToObject(*table, name, next));
	}
	if (cJSON_IsArray(next) && next->valueint == TABLE_LIST)
		next = next->child->prev; /* the last one */
	if (!cJSON_IsObject(next) || next->valueint == TABLE_INLINE)
		return fault(scan, at, "this is not a table that can be extended");
	*table = next;
	return 0;
}

/* Reads a dotted name and moves to its table. *last is its last part, which the caller frees. */
static int read_name(struct toml_scan *scan, size_t *at, cJSON **table, char **last)
{
	const char *text = scan->text;
	int r;

	for (int depth = 0;; depth++) {
		size_t start = *at = skip_blanks(text, *at);

		free(steal(*last));
		r = depth > DEPTH_MAX ? fault(scan, start, "too long a name")
				      : read_part(scan, at, last);
		*at = skip_blanks(text, *at);
		if (r < 0 || text[*at] != '.')
			return r;
		++*at;
		r = enter_table(scan, start, *last, table);
		if (r < 0)
			return r;
	}
}

static int read_pair(struct toml_scan *scan, size_t *at, unsigned depth, cJSON *table)
{
	_cleanup_free_ char *name = NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *value = NULL;
	size_t start = *at;
	int r = read_name(scan, at, &table, &name);

	if (r < 0)
		return r;
	if (scan->text[*at] != '=')
		return fault(scan, *at, "= is expected here");
	if (cJSON_GetObjectItemCaseSensitive(table, name))
		return fault(scan, start, "this key is there twice");
	*at = skip_blanks(scan->text, *at + 1);
	r = read_value(scan, at, depth, &value);
	if (r == 0)
		must_do(cJSON_AddItemToObject(table, name, steal(value)));
	return r;
}

/* Moves to the table of a header. */
static int read_header(struct toml_scan *scan, size_t at, cJSON **table)
{
	_cleanup_free_ char *name = NULL;
	bool is_list = scan->text[at + 1] == '[';
	size_t start = at;
	cJSON *found;
	int r;

	at += is_list ? 2 : 1;
	r = read_name(scan, &at, table, &name);
	if (r < 0)
		return r;
	found = cJSON_GetObjectItemCaseSensitive(*table, name);
	if (found && (is_list ? !cJSON_IsArray(found) || found->valueint != TABLE_LIST
			      : !cJSON_IsObject(found) || found->valueint != TABLE_IMPLIED))
		return fault(scan, start, "this table is there twice");
	if (!found) {
		found = must(is_list ? cJSON_CreateArray() : cJSON_CreateObject());
		must_do(cJSON_AddItemToObject(*table, name, found));
	}
	found->valueint = is_list ? TABLE_LIST : TABLE_DEFINED;
	*table = is_list ? json_append(found) : found;
	return 0;
}

int toml_parse(const char *text, size_t len, cJSON **document, char why[static TOML_WHY_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = must(cJSON_CreateObject());
	struct toml_scan scan = {.text = text, .len = len};
	struct toml_item item;
	cJSON *table = root;
	int r;

	while ((r = toml_next(&scan, &item)) > 0) {
		size_t at = item.start;

		if (item.header) {
			table = root;
			r = read_header(&scan, at, &table);
		} else {
			r = read_pair(&scan, &at, 0, table);
			if (r == 0 && at != item.value_end)
				r = fault(&scan, at, "the end of the line is expected here");
		}
		if (r < 0)
			break;
	}
	if (r < 0) {
		copy_text(why, TOML_WHY_MAX, scan.why);
		return r;
	}
	*document = steal(root);
	return 0;
}
