/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/wire.h"

#include "base/util.h"

#include <errno.h>

static void *allocate(void *arena, size_t size)
{
	return arena_take(arena, size);
}

/* All at once, in arena_free(). */
static void release(void *arena, void *memory)
{
	(void)arena, (void)memory;
}

int wire_call(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const struct grpc_request *request, const ProtobufCMessage *message,
	const ProtobufCMessageDescriptor *type, void *ret)
{
	ProtobufCAllocator allocator = {allocate, release, arena};
	size_t size = message ? protobuf_c_message_get_packed_size(message) : 0;
	_cleanup_free_ uint8_t *data = malloc(size + 1);
	struct grpc_request complete = *request;
	struct grpc_answer answer;
	void *decoded;
	int r;

	if (!data)
		return -ENOMEM;
	complete.message = data;
	complete.size = message ? protobuf_c_message_pack(message, data) : 0;
	r = grpc_unary(grpc, wait, &complete, arena, &answer);
	if (r != 0)
		return r;
	decoded = protobuf_c_message_unpack(type, &allocator, answer.size, answer.data);
	if (!decoded)
		return grpc_refuse_answer(grpc);
	*(void **)ret = decoded;
	return 0;
}
