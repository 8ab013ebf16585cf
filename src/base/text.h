/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Times, positions, hashes, UTF-8 and printable text. */

#include "base/util.h"

/* FNV-1a. Adds the text to a hash, which begins with HASH_START. */
#define HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t hash_text(uint64_t hash, const char *text);

#define TIME_TEXT_MAX 32

/* Shortens a text to max bytes, between two words if it has any, and ends it with "…". */
void text_cut(char *text, size_t max);

/* Writes RFC 3339 in UTC, whole seconds: "2024-05-01T12:00:00Z". */
void time_text(uint64_t realtime_us, char out[static TIME_TEXT_MAX]);

/*
 * Parses a time of RFC 3339, with any time zone and fractions of a second:
 * "2024-05-01T14:00:00.5+02:00". Returns 0 or -EINVAL. *realtime_us is written only on success.
 */
int time_parse(const char *text, uint64_t *realtime_us);

/* Writes at most two units: "45 s", "12 min", "3 h 20 min", "4 d 2 h". */
void duration_text(double seconds, char out[static TIME_TEXT_MAX]);

#define AMOUNT_MAX 80

/*
 * Writes a number with its unit. The unit "bytes", for disks, files and networks, is decimal:
 * "205.1 GB". The unit "memory" is binary: "1.5 GiB". Other units have no prefix: "60 entries". An
 * empty unit writes the number alone. Returns out.
 */
const char *amount_text(double value, const char *unit, char out[static AMOUNT_MAX]);

/* Returns whether the unit takes a prefix, so that an amount is not readable without its unit. */
bool unit_is_scaled(const char *unit);

/* Writes an amount beside others of the same unit: "205.1 GB", or "60" of entries. Returns out. */
const char *bare_amount_text(double value, const char *unit, char out[static AMOUNT_MAX]);

/* Writes "60 of 100 entries" or "205.1 GB of 270.6 GB"; max 0 is unknown. Returns out. */
#define USE_MAX (2 * AMOUNT_MAX + 8)
const char *use_text(double used, double max, const char *unit, char out[static USE_MAX]);

#define SHARE_MAX 16

/*
 * Writes a share of 0..1 or above in percent: "42 %", "163 %". Only nothing is "0 %", and only
 * a full share is "100 %". Returns out.
 */
const char *share_text(double share, char out[static SHARE_MAX]);

/* The position of a byte in a text. Lines and columns, in bytes, count from 1. */
struct text_position {
	size_t line, column;
};

struct text_position text_position(const char *text, size_t at);

/* Returns the length of the byte order mark at the begin of a text, or 0. */
size_t text_mark(const char *text, size_t len);

/* Writes "380 µs", "21 ms" or "1.2 s". */
void latency_text(double seconds, char out[static TIME_TEXT_MAX]);

/* U+FFFD replaces each invalid byte: one invalid label would make Prometheus reject a scrape. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/*
 * Returns the next character and moves text past it: U+FFFD for an invalid character, and a
 * question mark for each that text_make_printable() replaces, except for ends of lines and tabs.
 */
const char *utf8_next(const char **text, size_t *len);

/* Copies src with these replacements, truncated at a whole character and terminated. */
void utf8_copy(char *dst, size_t size, const char *src);

/*
 * Replaces in place each invalid byte and each character that controls a terminal, ends a line or
 * changes the direction of writing. Call it before printing names that others choose: devices,
 * cgroups, images, queries.
 */
void text_make_printable(char *text);

/* Returns whether a word is in a text, between blanks or commas. */
bool text_has_word(const char *text, const char *word);

/* Returns whether text_make_printable() would replace nothing. */
bool text_is_printable(const char *text);

#define TEXT_QUOTE_MAX 64

/* Writes the text in quotes for a message, truncated and printable. Returns quoted. */
const char *text_quote(char quoted[static TEXT_QUOTE_MAX], const char *text);

/*
 * Writes a word that a shell reads as this text of at most 511 bytes; '' for a longer one. Returns
 * word.
 */
#define SHELL_WORD_MAX 2048
const char *shell_word(char word[static SHELL_WORD_MAX], const char *text);

/* Appends to a terminated buffer, truncated. */
void text_append(char *buffer, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);

/* Replaces white space by single spaces and removes it at both ends. */
void text_fold_blanks(char *text);

/*
 * Removes users, passwords and queries from the URLs in a text, in place. A URL of a failed pull
 * may be signed, and readers of the log may lack the right to pull.
 */
void hide_secrets(char *text);

/* Returns what follows "PATH:", without white space; the whole text if it begins otherwise. */
const char *text_after_path(const char *text, const char *path);

/* Copies a text without its secrets, truncated: half a URL would not show what is secret. */
void copy_public(char *out, size_t size, const char *text);

#define HASH_TEXT_MAX 65 /* SHA-256 (FIPS 180-4) in lower-case hexadecimal digits, terminated */

void hash_bytes(const void *data, size_t len, char out[static HASH_TEXT_MAX]);

/* Ends the hash of several parts: sha256_init(), sha256_update() of nettle. */
struct sha256_ctx;
void hash_finish(struct sha256_ctx *hash, char out[static HASH_TEXT_MAX]);
