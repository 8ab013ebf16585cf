/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include "base/util.h"

#include <sys/mman.h>

#define ALIGNMENT  ((size_t)16)
#define CHUNK_SIZE ((size_t)256 * 1024)

/*
 * Mapped, not from the heap: what a large answer took goes back to the kernel with it. Populated at
 * once, which costs less than a fault for each page.
 */
struct arena_chunk {
	struct arena_chunk *next;
	size_t size;
	_Alignas(16) uint8_t bytes[];
};

void arena_init(struct arena *arena)
{
	arena->taken = 0;
	arena->next = arena->first;
	arena->left = sizeof(arena->first);
	arena->chunks = NULL;
}

void arena_free(struct arena *arena)
{
	while (arena->chunks) {
		struct arena_chunk *chunk = arena->chunks;

		arena->chunks = chunk->next;
		munmap(chunk, chunk->size);
	}
	arena_init(arena);
}

static bool arena_grow(struct arena *arena, size_t size)
{
	size_t wanted = MAX(size + sizeof(struct arena_chunk), CHUNK_SIZE);
	struct arena_chunk *chunk;

	/* Chunks are counted whole: what is lost at their ends is bounded with the rest. */
	if (wanted > ARENA_MAX - arena->taken)
		return false;
	chunk = mmap(NULL, wanted, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (chunk == MAP_FAILED)
		return false;
	chunk->next = arena->chunks;
	chunk->size = wanted;
	arena->chunks = chunk;
	arena->taken += wanted;
	arena->next = chunk->bytes;
	arena->left = wanted - sizeof(*chunk);
	return true;
}

void *arena_take(struct arena *arena, size_t size)
{
	void *taken;

	if (size > ARENA_MAX)
		return NULL;
	size = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
	if (size > arena->left && !arena_grow(arena, size))
		return NULL;
	taken = arena->next;
	arena->next += size;
	arena->left -= size;
	return taken;
}
