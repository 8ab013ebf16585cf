/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdint.h>

/*
 * A decimal number and nothing else: no sign, space, leading zero, unit or other base. -EINVAL for
 * anything else, -ERANGE above UINT64_MAX. value is written only on success.
 */
int parse_count(const char *text, uint64_t *value);

#endif
