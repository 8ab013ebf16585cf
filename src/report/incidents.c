/* SPDX-License-Identifier: Apache-2.0 */
#include "report/incidents_internal.h"

#include "base/build.h"
#include "base/log.h"
#include "base/text.h"
#include "tuners/table.h"

#include <ctype.h>
#include <malloc.h>

#define QUIET_US       (60 * USEC_PER_SEC) /* without a trigger */
#define LONGEST_US     (600 * USEC_PER_SEC)
#define USERS_EVERY_US (5 * USEC_PER_SEC)
#define NEAR_PERCENT   99

static const struct limit *limit_of(const struct recorder *recorder, const char *object)
{
	return find_named(recorder->node->limits, recorder->node->n_limits, object);
}

/* Adds "breaks" and "now" of the object, so that the file alone is enough. */
static void add_cure(cJSON *line, const struct recorder *recorder, const struct open_incident *open)
{
	const struct explanation *row = limit_row(open->object);
	const struct node *node = recorder->node;
	const char *breaks = "", *now = "headroom doctor";
	char explain[LIMIT_NAME_MAX + 32];

	snprintf(explain, sizeof(explain), "headroom explain %s", open->object);
	for (size_t i = 0; i < node->n_conditions && !row; i++) {
		const struct condition_type *type = node->conditions[i].now.type;

		if (!streq(type->name, open->object))
			continue;
		breaks = type->help;
		now = type->now ? type->now : explain;
	}
	if (row) {
		breaks = row->breaks ? row->breaks : row->help;
		now = row->now ? row->now : row->option ? row->option : explain;
	}
	json_text(line, "breaks", breaks);
	json_text(line, "now", now);
}

static void add_limit(cJSON *line, const struct limit_reading *limit, const struct ring_row *row)
{
	cJSON *object = json_object(line, "limit");

	json_text(object, "name", limit->name);
	json_text(object, "unit", limit->unit);
	JSON_NUMBERS(object, {"used", (double)MAX(limit->used, limit->peak)},
		{"max", (double)limit->max}, {"hits", (double)limit->hits});
	json_adopt(line, "top", incident_users(limit, LIMIT_TOP_MAX));
	if (row && (row->users[1] || row->users[0]))
		json_adopt(line, "before",
			cJSON_CreateRaw(row->users[1] ? row->users[1] : row->users[0]));
}

static void put_header(FILE *out, const struct recorder *recorder, const struct open_incident *open,
	const char *trigger)
{
	const struct limit *limit = limit_of(recorder, open->object);
	cJSON *line = cJSON_CreateObject();

	json_number(line, "schema", 1);
	json_text(line, "id", open->id);
	json_time(line, "at", open->began_us + recorder->offset_us);
	json_text(line, "object", open->object);
	json_text(line, "trigger", trigger);
	json_text(line, "text", open->text);
	add_cure(line, recorder, open);
	json_text(line, "node", recorder->node->name);
	json_text(line, "version", HEADROOM_VERSION);
	json_text(line, "boot", recorder->boot);
	if (limit)
		add_limit(line, &limit->now, ring_row_of(&recorder->ring, open->object));
	incident_put(out, line);
}

/* The lines of the log after the time, oldest first. They never contain DNS names. */
static void put_events(FILE *out, const struct recorder *recorder, uint64_t after, uint64_t began)
{
	struct log_event events[LOG_EVENTS];

	for (size_t n = log_recent(events); n > 0; n--) {
		const struct log_event *event = &events[n - 1];
		cJSON *line;

		if (event->at_us <= after)
			continue;
		line = incident_line(event->at_us - recorder->offset_us, began);
		json_text(line, "level", log_level_names[event->level]);
		json_text(line, "event", event->text);
		incident_put(out, line);
	}
}

static struct open_incident *find_open(struct recorder *recorder, const char *object)
{
	for (size_t i = 0; i < OPEN_MAX; i++)
		if (recorder->open[i].id[0] && streq(recorder->open[i].object, object))
			return &recorder->open[i];
	return NULL;
}

static void make_id(const struct recorder *recorder, struct open_incident *open)
{
	char time[TIME_TEXT_MAX], *to = open->id;

	time_text(open->began_us + recorder->offset_us, time);
	for (const char *from = time; *from; from++)
		if (!strchr("-:", *from))
			*to++ = *from;
	*to++ = '-';
	for (const char *from = open->object; *from; from++)
		*to++ = isalnum((unsigned char)*from) || *from == '.' ? *from : '-';
	*to = '\0';
}

static void begin(struct recorder *recorder, const char *object, const char *trigger,
	const char *text, uint64_t now)
{
	struct open_incident *open = recorder->open;
	const struct ring_row *row = ring_row_of(&recorder->ring, object);
	char *file = NULL;
	size_t len;
	FILE *out;

	while (open < recorder->open + OPEN_MAX && open->id[0])
		open++;
	if (open == recorder->open + OPEN_MAX) {
		recorder_submit(recorder, TASK_SKIP, "", object,
			must(strdup("eight were recorded at once")), NULL);
		return;
	}
	*open = (struct open_incident){.began_us = now, .last_us = now, .users_us = now};
	set_text(open->object, object);
	set_text(open->text, text);
	open->hits = row ? row->hits_seen : 0;
	make_id(recorder, open);
	out = must(open_memstream(&file, &len));
	put_header(out, recorder, open, trigger);
	ring_put_minute(out, &recorder->ring, now);
	put_events(out, recorder, now + recorder->offset_us - RING_SECONDS * USEC_PER_SEC, now);
	must_do(fclose(out) == 0);
	recorder_submit(recorder, TASK_BEGIN, open->id, object, file, NULL);
}

static void submit_line(
	struct recorder *recorder, enum task task, const struct open_incident *open, cJSON *line)
{
	char *text = NULL;
	size_t len;
	FILE *out = must(open_memstream(&text, &len));

	incident_put(out, line);
	must_do(fclose(out) == 0);
	recorder_submit(recorder, task, open->id, open->object, text, NULL);
}

/* One line in each open incident, so that each shows what happened meanwhile. */
static void put_triggers(struct recorder *recorder, const char *object, const char *trigger,
	const char *text, uint64_t now)
{
	for (size_t i = 0; i < OPEN_MAX; i++) {
		const struct open_incident *open = &recorder->open[i];
		cJSON *line;

		if (!open->id[0])
			continue;
		line = incident_line(now, open->began_us);
		json_text(line, "trigger", trigger);
		json_text(line, "object", object);
		json_text(line, "text", text);
		submit_line(recorder, TASK_APPEND, open, line);
	}
}

static void trigger(struct recorder *recorder, const char *object, const char *trigger_name,
	const char *text, uint64_t now)
{
	struct open_incident *open = find_open(recorder, object);

	if (open)
		open->last_us = now;
	else
		begin(recorder, object, trigger_name, text, now);
	put_triggers(recorder, object, trigger_name, text, now);
}

/* Whether this is the first time after a quiet minute. */
static bool is_first(uint64_t *last, uint64_t now)
{
	bool first = *last == 0 || now - *last > QUIET_US;

	*last = now;
	return first;
}

static void check_limit(
	struct recorder *recorder, const struct limit_reading *reading, uint64_t now)
{
	struct ring_row *row = ring_row_of(&recorder->ring, reading->name);
	uint64_t used = MAX(reading->used, reading->peak);
	bool is_hit, is_full = (double)used * 100 >= (double)reading->max * NEAR_PERCENT;
	char text[320];

	if (!row)
		return;
	is_hit = reading->hits > row->hits_seen;
	snprintf(text, sizeof(text), "%s %s: ", reading->name,
		is_hit ? "reached its limit" : "is 99 % used");
	if (reading->max == 0)
		text_append(text, sizeof(text), "%" PRIu64 " hits", reading->hits);
	else
		text_append(text, sizeof(text), "%" PRIu64 " of %" PRIu64 " %s", used, reading->max,
			reading->unit);
	if (is_hit && is_first(&row->hit_us, now)) {
		trigger(recorder, reading->name, "hit", text, now);
	} else if (is_hit) {
		struct open_incident *open = find_open(recorder, reading->name);

		if (open)
			open->last_us = now;
	}
	if (reading->max > 0 && is_full && is_first(&row->near_us, now) && !is_hit)
		trigger(recorder, reading->name, "near-full", text, now);
	row->hits_seen = reading->hits;
}

/* The limit that the condition is about, or the condition itself. */
static const char *object_of(const struct recorder *recorder, const struct condition *condition)
{
	const struct node *node = recorder->node;
	const struct limit *limit = limit_of(recorder, condition->now.reason);

	for (size_t i = 0; i < node->n_limits && !limit; i++)
		if (node->limits[i].now.condition == condition->now.type)
			limit = &node->limits[i];
	return limit ? limit->now.name : condition->now.type->name;
}

static void check_conditions(struct recorder *recorder, uint64_t now)
{
	const struct node *node = recorder->node;

	for (size_t i = 0; i < node->n_conditions; i++) {
		const struct condition *condition = &node->conditions[i];
		char text[CONDITION_MESSAGE_MAX + 64];

		if (condition->now.status != CONDITION_TRUE ||
			!(condition->now.type->is_recorded ||
				condition_severity(&condition->now) == SEVERITY_CRITICAL))
			continue;
		snprintf(text, sizeof(text), "%s: %s", condition->now.type->name,
			condition->now.message);
		if (is_first(&recorder->problem_us[i], now))
			trigger(recorder, object_of(recorder, condition), "condition", text, now);
	}
}

/* Notes the largest use and its user. */
static void keep_most(struct open_incident *open, const struct limit_reading *limit)
{
	uint64_t used = MAX(limit->used, limit->peak);

	if (used < open->most)
		return;
	open->most = used;
	open->most_max = limit->max;
	if (limit->flow && limit->n_busiest > 0)
		open->most_user = limit->top[limit->n_top];
	else if (limit->n_top > 0)
		open->most_user = limit->top[0];
}

/* "conntrack reached its limit: at most 9 of 9 connections, 7 hits in 65 s; most by pod a/b." */
static void sum_up(const struct open_incident *open, const struct limit_reading *limit,
	uint64_t now, char *text, size_t size)
{
	char user[WORKLOAD_TEXT_MAX];

	if (!limit) {
		copy_text(text, size, open->text);
		return;
	}
	snprintf(text, size, "%s: at most %" PRIu64, open->object, open->most);
	if (open->most_max > 0)
		text_append(text, size, " of %" PRIu64, open->most_max);
	text_append(text, size, " %s", limit->unit);
	if (limit->hits > open->hits)
		text_append(text, size, ", %" PRIu64 " hit%s in %" PRIu64 " s",
			limit->hits - open->hits, limit->hits - open->hits > 1 ? "s" : "",
			(now - open->began_us) / USEC_PER_SEC);
	if (open->most_user.used == 0)
		return;
	workload_describe(&open->most_user.workload, user, sizeof(user));
	text_append(
		text, size, "; the largest user was %s with %" PRIu64, user, open->most_user.used);
}

static void end_incident(
	struct recorder *recorder, struct open_incident *open, const char *why, uint64_t now)
{
	const struct limit *limit = limit_of(recorder, open->object);
	cJSON *line = incident_line(now, open->began_us);
	char text[512];

	sum_up(open, limit ? &limit->now : NULL, now, text, sizeof(text));
	json_text(line, "end", why);
	json_text(line, "text", text);
	json_time(line, "at", now + recorder->offset_us);
	if (limit)
		json_adopt(line, "top", incident_users(&limit->now, LIMIT_TOP_MAX));
	submit_line(recorder, TASK_END, open, line);
	open->id[0] = '\0';
}

static void put_second(struct recorder *recorder, struct open_incident *open,
	const struct limit *limit, uint64_t now)
{
	char *text = NULL;
	size_t len;
	FILE *out = must(open_memstream(&text, &len));

	ring_put_second(out, &recorder->ring, open->began_us);
	put_events(out, recorder, recorder->logged_us, open->began_us);
	if (limit && limit->now.n_top > 0 && now - open->users_us >= USERS_EVERY_US) {
		cJSON *users = incident_line(now, open->began_us);

		json_adopt(users, "top", incident_users(&limit->now, LIMIT_TOP_MAX));
		incident_put(out, users);
		open->users_us = now;
	}
	must_do(fclose(out) == 0);
	recorder_submit(recorder, TASK_APPEND, open->id, open->object, text, NULL);
}

/* Returns whether an incident is open. */
static bool record(struct recorder *recorder, uint64_t now)
{
	bool any = false;

	for (size_t i = 0; i < OPEN_MAX; i++) {
		struct open_incident *open = &recorder->open[i];
		const struct limit *limit = open->id[0] ? limit_of(recorder, open->object) : NULL;

		if (limit)
			keep_most(open, &limit->now);
		/* Its first second is in the file already. */
		if (open->id[0] && open->began_us != now)
			put_second(recorder, open, limit, now);
		if (open->id[0] && now - open->last_us >= QUIET_US)
			end_incident(recorder, open, "quiet", now);
		else if (open->id[0] && now - open->began_us >= LONGEST_US)
			end_incident(recorder, open, "longest", now);
		any = any || open->id[0];
	}
	recorder->logged_us = now + recorder->offset_us;
	return any;
}

void recorder_tick(
	struct recorder *recorder, struct node *node, const struct names *names, uint64_t now)
{
	char text[INCIDENTS_START_MAX + 32];

	recorder->node = node;
	node->recorder = recorder;
	node->incidents = recorder->shown;
	if (!recorder->problem_us)
		recorder->problem_us =
			must(calloc(node->n_conditions + 1, sizeof(*recorder->problem_us)));
	if (recorder->worker)
		worker_finish(recorder->worker);
	recorder_end_reads(recorder, now);
	/* The loop also ticks early: for results and requests. */
	if (now - recorder->ring.at_us[recorder->ring.now] < USEC_PER_SEC / 2)
		return;
	recorder->offset_us = realtime_us() - now;
	ring_add(&recorder->ring, node, names, now);
	if (recorder->start[0]) {
		snprintf(text, sizeof(text), "the agent started %s", recorder->start);
		trigger(recorder, "agent", "start", text, now);
		recorder->start[0] = '\0';
	}
	for (size_t i = 0; i < node->n_limits; i++)
		check_limit(recorder, &node->limits[i].now, now);
	check_conditions(recorder, now);
	if (record(recorder, now) || recorder->jobs > 0 || !recorder->worker)
		return;
	/* Nothing is under way and no incident is open. */
	if (recorder->has_left) {
		recorder->has_left = false;
		recorder_submit(recorder, TASK_CLOSE, "", "", NULL, NULL);
		return;
	}
	worker_free(steal(recorder->worker)); /* an idle node has no such thread */
	malloc_trim(0);                       /* nor the memory for documents */
}

void recorder_close(struct recorder *recorder, uint64_t deadline_us)
{
	if (!recorder)
		return;
	if (recorder->node) {
		for (size_t i = 0; i < OPEN_MAX; i++)
			if (recorder->open[i].id[0])
				end_incident(recorder, &recorder->open[i], "stopped",
					recorder->ring.at_us[recorder->ring.now]);
		recorder->node->recorder = NULL;
		recorder->node->incidents = NULL;
		recorder->node = NULL;
	}
	recorder->event = NULL; /* it has ended, and takes no source any more */
	recorder_submit(recorder, TASK_STOP, "", "", NULL, NULL);
	if (recorder->worker && !worker_drain(recorder->worker, deadline_us)) {
		log_notice("incidents", "the disk of %s hangs: they end cut short",
			recorder->directory);
		return;
	}
	worker_free(recorder->worker);
	ring_clear(&recorder->ring);
	cJSON_Delete(recorder->shown);
	free(recorder->problem_us);
	free(recorder);
}
