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
	pthread_mutex_t lock;                /* guards events and n_events */
	struct log_event events[LOG_EVENTS]; /* oldest first */
	size_t n_events;
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

/* Returns the number of lines that displace each other: warnings and worse, or the others. */
static size_t count_kind(int level, size_t *oldest)
{
	size_t n = 0;

	for (size_t i = log_state.n_events; i-- > 0;)
		if ((log_state.events[i].level > LOG_WARNING) == (level > LOG_WARNING))
			n++, *oldest = i;
	return n;
}

void log_recall(const struct log_event *event)
{
	struct log_event *events = log_state.events;
	size_t oldest;

	pthread_mutex_lock(&log_state.lock);
	if (count_kind(event->level, &oldest) < LOG_KEPT) {
		memmove(&events[1], events, log_state.n_events++ * sizeof(*events));
		events[0] = *event;
	}
	pthread_mutex_unlock(&log_state.lock);
}

static void remember(int level, const char *text)
{
	struct log_event *events = log_state.events, *event;
	size_t oldest;

	pthread_mutex_lock(&log_state.lock);
	if (count_kind(level, &oldest) == LOG_KEPT)
		memmove(&events[oldest], &events[oldest + 1],
			(--log_state.n_events - oldest) * sizeof(*events));
	event = &events[log_state.n_events++];
	event->at_us = realtime_us();
	event->level = level;
	set_text(event->text, text);
	pthread_mutex_unlock(&log_state.lock);
}

size_t log_recent(struct log_event events[static LOG_EVENTS])
{
	size_t n;

	pthread_mutex_lock(&log_state.lock);
	n = log_state.n_events;
	for (size_t i = 0; i < n; i++)
		events[i] = log_state.events[n - 1 - i];
	pthread_mutex_unlock(&log_state.lock);
	return n;
}

void log_line(int level, const char *object, const char *format, ...)
{
	_cleanup_free_ char *message = NULL;
	char text[1152];
	size_t used;
	va_list args;

	if (level > MAX(log_state.level, LOG_INFO))
		return;
	va_start(args, format);
	must_do(vasprintf(&message, format, args) >= 0);
	va_end(args);
	used = (size_t)snprintf(text, sizeof(text), "%.140s: ", object);
	copy_public(text + used, sizeof(text) - used, message);
	text_make_printable(text);
	if (level <= LOG_INFO)
		remember(level, text);
	if (level > log_state.level)
		return;
	if (log_state.journal)
		fprintf(stderr, "<%d>%s\n", level, text);
	else
		fprintf(stderr, "headroom: %s\n", text);
}
