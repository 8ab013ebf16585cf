/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

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
	char text[1024];
	va_list args;

	if (level > log_state.level)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (log_state.journal)
		fprintf(stderr, "<%d>%s: %s\n", (int)level, object, text);
	else
		fprintf(stderr, "headroom: %s: %s\n", object, text);
}
