/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Overlong forms, surrogates and what lies above U+10FFFF are told by the second byte (RFC 3629).
 */
static bool second_fits(unsigned char first, unsigned char second)
{
	switch (first) {
	case 0xe0:
		return second >= 0xa0;
	case 0xed:
		return second < 0xa0;
	case 0xf0:
		return second >= 0x90;
	case 0xf4:
		return second < 0x90;
	default:
		return true;
	}
}

size_t utf8_length(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		n = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4;
	else
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80) /* also the terminator: nothing is read beyond it */
			return 0;
	return second_fits(p[0], p[1]) ? n : 0;
}

void utf8_copy(char *dst, size_t size, const char *src)
{
	size_t used = 0;

	while (*src) {
		size_t n = utf8_length(src);
		const char *from = n ? src : UTF8_REPLACEMENT;
		size_t len = n ? n : strlen(UTF8_REPLACEMENT);

		if (used + len >= size)
			break;
		memcpy(dst + used, from, len);
		used += len;
		src += n ? n : 1;
	}
	dst[used] = '\0';
}
