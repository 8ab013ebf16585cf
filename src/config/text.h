/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_TEXT_H
#define CONFIG_TEXT_H

/* Texts that come from outside: what may be printed, and how. */

#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>

#define TEXT_QUOTE_MAX 64

/* True for a control character: one that moves a terminal or ends a line, C1 and U+2028/9 included.
 */
bool text_is_control(const char *character, size_t len);

/* True when the text is valid UTF-8 without control characters. */
bool text_is_plain(const char *text);

/* The text in quotes for a message, cut and with '?' for what cannot be printed. Returns quoted. */
const char *text_quote(char quoted[static TEXT_QUOTE_MAX], const char *text);

/* Appends to a terminated buffer what fits. True when all of it did. */
bool text_append(char *buffer, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
