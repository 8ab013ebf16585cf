/* SPDX-License-Identifier: Apache-2.0 */
#include "base/toml_scan.h"

#include "base/cleanup.h"
#include "base/utf8.h"
#include "base/util.h"

#include <errno.h>
#include <limits.h>

int toml_buffer_add(struct toml_buffer *buffer, const char *bytes, size_t len)
{
	if (buffer->len + len + 1 > buffer->allocated) {
		size_t wanted = MAX(buffer->allocated * 2, buffer->len + len + 64);
		char *moved = realloc(buffer->bytes, wanted);

		if (!moved)
			return -ENOMEM;
		buffer->bytes = moved;
		buffer->allocated = wanted;
	}
	if (len > 0)
		memcpy(buffer->bytes + buffer->len, bytes, len);
	buffer->len += len;
	buffer->bytes[buffer->len] = '\0';
	return 0;
}

void toml_buffer_clear(struct toml_buffer *buffer)
{
	free(buffer->bytes);
	*buffer = (struct toml_buffer){0};
}

static int fault(struct toml_cursor *cursor, const char *why)
{
	cursor->why = why;
	return -EBADMSG;
}

static bool at(const struct toml_cursor *cursor, const char *what)
{
	size_t n = strlen(what);

	return cursor->len - cursor->at >= n && memcmp(cursor->text + cursor->at, what, n) == 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t encode_utf8(unsigned long c, char out[static 4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* The digits of \uXXXX or \UXXXXXXXX, of which the letter is read. */
static int read_code_point(struct toml_cursor *cursor, int digits, struct toml_buffer *decoded)
{
	unsigned long c = 0;
	char bytes[4];

	for (int i = 0; i < digits; i++) {
		int digit = cursor->at < cursor->len ? hex_digit(cursor->text[cursor->at]) : -1;

		if (digit < 0)
			return fault(cursor, "a hexadecimal digit was expected");
		c = c << 4 | (unsigned long)digit;
		cursor->at++;
	}
	/* A NUL would end the value for whoever takes it as C text. */
	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return fault(cursor, "this is no character");
	return decoded ? toml_buffer_add(decoded, bytes, encode_utf8(c, bytes)) : 0;
}

/* A backslash at the end of a line takes away all blanks and line ends that follow. */
static bool skip_continuation(struct toml_cursor *cursor)
{
	size_t place = cursor->at;

	while (place < cursor->len && strchr(" \t", cursor->text[place]) && cursor->text[place])
		place++;
	if (place < cursor->len && cursor->text[place] == '\r')
		place++;
	if (place >= cursor->len || cursor->text[place] != '\n')
		return false;
	while (place < cursor->len && cursor->text[place] && strchr(" \t\r\n", cursor->text[place]))
		place++;
	cursor->at = place;
	return true;
}

static int read_escape(struct toml_cursor *cursor, bool many_lines, struct toml_buffer *decoded)
{
	static const char letters[] = "btnfr\"\\", meant[] = "\b\t\n\f\r\"\\";
	const char *found;
	char c;

	cursor->at++;
	if (many_lines && skip_continuation(cursor))
		return 0;
	c = cursor->at < cursor->len ? cursor->text[cursor->at] : '\0';
	if (c == 'u' || c == 'U') {
		cursor->at++;
		return read_code_point(cursor, c == 'u' ? 4 : 8, decoded);
	}
	found = c ? strchr(letters, c) : NULL;
	if (!found)
		return fault(cursor, "this is no escape that TOML knows");
	cursor->at++;
	return decoded ? toml_buffer_add(decoded, &meant[found - letters], 1) : 0;
}

/* Up to two quotes may stand before the three that end the string. */
static int end_of_many_lines(struct toml_cursor *cursor, char quote, struct toml_buffer *decoded)
{
	size_t n = 0;

	while (n < 5 && cursor->at + n < cursor->len && cursor->text[cursor->at + n] == quote)
		n++;
	cursor->at += n;
	if (n < 3)
		return decoded ? toml_buffer_add(decoded, cursor->text + cursor->at - n, n) : 0;
	if (n > 3 && decoded) {
		int r = toml_buffer_add(decoded, cursor->text + cursor->at - n, n - 3);

		if (r < 0)
			return r;
	}
	return 1;
}

/* One character, or what stands for one. 1 at the end of the string, which is read. */
static int read_character(
	struct toml_cursor *cursor, char quote, bool many_lines, struct toml_buffer *decoded)
{
	char c = cursor->text[cursor->at];

	if (c == quote) {
		if (many_lines)
			return end_of_many_lines(cursor, quote, decoded);
		cursor->at++;
		return 1;
	}
	if (c == '\\' && quote == '"')
		return read_escape(cursor, many_lines, decoded);
	if (c == '\0' || (c == '\n' && !many_lines))
		return fault(cursor, "the string does not end on its line");
	cursor->at++;
	return decoded ? toml_buffer_add(decoded, &c, 1) : 0;
}

int toml_string_read(struct toml_cursor *cursor, bool many_lines, struct toml_buffer *decoded)
{
	char quote = cursor->text[cursor->at];
	bool three = at(cursor, quote == '"' ? "\"\"\"" : "'''");
	size_t start = cursor->at;
	int r = decoded ? toml_buffer_add(decoded, NULL, 0) : 0;

	if (r < 0)
		return r;
	if (three && !many_lines)
		return fault(cursor, "a string of many lines cannot be a name");
	cursor->at += three ? 3 : 1;
	if (three && at(cursor, "\r\n"))
		cursor->at += 2;
	else if (three && at(cursor, "\n"))
		cursor->at++;
	while (cursor->at < cursor->len) {
		r = read_character(cursor, quote, three, decoded);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	cursor->at = start;
	return fault(cursor, "the string does not end");
}

static int quote_character(struct toml_buffer *literal, const char *s, size_t n)
{
	static const char special[] = "\"\\\b\t\n\f\r", letters[] = "\"\\btnfr";
	const char *found = strchr(special, *s);
	char escape[8];
	int len;

	if (found)
		len = snprintf(escape, sizeof(escape), "\\%c", letters[found - special]);
	else if ((unsigned char)*s < 0x20 || *s == 0x7f)
		len = snprintf(escape, sizeof(escape), "\\u%04X", (unsigned)(unsigned char)*s);
	else
		return toml_buffer_add(literal, s, n);
	return toml_buffer_add(literal, escape, (size_t)len);
}

static int quote_into(struct toml_buffer *literal, const char *string, size_t len)
{
	int r = toml_buffer_add(literal, "\"", 1);

	for (size_t i = 0; i < len && r == 0;) {
		size_t n = utf8_length(string + i);

		if (n == 0 || i + n > len)
			return -EINVAL;
		r = quote_character(literal, string + i, n);
		i += n;
	}
	return r < 0 ? r : toml_buffer_add(literal, "\"", 1);
}

int toml_quote(const char *string, char **literal)
{
	_cleanup_(toml_buffer_clear) struct toml_buffer buffer = {0};
	int r = quote_into(&buffer, string, strlen(string));

	if (r < 0)
		return r;
	*literal = steal(buffer.bytes);
	return 0;
}

static bool is_bare(const char *part, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-",
			    part[i]))
			return false;
	return len > 0;
}

static int spell_part(const char *part, size_t len, struct toml_buffer *spelled)
{
	int r = 0;

	if (len > 0 && *part == TOML_ELEMENT) {
		r = toml_buffer_add(spelled, "[", 1);
		if (r == 0)
			r = toml_buffer_add(spelled, part + 1, len - 1);
		return r < 0 ? r : toml_buffer_add(spelled, "]", 1);
	}
	if (spelled->len > 0)
		r = toml_buffer_add(spelled, ".", 1);
	if (r < 0)
		return r;
	return is_bare(part, len) ? toml_buffer_add(spelled, part, len)
				  : quote_into(spelled, part, len);
}

int toml_name_spell(const char *name, size_t len, struct toml_buffer *spelled)
{
	int r = toml_buffer_add(spelled, NULL, 0);

	for (size_t i = 0; i < len && r == 0;) {
		const char *end = memchr(name + i, TOML_PART_END, len - i);
		size_t n = (size_t)(end - (name + i));

		r = spell_part(name + i, n, spelled);
		i += n + 1;
	}
	return r;
}
