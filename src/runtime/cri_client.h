/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CRI_CLIENT_H
#define RUNTIME_CRI_CLIENT_H

/*
 * The Container Runtime Interface: what the kubelet asks containerd, CRI-O and cri-dockerd. Source:
 * k8s.io/cri-api/pkg/apis/runtime/v1/api.proto. Where a runtime knows only v1alpha2 (containerd
 * before 1.6), that is spoken; its messages are the same.
 *
 * All calls block, and return what grpc_unary() returns: 0, a status of the runtime's, or -errno.
 * An answer is in the caller's arena, its strings are never NULL, and messages in it may be.
 */

#include <stdbool.h>
#include <stdint.h>

#include <runtime/cri.pb-c.h>

#include "runtime/grpc_client.h"

/* To be filled with a client and nothing else; the client remains the caller's. */
struct cri {
	struct grpc *grpc;
	bool alpha; /* the runtime answered in v1alpha2 last */
};

/* Each with the message of its answer. */
enum cri_call {
	CRI_VERSION,        /* Cri__VersionResponse */
	CRI_STATUS,         /* Cri__StatusResponse */
	CRI_FILESYSTEMS,    /* Cri__ImageFsInfoResponse: of the images */
	CRI_SANDBOXES,      /* Cri__ListPodSandboxResponse */
	CRI_SANDBOX_STATUS, /* Cri__PodSandboxStatusResponse */
	CRI_CONTAINERS,     /* Cri__ListContainersResponse */
};

/* Numbers of the API's enumerations. */
enum { CRI_SANDBOX_READY = 0, CRI_CONTAINER_RUNNING = 1, CRI_NAMESPACE_NODE = 2 };

/* message NULL: an empty one. ret is a pointer to a pointer to the answer's message. */
int cri_call(struct cri *cri, const struct wait *wait, struct arena *arena, enum cri_call which,
	const ProtobufCMessage *message, void *ret);

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

int cri_get_config(struct cri *cri, const struct wait *wait, struct arena *arena,
	struct cri_running_config *config);

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
