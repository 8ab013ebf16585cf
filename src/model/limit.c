/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/limit.h>

#include "base/exposition.h"
#include "base/json.h"

/* Seconds: long enough to bridge a short pause of the growth. */
#define RATE_HALF_LIFE 10.0

/* Slower growth, in units per second, is fluctuation. */
#define RATE_MIN 0.1

/* Shorter growth is not reported. */
#define GROWTH_LASTS_US (60 * USEC_PER_SEC)

/*
 * The users of a peak are counted only after it: a tuner counts every two seconds, at a tick that
 * may be late. The name of a user is found later still.
 */
#define USERS_FOLLOW_US (5 * USEC_PER_SEC)
#define NAMES_FOLLOW_US (60 * USEC_PER_SEC)

/* Users are of a peak if nearly as much was used when they were counted. */
#define NEARLY 0.9

/* A tuner counts users less often than it reads the use: until the next count, top stays. */
static bool is_counted_anew(const struct limit_reading *before, const struct limit_reading *reading)
{
	bool is_equal = before->n_top == reading->n_top;

	for (unsigned i = 0; is_equal && i < reading->n_top; i++)
		is_equal = before->top[i].used == reading->top[i].used;
	return !is_equal;
}

static uint64_t sum_of_users(const struct limit_reading *reading)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < reading->n_top; i++)
		sum += reading->top[i].used;
	return sum;
}

/* counted: the use when the reading's users were counted. */
static void observe_peak(struct limit_peak *peak, const struct limit_reading *reading,
	uint64_t counted, uint64_t now)
{
	uint64_t used = MAX(reading->peak, reading->used), largest;

	if (peak->at_us == 0 || used > peak->used) {
		set_text(peak->name, reading->name);
		peak->used = used;
		peak->at_us = now;
		peak->wall_us = realtime_us();
		peak->n_top = 0;
	}
	if (reading->flow) {
		if (reading->busiest != peak->used || reading->n_busiest == 0)
			return;
		peak->n_top = reading->n_busiest;
		memcpy(peak->top, reading->top + reading->n_top,
			peak->n_top * sizeof(peak->top[0]));
		return;
	}
	largest = peak->n_top > 0 ? peak->top[0].used : 0;
	if (reading->n_top == 0 || reading->top[0].used < largest ||
		(double)counted < NEARLY * (double)peak->used ||
		now - peak->at_us >
			(reading->top[0].used == largest ? NAMES_FOLLOW_US : USERS_FOLLOW_US))
		return;
	peak->n_top = MIN(reading->n_top, (unsigned)LIMIT_PEAK_TOP);
	memcpy(peak->top, reading->top, peak->n_top * sizeof(peak->top[0]));
}

struct limit_user *limit_add_user(struct limit_reading *reading)
{
	reading->top = must(reallocarray(reading->top, reading->n_top + 1, sizeof(*reading->top)));
	return memset(&reading->top[reading->n_top++], 0, sizeof(*reading->top));
}

struct limit_user *limit_add_busiest(struct limit_reading *reading)
{
	unsigned n = reading->n_top + reading->n_busiest++;

	reading->top = must(reallocarray(reading->top, n + 1, sizeof(*reading->top)));
	return memset(&reading->top[n], 0, sizeof(*reading->top));
}

/* By the share of the own maximum, if the users have such. */
static int by_share(const void *a, const void *b)
{
	const struct limit_user *x = a, *y = b;
	bool has_max = x->max > 0 && y->max > 0;
	double left = (double)x->used / (has_max ? (double)x->max : 1);
	double right = (double)y->used / (has_max ? (double)y->max : 1);

	return (left < right) - (left > right);
}

void limit_keep_user(struct limit_reading *reading, const struct limit_user *user)
{
	size_t n = reading->n_top;

	if (n < LIMIT_TOP_MAX)
		(void)limit_add_user(reading);
	keep_first(reading->top, &n, LIMIT_TOP_MAX, sizeof(*user), user, by_share);
}

void limit_release(struct limit *limit)
{
	free(steal(limit->now.top));
}

void limit_observe(struct limit *limit, const struct limit_reading *reading, uint64_t now)
{
	const unsigned n = reading->n_top + reading->n_busiest;
	const struct smoothing smoothing = smoothing_since(limit->seen_at_us, now, RATE_HALF_LIFE);

	limit->rate =
		smooth(&smoothing, limit->rate, (double)reading->used - (double)limit->now.used);
	if (limit->seen_at_us == 0 && !reading->own_hits)
		limit->hits_before = reading->hits;
	if (limit->rate < RATE_MIN)
		limit->steady_at_us = now;
	/* They were counted between the two readings. The use then was at least their sum. */
	if (is_counted_anew(&limit->now, reading))
		limit->counted = MAX(sum_of_users(reading),
			limit->seen_at_us ? MIN(limit->now.used, reading->used) : reading->used);
	limit_release(limit);
	limit->now = *reading;
	limit->now.top = NULL;
	if (n > 0) {
		limit->now.top = must(calloc(n, sizeof(*reading->top)));
		memcpy(limit->now.top, reading->top, n * sizeof(*reading->top));
	}
	observe_peak(&limit->peak, reading, limit->counted, now);
	limit->seen_at_us = now;
	history_observe(&limit->history, now, MAX(reading->peak, reading->used));
}

double limit_headroom(const struct limit *limit)
{
	if (limit->now.max == 0 || limit->now.used >= limit->now.max)
		return 0;
	return 1 - (double)limit->now.used / (double)limit->now.max;
}

double limit_full_in_seconds(const struct limit *limit)
{
	if (limit->now.flow || limit->rate < RATE_MIN || limit->now.used <= limit->now.max / 2 ||
		limit->seen_at_us - limit->steady_at_us < GROWTH_LASTS_US)
		return -1;
	if (limit->now.used >= limit->now.max)
		return 0;
	return (double)(limit->now.max - limit->now.used) / limit->rate;
}

uint64_t history_minute(uint64_t now)
{
	return now / (60 * USEC_PER_SEC);
}

void history_observe(struct history *history, uint64_t now, uint64_t value)
{
	uint64_t minute = history_minute(now), passed = minute - history->minute;

	for (uint64_t i = 0; i < MIN(passed, (uint64_t)HISTORY_MINUTES); i++)
		history->slot[(minute - i) % HISTORY_MINUTES] = 0;
	history->minute = minute;
	history->slot[minute % HISTORY_MINUTES] =
		MAX(history->slot[minute % HISTORY_MINUTES], value + 1);
}

void history_merge(struct history *history, const struct history *other)
{
	if (other->minute > history->minute && history->minute > 0)
		history_observe(history, other->minute * 60 * USEC_PER_SEC, 0);
	history->minute = MAX(history->minute, other->minute);
	for (uint64_t i = 0; i < HISTORY_MINUTES && i <= other->minute; i++) {
		uint64_t minute = other->minute - i;

		if (history->minute - minute < HISTORY_MINUTES)
			history->slot[minute % HISTORY_MINUTES] =
				MAX(history->slot[minute % HISTORY_MINUTES],
					other->slot[minute % HISTORY_MINUTES]);
	}
}

void history_json(cJSON *parent, const struct history *history)
{
	cJSON *array = json_array(parent, "history");

	for (uint64_t i = 1; i <= HISTORY_MINUTES; i++) {
		uint64_t slot = history->slot[(history->minute + i) % HISTORY_MINUTES];

		cJSON_AddItemToArray(array,
			slot == 0 ? cJSON_CreateNull() : cJSON_CreateNumber((double)(slot - 1)));
	}
}

void metric_users(struct metric_sink *sink, const struct limit_reading *reading)
{
	double reported = 0;

	for (unsigned i = 0; i < reading->n_top; i++) {
		const struct workload *workload = &reading->top[i].workload;
		bool first = true;
		double sum = 0;

		for (unsigned k = 0; k < reading->n_top; k++) {
			const struct workload *other = &reading->top[k].workload;

			if (other->kind != workload->kind ||
				!streq(other->namespace, workload->namespace) ||
				!streq(workload_name(other), workload_name(workload)))
				continue;
			first = first && k >= i;
			sum += (double)reading->top[k].used;
		}
		reported += (double)reading->top[i].used;
		if (first)
			metric_sample(sink, sum, reading->name, workload_kind_names[workload->kind],
				workload->namespace, workload_name(workload), NULL);
	}
	if (reading->n_top > 0 && reported < (double)reading->used)
		metric_sample(sink, (double)reading->used - reported, reading->name, "other", "",
			"other", NULL);
}
