/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/cleanup.h"
#include "base/util.h"

#include <errno.h>
#include <time.h>

#define MINUTE 60
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

/* Beyond this a forecast says nothing, and it fits every integer below. */
#define DURATION_MAX (9999.0 * DAY)

void time_text(uint64_t realtime_us, char out[static TIME_TEXT_MAX])
{
	time_t seconds = (time_t)(realtime_us / USEC_PER_SEC);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) ||
		strftime(out, TIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		copy_text(out, TIME_TEXT_MAX, "1970-01-01T00:00:00Z");
}

void duration_text(double seconds, char out[static TIME_TEXT_MAX])
{
	int s = (int)MIN(MAX(seconds, 0.0), DURATION_MAX);

	if (s < MINUTE)
		snprintf(out, TIME_TEXT_MAX, "%d s", s);
	else if (s < HOUR)
		snprintf(out, TIME_TEXT_MAX, "%d min", s / MINUTE);
	else if (s < DAY)
		snprintf(out, TIME_TEXT_MAX, "%d h %d min", s / HOUR, s % HOUR / MINUTE);
	else
		snprintf(out, TIME_TEXT_MAX, "%d d %d h", s / DAY, s % DAY / HOUR);
}

struct text_position text_position(const char *text, size_t at)
{
	struct text_position position = {.line = 1, .column = at + 1};

	for (size_t i = 0; i < at; i++)
		if (text[i] == '\n') {
			position.line++;
			position.column = at - i;
		}
	return position;
}

void latency_text(double seconds, char out[static TIME_TEXT_MAX])
{
	if (seconds < 0.001)
		snprintf(out, TIME_TEXT_MAX, "%.0f us", seconds * 1e6);
	else if (seconds < 1)
		snprintf(out, TIME_TEXT_MAX, "%.0f ms", seconds * 1e3);
	else
		snprintf(out, TIME_TEXT_MAX, "%.1f s", seconds);
}

size_t text_mark(const char *text, size_t len)
{
	return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

int document_text(void (*put)(FILE *out, void *data), void *data, char **ret, size_t *len)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	int failed;

	if (!out)
		return -ENOMEM;
	put(out, data);
	failed = ferror(out);
	if (fclose(out) != 0 || failed)
		return -ENOMEM;
	if (len)
		*len = n;
	*ret = steal(text);
	return 0;
}

/* Overlong forms, surrogates and what lies above U+10FFFF are told by the second byte (RFC 3629).
 */
static bool second_fits(unsigned char first, unsigned char second)
{
	switch (first) {
	case 0xe0:
		return second >= 0xa0;
	case 0xed:
		return second < 0xa0;
	case 0xf0:
		return second >= 0x90;
	case 0xf4:
		return second < 0x90;
	default:
		return true;
	}
}

size_t utf8_length(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		n = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4;
	else
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80) /* also the terminator: nothing is read beyond it */
			return 0;
	return second_fits(p[0], p[1]) ? n : 0;
}

void utf8_copy(char *dst, size_t size, const char *src)
{
	size_t used = 0;

	while (*src) {
		size_t n = utf8_length(src);
		const char *from = n ? src : UTF8_REPLACEMENT;
		size_t len = n ? n : strlen(UTF8_REPLACEMENT);

		if (used + len >= size)
			break;
		memcpy(dst + used, from, len);
		used += len;
		src += n ? n : 1;
	}
	dst[used] = '\0';
}

static bool is_printable(const char *text, size_t len)
{
	const unsigned char *c = (const unsigned char *)text;

	if (len == 1)
		return c[0] >= 0x20 && c[0] != 0x7f;
	if (len == 2) /* U+0080 to U+009F; U+061C */
		return !(c[0] == 0xc2 && c[1] < 0xa0) && !(c[0] == 0xd8 && c[1] == 0x9c);
	if (len == 3 && c[0] == 0xe2) /* U+200E, 200F, 2028 to 202E; U+2066 to 2069 */
		return !(c[1] == 0x80 &&
			       (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae))) &&
		       !(c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9);
	return len > 0;
}

void text_make_printable(char *text)
{
	while (*text) {
		size_t len = utf8_length(text), n = MAX(len, (size_t)1);

		if (!is_printable(text, len))
			memset(text, '?', n);
		text += n;
	}
}

void hide_secrets(char *text)
{
	for (char *url = strstr(text, "://"); url; url = strstr(url, "://")) {
		char *end, *at, *query;

		url += strlen("://");
		at = memrchr(url, '@', strcspn(url, "/? \"'\\"));
		if (at)
			memmove(url, at + 1, strlen(at + 1) + 1);
		end = url + strcspn(url, " \"'\\");
		query = memchr(url, '?', (size_t)(end - url));
		if (query)
			memmove(query, end, strlen(end) + 1);
	}
}
