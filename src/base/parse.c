/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include "base/util.h"

#include <errno.h>

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
