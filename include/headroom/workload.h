/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A workload is who uses a limit. */

#include <stddef.h>

struct cJSON;

enum workload_kind {
	WORKLOAD_HOST,
	WORKLOAD_POD,
	WORKLOAD_CONTAINER,
	WORKLOAD_UNIT, /* a systemd unit */
	WORKLOAD_LXD,
	WORKLOAD_NETNS, /* a network namespace with nothing better known of it */
};

struct workload {
	enum workload_kind kind;
	char namespace[64]; /* Kubernetes namespace; empty elsewhere */
	char name[128];
	char id[72]; /* container id, pod uid or the namespace's inode */
};

extern const char *const workload_kind_names[];

/* Its name or, without one, its id: of a namespace the inode. */
const char *workload_name(const struct workload *workload);

/* "pod kube-system/coredns-x", "host": what people read of it, everywhere. */
#define WORKLOAD_TEXT_MAX 224
void workload_describe(const struct workload *workload, char *text, size_t size);

/* Adds the member "workload" to parent. */
void workload_json(struct cJSON *parent, const struct workload *workload);
