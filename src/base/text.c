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
