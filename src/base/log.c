/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/json.h"
#include "base/text.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

const char *const log_level_names[] = {
	[LOG_CRIT] = "critical",
	[LOG_ERR] = "error",
	[LOG_WARNING] = "warning",
	[LOG_NOTICE] = "notice",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

const struct log_kind_row log_kinds[LOG_KINDS] = {
	[LOG_OTHER] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b14", "Each line of no other kind."},
	[LOG_FINDING_BEGAN] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b10", "A finding has begun."},
	[LOG_FINDING_ROSE] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b11",
		"The severity of a finding has risen."},
	[LOG_FINDING_NAMED] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b12",
		"The workload of a finding has its name now."},
	[LOG_FINDING_ENDED] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b13", "A finding is over."},
	[LOG_STARTED] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b15",
		"The agent has started, with its version and configuration."},
	[LOG_CONFIG_LOADED] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b16",
		"A changed configuration is in use."},
	[LOG_CONFIG_REFUSED] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b17",
		"The configuration has a fault; the one before stays in use."},
	[LOG_SETTING_CHANGED] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b18",
		"The agent has changed or restored a setting, or failed to."},
	[LOG_DRIFT] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b19",
		"Someone else has changed a setting of the agent."},
	[LOG_RESTART] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b1a",
		"The result of the restart or reload of a runtime, or the reason against it."},
	[LOG_IMAGE] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b1b",
		"An image was loaded or pulled, or failed to be."},
	[LOG_INCIDENT] = {"7d1f6a0c5c0b4b6e9f3ad0c1a2e45b1c", "An incident could not be recorded."},
};

/* The only global state: any function may log. */
static struct {
	int level;
	bool journal; /* stderr is the journal */
	bool agent, json;
	pthread_mutex_t lock;                /* guards events and n_events */
	struct log_event events[LOG_EVENTS]; /* oldest first */
	size_t n_events;
} log_state = {.level = LOG_INFO, .lock = PTHREAD_MUTEX_INITIALIZER};

/* The variable has device and inode of the stream, and children of a service inherit it. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char own[64];
	struct stat st;

	if (!stream || fstat(STDERR_FILENO, &st) < 0)
		return false;
	snprintf(own, sizeof(own), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return streq(own, stream);
}

/* Returns the level in HEADROOM_LOG_LEVEL; -1 if it is unknown, and preset if it is empty. */
static int level_of_environment(int preset)
{
	const char *wanted = getenv("HEADROOM_LOG_LEVEL");

	for (int i = LOG_ERR; wanted && i <= LOG_DEBUG; i++)
		if (streq(wanted, log_level_names[i]))
			return i;
	return wanted && wanted[0] ? -1 : preset;
}

void log_init(int level)
{
	int wanted = level_of_environment(level);

	log_state.level = wanted < 0 ? level : wanted;
	log_state.journal = stderr_is_journal();
}

void log_check_level(void)
{
	if (level_of_environment(LOG_INFO) < 0)
		log_warning("HEADROOM_LOG_LEVEL",
			"%.32s is not a level: write error, warning, notice, info or debug",
			getenv("HEADROOM_LOG_LEVEL"));
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
	_cleanup_free_ char *shown = must(strdup(text));
	size_t oldest;

	text_cut(shown, sizeof(event->text) - 1);
	pthread_mutex_lock(&log_state.lock);
	if (count_kind(level, &oldest) == LOG_KEPT)
		memmove(&events[oldest], &events[oldest + 1],
			(--log_state.n_events - oldest) * sizeof(*events));
	event = &events[log_state.n_events++];
	event->at_us = realtime_us();
	event->level = level;
	set_text(event->text, shown);
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

void log_begin_agent(void)
{
	log_state.agent = true;
}

void log_set_json(bool json)
{
	log_state.json = json;
}

/* Names of the fields of the journal and of JSON, with their values. */
struct named_field {
	const char *journal, *json;
	char *value; /* owned */
};

#define FIELDS_MAX 8

static size_t list_fields(const struct log_fields *fields, const char *object,
	struct named_field list[static FIELDS_MAX])
{
	const struct {
		const char *journal, *json, *value;
	} all[] = {
		{"MESSAGE_ID", "message_id", log_kinds[fields->kind].id},
		{"HEADROOM_OBJECT", "object", object},
		{"HEADROOM_CONDITION", "condition", fields->condition},
		{"HEADROOM_REASON", "reason", fields->reason},
		{"HEADROOM_LIMIT", "limit", fields->limit},
		{"HEADROOM_WORKLOAD", "workload", fields->workload},
	};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].value && all[i].value[0]) {
			list[n] = (struct named_field){
				all[i].journal, all[i].json, must(strdup(all[i].value))};
			text_make_printable(list[n++].value);
		}
	return n;
}

/* Returns whether the journal has the entry. */
static bool send_to_journal(int level, const char *text, const struct named_field *fields, size_t n)
{
	struct iovec entries[FIELDS_MAX + 3];
	size_t used = 0;
	int r;

	for (size_t i = 0; i < n + 3; i++) {
		char *line = NULL;

		must_do((i < n ? asprintf(&line, "%s=%s", fields[i].journal, fields[i].value)
				: i == n     ? asprintf(&line, "MESSAGE=%s", text)
				: i == n + 1 ? asprintf(&line, "PRIORITY=%d", level)
					     : asprintf(&line, "SYSLOG_IDENTIFIER=headroom")) >= 0);
		entries[used++] = (struct iovec){line, strlen(line)};
	}
	r = sd_journal_sendv(entries, (int)used);
	for (size_t i = 0; i < used; i++)
		free(entries[i].iov_base);
	return r >= 0;
}

static void write_json(int level, const char *text, const struct named_field *fields, size_t n)
{
	cJSON *line = cJSON_CreateObject();

	json_time(line, "time", realtime_us());
	json_text(line, "level", log_level_names[level]);
	json_text(line, "message", text);
	for (size_t i = 0; i < n; i++)
		json_text(line, fields[i].json, fields[i].value);
	(void)json_put(stderr, line, false);
}

static void write_line(int level, const char *text, const struct named_field *fields, size_t n)
{
	char time[TIME_TEXT_MAX];

	if (log_state.json) {
		write_json(level, text, fields, n);
	} else if (log_state.journal && send_to_journal(level, text, fields, n)) {
		return;
	} else if (log_state.journal) {
		fprintf(stderr, "<%d>%s\n", level, text);
	} else if (log_state.agent) {
		time_text(realtime_us(), time);
		fprintf(stderr, "headroom: %s %s: %s\n", time, log_level_names[level], text);
	} else {
		fprintf(stderr, "headroom: %s\n", text);
	}
}

static void PRINTF_LIKE(4, 0) log_arguments(const struct log_fields *fields, int level,
	const char *object, const char *format, va_list args)
{
	_cleanup_free_ char *message = NULL;
	struct named_field named[FIELDS_MAX];
	char text[1152];
	size_t used, n;

	if (level > MAX(log_state.level, LOG_INFO))
		return;
	must_do(vasprintf(&message, format, args) >= 0);
	used = (size_t)snprintf(text, sizeof(text), "%.140s: ", object);
	copy_public(text + used, sizeof(text) - used, message);
	text_make_printable(text);
	if (level <= LOG_INFO)
		remember(level, text);
	if (level > log_state.level)
		return;
	n = list_fields(fields, object, named);
	write_line(level, text, named, n);
	for (size_t i = 0; i < n; i++)
		free(named[i].value);
}

void log_line(int level, const char *object, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_arguments(&(struct log_fields){0}, level, object, format, args);
	va_end(args);
}

void log_fields(
	const struct log_fields *fields, int level, const char *object, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_arguments(fields, level, object, format, args);
	va_end(args);
}
