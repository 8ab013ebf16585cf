/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"

#include "base/text.h"

bool copy_text(char *dst, size_t size, const char *src)
{
	size_t len = strlen(src);
	size_t kept = MIN(len, size - 1);

	memmove(dst, src, kept);
	dst[kept] = '\0';
	return kept == len;
}

void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

void must_do(int ok)
{
	if (!ok)
		abort();
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

/* The slot of the name, or the free one for it. */
static uint32_t *find_slot(
	const struct name_index *index, const char *array, size_t size, const char *name)
{
	for (uint64_t at = hash_text(HASH_START, name);; at++) {
		uint32_t *slot = &index->positions[at & (index->size - 1)];

		if (*slot == 0 || streq(array + (*slot - 1) * size, name))
			return slot;
	}
}

void *find_by_index(
	struct name_index *index, const void *array, size_t n, size_t size, const char *name)
{
	const char *elements = array;
	uint32_t *slot;

	if (2 * n >= index->size) {
		free(index->positions);
		*index = (struct name_index){.size = 16};
		while (2 * n >= index->size)
			index->size *= 2;
		index->positions = must(calloc(index->size, sizeof(*index->positions)));
	}
	for (; index->n < n; index->n++) {
		slot = find_slot(index, elements, size, elements + index->n * size);
		if (*slot == 0)
			*slot = (uint32_t)index->n + 1;
	}
	slot = find_slot(index, elements, size, name);
	return *slot ? (void *)(elements + (*slot - 1) * size) : NULL;
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
