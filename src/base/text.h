/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

/* How documents are written, times in them, and what they must not contain. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TIME_TEXT_MAX 32

/* RFC 3339 in UTC, whole seconds: "2024-05-01T12:00:00Z". */
void time_text(uint64_t realtime_us, char out[static TIME_TEXT_MAX]);

/* Two units at most: "45 s", "12 min", "3 h 20 min", "4 d 2 h". */
void duration_text(double seconds, char out[static TIME_TEXT_MAX]);

/* Where a byte of a text is: line and column (bytes) count from 1. */
struct text_position {
	size_t line, column;
};

struct text_position text_position(const char *text, size_t at);

/* The length of the byte order mark that a text begins with; 0 without one. */
size_t text_mark(const char *text, size_t len);

/* "380 us", "21 ms", "1.2 s". */
void latency_text(double seconds, char out[static TIME_TEXT_MAX]);

/*
 * What put writes, as a new terminated buffer that the caller frees; len (may be NULL) is without
 * the terminator. 0 or -ENOMEM.
 */
int document_text(void (*put)(FILE *out, void *data), void *data, char **ret, size_t *len);

/* What stands for a byte that is no UTF-8: U+FFFD. One bad label would void a whole scrape. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* The length in bytes (1..4) of the character at s, or 0 when no valid one starts there. */
size_t utf8_length(const char *s);

/* Copies src with bytes that are no UTF-8 replaced, cut at a whole character, always terminated. */
void utf8_copy(char *dst, size_t size, const char *src);

/*
 * Replaces, in place, each byte that is no UTF-8 and each character that steers a terminal or ends
 * a line: C0, DEL, C1, U+2028 and U+2029, and those that turn the direction of writing. Names of
 * devices, cgroups, images and queries are chosen by others: they pass here before they are
 * printed.
 */
void text_make_printable(char *text);

/*
 * Takes users, passwords and queries out of the URLs in a text, in place: those of a failed pull
 * may be signed, and who may read our log need not be who may pull.
 */
void hide_secrets(char *text);

#endif
