/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "base/util.h"

/* 1 % of the node's memory, at 512 bytes an entry: struct neighbour with its key and slab padding.
 */
#define CEILING_MEMORY_SHARE 100
#define ENTRY_BYTES          512
#define CEILING_MAX          UINT64_C(1048576)

/*
 * Small tables grow eightfold: at a hundred thousand entries a second, which one CPU can make, 768
 * free entries last for eight milliseconds, so the first step must be early and large. A large
 * table leaves the time to look at its rate first.
 */
#define SMALL_TABLE  65536
#define SMALL_FACTOR 8
#define LARGE_FACTOR 2

/* At the first mark, in percent of gc_thresh3, a small table grows; at the second a large one too.
 */
#define FIRST_MARK  25
#define SECOND_MARK 50

/* A large table grows at the first mark only when it would be full within this many seconds. */
#define HURRY_SECONDS 10.0

/* Two looks can be a millisecond apart: a rate is not taken over less than this. */
#define RATE_MIN_SECONDS 0.1

uint64_t neighbor_ceiling(const struct neighbor_config *config, uint64_t memory_bytes)
{
	uint64_t by_memory = memory_bytes / CEILING_MEMORY_SHARE / ENTRY_BYTES;

	return config->ceiling ? config->ceiling : MIN(by_memory, CEILING_MAX);
}

uint64_t neighbor_second_threshold(uint64_t third)
{
	/* The kernel's defaults leave half, ours a tenth, for the collection that level 2 forces.
	 */
	return third - third / 10;
}

static uint64_t share(uint64_t of, unsigned percent)
{
	return of * percent / 100;
}

static void measure_rate(const struct neighbor_table_seen *table,
	struct neighbor_family_memory *memory, uint64_t now)
{
	double seconds = (double)(now - memory->used_at_us) / (double)USEC_PER_SEC;
	double grown = (double)table->collectable - (double)memory->used;

	memory->rate = memory->used_at_us ? grown / MAX(seconds, RATE_MIN_SECONDS) : 0;
	memory->rate = MAX(memory->rate, 0);
	memory->used = table->collectable;
	memory->used_at_us = now;
}

static bool fills_soon(uint64_t used, uint64_t max, const struct neighbor_family_memory *memory)
{
	double left = max > used ? (double)(max - used) : 0;

	return max < SMALL_TABLE || left < memory->rate * HURRY_SECONDS;
}

/* The first step with room for as much again and a second's growth; the ceiling failing that. */
static uint64_t next_step(uint64_t from, uint64_t ceiling, uint64_t used, double rate)
{
	uint64_t needed = 2 * used + (uint64_t)rate, step = MAX(from, 1);

	do {
		step *= step < SMALL_TABLE ? SMALL_FACTOR : LARGE_FACTOR;
	} while (step < needed && step < ceiling);
	return MAX(from, MIN(step, ceiling));
}

uint64_t neighbor_grow(const struct neighbor_table_seen *table, uint64_t from, uint64_t ceiling,
	struct neighbor_family_memory *memory, uint64_t now)
{
	uint64_t used = table->collectable, first = share(from, FIRST_MARK);
	uint64_t second = share(from, SECOND_MARK), grown = from;

	measure_rate(table, memory, now);
	memory->at_ceiling = false;
	memory->wake_at = used < first ? first : second;
	if (used < first || (used < second && !fills_soon(used, from, memory)))
		return from;
	grown = next_step(from, ceiling, used, memory->rate);
	memory->at_ceiling = grown == from && used >= second;
	/* At the ceiling nothing is left to do in a hurry: the tick reports it. */
	if (grown > from)
		memory->wake_at = share(grown, FIRST_MARK);
	else if (used >= second)
		memory->wake_at = 0;
	return grown;
}
