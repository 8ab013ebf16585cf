/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CONTAINERD_CLIENT_H
#define RUNTIME_CONTAINERD_CLIENT_H

/*
 * containerd's own services, below the CRI and beside it. Source:
 * github.com/containerd/containerd/api/services. Namespaces keep users apart: "k8s.io" is the
 * CRI's, "moby" Docker's.
 *
 * All calls block, and return what grpc_unary() returns: 0, a status of containerd's, or -errno.
 * The strings and lists of an answer are in the caller's arena, and never NULL.
 */

#include <stddef.h>
#include <stdint.h>

#include "runtime/grpc_client.h"

struct containerd_version {
	const char *version, *revision;
};

struct containerd_namespaces {
	const char *const *list;
	size_t n;
};

/* A piece of content that is being fetched now. */
struct containerd_ingest {
	const char *ref;       /* "layer-sha256:...", "manifest-sha256:..." */
	int64_t offset, total; /* bytes; total 0: not known */
	uint64_t started_us;   /* CLOCK_REALTIME */
	uint64_t updated_us;   /* CLOCK_REALTIME: when a byte came last */
};

struct containerd_ingests {
	const struct containerd_ingest *list;
	size_t n;
};

struct containerd_label {
	const char *key, *value;
};

struct containerd_manifest {
	const char *digest;
	const struct containerd_label *labels;
	size_t n_labels;
};

struct containerd_manifests {
	const struct containerd_manifest *list;
	size_t n;
};

int containerd_get_version(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	struct containerd_version *version);
int containerd_get_namespaces(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	struct containerd_namespaces *namespaces);

/* What is being fetched in a namespace now, in no order. */
int containerd_get_ingests(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const char *namespace, struct containerd_ingests *ingests);

/*
 * The manifests that have this layer, "sha256:...", among their first CONTAINERD_LAYERS_MAX: their
 * labels containerd.io/gc.ref.content.l.N are all of its layers, and those of
 * containerd.io/distribution.source.REGISTRY the repositories that it was pulled from. None where
 * more than a hundred have it. -EINVAL for no digest.
 */
#define CONTAINERD_LAYERS_MAX 64
int containerd_get_manifests(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const char *namespace, const char *layer, struct containerd_manifests *manifests);

#endif
