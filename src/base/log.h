/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

/*
 * One line on stderr: "headroom: OBJECT: what: cure". Below systemd the line carries the priority
 * prefix of sd-daemon(3). Low layers return errors; whoever knows the object logs, once.
 */

#include "base/util.h"

enum log_level {
	LOG_LEVEL_ERROR = 3, /* the numbers of syslog(3) */
	LOG_LEVEL_WARNING = 4,
	LOG_LEVEL_NOTICE = 5,
	LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7,
};

/*
 * Once, at the start: what is logged without HEADROOM_LOG_LEVEL (error .. debug), and whether
 * stderr is the journal.
 */
void log_init(enum log_level level);

void log_line(enum log_level level, const char *object, const char *format, ...) PRINTF_LIKE(3, 4);

#define log_error(...)   log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...)  log_line(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...)    log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
