/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * headroom doctor: what needs action on this node. Its document has a check for each condition,
 * limit and setting of the status document, and for each row of node_checks.
 *
 * {"schema": 1, "node", "version", "time", "agent", "verdict", "counts": {STATUS: N}, "checks":
 * [{"name", "kind", "status", "message", "since", "who": [], "breaks", "now", "keep"}]}
 *
 * status: critical, warning, unknown, ignored, advice, ok, or absent: not on this node. The checks
 * are in this order.
 */

#include <headroom/tables.h>

#include "base/json.h"

#define DOCTOR_MESSAGE_MAX 1024

struct doctor_finding {
	const char *name;
	const char *kind;   /* "condition", "limit", "setting", "check" */
	const char *status; /* as above */
	const char *since;  /* RFC 3339; or NULL */
	const char *breaks, *now;
	double max;            /* the limit's maximum; 0: not known */
	const char *option;    /* from its row, or NULL */
	const char *unit;      /* in which users count; or NULL */
	const cJSON *top;      /* users of a limit, or NULL */
	const char *condition; /* that is True about it, or NULL: may be ignored instead */
	char message[DOCTOR_MESSAGE_MAX];
};

/* Adds a check to the document, as ignored if ignore, a list of names and patterns, has it. */
void doctor_add(cJSON *document, const cJSON *ignore, const struct doctor_finding *finding);

/*
 * Makes the document from a status document; the caller adds the other checks, then ends it with
 * doctor_finish(). The caller deletes it.
 */
cJSON *doctor_document(const cJSON *status, const cJSON *ignore);
void doctor_finish(cJSON *document);

/* Writes "2 problems: 1 critical, 1 warning; 41 checks are fine, 1 is ignored". */
void doctor_verdict(const cJSON *document, char *text, size_t size);

int doctor_exit(const cJSON *document);

/* doctor_bundle.c */

struct host;

struct bundle_input {
	const struct host *host;
	const cJSON *doctor, *status, *configuration;
	const char *metrics; /* text */
};

/*
 * Writes a tar with what support needs, without secrets and names of DNS queries, to a path or, for
 * "-", to standard output. Its errors.txt lists the missing parts. Returns 0 or -errno.
 */
int doctor_bundle(const char *path, const struct bundle_input *input);
