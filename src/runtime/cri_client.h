/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CRI_CLIENT_H
#define RUNTIME_CRI_CLIENT_H

/*
 * The Container Runtime Interface: what the kubelet asks containerd, CRI-O and cri-dockerd. Source:
 * k8s.io/cri-api/pkg/apis/runtime/v1/api.proto. Where a runtime knows only v1alpha2 (containerd
 * before 1.6), that is spoken; its messages are the same.
 *
 * All calls block, and return what grpc_unary() returns: 0, a status of the runtime's, or -errno.
 * The strings and lists of an answer are in the caller's arena, and never NULL except where said.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/grpc_client.h"

/* To be filled with a client and nothing else; the client remains the caller's. */
struct cri {
	struct grpc *grpc;
	bool alpha; /* the runtime answered in v1alpha2 last */
};

struct cri_version {
	const char *runtime;     /* "containerd", "cri-o" */
	const char *version;     /* the runtime's own, such as "1.6.20~ds1" or "v2.4.2" */
	const char *api_version; /* "v1", "v1alpha2" */
};

/*
 * What the runtime runs with, as Status(verbose) shows it: containerd's info.config. A field that
 * the runtime's version leaves out is -1 or NULL.
 */
struct cri_running_config {
	int64_t max_concurrent_downloads;
	const char *image_pull_progress_timeout; /* a Go duration: "5m0s" */
	const char *registry_config_path;        /* "" means that none is set */
	const char *snapshotter;
};

struct cri_status {
	bool has_config; /* there was an info.config */
	struct cri_running_config config;
};

struct cri_filesystem {
	const char *mountpoint;
	uint64_t used_bytes;
};

struct cri_filesystems {
	const struct cri_filesystem *list;
	size_t n;
};

struct cri_sandbox {
	const char *id;
	const char *name, *namespace, *uid; /* of the pod */
	bool ready;
};

struct cri_sandboxes {
	const struct cri_sandbox *list;
	size_t n;
};

struct cri_sandbox_status {
	struct cri_sandbox sandbox;
	const char *const *ips; /* the primary one first; none for a pod on the host's network */
	size_t n_ips;
	bool host_network;
};

struct cri_container {
	const char *id;
	const char *sandbox_id;
	const char *name;
	bool running;
};

struct cri_containers {
	const struct cri_container *list;
	size_t n;
};

int cri_get_version(
	struct cri *cri, const struct wait *wait, struct arena *arena, struct cri_version *version);
int cri_get_status(
	struct cri *cri, const struct wait *wait, struct arena *arena, struct cri_status *status);

/* Of the images: ImageFsInfo. */
int cri_get_filesystems(struct cri *cri, const struct wait *wait, struct arena *arena,
	struct cri_filesystems *filesystems);

int cri_get_sandboxes(struct cri *cri, const struct wait *wait, struct arena *arena,
	struct cri_sandboxes *sandboxes);
int cri_get_sandbox(struct cri *cri, const struct wait *wait, struct arena *arena, const char *id,
	struct cri_sandbox_status *status);
int cri_get_containers(struct cri *cri, const struct wait *wait, struct arena *arena,
	struct cri_containers *containers);

/*
 * How far a program behind a socket answers, from nothing at all to the CRI: one connection and one
 * call of Version.
 */
enum cri_answers {
	CRI_NO_ANSWER,
	CRI_CONNECTS, /* somebody accepts connections, and says nothing, or nothing of gRPC */
	CRI_IS_GRPC,  /* a runtime without the CRI, or one that is not ready */
	CRI_ANSWERS,
};

enum cri_answers cri_probe(const char *path, const struct wait *wait);

#endif
