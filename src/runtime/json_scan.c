/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/json_scan.h"

#include "base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The byte there, 0 at the end. */
static char byte_at(const struct json_scan *scan, size_t at)
{
	return at < scan->len ? scan->text[at] : '\0';
}

static int fault(struct json_scan *scan, size_t at, const char *what)
{
	struct text_position position = text_position(scan->text, at < scan->len ? at : scan->len);

	snprintf(scan->why, sizeof(scan->why), "%zu:%zu: %s", position.line, position.column, what);
	return -EBADMSG;
}

static void skip_blanks(struct json_scan *scan)
{
	while (scan->at < scan->len && strchr(" \t\r\n", scan->text[scan->at]) &&
		scan->text[scan->at] != '\0')
		scan->at++;
}

static int skip_string(struct json_scan *scan)
{
	size_t start = scan->at++;

	for (; byte_at(scan, scan->at) != '"'; scan->at++) {
		if (byte_at(scan, scan->at) == '\\')
			scan->at++;
		if (scan->at >= scan->len || scan->text[scan->at] == '\n')
			return fault(scan, start, "a string without its closing quote");
	}
	scan->at++;
	return 0;
}

static int skip_value(struct json_scan *scan)
{
	size_t start = scan->at, depth = 0;

	do {
		char c = byte_at(scan, scan->at);
		int r;

		if (c == '"') {
			r = skip_string(scan);
			if (r < 0)
				return r;
			continue;
		}
		if (c == '\0')
			return fault(scan, start, "a value that does not end");
		if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && depth > 0)
			depth--;
		else if (depth == 0 && strchr(",}] \t\r\n", c))
			return scan->at > start ? 0 : fault(scan, start, "no value is here");
		scan->at++;
		if (depth == 0 && (c == '}' || c == ']'))
			return 0;
	} while (depth > 0 || byte_at(scan, start) != '"');
	return 0;
}

static int scan_member(struct json_scan *scan, struct json_member *member)
{
	int r;

	if (byte_at(scan, scan->at) != '"')
		return fault(scan, scan->at, "a key in quotes is expected here");
	member->key = scan->at;
	r = skip_string(scan);
	if (r < 0)
		return r;
	member->key_end = scan->at;
	skip_blanks(scan);
	if (byte_at(scan, scan->at) != ':')
		return fault(scan, scan->at, ": is expected here");
	scan->at++;
	skip_blanks(scan);
	member->value = scan->at;
	r = skip_value(scan);
	if (r < 0)
		return r;
	member->value_end = scan->at;
	scan->n++;
	return 1;
}

int json_next(struct json_scan *scan, struct json_member *member)
{
	bool first = scan->n == 0;

	if (scan->at == 0) {
		scan->at = text_mark(scan->text, scan->len);
		skip_blanks(scan);
		if (scan->at == scan->len)
			return 0;
		if (byte_at(scan, scan->at) != '{')
			return fault(scan, scan->at, "{ is expected here, in UTF-8");
		scan->open = scan->at++;
	}
	skip_blanks(scan);
	if (byte_at(scan, scan->at) == '}') {
		scan->close = scan->at++;
		skip_blanks(scan);
		return scan->at == scan->len ? 0 : fault(scan, scan->at, "text after the object");
	}
	if (!first && byte_at(scan, scan->at) != ',')
		return fault(scan, scan->at, ", or } is expected here");
	if (!first) {
		scan->at++;
		skip_blanks(scan);
	}
	return scan_member(scan, member);
}
