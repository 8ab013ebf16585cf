/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The recorder of an agent, in the loop: it keeps the last minute, and records incidents. */

#include "base/task.h"
#include "model/node.h"
#include "report/incidents.h"
#include "workload/cgroup.h"

struct http_connection;

#define RING_SECONDS 60
#define ROWS_MAX     64
#define NOTES_MAX    32
#define OPEN_MAX     8  /* incidents at once */
#define OPEN_SLOTS   16 /* more, because the quota of the day may refuse some */

#define USERS_KEPT 5 /* for each row, in the last minute */

/* A limit in the last minute. */
struct ring_row {
	char name[LIMIT_NAME_MAX];
	const char *unit;
	uint64_t used[RING_SECONDS]; /* UINT64_MAX: no reading */
	uint64_t max[RING_SECONDS];
	uint64_t hits[RING_SECONDS];
	char *users[2]; /* as JSON, of 0 to 30 and of 30 to 60 seconds ago; or NULL */
	/* CLOCK_MONOTONIC; 0: never. */
	uint64_t seen_us;
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

/* A finding at the last tick. */
struct recorded_finding {
	uint64_t id_hash;
	uint64_t object_hash;    /* instance_object() */
	uint64_t times, full_us; /* its numbers then */
	uint64_t last_us;        /* CLOCK_MONOTONIC: when it was last seen to happen */
	uint64_t begun_us;       /* the same: when its last incident began */
	bool is_near;            /* nearly everything was used */
};

/* Why an incident begins or goes on, in this second. */
struct recorded_trigger {
	char object[INCIDENT_OBJECT_MAX];
	const char *name; /* "hit"; static */
	char text[FINDING_TEXT_MAX];
};

/* An incident that is being recorded. */
struct open_incident {
	char id[INCIDENT_ID_MAX];         /* empty: the slot is free */
	char object[INCIDENT_OBJECT_MAX]; /* the finding's id, or "agent" */
	char slug[FINDING_SLUG_MAX];      /* the name of its limit, if it has one */
	char cause[INCIDENT_CAUSE_MAX];
	bool is_begun;                        /* it has a file */
	char text[FINDING_TEXT_MAX];          /* as last rendered */
	char *finding;                        /* the same as JSON; NULL: none; owned */
	uint64_t object_hash;                 /* instance_object() of the finding */
	uint64_t began_us, last_us, users_us; /* CLOCK_MONOTONIC */
};

struct recorder {
	sd_event *event;
	struct task *task;                        /* NULL: none is under way */
	struct recorder_batch *running, *waiting; /* its steps, and those for the next one */
	char directory[PATH_MAX], boot[64];
	int lock;             /* of the directory; -1: nothing is recorded yet */
	bool is_refused;      /* the last attempt to lock it has failed */
	uint64_t lock_due_us; /* CLOCK_MONOTONIC of the next attempt */
	struct node *node;
	struct ring ring;
	struct open_incident open[OPEN_SLOTS];
	struct recorded_trigger *triggers; /* of this second; owned */
	size_t n_triggers, triggers_allocated;
	struct recorded_finding seen[FINDINGS_MAX];
	size_t n_seen;
	bool has_left;      /* a file that could not be written is open still */
	uint64_t offset_us; /* CLOCK_REALTIME less CLOCK_MONOTONIC, at the last tick */
	uint64_t logged_us; /* CLOCK_REALTIME of the last line of the log that was recorded */
	char start[INCIDENTS_START_MAX]; /* the agent's start, not recorded yet; or empty */
	cJSON *shown;                    /* kept in struct node */
	struct incidents_cache cache;    /* of clients; in the batch while a task runs */
	uint64_t read_us;                /* CLOCK_MONOTONIC of the last client */
};

/* Opens a recorder for this directory of incidents and this boot id. */
struct recorder *recorder_open(sd_event *event, const char *directory, const char *boot);

/*
 * Keeps the last minute, and records an incident when a finding begins that is critical or is to be
 * recorded, when one happens again after a quiet minute or goes on after an hour, and when a limit
 * is nearly full. Call it once a second, after the poll. Sets node->incidents. now is
 * CLOCK_MONOTONIC.
 */
void recorder_tick(
	struct recorder *recorder, struct node *node, const struct names *names, uint64_t now);

/* Answers the request, at once or later: with one incident, or (id NULL) with the list. */
void recorder_read(struct recorder *recorder, const char *id, struct http_connection *client);

/*
 * Ends the open incidents and frees the recorder, unless its disk hangs until deadline_us: then the
 * memory stays, because a thread uses it.
 */
void recorder_close(struct recorder *recorder, uint64_t deadline_us);
