/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* What stands for a byte that is no UTF-8: U+FFFD. One bad label would void a whole scrape. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* The length in bytes (1..4) of the character at s, or 0 when no valid one starts there. */
size_t utf8_length(const char *s);

/* Copies src with bytes that are no UTF-8 replaced, cut at a whole character, always terminated. */
void utf8_copy(char *dst, size_t size, const char *src);

#endif
