/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/text.h"
#include "base/util.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The one exception to "no globals": a log line must be possible from everywhere. Set once. */
static struct {
	enum log_level level;
	bool journal;
} log_state = {.level = LOG_LEVEL_INFO};

void log_init(enum log_level level)
{
	static const char *const names[] = {
		[LOG_LEVEL_ERROR] = "error",
		[LOG_LEVEL_WARNING] = "warning",
		[LOG_LEVEL_NOTICE] = "notice",
		[LOG_LEVEL_INFO] = "info",
		[LOG_LEVEL_DEBUG] = "debug",
	};
	const char *wanted = getenv("HEADROOM_LOG_LEVEL");

	log_state.level = level;
	log_state.journal = getenv("JOURNAL_STREAM") != NULL;
	for (int i = LOG_LEVEL_ERROR; wanted && i <= LOG_LEVEL_DEBUG; i++)
		if (streq(wanted, names[i]))
			log_state.level = (enum log_level)i;
}

void log_line(enum log_level level, const char *object, const char *format, ...)
{
	char text[1152];
	size_t used;
	va_list args;

	if (level > log_state.level)
		return;
	used = (size_t)snprintf(text, sizeof(text) / 8, "%s", object);
	used = MIN(used, sizeof(text) / 8 - 1);
	used += (size_t)snprintf(text + used, sizeof(text) - used, ": ");
	va_start(args, format);
	vsnprintf(text + used, sizeof(text) - used, format, args);
	va_end(args);
	text_make_printable(text);
	if (log_state.journal)
		fprintf(stderr, "<%d>%s\n", (int)level, text);
	else
		fprintf(stderr, "headroom: %s\n", text);
}
