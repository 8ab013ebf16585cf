/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One line on stderr: "headroom: OBJECT: what: cure". Below systemd the line carries the priority
 * prefix of sd-daemon(3). Low layers return errors; the caller that knows the object logs, once.
 */

#include <syslog.h>

#include "base/util.h"

/* Of LOG_ERR .. LOG_DEBUG, the levels of syslog(3): "error" .. "debug". */
extern const char *const log_level_names[];

/*
 * Once, at the start: what is logged without HEADROOM_LOG_LEVEL (error .. debug), and whether
 * stderr is the journal.
 */
void log_init(int level);

void log_line(int level, const char *object, const char *format, ...) PRINTF_LIKE(3, 4);

/* The last lines that were logged, of any thread; debugging left out. */
#define LOG_EVENTS 20

struct log_event {
	uint64_t at_us; /* CLOCK_REALTIME */
	int level;
	char text[256]; /* "OBJECT: what", printable, cut where it is longer */
};

/* Copies them, the newest first; how many there are. */
size_t log_recent(struct log_event events[static LOG_EVENTS]);

#define log_error(...)   log_line(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_notice(...)  log_line(LOG_NOTICE, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_DEBUG, __VA_ARGS__)
