/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"

#include "base/text.h"

#include <math.h>
#include <sysexits.h>
#include <unistd.h>

bool copy_text(char *dst, size_t size, const char *src)
{
	size_t len = strlen(src);
	size_t kept = MIN(len, size - 1);

	memmove(dst, src, kept);
	dst[kept] = '\0';
	return kept == len;
}

void out_of_memory(void)
{
	static const char text[] = "headroom: out of memory\n";

	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(EX_OSERR);
}

void *must(void *memory)
{
	if (!memory)
		out_of_memory();
	return memory;
}

void must_do(int ok)
{
	if (!ok)
		out_of_memory();
}

void *add_bytes(void *array, size_t *n, size_t *allocated, size_t size)
{
	void **base = array;

	if (*n >= *allocated) {
		*allocated = *allocated ? *allocated * 2 : 8;
		*base = must(reallocarray(*base, *allocated, size));
	}
	return memset((char *)*base + (*n)++ * size, 0, size);
}

void *find_element(const void *array, size_t n, size_t size, const char *name)
{
	const char *element = array;

	for (; n > 0; n--, element += size)
		if (streq(element, name))
			return (void *)element;
	return NULL;
}

/* Mixes whole words: FNV-1a would take a step for each byte. */
static uint64_t hash_key(const void *key, size_t key_size)
{
	const char *bytes = key;
	uint64_t hash = HASH_START;

	if (key_size == 0)
		return hash_text(hash, key);
	for (size_t at = 0; at < key_size; at += sizeof(uint64_t)) {
		uint64_t word = 0;

		memcpy(&word, bytes + at, MIN(key_size - at, sizeof(word)));
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return hash;
}

/* Returns the slot of the key, or the free one for it. */
static uint32_t *find_slot(const struct element_index *index, const char *array, size_t size,
	const void *key, size_t key_size)
{
	for (uint64_t at = hash_key(key, key_size);; at++) {
		uint32_t *slot = &index->positions[at & (index->size - 1)];
		const char *element = *slot == 0 ? NULL : array + (*slot - 1) * size;

		if (!element ||
			(key_size > 0 ? memcmp(element, key, key_size) == 0 : streq(element, key)))
			return slot;
	}
}

void *find_by_index(struct element_index *index, const void *array, size_t n, size_t size,
	const void *key, size_t key_size)
{
	const char *elements = array;
	uint32_t *slot;

	if (2 * n >= index->size) {
		free(index->positions);
		*index = (struct element_index){.size = 16};
		while (2 * n >= index->size)
			index->size *= 2;
		index->positions = must(calloc(index->size, sizeof(*index->positions)));
	}
	for (; index->n < n; index->n++) {
		slot = find_slot(index, elements, size, elements + index->n * size, key_size);
		if (*slot == 0)
			*slot = (uint32_t)index->n + 1;
	}
	slot = find_slot(index, elements, size, key, key_size);
	return *slot ? (void *)(elements + (*slot - 1) * size) : NULL;
}

void index_reset(struct element_index *index)
{
	if (index->n > 0)
		memset(index->positions, 0, index->size * sizeof(*index->positions));
	index->n = 0;
}

void keep_first(void *array, size_t *n, size_t max, size_t size, const void *element,
	int (*compare)(const void *, const void *))
{
	size_t at = *n;

	while (at > 0 && compare(element, (char *)array + (at - 1) * size) < 0)
		at--;
	if (at == max)
		return;
	*n = MIN(*n + 1, max);
	memmove((char *)array + (at + 1) * size, (char *)array + at * size, (*n - at - 1) * size);
	memcpy((char *)array + at * size, element, size);
}

struct smoothing smoothing_since(uint64_t before_us, uint64_t now_us, double half_life_s)
{
	double seconds =
		before_us == 0 ? INFINITY : (double)(now_us - before_us) / (double)USEC_PER_SEC;

	return (struct smoothing){exp2(-seconds / half_life_s), seconds};
}

double smooth(const struct smoothing *smoothing, double rate, double amount)
{
	if (smoothing->seconds <= 0)
		return rate;
	return smoothing->keep * rate + (1 - smoothing->keep) * amount / smoothing->seconds;
}

int parse_count(const char *text, uint64_t *value)
{
	size_t digits = strspn(text, "0123456789");
	uint64_t number;

	if (digits == 0 || text[digits] || (text[0] == '0' && digits > 1))
		return -EINVAL;
	errno = 0;
	number = strtoull(text, NULL, 10);
	if (errno)
		return -ERANGE;
	*value = number;
	return 0;
}

uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return us_of(ts);
}

uint64_t realtime_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return us_of(ts);
}

uint64_t cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return us_of(ts);
}
