/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/limit.h>

#include "base/util.h"

#include <math.h>

/* The rate forgets half of the past in this many seconds: long enough to bridge a quiet moment. */
#define RATE_HALF_LIFE 10.0

/* Below this growth, in units per second, a table is not filling: it breathes. */
#define RATE_MIN 0.1

void limit_observe(struct limit *limit, const struct limit_reading *reading, uint64_t now)
{
	if (limit->seen_at_us > 0 && now > limit->seen_at_us) {
		double seconds = (double)(now - limit->seen_at_us) / (double)USEC_PER_SEC;
		double grown = (double)reading->used - (double)limit->now.used;
		double keep = exp2(-seconds / RATE_HALF_LIFE);

		limit->rate = keep * limit->rate + (1 - keep) * grown / seconds;
	}
	limit->now = *reading;
	limit->peak = MAX(limit->peak, MAX(reading->peak, reading->used));
	limit->seen_at_us = now;
}

double limit_headroom(const struct limit *limit)
{
	if (limit->now.max == 0 || limit->now.used >= limit->now.max)
		return 0;
	return 1 - (double)limit->now.used / (double)limit->now.max;
}

double limit_full_in_seconds(const struct limit *limit)
{
	if (limit->now.flow || limit->rate < RATE_MIN)
		return -1;
	if (limit->now.used >= limit->now.max)
		return 0;
	return (double)(limit->now.max - limit->now.used) / limit->rate;
}
