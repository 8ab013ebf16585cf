/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PACKAGING_GENDOC_H
#define PACKAGING_GENDOC_H

#include <stdbool.h>
#include <stdio.h>

#include "config/option.h"

#define GENDOC_TEXT_MAX 1536

/* What the row takes and its default, as sentences. */
void describe_option(const struct config_option *option, char text[static GENDOC_TEXT_MAX]);

/* What an item of a list is; false for a list of maps, whose rows describe themselves. */
bool describe_item(const struct config_option *option, char text[static GENDOC_TEXT_MAX]);

/* The keys of headroom.yaml with their defaults, as comments. */
void put_sample(FILE *out);

#endif
