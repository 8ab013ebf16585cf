/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_SYNTAX_H
#define CONFIG_SYNTAX_H

/*
 * Faults of a file's text: what no YAML parser should be given, and what one says in its own words;
 * and what a scalar of it means.
 */

#include <yaml.h>

#include "config/config.h"

/*
 * 0, or -EINVAL with one fault when the text is not UTF-8 or holds control characters. text[len] is
 * a terminator.
 */
int syntax_check_text(
	const char *file, const char *text, size_t len, struct config_fault_list *faults);

/* Adds the fault that stopped the parser of this text, with a cure. */
void syntax_fault(const char *file, const char *text, size_t len, const yaml_parser_t *parser,
	struct config_fault_list *faults);

/* True for a scalar that is null: nothing, ~ or null, without quotes. */
bool syntax_is_null(const yaml_event_t *scalar);

#endif
