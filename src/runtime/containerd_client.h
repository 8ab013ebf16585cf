/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CONTAINERD_CLIENT_H
#define RUNTIME_CONTAINERD_CLIENT_H

/*
 * containerd's own services, below the CRI and beside it. Source:
 * github.com/containerd/containerd/api/services. Namespaces keep users apart: "k8s.io" is the
 * CRI's, "moby" Docker's.
 *
 * All calls block, and return what grpc_unary() returns: 0, a status of containerd's, or -errno.
 * An answer is in the caller's arena, its strings are never NULL, and messages in it may be.
 */

#include <stdint.h>

#include <runtime/containerd.pb-c.h>

#include "runtime/grpc_client.h"

/* Each with the message of its answer. */
enum containerd_call {
	CONTAINERD_VERSION,    /* Containerd__VersionResponse */
	CONTAINERD_NAMESPACES, /* Containerd__ListNamespacesResponse */
	CONTAINERD_INGESTS,    /* Containerd__ListStatusesResponse: what a namespace fetches now */
	CONTAINERD_CONTENT,    /* Containerd__ListContentResponse: the first of a stream */
};

/* namespace and message may be NULL. ret is a pointer to a pointer to the answer's message. */
int containerd_call(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	enum containerd_call which, const char *namespace, const ProtobufCMessage *message,
	void *ret);

/* Of CLOCK_REALTIME; 0 for no time. */
uint64_t containerd_time_us(const Containerd__Timestamp *stamp);

/*
 * The manifests that have this layer, "sha256:...", among their first CONTAINERD_LAYERS_MAX: their
 * labels containerd.io/gc.ref.content.l.N are all of its layers, and those of
 * containerd.io/distribution.source.REGISTRY the repositories that it was pulled from. None where
 * more than a hundred have it. -EINVAL for no digest, -EBADMSG where there is no manifest.
 */
#define CONTAINERD_LAYERS_MAX 64
int containerd_get_manifests(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const char *namespace, const char *layer,
	const Containerd__ListContentResponse **manifests);

#endif
