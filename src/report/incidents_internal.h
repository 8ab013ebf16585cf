/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The recorder in the loop. incidents.c: triggers; incidents_ring.c: the last minute;
 * incidents_job.c: work for the thread. */

#include "base/worker.h"
#include "report/incidents.h"

#define RING_SECONDS 60
#define ROWS_MAX     64
#define NOTES_MAX    32
#define OPEN_MAX     8 /* incidents at once */
#define READS_MAX    8

#define USERS_KEPT 5 /* of a row, in the last minute */

/* A limit in the last minute. */
struct ring_row {
	char name[LIMIT_NAME_MAX];
	const char *unit;
	uint64_t used[RING_SECONDS]; /* UINT64_MAX: no reading */
	uint64_t max[RING_SECONDS];
	uint64_t hits[RING_SECONDS];
	char *users[2]; /* as JSON, of 0 to 30 and of 30 to 60 seconds ago; or NULL */
	/* CLOCK_MONOTONIC; 0: never. */
	uint64_t seen_us, hit_us, near_us;
	uint64_t hits_seen;
};

/* A workload that started. */
struct ring_note {
	uint64_t at_us; /* CLOCK_MONOTONIC */
	char text[WORKLOAD_TEXT_MAX];
};

struct ring {
	uint64_t at_us[RING_SECONDS]; /* CLOCK_MONOTONIC; 0: no tick yet */
	unsigned now;                 /* index of the last tick */
	struct ring_row *rows[ROWS_MAX];
	size_t n_rows;
	struct ring_note notes[NOTES_MAX];
	unsigned n_notes;    /* since the start */
	uint64_t *workloads; /* hashes of their texts, sorted; owned */
	size_t n_workloads;
	uint64_t workloads_us, users_us; /* when they were read */
};

/* An incident that is being recorded. */
struct open_incident {
	char id[INCIDENT_ID_MAX]; /* empty: the slot is free */
	char object[LIMIT_NAME_MAX];
	char text[256];
	uint64_t began_us, last_us, users_us; /* CLOCK_MONOTONIC */
	uint64_t hits;                        /* before it */
	uint64_t most, most_max;              /* the largest use, and the limit then */
	struct limit_user most_user;
};

enum task {
	TASK_START,
	TASK_BEGIN,
	TASK_APPEND,
	TASK_END,
	TASK_SKIP,
	TASK_READ,
	TASK_CLOSE,
	TASK_STOP
};

/* A client that waits for a document. */
struct incident_reader {
	struct http_connection *client; /* NULL: it has a reply */
	uint64_t since_us;              /* CLOCK_MONOTONIC; 0: the slot is free */
};

struct recorder {
	sd_event *event;
	struct worker *worker; /* NULL: nothing is under way */
	char directory[PATH_MAX], boot[64];
	struct node *node;
	struct ring ring;
	struct open_incident open[OPEN_MAX];
	uint64_t *problem_us; /* for each condition: CLOCK_MONOTONIC when it was last a problem */
	struct incident_reader readers[READS_MAX];
	unsigned jobs, reads; /* under way */
	bool has_left;        /* a file that could not be written is open still */
	uint64_t offset_us;   /* CLOCK_REALTIME less CLOCK_MONOTONIC, at the last tick */
	uint64_t logged_us;   /* CLOCK_REALTIME of the last line of the log that was recorded */
	char start[INCIDENTS_START_MAX]; /* of the agent, not recorded yet; or empty */
	cJSON *shown;                    /* of struct node */
};

/* Hands a job to the worker. text belongs to the job; reader is for TASK_READ. */
void recorder_submit(struct recorder *recorder, enum task task, const char *id, const char *object,
	char *text, struct incident_reader *reader);

/* Replies to the clients for which the disk hangs. */
void recorder_end_reads(struct recorder *recorder, uint64_t now);

/* Adds the readings of this second. */
void ring_add(struct ring *ring, const struct node *node, const struct names *names, uint64_t now);
void ring_clear(struct ring *ring);

struct ring_row *ring_row_of(const struct ring *ring, const char *name);

/* Prints the whole minute with its notes, or the last second. began is the time of t = 0. */
void ring_put_minute(FILE *out, const struct ring *ring, uint64_t began);
void ring_put_second(FILE *out, const struct ring *ring, uint64_t began);

/* [[WORKLOAD, USED, DETAIL], ...] */
cJSON *incident_users(const struct limit_reading *limit, unsigned max);

/* Prints the document and a newline, and deletes it. */
void incident_put(FILE *out, cJSON *line);

/* A new line with its time. */
cJSON *incident_line(uint64_t at, uint64_t began);
