/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_WIRE_H
#define RUNTIME_WIRE_H

/*
 * Protocol Buffers with a bound on what decoding may take: an answer of some megabytes can hold
 * millions of empty messages. All that an answer becomes lies in one arena, which goes as a whole.
 */

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/cleanup.h"

/*
 * Bytes that the messages of one answer may become: bounded by time, as decoding what fills them
 * takes some 5 ms. A list of 1,000 images takes half a megabyte, one of 1,000 containers with all
 * their labels and annotations about two.
 */
#define ARENA_MAX ((size_t)5 * 1024 * 1024)

/* Bytes of the longest list on the wire: more than fits into the arena is not waited for. */
#define WIRE_LIST_MAX ARENA_MAX

struct arena_chunk;

/* Memory that is freed together. Zeroed is empty; small answers stay in its own buffer. */
struct arena {
	size_t taken; /* bytes handed out and lost at the ends of chunks */
	size_t left;  /* bytes behind next */
	uint8_t *next;
	struct arena_chunk *chunks;
	_Alignas(16) uint8_t first[4096];
};

void arena_init(struct arena *arena);
void arena_free(struct arena *arena);
#define _cleanup_arena_ _cleanup_(arena_free)

/* Aligned for anything; not zeroed. NULL when it would be more than ARENA_MAX, or without memory.
 */
void *arena_take(struct arena *arena, size_t size);

/* n zeroed elements; a pointer that is not NULL for n = 0. */
void *arena_array(struct arena *arena, size_t n, size_t size);

/*
 * Decodes a message into the arena, with all that it points to: never to be freed otherwise. NULL
 * when the bytes are no such message or it is larger than the arena may become.
 */
void *wire_decode(struct arena *arena, const ProtobufCMessageDescriptor *type, const uint8_t *data,
	size_t size);

/* Encodes a message into a new buffer that the caller frees. 0 or -ENOMEM. */
int wire_encode(const ProtobufCMessage *message, uint8_t **data, size_t *size);

#endif
