/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

/* Memory that is freed together, and never more than ARENA_MAX of it. */

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/*
 * Bytes of one answer and of the messages that it becomes. A list of 1,000 containers with all
 * their labels and annotations takes about two megabytes of each.
 */
#define ARENA_MAX ((size_t)10 * 1024 * 1024)

struct arena_chunk;

/* Small answers stay in its own buffer: nothing is allocated for them. */
struct arena {
	size_t taken; /* bytes of all chunks */
	size_t left;  /* bytes behind next */
	uint8_t *next;
	struct arena_chunk *chunks;
	_Alignas(16) uint8_t first[4096];
};

void arena_init(struct arena *arena);
void arena_free(struct arena *arena); /* empty again, to be used again */
#define _cleanup_arena_ _cleanup_(arena_free)

/* Aligned for anything; not zeroed. NULL where that would be more than ARENA_MAX. */
void *arena_take(struct arena *arena, size_t size);

#endif
