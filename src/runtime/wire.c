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
