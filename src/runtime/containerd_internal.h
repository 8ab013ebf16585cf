/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CONTAINERD_INTERNAL_H
#define RUNTIME_CONTAINERD_INTERNAL_H

/*
 * containerd.c, containerd_content.c: the calls. containerd_read.c: what their answers say.
 */

#include <runtime/containerd.pb-c.h>

#include "runtime/containerd.h"
#include "runtime/wire.h"

/* As cri_reader in cri_internal.h. */
typedef bool (*containerd_reader)(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);

/*
 * Starts a call. grpc: all but the message, and what belongs to the callback; timeout_us 0: the
 * client's. 0, or what grpc_call() returns.
 */
int containerd_begin(struct containerd_client *client, const struct grpc_call *grpc,
	const ProtobufCMessage *request, containerd_reader read, containerd_callback done,
	void *userdata);

bool containerd_read_nothing(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);
bool containerd_read_version(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);
bool containerd_read_namespaces(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);
bool containerd_read_ingests(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);
bool containerd_read_images(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);
bool containerd_read_image(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);
bool containerd_read_contents(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer);

#endif
