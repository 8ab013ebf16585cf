/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/text.h"

#include <pthread.h>

const char *const log_level_names[] = {
	[LOG_CRIT] = "critical",
	[LOG_ERR] = "error",
	[LOG_WARNING] = "warning",
	[LOG_NOTICE] = "notice",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

/* The only global state: any function may log. */
static struct {
	int level;
	bool journal;
	pthread_mutex_t lock; /* of events and n_events */
	struct log_event events[LOG_EVENTS];
	size_t n_events; /* since the start; modulo LOG_EVENTS: the next slot */
} log_state = {.level = LOG_INFO, .lock = PTHREAD_MUTEX_INITIALIZER};

void log_init(int level)
{
	const char *wanted = getenv("HEADROOM_LOG_LEVEL");

	log_state.level = level;
	log_state.journal = getenv("JOURNAL_STREAM") != NULL;
	for (int i = LOG_ERR; wanted && i <= LOG_DEBUG; i++)
		if (streq(wanted, log_level_names[i]))
			log_state.level = i;
}

size_t log_recent(struct log_event events[static LOG_EVENTS])
{
	size_t n;

	pthread_mutex_lock(&log_state.lock);
	n = MIN(log_state.n_events, (size_t)LOG_EVENTS);
	for (size_t i = 0; i < n; i++)
		events[i] = log_state.events[(log_state.n_events - 1 - i) % LOG_EVENTS];
	pthread_mutex_unlock(&log_state.lock);
	return n;
}

void log_line(int level, const char *object, const char *format, ...)
{
	struct log_event *event;
	char text[1152];
	size_t used;
	va_list args;

	if (level > MAX(log_state.level, LOG_INFO))
		return;
	used = (size_t)snprintf(text, sizeof(text), "%.140s: ", object);
	va_start(args, format);
	vsnprintf(text + used, sizeof(text) - used, format, args);
	va_end(args);
	text_make_printable(text);
	if (level <= LOG_INFO) {
		pthread_mutex_lock(&log_state.lock);
		event = &log_state.events[log_state.n_events++ % LOG_EVENTS];
		event->at_us = realtime_us();
		event->level = level;
		copy_text(event->text, sizeof(event->text), text);
		pthread_mutex_unlock(&log_state.lock);
	}
	if (level > log_state.level)
		return;
	if (log_state.journal)
		fprintf(stderr, "<%d>%s\n", level, text);
	else
		fprintf(stderr, "headroom: %s\n", text);
}
