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

#include "base/json.h"

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
