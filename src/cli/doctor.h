/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * headroom doctor: what needs action on this node. Its document has the findings of the status
 * document, the entries of each row of node_checks, and one for each limit, setting and condition
 * without a finding.
 *
 * {"schema": 1, "node", "version", "time", "released": [], "agent", "verdict", "counts": {STATUS:
 * N}, "checks": []}
 *
 * An entry has all members of a finding (finding_json()), and name: its slug; kind: "limit",
 * "setting", "condition" for another finding, "check"; status. Without a problem it may lack all
 * but name, kind, status, slug and message. The statuses are in the order of the enum, and the
 * entries too, the worst findings first.
 */

#include "base/json.h"

#include <headroom/setting.h>

enum doctor_status {
	DOCTOR_CRITICAL,
	DOCTOR_WARNING,
	DOCTOR_UNKNOWN, /* could not be checked; the last one that counts for the verdict */
	DOCTOR_IGNORED, /* by doctor.ignore */
	DOCTOR_ADVICE,
	DOCTOR_OK,
	DOCTOR_ABSENT, /* does not apply to this node */
	DOCTOR_STATUSES,
};

struct doctor {
	cJSON *document;
	cJSON *lists[DOCTOR_STATUSES]; /* entries; NULL: none */
	enum doctor_status verdict;    /* after doctor_finish() */
	unsigned sysctl_held_by;       /* of enum held_by: for the cure of a check */
	const char *config_file;       /* for the same, from the caller; NULL: the chart's values */
};

/* Begins a document with what a status document says; the caller adds the checks. */
void doctor_begin(struct doctor *doctor, const cJSON *status);

/* Returns the whole document, which the caller deletes. */
cJSON *doctor_finish(struct doctor *doctor);

/* Writes "critical: 1 critical, 2 warnings, 41 checks are fine; released: thp (headroom apply)". */
void doctor_verdict(const cJSON *document, char *text, size_t size);

int doctor_exit(const struct doctor *doctor);

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
