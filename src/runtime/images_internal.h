/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "runtime/cri_client.h"
#include "runtime/images.h"

/* With the runtime, from one call of images.h to its return. */
struct session {
	struct cri cri;
	struct arena arena;
	const struct image_runtime *runtime;
	struct wait wait;
	char *why;
};

struct session images_session(
	const struct image_runtime *runtime, const struct wait *wait, char *why);
void images_session_end(struct session *session);

/*
 * A pull takes as long as the session waits. The answer lives as long as the session. 0, or -errno
 * with why.
 */
int images_call(
	struct session *session, enum cri_call which, const ProtobufCMessage *message, void *ret);

/* Of containerd's own service. */
int images_get(struct session *session, const char *name, Containerd__Image **image);

/*
 * Creates a name, or changes one label of it (value "" removes that) and, with n_paths 2, what it
 * is a name of.
 */
int images_write(struct session *session, enum cri_call which, const char *name,
	Containerd__Descriptor *target, const char *key, const char *value, size_t n_paths);
