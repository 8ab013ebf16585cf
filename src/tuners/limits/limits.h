/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_LIMITS_LIMITS_H
#define TUNERS_LIMITS_LIMITS_H

/* Limits that the kernel shows as two numbers in files: a row of limits_rows each, and no code. */

#include <headroom/tuner.h>

extern const struct limit_row limits_rows[];

struct limits_reading {
	uint64_t used, max;
	int error; /* 0, or -errno of reading either; -ENOENT: this node has no such limit */
};

/* Field n (from 1) of white-space separated numbers. 0, or -EBADMSG with *value as it was. */
int limits_parse(const char *text, unsigned field, uint64_t *value);

/* Pure: one reading for each row. 0 or -ENOMEM. */
int limits_decide(const struct limit_row *rows, const struct limits_reading *readings,
	struct proposal *proposal);

#endif
