/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environment.h"

#include "base/util.h"

#define BLANKS " \t\r"

/* Reads a value up to the end of its line, and moves past it. Returns false if it does not fit. */
static bool read_value(const char **at, char *value, size_t size)
{
	const char *text = *at + strspn(*at, BLANKS);
	size_t n = 0, end = 0; /* end: without the blanks behind it */
	char quote = '\0';

	for (; *text && (quote || *text != '\n'); text++) {
		char c = *text;
		bool is_escape = c == '\\' && quote != '\'' && text[1];

		if (!is_escape && c == quote && quote) {
			quote = '\0';
			continue;
		}
		if (!is_escape && !quote && (c == '"' || c == '\'')) {
			quote = c;
			end = n;
			continue;
		}
		if (is_escape) {
			c = *++text;
			if (c == '\n')
				continue;
			/* In double quotes, a backslash stays before other characters. */
			if (quote && !strchr("\"\\`$", c) && n + 1 < size)
				value[n++] = '\\';
		}
		if (n + 1 >= size)
			return false;
		value[n++] = c;
		if (quote || is_escape || !strchr(BLANKS, c))
			end = n;
	}
	value[end] = '\0';
	*at = text;
	return true;
}

bool environment_get(const char *text, const char *name, char *value, size_t size)
{
	_cleanup_free_ char *last = must(malloc(size));
	bool found = false, fits = true;

	while (*(text += strspn(text, BLANKS "\n"))) {
		size_t n = strcspn(text, "=\n");
		bool is_comment = text[0] == '#' || text[0] == ';', is_wanted;
		const char *begin = text;

		if (is_comment || text[n] != '=') {
			text += strcspn(text, "\n");
			continue;
		}
		while (n > 0 && strchr(BLANKS, begin[n - 1]))
			n--;
		is_wanted = n == strlen(name) && memcmp(begin, name, n) == 0;
		text = strchr(text, '=') + 1;
		if (!read_value(&text, last, size)) {
			fits &= !is_wanted;
			text += strcspn(text, "\n");
		} else if (is_wanted) {
			strcpy(value, last);
			found = fits = true;
		}
	}
	return found && fits;
}
