/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_WIRE_H
#define RUNTIME_WIRE_H

/* Protocol Buffers, decoded into an arena: a small answer can hold millions of empty messages. */

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "runtime/grpc_client.h"

/* Bytes of the longest list on the wire; as many again are there for what it becomes. */
#define WIRE_LIST_MAX (ARENA_MAX / 2)

/*
 * A call whose request and answer are messages: message NULL is an empty one, the answer is in the
 * arena. As grpc_unary(); -EBADMSG also for an answer that is not of the type, or larger than the
 * arena may become.
 */
int wire_call(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const struct grpc_request *request, const ProtobufCMessage *message,
	const ProtobufCMessageDescriptor *type, void *ret);

#endif
