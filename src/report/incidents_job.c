/* SPDX-License-Identifier: Apache-2.0 */
#include "report/incidents_internal.h"

#include "base/log.h"
#include "report/report.h"

/* More jobs under way: the disk hangs. */
#define JOBS_MAX 64

#define HANGS "{\"error\": \"the disk of the state directory does not answer\"}"

/* The worker uses the recorder's directory and boot only, which never change. */
struct incident_job {
	struct recorder *recorder;
	enum task task;
	char id[INCIDENT_ID_MAX];
	char object[LIMIT_NAME_MAX];
	char *text;                     /* to write; or the document that was read; owned */
	struct incident_reader *reader; /* TASK_READ */
	int error;
	char start[INCIDENTS_START_MAX];
	cJSON *shown; /* NULL: not read again; owned */
};

static void list_shown(struct incident_job *job)
{
	static const char *const keys[] = {"id", "at", "text", "state", NULL};
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = incidents_list(job->recorder->directory);
	const cJSON *row;

	job->shown = cJSON_CreateArray();
	cJSON_ArrayForEach (row, json_at(list, "incidents"))
		if (cJSON_GetArraySize(job->shown) < INCIDENTS_SHOWN_MAX)
			incident_copy(json_append(job->shown), row, keys);
}

/* On the worker. */
static void run_job(void *data, const struct wait *)
{
	struct incident_job *job = data;
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = NULL;
	const char *directory = job->recorder->directory;

	switch (job->task) {
	case TASK_START:
		incidents_close_left(directory);
		job->error = incidents_mark_start(directory, job->recorder->boot, job->start);
		break;
	case TASK_BEGIN:
		job->error = incident_begin(directory, job->id, job->object, job->text);
		break;
	case TASK_APPEND:
		job->error = incident_append(directory, job->id, job->text);
		return;
	case TASK_END:
		job->error = incident_end(directory, job->id, job->text);
		break;
	case TASK_SKIP:
		incident_skip(directory, job->object, job->text);
		return;
	case TASK_READ:
		if (job->id[0]) {
			job->error = incident_read(directory, job->id, &job->text);
		} else {
			list = incidents_list(directory);
			job->text = must(cJSON_PrintUnformatted(list));
		}
		return;
	case TASK_CLOSE:
		incidents_close_left(directory);
		break;
	case TASK_STOP:
		(void)incidents_mark(directory, job->recorder->boot, true);
		return;
	}
	list_shown(job);
}

static void reply(const struct incident_job *job)
{
	struct http_connection *client = job->reader->client;

	if (!client) /* it has a reply */
		;
	else if (job->error == 0)
		http_reply(client, 200, job->text);
	else if (job->error == -ENOENT || job->error == -EINVAL)
		http_reply(client, 404, "{\"error\": \"no such incident\"}");
	else if (job->error == -EBUSY)
		http_reply(client, 503, HANGS);
	else
		http_reply(client, 500, "{\"error\": \"the incident cannot be read\"}");
	*job->reader = (struct incident_reader){0};
}

void recorder_end_reads(struct recorder *recorder, uint64_t now)
{
	for (struct incident_reader *reader = recorder->readers;
		reader < recorder->readers + READS_MAX; reader++)
		if (reader->client && now > reader->since_us + INCIDENTS_READ_US)
			http_reply(steal(reader->client), 503, HANGS);
}

/* In the loop. */
static void adopt_job(void *data, void *userdata)
{
	struct recorder *recorder = userdata;
	struct incident_job *job = data;

	recorder->jobs--;
	if (job->task == TASK_READ) {
		reply(job);
		recorder->reads--;
		if (recorder->worker)
			worker_wakes_loop(recorder->worker, recorder->reads > 0);
	}
	if (job->task == TASK_START)
		set_text(recorder->start, job->start);
	if (job->error < 0 && (job->task == TASK_BEGIN || job->task == TASK_APPEND)) {
		recorder->has_left = true;
		for (size_t i = 0; i < OPEN_MAX; i++)
			if (streq(recorder->open[i].id, job->id))
				recorder->open[i].id[0] = '\0';
	}
	if (job->error < 0 && job->error != -EDQUOT && job->error != -ENOENT &&
		(job->task == TASK_BEGIN || job->task == TASK_START))
		log_notice("incidents", "%s not recorded: %s: %s", job->object,
			strerror(-job->error), recorder->directory);
	if (job->shown) {
		cJSON_Delete(recorder->shown);
		recorder->shown = job->shown;
		if (recorder->node)
			recorder->node->incidents = recorder->shown;
	}
	free(job->text);
	free(job);
}

void recorder_submit(struct recorder *recorder, enum task task, const char *id, const char *object,
	char *text, struct incident_reader *reader)
{
	struct incident_job *job = must(calloc(1, sizeof(*job)));
	int r = 0;

	*job = (struct incident_job){
		.recorder = recorder, .task = task, .text = text, .reader = reader};
	set_text(job->id, id);
	set_text(job->object, object);
	recorder->jobs++;
	recorder->reads += reader != NULL;
	if (recorder->jobs > JOBS_MAX)
		r = -EBUSY;
	else if (!recorder->worker)
		r = worker_new(recorder->event, &recorder->worker);
	if (r == 0)
		worker_wakes_loop(recorder->worker, recorder->reads > 0);
	if (r == 0)
		r = worker_submit(recorder->worker, run_job, adopt_job, job, recorder);
	if (r == 0) /* the job belongs to the worker */
		return;
	job->error = r;
	adopt_job(job, recorder);
}

struct recorder *recorder_open(sd_event *event, const char *directory, const char *boot)
{
	struct recorder *recorder = must(calloc(1, sizeof(*recorder)));

	recorder->event = event;
	set_text(recorder->directory, directory);
	set_text(recorder->boot, boot);
	recorder_submit(recorder, TASK_START, "", "the start of the agent", NULL, NULL);
	return recorder;
}

void recorder_read(struct recorder *recorder, const char *id, struct http_connection *client)
{
	struct incident_reader *reader = recorder->readers;

	while (reader < recorder->readers + READS_MAX && reader->since_us > 0)
		reader++;
	if (reader == recorder->readers + READS_MAX) {
		http_reply(client, 503, "{\"error\": \"too many requests are waiting\"}");
		return;
	}
	*reader = (struct incident_reader){.client = client, .since_us = now_us()};
	recorder_submit(recorder, TASK_READ, id ? id : "", "", NULL, reader);
}
