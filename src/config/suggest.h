/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_SUGGEST_H
#define CONFIG_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "config/option.h"

/*
 * Appends what a person who wrote key in section ("" for the top) may have meant: the nearest key
 * of the section, the same key elsewhere, or the keys that the section has.
 */
void suggest_key(const struct config_option *const *tables, const char *section, const char *key,
	char *buffer, size_t size);

/* True when typed may be a slip of word; apart: by how many letters they differ. */
bool suggest_is_slip(const char *typed, const char *word, unsigned *apart);

#endif
