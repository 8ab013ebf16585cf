/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How documents are written, times in them, and what they must not contain. */

#include "base/util.h"

#define TIME_TEXT_MAX 32

/* RFC 3339 in UTC, whole seconds: "2024-05-01T12:00:00Z". */
void time_text(uint64_t realtime_us, char out[static TIME_TEXT_MAX]);

/*
 * The same with a time zone and fractions of a second, as RFC 3339 has it:
 * "2024-05-01T14:00:00.5+02:00". 0, or -EINVAL. *realtime_us is written only on success.
 */
int time_parse(const char *text, uint64_t *realtime_us);

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

/* What stands for a byte that is no UTF-8: U+FFFD. One bad label would void a whole scrape. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* The bytes that stand for the next character: its own, or a replacement. text moves past it. */
const char *utf8_next(const char **text, size_t *len);

/* Copies src with bytes that are no UTF-8 replaced, cut at a whole character, always terminated. */
void utf8_copy(char *dst, size_t size, const char *src);

/*
 * Replaces, in place, each byte that is no UTF-8 and each character that steers a terminal or ends
 * a line: C0, DEL, C1, U+2028 and U+2029, and those that turn the direction of writing. Names of
 * devices, cgroups, images and queries are chosen by others: they pass here before they are
 * printed.
 */
void text_make_printable(char *text);

/* True for one line of text: nothing that text_make_printable() would replace. */
bool text_is_printable(const char *text);

#define TEXT_QUOTE_MAX 64

/* The text in quotes for a message, cut and made printable. Returns quoted. */
const char *text_quote(char quoted[static TEXT_QUOTE_MAX], const char *text);

/* Appends to a terminated buffer what fits. */
void text_append(char *buffer, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);

/* Makes each run of white space one space, and none at both ends. */
void text_fold_blanks(char *text);

/*
 * Takes users, passwords and queries out of the URLs in a text, in place: those of a failed pull
 * may be signed, and who may read our log need not be who may pull.
 */
void hide_secrets(char *text);

#define HASH_TEXT_MAX 65 /* SHA-256 (FIPS 180-4) in lower-case hexadecimal digits, terminated */

void hash_bytes(const void *data, size_t len, char out[static HASH_TEXT_MAX]);
