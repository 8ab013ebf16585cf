/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CONTAINERD_H
#define RUNTIME_CONTAINERD_H

/*
 * containerd's own services, below the CRI and beside it: images, content, namespaces, version.
 * Source: github.com/containerd/containerd/api/services. Namespaces keep users apart: "k8s.io" is
 * the CRI's, "moby" Docker's.
 *
 * Each call ends in one callback from the loop, never from inside the call that starts it. Strings
 * and arrays of an answer are valid while the callback runs, and never NULL except where said.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <systemd/sd-event.h>

#include "base/cleanup.h"
#include "runtime/grpc.h"

struct containerd_label {
	const char *key, *value;
};

/* What an image's name stands for. */
struct containerd_target {
	const char *media_type;
	const char *digest;
	int64_t size; /* bytes of the manifest, not of the image */
};

struct containerd_image {
	const char *name;
	struct containerd_target target;
	const struct containerd_label *labels;
	size_t n_labels;
};

/* A piece of content that is being fetched now. */
struct containerd_ingest {
	const char *ref;       /* "layer-sha256:...", "manifest-sha256:..." */
	const char *expected;  /* digest, or "" */
	int64_t offset, total; /* bytes; total 0: not known */
	uint64_t started_us;   /* CLOCK_REALTIME */
	uint64_t updated_us;   /* CLOCK_REALTIME: when a byte came last */
};

/* What lies in the content store. */
struct containerd_content {
	const char *digest;
	const struct containerd_label *labels;
	size_t n_labels;
};

struct containerd_version {
	const char *version, *revision;
};

/* Which member holds depends on the call, and only when result.status is GRPC_OK. */
struct containerd_answer {
	struct grpc_result result; /* without its data */
	union {
		struct containerd_version version;
		struct {
			const char *const *list;
			size_t n;
		} namespaces;
		struct {
			const struct containerd_image *list;
			size_t n;
		} images;
		const struct containerd_image *image; /* get, create, label */
		struct {
			const struct containerd_ingest *list;
			size_t n;
		} ingests;
		struct {
			const struct containerd_content *list;
			size_t n;
		} contents;
	};
};

/* May start further calls, and close the client. */
typedef void (*containerd_callback)(const struct containerd_answer *answer, void *userdata);

struct containerd_client;

/* timeout_us is that of every call. 0 or -errno. */
int containerd_client_open(
	sd_event *event, const char *path, uint64_t timeout_us, struct containerd_client **ret);

/* Ends the calls that are open; their callbacks are not called. */
void containerd_client_close(struct containerd_client *client);
DEFINE_CLEANUP(struct containerd_client, containerd_client_close)

/* grpc_client_peer() of its connection. */
pid_t containerd_client_peer(const struct containerd_client *client);

/* All: 0, or what grpc_call() returns, and then no callback comes. */
int containerd_version(struct containerd_client *client, containerd_callback done, void *userdata);
int containerd_namespaces(
	struct containerd_client *client, containerd_callback done, void *userdata);

/* What is being fetched in a namespace now, in no order. */
int containerd_ingests(struct containerd_client *client, const char *namespace,
	containerd_callback done, void *userdata);

/*
 * The manifests that have this layer, "sha256:...", among their first CONTAINERD_LAYERS_MAX: their
 * labels containerd.io/gc.ref.content.l.N are all of its layers, and those of
 * containerd.io/distribution.source.REGISTRY the repositories that it was pulled from. The answer
 * is a stream of one message, which is taken like any other: where no manifest has it, or more than
 * a hundred have, that is no answer, and the result a local GRPC_INTERNAL. -EINVAL for no digest.
 */
#define CONTAINERD_LAYERS_MAX 64
int containerd_manifests_of(struct containerd_client *client, const char *namespace,
	const char *layer, containerd_callback done, void *userdata);

int containerd_images(struct containerd_client *client, const char *namespace,
	containerd_callback done, void *userdata);

/* GRPC_NOT_FOUND when there is none of that name. */
int containerd_image_get(struct containerd_client *client, const char *namespace, const char *name,
	containerd_callback done, void *userdata);

/* A further name for content that is there. GRPC_ALREADY_EXISTS when the name is taken. */
int containerd_image_create(struct containerd_client *client, const char *namespace,
	const struct containerd_image *image, containerd_callback done, void *userdata);

/*
 * Sets one label of an image and leaves everything else of it; value NULL or "" takes the label
 * away. The image is read first and its target sent back: an update without one panics containerd.
 */
int containerd_image_label(struct containerd_client *client, const char *namespace,
	const char *name, const char *key, const char *value, containerd_callback done,
	void *userdata);

/* Deletes the name. Content that no name holds any more goes with containerd's next collection. */
int containerd_image_delete(struct containerd_client *client, const char *namespace,
	const char *name, containerd_callback done, void *userdata);

#endif
