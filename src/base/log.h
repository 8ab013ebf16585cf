/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Logs lines: "OBJECT: what: cure". If stderr is the journal, a line is an entry with fields;
 * otherwise it goes to stderr, that of an agent with its time and level, or as JSON. Low layers
 * return errors; only the caller that knows the object logs.
 */

#include <syslog.h>

#include "base/util.h"

/* "critical" to "debug", indexed by the levels of syslog(3), LOG_CRIT to LOG_DEBUG. */
extern const char *const log_level_names[];

/* Sets the level that HEADROOM_LOG_LEVEL overrides. Call it once, at the start. */
void log_init(int level);

/* Warns if HEADROOM_LOG_LEVEL is not a level. */
void log_check_level(void);

void log_line(int level, const char *object, const char *format, ...) PRINTF_LIKE(3, 4);

/* An agent writes the time and the level. */
void log_begin_agent(void);

/* From now on each line is a JSON object: the option log. */
void log_set_json(bool json);

/* The kinds of lines. */
enum log_kind {
	LOG_OTHER,
	LOG_FINDING_BEGAN,
	LOG_FINDING_ROSE,
	LOG_FINDING_NAMED,
	LOG_FINDING_ENDED,
	LOG_STARTED,
	LOG_CONFIG_LOADED,
	LOG_CONFIG_REFUSED,
	LOG_SETTING_CHANGED,
	LOG_DRIFT,
	LOG_RESTART,
	LOG_IMAGE,
	LOG_INCIDENT,
	LOG_KINDS,
};

extern const struct log_kind_row {
	const char *id; /* systemd.journal-fields(7), MESSAGE_ID: it never changes */
	const char *help;
} log_kinds[LOG_KINDS];

/* The subject of a line, for programs that read the log. Each text may be NULL or empty. */
struct log_fields {
	enum log_kind kind;
	const char *condition, *reason, *limit, *workload;
};

void log_fields(const struct log_fields *fields, int level, const char *object, const char *format,
	...) PRINTF_LIKE(4, 5);

#define log_as(kind_, ...) log_fields(&(struct log_fields){.kind = (kind_)}, __VA_ARGS__)

/*
 * The numbers of recent lines to keep: of warnings and worse, and of the others, so that advice
 * that comes and goes displaces no warning. Lines of level debug are not kept.
 */
#define LOG_KEPT   20
#define LOG_EVENTS (2 * LOG_KEPT)

struct log_event {
	uint64_t at_us; /* CLOCK_REALTIME */
	int level;
	char text[256]; /* "OBJECT: what", printable, cut */
};

/* Copies the recent lines of all threads, newest first. Returns their number. */
size_t log_recent(struct log_event events[static LOG_EVENTS]);

/* Adds a line of an earlier process, older than all others, if there is room for its kind. */
void log_recall(const struct log_event *event);

#define log_error(...)   log_line(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_notice(...)  log_line(LOG_NOTICE, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_DEBUG, __VA_ARGS__)
