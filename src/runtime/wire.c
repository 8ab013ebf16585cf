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

void *wire_decode(struct arena *arena, const ProtobufCMessageDescriptor *type, const uint8_t *data,
	size_t size)
{
	ProtobufCAllocator allocator = {
		.alloc = allocate,
		.free = release,
		.allocator_data = arena,
	};

	return protobuf_c_message_unpack(type, &allocator, size, data);
}

int wire_encode(const ProtobufCMessage *message, uint8_t **data, size_t *size)
{
	size_t packed = protobuf_c_message_get_packed_size(message);
	uint8_t *buffer = malloc(MAX(packed, (size_t)1));

	if (!buffer)
		return -ENOMEM;
	*size = protobuf_c_message_pack(message, buffer);
	*data = buffer;
	return 0;
}

int wire_call(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const struct grpc_request *request, const ProtobufCMessage *message,
	const ProtobufCMessageDescriptor *type, void *ret)
{
	struct grpc_request complete = *request;
	_cleanup_free_ uint8_t *data = NULL;
	struct grpc_answer answer;
	void *decoded;
	int r = message ? wire_encode(message, &data, &complete.size) : 0;

	complete.message = data;
	if (r == 0)
		r = grpc_unary(grpc, wait, &complete, arena, &answer);
	if (r != 0)
		return r;
	decoded = wire_decode(arena, type, answer.data, answer.size);
	if (!decoded)
		return grpc_refuse_answer(grpc);
	*(void **)ret = decoded;
	return 0;
}
