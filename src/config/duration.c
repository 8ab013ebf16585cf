/* SPDX-License-Identifier: Apache-2.0 */
#include "config/duration.h"

#include "base/parse.h"
#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static const struct {
	const char *name;
	uint64_t us;
} units[] = {
	{"h", 3600 * USEC_PER_SEC},
	{"m", 60 * USEC_PER_SEC},
	{"s", USEC_PER_SEC},
	{"ms", USEC_PER_MSEC},
};

int duration_parse(const char *text, uint64_t *us)
{
	size_t len = strspn(text, "0123456789");
	char digits[DURATION_TEXT_MAX];
	uint64_t count, product;
	int r;

	if (len >= sizeof(digits))
		return -ERANGE;
	memcpy(digits, text, len);
	digits[len] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (!streq(text + len, units[i].name))
			continue;
		r = parse_count(digits, &count);
		if (r < 0)
			return r;
		if (__builtin_mul_overflow(count, units[i].us, &product))
			return -ERANGE;
		*us = product;
		return 0;
	}
	return -EINVAL;
}

const char *duration_format(char text[static DURATION_TEXT_MAX], uint64_t us)
{
	size_t i = us == 0 ? 2 : 0; /* "0s" */

	while (i + 1 < ARRAY_SIZE(units) && us % units[i].us != 0)
		i++;
	snprintf(text, DURATION_TEXT_MAX, "%" PRIu64 "%s", us / units[i].us, units[i].name);
	return text;
}
