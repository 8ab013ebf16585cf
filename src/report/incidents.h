/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Incidents: what happened in the minute before and after a limit was reached, or another trigger.
 * An incident is a file of JSON lines, ID.jsonl, and ID.jsonl.part while it is written. The loop
 * decides when one begins (incidents.c), a worker writes it (incidents_write.c), and commands and
 * the HTTP server read it (incidents_read.c). A file explains itself:
 *
 *   {"schema": 1, "id", "at", "object", "trigger", "text", "breaks", "now", "node", "version",
 *    "boot", "limit": {"name", "unit", "used", "max", "hits"}, "top": USERS, "before": USERS}
 *   {"t": SECONDS, "rows": {LIMIT: [USED, MAX, HITS] or [USED]}}   of the limits that changed
 *   {"t", "top": USERS}, {"t", "event", "level"}, {"t", "started"}, {"t", "trigger", "object",
 *    "text"}
 *   {"t", "end": "quiet|longest|stopped|cut-short", "text", "at", "top": USERS}
 *
 * t counts from the trigger. USERS is [[WORKLOAD, USED, DETAIL], ...], the largest first.
 */

#include <systemd/sd-event.h>

#include "base/json.h"
#include "model/node.h"
#include "workload/cgroup.h"

#define INCIDENTS_DIRECTORY "/incidents" /* below the state directory */
#define INCIDENTS_BYTES_MAX (UINT64_C(16) << 20)
#define INCIDENTS_A_DAY     20 /* of one object */
#define INCIDENTS_FREE_MIN  5  /* % of the file system */
#define INCIDENT_BYTES_MAX  (UINT64_C(1) << 20)
#define INCIDENT_ID_MAX     96
#define INCIDENTS_SHOWN_MAX 20 /* in the status, newest first */

/* The recorder of an agent, in the loop. */
struct recorder;
struct http_connection;

/* directory is that of the incidents. boot is the boot id. Returns NULL if no thread can start. */
struct recorder *recorder_open(sd_event *event, const char *directory, const char *boot);

/*
 * Once a second, after the poll: keeps the last minute, and records. Sets node->incidents. now is
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

/* ---- files, for a worker or a command; directory is that of the incidents ---- */

/*
 * Begins a file with text: whole lines. Returns 0; -EDQUOT after INCIDENTS_A_DAY, and -ENOSPC below
 * INCIDENTS_FREE_MIN, both counted; or -errno.
 */
int incident_begin(const char *directory, const char *id, const char *object, const char *text);

/* Appends whole lines, or nothing after an error. */
int incident_append(const char *directory, const char *id, const char *text);

/* Appends, synchronises and renames the file, and removes old files above the maximum. */
int incident_end(const char *directory, const char *id, const char *text);

/* Counts an incident that is not recorded. */
void incident_skip(const char *directory, const char *object, const char *why);

/* Closes files that nobody writes any more, as cut short: of a killed agent, or after an error. */
void incidents_close_left(const char *directory);

#define INCIDENTS_START_MAX 160

/* Marks that an agent runs in this boot, or has stopped. Returns 0 or -errno. */
int incidents_mark(const char *directory, const char *boot, bool stopped);

/* Marks that an agent runs. how gets what ended the previous agent. Returns 0 or -errno. */
int incidents_mark_start(const char *directory, const char *boot, char how[INCIDENTS_START_MAX]);

/* A reader waits this long for the disk; after that, the disk hangs. */
#define INCIDENTS_READ_US (3 * USEC_PER_SEC)

/*
 * {"incidents": [{"id", "at", "object", "trigger", "text", "state", "seconds", "bytes"}, ...],
 * newest first, "not_recorded": [{"day", "object", "count", "why"}], "bytes", "max_bytes"}. state
 * is complete, cut-short or open. The caller deletes it.
 */
cJSON *incidents_list(const char *directory);

/* Copies texts. keys is ended by NULL. */
void incident_copy(cJSON *to, const cJSON *from, const char *const *keys);

/*
 * {"incident": the first line, "state", "lines": [the others]}, which the caller frees. A torn last
 * line is left out. Returns 0, -ENOENT, -EINVAL for an invalid id, -EBADMSG, or -errno.
 */
int incident_read(const char *directory, const char *id, char **document);

#define INCIDENT_SUFFIX ".jsonl"
#define INCIDENT_PART   ".part"
#define INCIDENT_COUNTS "counts.json"

struct incident_file {
	char id[INCIDENT_ID_MAX];
	bool part; /* while it is written */
	uint64_t size;
};

/* All files, oldest first. The caller frees the array. */
struct incident_file *incident_files(const char *directory, size_t *n);

/* Reads a JSON document, such as INCIDENT_COUNTS: an empty one without the file. */
cJSON *incident_read_small(const char *directory, const char *name);

/* Writes the path of a file. suffix is INCIDENT_PART or "". */
void incident_path(
	const char *directory, const char *id, const char *suffix, char path[static PATH_MAX]);
