/* SPDX-License-Identifier: Apache-2.0 */
#include "config/text.h"

#include "base/text.h"
#include "base/util.h"

#include <stdarg.h>
#include <stdio.h>

bool text_is_control(const char *character, size_t len)
{
	const unsigned char *bytes = (const unsigned char *)character;

	if (len == 1)
		return bytes[0] < 0x20 || bytes[0] == 0x7f;
	if (len == 2)
		return bytes[0] == 0xc2 && bytes[1] < 0xa0;
	return len == 3 && bytes[0] == 0xe2 && bytes[1] == 0x80 &&
	       (bytes[2] == 0xa8 || bytes[2] == 0xa9);
}

bool text_is_plain(const char *text)
{
	while (*text) {
		size_t n = utf8_length(text);

		if (n == 0 || text_is_control(text, n))
			return false;
		text += n;
	}
	return true;
}

const char *text_quote(char quoted[static TEXT_QUOTE_MAX], const char *text)
{
	size_t used = 0;

	quoted[used++] = '"';
	while (*text) {
		size_t n = utf8_length(text);
		bool shown = n > 0 && !text_is_control(text, n);

		/* Room for this character, the dots of a cut, the quote and the terminator. */
		if (used + n + 5 > TEXT_QUOTE_MAX)
			break;
		if (shown)
			memcpy(quoted + used, text, n);
		else
			quoted[used] = '?';
		used += shown ? n : 1;
		text += n > 0 ? n : 1;
	}
	strcpy(quoted + used, *text ? "...\"" : "\"");
	return quoted;
}

bool text_append(char *buffer, size_t size, const char *format, ...)
{
	size_t used = strlen(buffer);
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(buffer + used, size - used, format, args);
	va_end(args);
	return n >= 0 && (size_t)n < size - used;
}
