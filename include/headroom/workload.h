/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A workload is a user of a limit. */

#include <stdbool.h>
#include <stddef.h>

struct cJSON;

enum workload_kind {
	WORKLOAD_HOST,
	WORKLOAD_POD,
	WORKLOAD_CONTAINER,
	WORKLOAD_UNIT, /* a systemd unit */
	WORKLOAD_LXD,
	WORKLOAD_NETNS, /* a network namespace whose owner is not known */
	WORKLOAD_UID,   /* a user, where the kernel counts by user */
};

struct workload {
	enum workload_kind kind;
	char namespace[64]; /* Kubernetes namespace; empty elsewhere */
	char name[128];
	char id[72]; /* container id, pod uid, the namespace's inode, or the slice of a unit's user
		      */
};

extern const char *const workload_kind_names[];

/* Returns the name, or the id of a workload without a name. */
const char *workload_name(const struct workload *workload);

bool workload_equal(const struct workload *a, const struct workload *b);

/* Returns false if its name is only its id or the beginning of it. */
bool workload_is_named(const struct workload *workload);

/* Returns whether it is of a kind that gets its name later, from a runtime, and has none yet. */
bool workload_lacks_name(const struct workload *workload);

/* Returns whether it is a network namespace whose owner is not known. */
bool workload_is_unknown_netns(const struct workload *workload);

/* Its text for people: "pod kube-system/coredns-x", "host". */
#define WORKLOAD_TEXT_MAX 224
void workload_describe(const struct workload *workload, char *text, size_t size);

void workload_json(struct cJSON *parent, const struct workload *workload);
