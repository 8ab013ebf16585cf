/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFIG_DURATION_H
#define CONFIG_DURATION_H

/* Times as a configuration writes them: one whole number and its unit, ms, s, m or h. */

#include <stddef.h>
#include <stdint.h>

#define DURATION_TEXT_MAX 24

/*
 * "500ms", "20s", "30m" or "2h", without blanks, signs, fractions or leading zeros, as
 * microseconds. -EINVAL for anything else, -ERANGE above UINT64_MAX. *us is written only on
 * success.
 */
int duration_parse(const char *text, uint64_t *us);

/* The same in the largest unit that divides it; what is below a millisecond is cut. */
const char *duration_format(char text[static DURATION_TEXT_MAX], uint64_t us);

#endif
