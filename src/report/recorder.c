/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder, in the loop. Its parts, in this order: the lines of an incident; the ring of the
 * last minute; steps, which tasks carry out on the files one after the other; when an incident
 * begins, what is added to it each second, and when it ends. It never touches a file itself: the
 * disk may hang, and then steps fail while the loop goes on.
 */
#include "report/recorder.h"

#include "base/build.h"
#include "base/log.h"
#include "base/text.h"
#include "report/http.h"
#include "tuners/table.h"

#include <ctype.h>
#include <malloc.h>

#define NO_READING UINT64_MAX

/* In the ring. */
#define RING_USERS_EVERY_US (30 * USEC_PER_SEC)
#define WORKLOADS_EVERY_US  (5 * USEC_PER_SEC)

/* In an incident. */
#define QUIET_US       (60 * USEC_PER_SEC) /* without a trigger */
#define LONGEST_US     (600 * USEC_PER_SEC)
#define AGAIN_US       (3600 * USEC_PER_SEC) /* while hits go on */
#define USERS_EVERY_US (5 * USEC_PER_SEC)
#define NEAR_PERCENT   99

/* More steps are waiting: the disk hangs. A second has fewer. */
#define STEPS_MAX (FINDINGS_MAX + 4 * OPEN_SLOTS)

/* Attempts to lock the directory: another agent records until it ends. */
#define LOCK_EVERY_US (15 * USEC_PER_SEC)

/* The list is kept in memory for this time after a client has read it. */
#define CACHE_KEPT_US (60 * USEC_PER_SEC)

/* Clients that wait at once: they must not take the place of what is recorded. */
#define READS_MAX 8

#define HANGS "{\"error\": \"the disk of the state directory does not answer\"}"

/* ---- lines ---- */

static cJSON *incident_line(uint64_t at, uint64_t began)
{
	cJSON *line = cJSON_CreateObject();
	int64_t us = (int64_t)(at - began), half = (int64_t)USEC_PER_SEC / 2;

	json_number(line, "t", (double)((us + (us < 0 ? -half : half)) / (int64_t)USEC_PER_SEC));
	return line;
}

static void incident_put(FILE *out, cJSON *line)
{
	json_make_printable(line);
	(void)json_put(out, line, false);
}

static cJSON *incident_users(const struct limit_reading *limit, unsigned max)
{
	/* The users of a rate were the largest in its busiest second. */
	bool busiest = limit->flow && limit->n_busiest > 0;
	const struct limit_user *users = busiest ? limit->top + limit->n_top : limit->top;
	unsigned n = busiest ? limit->n_busiest : limit->n_top;
	cJSON *array = cJSON_CreateArray();

	for (unsigned i = 0; i < MIN(n, max); i++) {
		cJSON *user = cJSON_CreateArray();
		char text[WORKLOAD_TEXT_MAX];

		workload_describe(&users[i].workload, text, sizeof(text));
		json_append_text(user, text);
		cJSON_AddItemToArray(user, cJSON_CreateNumber((double)users[i].used));
		if (users[i].detail[0])
			json_append_text(user, users[i].detail);
		cJSON_AddItemToArray(array, user);
	}
	return array;
}

/* ---- the last minute ---- */

static struct ring_row *ring_row_of(const struct ring *ring, const char *name)
{
	for (size_t i = 0; i < ring->n_rows; i++)
		if (streq(ring->rows[i]->name, name))
			return ring->rows[i];
	return NULL;
}

static void free_users(struct ring_row *row)
{
	free(steal(row->users[0]));
	free(steal(row->users[1]));
}

/* Finds or adds the row of a limit. It may replace one not seen for a minute. NULL: too many. */
static struct ring_row *row_for(struct ring *ring, const struct limit *limit, uint64_t now)
{
	struct ring_row *row = ring_row_of(ring, limit->now.name);

	if (row)
		return row;
	for (size_t i = 0; i < ring->n_rows && !row; i++)
		if (now - ring->rows[i]->seen_us > RING_SECONDS * USEC_PER_SEC)
			row = ring->rows[i];
	if (!row && ring->n_rows < ROWS_MAX)
		row = ring->rows[ring->n_rows++] = must(calloc(1, sizeof(*row)));
	if (!row)
		return NULL;
	free_users(row);
	*row = (struct ring_row){0};
	memset(row->used, 0xff, sizeof(row->used));
	set_text(row->name, limit->now.name);
	return row;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Notes the workloads that were not there before. */
static void add_workloads(struct ring *ring, const struct names *names, uint64_t now)
{
	uint64_t *hashes = must(calloc(names->n + 1, sizeof(*hashes)));
	size_t n = 0;

	for (size_t i = 0; i < names->n; i++) {
		char text[WORKLOAD_TEXT_MAX];
		uint64_t hash;
		bool noted = false;

		if (names->entries[i].gone)
			continue;
		workload_describe(&names->entries[i].workload, text, sizeof(text));
		hash = hash_text(HASH_START, text); /* a collision hides one start */
		for (unsigned k = 0; k < MIN(ring->n_notes, (unsigned)NOTES_MAX); k++)
			noted = noted ||
				(ring->notes[k].at_us == now && streq(ring->notes[k].text, text));
		if (!noted && ring->n_workloads > 0 &&
			!bsearch(&hash, ring->workloads, ring->n_workloads, sizeof(hash),
				by_number)) {
			struct ring_note *note = &ring->notes[ring->n_notes++ % NOTES_MAX];

			note->at_us = now;
			set_text(note->text, text);
		}
		hashes[n++] = hash;
	}
	if (n > 0)
		qsort(hashes, n, sizeof(*hashes), by_number);
	free(ring->workloads);
	ring->workloads = hashes;
	ring->n_workloads = n;
	ring->workloads_us = now;
}

static void ring_add(
	struct ring *ring, const struct node *node, const struct names *names, uint64_t now)
{
	bool users_due = now - ring->users_us >= RING_USERS_EVERY_US;

	ring->now = (ring->now + 1) % RING_SECONDS;
	ring->at_us[ring->now] = now;
	for (size_t i = 0; i < ring->n_rows; i++)
		ring->rows[i]->used[ring->now] = NO_READING;
	for (size_t i = 0; i < node->n_limits; i++) {
		const struct limit_reading *limit = &node->limits[i].now;
		struct ring_row *row = row_for(ring, &node->limits[i], now);
		cJSON *users;

		if (!row)
			continue;
		row->unit = limit->unit;
		row->used[ring->now] = MAX(limit->used, limit->peak);
		row->max[ring->now] = limit->max;
		row->hits[ring->now] = limit->hits;
		row->seen_us = now;
		if (!users_due)
			continue;
		users = limit->n_top > 0 ? incident_users(limit, USERS_KEPT) : NULL;
		free(row->users[1]);
		row->users[1] = row->users[0];
		row->users[0] = users ? cJSON_PrintUnformatted(users) : NULL;
		cJSON_Delete(users);
	}
	if (users_due)
		ring->users_us = now;
	if (names && names->n > 0 && now - ring->workloads_us >= WORKLOADS_EVERY_US)
		add_workloads(ring, names, now);
}

static void ring_clear(struct ring *ring)
{
	for (size_t i = 0; i < ring->n_rows; i++) {
		free_users(ring->rows[i]);
		free(ring->rows[i]);
	}
	free(ring->workloads);
}

/* Adds the rows that differ from the tick before; all: every row. */
static void put_rows(FILE *out, const struct ring *ring, unsigned at, uint64_t began, bool all)
{
	unsigned before = (at + RING_SECONDS - 1) % RING_SECONDS;
	cJSON *line = incident_line(ring->at_us[at], began), *rows = json_object(line, "rows");

	for (size_t i = 0; i < ring->n_rows; i++) {
		const struct ring_row *row = ring->rows[i];
		bool whole = all || row->used[before] == NO_READING ||
			     row->max[at] != row->max[before] || row->hits[at] != row->hits[before];
		const double numbers[] = {
			(double)row->used[at], (double)row->max[at], (double)row->hits[at]};

		if (row->used[at] != NO_READING && (whole || row->used[at] != row->used[before]))
			json_adopt(
				rows, row->name, cJSON_CreateDoubleArray(numbers, whole ? 3 : 1));
	}
	incident_put(out, line);
}

static void put_notes(FILE *out, const struct ring *ring, uint64_t since, uint64_t began)
{
	unsigned n = MIN(ring->n_notes, (unsigned)NOTES_MAX);

	for (unsigned i = ring->n_notes - n; i < ring->n_notes; i++) {
		const struct ring_note *note = &ring->notes[i % NOTES_MAX];
		cJSON *line;

		if (note->at_us < since)
			continue;
		line = incident_line(note->at_us, began);
		json_text(line, "started", note->text);
		incident_put(out, line);
	}
}

static void ring_put_minute(FILE *out, const struct ring *ring, uint64_t began)
{
	bool first = true;

	for (unsigned i = 1; i <= RING_SECONDS; i++) {
		unsigned at = (ring->now + i) % RING_SECONDS;

		if (ring->at_us[at] == 0 ||
			ring->at_us[at] + (RING_SECONDS + 5) * USEC_PER_SEC < began)
			continue;
		put_rows(out, ring, at, began, first);
		first = false;
	}
	put_notes(out, ring, began - MIN(began, RING_SECONDS * USEC_PER_SEC), began);
}

static void ring_put_second(FILE *out, const struct ring *ring, uint64_t began)
{
	put_rows(out, ring, ring->now, began, false);
	put_notes(out, ring, ring->at_us[ring->now], began);
}

/* ---- steps, and the tasks that carry them out ---- */

enum step_kind {
	STEP_START,
	STEP_BEGIN,
	STEP_APPEND,
	STEP_END,
	STEP_SKIP,
	STEP_READ,
	STEP_CLOSE,
	STEP_STOP,
};

/* A change of the files, or a document that a client waits for. */
struct recorder_step {
	enum step_kind kind;
	char id[INCIDENT_ID_MAX];
	char object[INCIDENT_OBJECT_MAX];
	char cause[INCIDENT_CAUSE_MAX]; /* STEP_BEGIN */
	char *text;                     /* to write; or the document that was read; owned */
	int error;
	char start[INCIDENTS_START_MAX]; /* STEP_START */
	/* STEP_READ; not used by the task. */
	struct http_connection *client; /* NULL: it has a reply */
	uint64_t since_us;              /* CLOCK_MONOTONIC */
};

/* Steps in order, for one task. It uses the recorder's directory and boot, which never change. */
struct recorder_batch {
	struct recorder *recorder;
	struct recorder_step *steps;
	size_t n, allocated;
	int lock;                     /* as of the recorder; STEP_START may take it */
	struct incidents_cache cache; /* the same */
	cJSON *shown;                 /* NULL: not read again; owned */
};

/* Returns whether the list of incidents has changed. */
static bool run_step(
	const struct recorder *recorder, struct recorder_batch *batch, struct recorder_step *step)
{
	const char *directory = recorder->directory;

	switch (step->kind) {
	case STEP_START:
		batch->lock = incidents_lock(directory);
		if (batch->lock < 0) {
			step->error = batch->lock;
			return false;
		}
		incidents_close_left(directory);
		step->error = incidents_mark_start(directory, recorder->boot, step->start);
		return true;
	case STEP_BEGIN:
		step->error =
			incident_begin(directory, step->id, step->object, step->cause, step->text);
		return true;
	case STEP_APPEND:
		step->error = incident_append(directory, step->id, step->text);
		return false;
	case STEP_END:
		step->error = incident_end(directory, step->id, step->text);
		return true;
	case STEP_SKIP:
		incident_skip(directory, step->object, step->text);
		return false;
	case STEP_READ:
		if (step->id[0])
			step->error = incident_read(directory, step->id, &step->text);
		else
			step->text = must(strdup(incidents_text(directory, &batch->cache)));
		return false;
	case STEP_CLOSE:
		incidents_close_left(directory);
		return true;
	case STEP_STOP:
		if (batch->lock >= 0) /* otherwise the mark is of the agent that records */
			(void)incidents_mark(directory, recorder->boot, true);
		return false;
	}
	return false;
}

static void run_steps(void *data, const struct wait *)
{
	static const char *const keys[] = {"id", "at", "text", "state", NULL};
	struct recorder_batch *batch = data;
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = NULL;
	const cJSON *row;
	bool changed = false;

	for (size_t i = 0; i < batch->n; i++)
		changed |= run_step(batch->recorder, batch, &batch->steps[i]);
	if (!changed)
		return;
	list = incidents_list(batch->recorder->directory);
	batch->shown = cJSON_CreateArray();
	cJSON_ArrayForEach (row, json_at(list, "incidents"))
		if (cJSON_GetArraySize(batch->shown) < INCIDENTS_SHOWN_MAX)
			incident_copy(json_append(batch->shown), row, keys);
}

static void answer_client(struct http_connection *client, const struct recorder_step *step)
{
	if (step->error == 0)
		http_reply(client, 200, step->text);
	else if (step->error == -ENOENT || step->error == -EINVAL)
		http_reply(client, 404, "{\"error\": \"no such incident\"}");
	else if (step->error == -EBUSY)
		http_reply(client, 503, HANGS);
	else
		http_reply(client, 500, "{\"error\": \"the incident cannot be read\"}");
}

static void adopt_step(struct recorder *recorder, struct recorder_step *step)
{
	bool was_refused = false;

	if (step->client)
		answer_client(step->client, step);
	if (step->kind == STEP_START) {
		was_refused = recorder->is_refused;
		recorder->is_refused = step->error < 0;
		set_text(recorder->start, step->start);
	}
	for (size_t i = 0; i < OPEN_SLOTS; i++) {
		struct open_incident *open = &recorder->open[i];

		if ((step->kind != STEP_BEGIN && step->kind != STEP_APPEND) ||
			!streq(open->id, step->id))
			continue;
		open->is_begun = true;
		if (step->error < 0) {
			recorder->has_left = true;
			open->id[0] = '\0';
		}
	}
	if (step->error < 0 && step->error != -EDQUOT && step->error != -ENOENT &&
		step->error != -EWOULDBLOCK && !was_refused &&
		(step->kind == STEP_BEGIN || step->kind == STEP_START))
		log_as(LOG_INCIDENT, LOG_NOTICE, "incidents", "%s not recorded: %s: %s",
			step->object, strerror(-step->error), recorder->directory);
	free(step->text);
}

static void begin_task(struct recorder *recorder);

static void adopt_steps(void *data, void *userdata)
{
	struct recorder *recorder = userdata;
	struct recorder_batch *batch = data;

	recorder->running = NULL;
	recorder->lock = batch->lock;
	recorder->cache = batch->cache;
	for (size_t i = 0; i < batch->n; i++)
		adopt_step(recorder, &batch->steps[i]);
	if (batch->shown) {
		cJSON_Delete(recorder->shown);
		recorder->shown = batch->shown;
		if (recorder->node)
			recorder->node->incidents = recorder->shown;
	}
	free(batch->steps);
	free(batch);
	malloc_trim(0); /* an idle node keeps no memory for documents */
	begin_task(recorder);
}

static size_t count_reads(const struct recorder_batch *batch)
{
	size_t n = 0;

	for (size_t i = 0; batch && i < batch->n; i++)
		n += batch->steps[i].kind == STEP_READ;
	return n;
}

/*
 * Begins the steps that wait, unless others are under way. Their end wakes the loop if a client
 * waits, for them or for the next task.
 */
static void begin_task(struct recorder *recorder)
{
	struct recorder_batch *batch = recorder->waiting;
	int r;

	if (batch && !recorder->running) {
		recorder->running = steal(recorder->waiting);
		batch->lock = recorder->lock;
		batch->cache = recorder->cache;
		recorder->cache = (struct incidents_cache){0};
		r = task_start(&recorder->task, recorder->event,
			&(struct task){run_steps, adopt_steps, batch, recorder, UINT64_MAX});
		for (size_t i = 0; r < 0 && i < batch->n; i++)
			batch->steps[i].error = r;
		if (r < 0)
			adopt_steps(batch, recorder);
	}
	if (recorder->task)
		task_wakes_loop(recorder->task,
			count_reads(recorder->running) + count_reads(recorder->waiting) > 0);
}

/* Adds a step for the next task. It owns text. cause is for STEP_BEGIN, client for STEP_READ. */
static void add_step(struct recorder *recorder, enum step_kind kind, const char *id,
	const char *object, const char *cause, char *text, struct http_connection *client)
{
	struct recorder_step step = {
		.kind = kind, .text = text, .client = client, .since_us = now_us()};
	struct recorder_batch *batch = recorder->waiting;

	set_text(step.id, id);
	set_text(step.object, object);
	set_text(step.cause, cause);
	if (batch && batch->n >= STEPS_MAX) {
		step.error = -EBUSY;
		adopt_step(recorder, &step);
		return;
	}
	if (!batch)
		batch = recorder->waiting = must(calloc(1, sizeof(*batch)));
	batch->recorder = recorder;
	*add_element(&batch->steps, &batch->n, &batch->allocated) = step;
}

/* Replies to the clients for which the disk hangs. */
static void end_reads(struct recorder_batch *batch, uint64_t now)
{
	for (size_t i = 0; batch && i < batch->n; i++)
		if (batch->steps[i].client && now > batch->steps[i].since_us + INCIDENTS_READ_US)
			http_reply(steal(batch->steps[i].client), 503, HANGS);
}

static void add_start(struct recorder *recorder)
{
	recorder->lock_due_us = now_us() + LOCK_EVERY_US;
	add_step(recorder, STEP_START, "", "the start of the agent", "", NULL, NULL);
}

struct recorder *recorder_open(sd_event *event, const char *directory, const char *boot)
{
	struct recorder *recorder = must(calloc(1, sizeof(*recorder)));

	recorder->event = event;
	set_text(recorder->directory, directory);
	set_text(recorder->boot, boot);
	recorder->lock = -1;
	add_start(recorder);
	begin_task(recorder);
	return recorder;
}

void recorder_read(struct recorder *recorder, const char *id, struct http_connection *client)
{
	if (count_reads(recorder->running) + count_reads(recorder->waiting) >= READS_MAX) {
		http_reply(client, 503, "{\"error\": \"too many requests are waiting\"}");
		return;
	}
	recorder->read_us = now_us();
	add_step(recorder, STEP_READ, id ? id : "", "", "", NULL, client);
	begin_task(recorder);
}

/* ---- incidents ---- */

static const struct limit *limit_of(const struct recorder *recorder, const char *name)
{
	return find_named(recorder->node->limits, recorder->node->n_limits, name);
}

static char *finding_document(const struct finding *finding)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *array = cJSON_CreateArray();

	finding_json(array, finding);
	json_make_lines_printable(array, "keep");
	return must(cJSON_PrintUnformatted(cJSON_GetArrayItem(array, 0)));
}

/* Adds what the finding says, so that the file alone is enough. */
static void add_cure(cJSON *line, const struct open_incident *open)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *finding =
		open->finding ? cJSON_Parse(open->finding) : NULL;
	const char *now = json_text_at(finding, "now");

	if (open->finding)
		json_adopt(line, "finding", cJSON_CreateRaw(open->finding));
	json_text(line, "breaks", json_text_at(finding, "breaks"));
	json_text(line, "now", now[0] ? now : json_text_at(finding, "hint"));
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
	const struct limit *limit = limit_of(recorder, open->slug);
	cJSON *line = cJSON_CreateObject();

	json_number(line, "schema", 1);
	json_text(line, "id", open->id);
	json_time(line, "at", open->began_us + recorder->offset_us);
	json_text(line, "object", open->object);
	json_text(line, "cause", open->cause);
	json_text(line, "trigger", trigger);
	json_text(line, "text", open->text);
	add_cure(line, open);
	json_text(line, "node", recorder->node->name);
	json_text(line, "version", HEADROOM_VERSION);
	json_text(line, "boot", recorder->boot);
	if (limit)
		add_limit(line, &limit->now, ring_row_of(&recorder->ring, open->slug));
	incident_put(out, line);
}

/* Adds the lines of the log after the time, oldest first. They never contain DNS names. */
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
	for (size_t i = 0; i < OPEN_SLOTS; i++)
		if (recorder->open[i].id[0] && streq(recorder->open[i].object, object))
			return &recorder->open[i];
	return NULL;
}

static void make_id(const struct recorder *recorder, struct open_incident *open)
{
	char time[TIME_TEXT_MAX], *to = open->id, *end = open->id + INCIDENT_ID_MAX - 1;

	time_text(open->began_us + recorder->offset_us, time);
	for (const char *from = time; *from; from++)
		if (!strchr("-:", *from))
			*to++ = *from;
	*to++ = '-';
	for (const char *from = open->object; *from && to < end; from++)
		*to++ = isalnum((unsigned char)*from) || *from == '.' ? *from : '-';
	*to = '\0';
}

/* Renders the finding again. Returns whether its worst moment or its users are others. */
static bool update_finding(struct open_incident *open, const struct finding *finding)
{
	char *document = finding_document(finding);
	_cleanup_(cleanup_cJSON_Delete) cJSON *is = cJSON_Parse(document);
	_cleanup_(cleanup_cJSON_Delete) cJSON *was =
		open->finding ? cJSON_Parse(open->finding) : NULL;
	bool is_changed = !cJSON_Compare(json_at(is, "used"), json_at(was, "used"), true) ||
			  !cJSON_Compare(json_at(is, "who"), json_at(was, "who"), true);

	free(open->finding);
	open->finding = document;
	open->object_hash = instance_object(&finding->instance);
	finding_text(finding, open->text, sizeof(open->text));
	return is_changed;
}

/* The uids of a user's containers, subuid(5). */
#define SUBUID_FIRST 100000
#define SUBUID_COUNT 65536

static void uid_cause(unsigned uid, char cause[static INCIDENT_CAUSE_MAX])
{
	if (uid >= SUBUID_FIRST)
		uid -= (uid - SUBUID_FIRST) % SUBUID_COUNT;
	snprintf(cause, INCIDENT_CAUSE_MAX, "uid %u", uid);
}

/*
 * Writes who is charged with the incident. A workload can have many processes, pods and sessions,
 * but one uid, namespace, service or name. The largest user counts, else the owner of the instance,
 * else the limit.
 */
static void find_cause(const struct finding *finding, char cause[static INCIDENT_CAUSE_MAX])
{
	const struct workload *who =
		finding->n_who > 0 ? &finding->who[0].workload : &finding->instance.owner;
	unsigned uid;

	if (sscanf(who->name, who->kind == WORKLOAD_UID ? "%u" : "user@%u.service", &uid) == 1 ||
		(who->kind == WORKLOAD_UNIT && sscanf(who->id, "user-%u.slice", &uid) == 1))
		uid_cause(uid, cause);
	else if (who->kind == WORKLOAD_POD && who->namespace[0])
		snprintf(cause, INCIDENT_CAUSE_MAX, "namespace %s", who->namespace);
	else if (who->kind == WORKLOAD_POD || who->kind == WORKLOAD_NETNS || !who->name[0] ||
		 !workload_is_named(who) || starts_with(who->name, "cgroup "))
		copy_text(cause, INCIDENT_CAUSE_MAX, finding->slug);
	else
		workload_describe(who, cause, INCIDENT_CAUSE_MAX);
	text_make_printable(cause);
}

static size_t count_cause(const struct recorder *recorder, const char *cause)
{
	size_t n = 0;

	for (size_t i = 0; i < OPEN_SLOTS; i++)
		n += recorder->open[i].id[0] && streq(recorder->open[i].cause, cause);
	return n;
}

/*
 * Returns the oldest incident of the cause that has most, if OPEN_MAX are open. is_begun: among
 * incidents with a file, if these are more than OPEN_MAX. Otherwise NULL.
 */
static struct open_incident *find_crowd(struct recorder *recorder, bool is_begun)
{
	struct open_incident *crowd = NULL;
	size_t most = 0, n = 0;

	for (size_t i = 0; i < OPEN_SLOTS; i++) {
		struct open_incident *open = &recorder->open[i];
		size_t alike;

		if (!open->id[0] || (is_begun && !open->is_begun))
			continue;
		n++;
		alike = count_cause(recorder, open->cause);
		if (alike > most || (alike == most && open->began_us < crowd->began_us)) {
			most = alike;
			crowd = open;
		}
	}
	return n < OPEN_MAX + (is_begun ? 1U : 0U) ? NULL : crowd;
}

/* Returns a free slot; NULL if OPEN_MAX are open and this cause has most of them. */
static struct open_incident *find_slot(struct recorder *recorder, const char *cause)
{
	const struct open_incident *crowd = find_crowd(recorder, false);

	if (crowd && count_cause(recorder, cause) >= count_cause(recorder, crowd->cause))
		return NULL;
	for (size_t i = 0; i < OPEN_SLOTS; i++)
		if (!recorder->open[i].id[0])
			return &recorder->open[i];
	return NULL;
}

/* finding NULL: text is all. */
static void begin_incident(struct recorder *recorder, const char *object, const char *trigger,
	const struct finding *finding, const char *text, uint64_t now)
{
	char cause[INCIDENT_CAUSE_MAX], *file = NULL;
	struct open_incident *open;
	size_t len;
	FILE *out;

	if (finding)
		find_cause(finding, cause);
	else
		set_text(cause, object);
	open = find_slot(recorder, cause);
	if (!open) {
		add_step(recorder, STEP_SKIP, "", object, "",
			must(strdup("eight were recorded at once")), NULL);
		return;
	}
	free(open->finding);
	*open = (struct open_incident){.began_us = now, .last_us = now, .users_us = now};
	set_text(open->object, object);
	set_text(open->cause, cause);
	set_text(open->text, text);
	if (finding) {
		set_text(open->slug, finding->slug);
		(void)update_finding(open, finding);
	}
	make_id(recorder, open);
	out = must(open_memstream(&file, &len));
	put_header(out, recorder, open, trigger);
	ring_put_minute(out, &recorder->ring, now);
	put_events(out, recorder, now + recorder->offset_us - RING_SECONDS * USEC_PER_SEC, now);
	must_do(fclose(out) == 0);
	add_step(recorder, STEP_BEGIN, open->id, object, cause, file, NULL);
}

/* Each open incident gets the triggers of all, so that it shows what happened meanwhile. */
static void put_triggers(FILE *out, const struct recorder *recorder, uint64_t began, uint64_t now)
{
	for (size_t i = 0; i < recorder->n_triggers; i++) {
		const struct recorded_trigger *trigger = &recorder->triggers[i];
		cJSON *line = incident_line(now, began);

		json_text(line, "trigger", trigger->name);
		json_text(line, "object", trigger->object);
		json_text(line, "text", trigger->text);
		incident_put(out, line);
	}
}

static void trigger(struct recorder *recorder, const char *object, const char *trigger_name,
	const struct finding *finding, const char *text, uint64_t now)
{
	struct open_incident *open = find_open(recorder, object);
	struct recorded_trigger *trigger = add_element(
		&recorder->triggers, &recorder->n_triggers, &recorder->triggers_allocated);

	if (open)
		open->last_us = now;
	else
		begin_incident(recorder, object, trigger_name, finding, text, now);
	trigger->name = trigger_name;
	set_text(trigger->object, object);
	set_text(trigger->text, text);
}

static struct recorded_finding *seen_before(struct recorder *recorder, uint64_t hash)
{
	struct recorded_finding *oldest = recorder->seen;

	for (size_t i = 0; i < recorder->n_seen; i++) {
		if (recorder->seen[i].id_hash == hash)
			return &recorder->seen[i];
		if (recorder->seen[i].last_us < oldest->last_us)
			oldest = &recorder->seen[i];
	}
	if (recorder->n_seen < FINDINGS_MAX)
		oldest = &recorder->seen[recorder->n_seen++];
	*oldest = (struct recorded_finding){.id_hash = hash};
	return oldest;
}

static const struct finding *finding_of(
	const struct recorder *recorder, const struct open_incident *open)
{
	const struct finding_list *list = &recorder->node->findings;
	char id[FINDING_ID_MAX];

	for (size_t i = 0; open->id[0] && i < list->n; i++) {
		finding_id(&list->findings[i], id);
		if (streq(id, open->object) &&
			!is_other_object(
				open->object_hash, instance_object(&list->findings[i].instance)))
			return &list->findings[i];
	}
	return NULL;
}

static void end_incident(
	struct recorder *recorder, struct open_incident *open, const char *why, uint64_t now)
{
	const struct limit *limit = limit_of(recorder, open->slug);
	const struct finding *finding = finding_of(recorder, open);
	cJSON *line = incident_line(now, open->began_us);
	char *text = NULL;
	size_t len;
	FILE *out = must(open_memstream(&text, &len));

	json_text(line, "end", why);
	/* The record ends, and what it is about does not. */
	json_bool(line, "lasts", finding && finding->phase != FINDING_OVER);
	json_text(line, "text", open->text);
	json_time(line, "at", now + recorder->offset_us);
	if (open->finding)
		json_adopt(line, "finding", cJSON_CreateRaw(open->finding));
	if (limit)
		json_adopt(line, "top", incident_users(&limit->now, LIMIT_TOP_MAX));
	incident_put(out, line);
	must_do(fclose(out) == 0);
	add_step(recorder, STEP_END, open->id, open->object, "", text, NULL);
	open->id[0] = '\0';
	free(steal(open->finding));
}

static void check_finding(struct recorder *recorder, const struct finding *finding, uint64_t now)
{
	char id[FINDING_ID_MAX], text[FINDING_TEXT_MAX];
	const uint64_t object_hash = instance_object(&finding->instance);
	struct recorded_finding *seen;
	struct open_incident *open;
	bool is_near = finding->unit && finding_share(finding) * 100 >= NEAR_PERCENT;
	bool matters = finding->is_recorded || finding->severity == SEVERITY_CRITICAL || is_near;
	bool is_first, goes_on, becomes_near, is_again;

	if (finding->ignored || finding->phase == FINDING_OVER || !matters)
		return;
	finding_id(finding, id);
	seen = seen_before(recorder, hash_text(HASH_START, id));
	if (is_other_object(seen->object_hash, object_hash))
		*seen = (struct recorded_finding){.id_hash = seen->id_hash};
	is_first = seen->last_us == 0 || now - seen->last_us > QUIET_US;
	goes_on = finding->times > seen->times || finding->full_us > seen->full_us;
	becomes_near = is_near && !seen->is_near;
	open = find_open(recorder, id);
	if (open && is_other_object(open->object_hash, object_hash))
		end_incident(recorder, steal(open), "replaced", now);
	is_again = goes_on && !open && now - seen->begun_us >= AGAIN_US;
	*seen = (struct recorded_finding){seen->id_hash, object_hash, finding->times,
		finding->full_us, now, seen->begun_us, is_near};
	if (open && goes_on)
		open->last_us = now;
	if (!is_first && !becomes_near && !is_again)
		return;
	seen->begun_us = now;
	finding_text(finding, text, sizeof(text));
	trigger(recorder, id,
		finding->times > 0 || finding->full_us > 0 ? "hit"
		: is_near                                  ? "near-full"
							   : "condition",
		finding, text, now);
}

/* Adds the events of this second. The first second is in the file already. */
static void put_second(FILE *out, const struct recorder *recorder, struct open_incident *open,
	const struct finding *finding, uint64_t now)
{
	const struct limit *limit = limit_of(recorder, open->slug);

	if (finding && update_finding(open, finding)) {
		cJSON *line = incident_line(now, open->began_us);

		json_adopt(line, "finding", cJSON_CreateRaw(open->finding));
		incident_put(out, line);
	}
	ring_put_second(out, &recorder->ring, open->began_us);
	put_events(out, recorder, recorder->logged_us, open->began_us);
	if (limit && limit->now.n_top > 0 && now - open->users_us >= USERS_EVERY_US) {
		cJSON *users = incident_line(now, open->began_us);

		json_adopt(users, "top", incident_users(&limit->now, LIMIT_TOP_MAX));
		incident_put(out, users);
		open->users_us = now;
	}
}

static void append_second(struct recorder *recorder, struct open_incident *open, uint64_t now)
{
	char *text = NULL;
	size_t len;
	FILE *out = must(open_memstream(&text, &len));

	put_triggers(out, recorder, open->began_us, now);
	if (open->began_us != now)
		put_second(out, recorder, open, finding_of(recorder, open), now);
	must_do(fclose(out) == 0);
	add_step(recorder, STEP_APPEND, open->id, open->object, "", text, NULL);
}

/* Returns whether an incident is open. */
static bool record_second(struct recorder *recorder, uint64_t now)
{
	bool any = false;

	for (size_t i = 0; i < OPEN_SLOTS; i++) {
		struct open_incident *open = &recorder->open[i];

		if (!open->id[0])
			continue;
		append_second(recorder, open, now);
		if (now - open->last_us >= QUIET_US)
			end_incident(recorder, open, "quiet", now);
		else if (now - open->began_us >= LONGEST_US)
			end_incident(recorder, open, "longest", now);
		any = any || open->id[0];
	}
	recorder->n_triggers = 0;
	recorder->logged_us = now + recorder->offset_us;
	return any;
}

void recorder_tick(
	struct recorder *recorder, struct node *node, const struct names *names, uint64_t now)
{
	char text[INCIDENTS_START_MAX + 32];
	struct open_incident *crowd;

	recorder->node = node;
	(void)task_end(&recorder->task, 0);
	node->recorder = recorder->is_refused ? NULL : recorder;
	node->incidents = recorder->shown;
	end_reads(recorder->running, now);
	end_reads(recorder->waiting, now);
	if (recorder->cache.text && now > recorder->read_us + CACHE_KEPT_US) {
		free(steal(recorder->cache.text));
		malloc_trim(0);
	}
	/* The loop also ticks early: for results and requests. */
	if (now - recorder->ring.at_us[recorder->ring.now] < USEC_PER_SEC / 2)
		return;
	recorder->offset_us = realtime_us() - now;
	ring_add(&recorder->ring, node, names, now);
	if (recorder->lock < 0) {
		if (recorder->is_refused && now_us() >= recorder->lock_due_us && !recorder->task)
			add_start(recorder);
		begin_task(recorder);
		return;
	}
	if (recorder->start[0]) {
		snprintf(text, sizeof(text), "the agent started %s", recorder->start);
		trigger(recorder, "agent", "start", NULL, text, now);
		recorder->start[0] = '\0';
	}
	while ((crowd = find_crowd(recorder, true)))
		end_incident(recorder, crowd, "displaced", now);
	for (size_t i = 0; i < node->findings.n; i++)
		check_finding(recorder, &node->findings.findings[i], now);
	if (!record_second(recorder, now) && !recorder->task && !recorder->waiting &&
		recorder->has_left) {
		recorder->has_left = false;
		add_step(recorder, STEP_CLOSE, "", "", "", NULL, NULL);
	}
	begin_task(recorder);
}

void recorder_close(struct recorder *recorder, uint64_t deadline_us)
{
	if (!recorder)
		return;
	if (recorder->node) {
		for (size_t i = 0; i < OPEN_SLOTS; i++)
			if (recorder->open[i].id[0])
				end_incident(recorder, &recorder->open[i], "stopped",
					recorder->ring.at_us[recorder->ring.now]);
		recorder->node->recorder = NULL;
		recorder->node->incidents = NULL;
		recorder->node = NULL;
	}
	recorder->event = NULL; /* it has ended, and takes no source any more */
	add_step(recorder, STEP_STOP, "", "", "", NULL, NULL);
	begin_task(recorder);
	while (recorder->task) /* each begins the next */
		if (!task_end(&recorder->task, deadline_us)) {
			log_as(LOG_INCIDENT, LOG_NOTICE, "incidents",
				"the disk of %s hangs: they end cut short", recorder->directory);
			return;
		}
	ring_clear(&recorder->ring);
	for (size_t i = 0; i < OPEN_SLOTS; i++)
		free(recorder->open[i].finding);
	cJSON_Delete(recorder->shown);
	free(recorder->triggers);
	free(recorder->cache.text);
	cleanup_close(&recorder->lock);
	free(recorder);
}
