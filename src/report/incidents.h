/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Incidents: what happened in the minute before and after a limit was reached, or another trigger.
 * An incident is a file of JSON lines, ID.jsonl, and ID.jsonl.part while it is written. The
 * recorder decides when one begins, and its tasks write it; commands and clients read it. A file
 * explains itself:
 *
 *   {"schema": 1, "id", "at", "object", "cause", "trigger", "text", "finding": as in the status,
 *    "breaks", "now", "node", "version", "boot", "limit": {"name", "unit", "used", "max", "hits"},
 *    "top": USERS, "before": USERS}
 *   {"t": SECONDS, "rows": {LIMIT: [USED, MAX, HITS] or [USED]}}   of the limits that changed
 *   {"t", "finding"}   when its worst moment or its users have changed
 *   {"t", "top": USERS}, {"t", "event", "level"}, {"t", "started"}, {"t", "trigger", "object",
 *    "text"}
 *   {"t", "end": "quiet|longest|displaced|stopped|replaced|cut-short", "lasts": whether the finding
 *    goes on, "text", "at", "top": USERS}
 *
 * t counts from the trigger. USERS is [[WORKLOAD, USED, DETAIL], ...], the largest first.
 */

#include "base/json.h"

#define INCIDENTS_DIRECTORY "/incidents" /* below the state directory */
#define INCIDENTS_BYTES_MAX (UINT64_C(16) << 20)
#define INCIDENTS_A_DAY     20 /* for one cause and limit */
#define INCIDENTS_CAUSE     60 /* a day for one cause */
#define INCIDENTS_FREE_MIN  5  /* % of the file system */
#define INCIDENT_BYTES_MAX  (UINT64_C(1) << 20)
#define INCIDENT_ID_MAX     96
#define INCIDENT_OBJECT_MAX 256
#define INCIDENT_CAUSE_MAX  224
#define INCIDENTS_SHOWN_MAX 20 /* in the status, newest first */

/* Every function blocks: for tasks and commands. directory is that of the incidents. */

/*
 * Makes the directory, below one that others may list, and locks it: one agent at a time records,
 * because a new one closes what a killed one has left open. Returns a descriptor, to be kept open;
 * -EWOULDBLOCK if another one does; or another -errno.
 */
int incidents_lock(const char *directory);

/*
 * Begins a file with text: whole lines. cause is who is charged, so that a user who provokes
 * incidents does not mute others. Returns 0; -EDQUOT after the incidents of a day, and -ENOSPC
 * below INCIDENTS_FREE_MIN, both counted; or -errno.
 */
int incident_begin(const char *directory, const char *id, const char *object, const char *cause,
	const char *text);

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
 * Returns {"incidents": [{"id", "at", "object", "trigger", "text", "state", "seconds", "bytes"},
 * ...], newest first, "not_recorded": [{"day", "object", "count", "why"}], "bytes", "max_bytes"}.
 * state is complete, cut-short or open. The caller deletes it.
 */
cJSON *incidents_list(const char *directory);

/* The list as text, as it was when the directory had this signature. Begins with zeros. */
struct incidents_cache {
	uint64_t signature;
	char *text; /* owned */
};

/* Returns the list as text. Reads the incidents only if their files have changed. */
const char *incidents_text(const char *directory, struct incidents_cache *cache);

/* Copies texts. keys is ended by NULL. */
void incident_copy(cJSON *to, const cJSON *from, const char *const *keys);

/*
 * Makes {"incident": the first line, "state", "lines": [the others]}, which the caller frees. A
 * torn last line is left out. Returns 0, -ENOENT, -EINVAL for an invalid id, -EBADMSG, or -errno.
 */
int incident_read(const char *directory, const char *id, char **document);
