/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

bool copy_text(char *dst, size_t size, const char *src)
{
	size_t len = strlen(src);
	size_t kept = MIN(len, size - 1);

	memmove(dst, src, kept);
	dst[kept] = '\0';
	return kept == len;
}

int grow_array(void *array, size_t n, size_t *allocated, size_t element_size)
{
	void **base = array;
	size_t wanted = *allocated ? *allocated * 2 : 8;
	void *moved;

	if (n >= *allocated) {
		moved = reallocarray(*base, wanted, element_size);
		if (!moved)
			return -ENOMEM;
		*base = moved;
		*allocated = wanted;
	}
	memset((char *)*base + n * element_size, 0, element_size);
	return 0;
}

int parse_count(const char *text, uint64_t *value)
{
	uint64_t sum = 0;

	if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0'))
		return -EINVAL;
	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(sum, UINT64_C(10), &sum) ||
			__builtin_add_overflow(sum, (uint64_t)(*p - '0'), &sum))
			return -ERANGE;
	}
	*value = sum;
	return 0;
}

static uint64_t clock_us(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

uint64_t realtime_us(void)
{
	return clock_us(CLOCK_REALTIME);
}
