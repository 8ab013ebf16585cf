/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Facts about the node that one tuner finds and others use. A job gets a copy. */

#include <sys/types.h>

#include "kernel/host.h"

#include <headroom/workload.h>

#define FINDINGS_MAX     24
#define FINDING_NAME_MAX 16 /* TASK_COMM_LEN */

enum finding_kind {
	FINDING_IMAGES,   /* path and device of a runtime's images */
	FINDING_SYNCED,   /* path of a file system that a process of storage.processes syncs */
	FINDING_DATABASE, /* process and size of an etcd database */
	FINDING_KINDS,
};

struct finding {
	enum finding_kind kind;
	char path[SETTING_PATH_MAX]; /* below the host's root */
	dev_t device;
	pid_t pid;
	char name[FINDING_NAME_MAX]; /* of the process */
	struct workload workload;
	uint64_t bytes;
};

struct findings {
	struct finding list[FINDINGS_MAX];
	size_t n;
};

/* Removes all findings of a kind. findings may be NULL. */
void findings_clear(struct findings *findings, enum finding_kind kind);

/* Adds one while there is room. */
void findings_add(struct findings *findings, const struct finding *finding);

/* The next finding of this kind after one, or the first after NULL; NULL after the last. */
const struct finding *findings_next(
	const struct findings *findings, enum finding_kind kind, const struct finding *after);
