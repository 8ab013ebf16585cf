/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/daemon.h>

#include "base/util.h"

#define HOUR_S UINT64_C(3600)
#define DAY_S  (24 * HOUR_S)

/* Returns the time until a unit has been restarted less than n times within a period, or 0. */
static uint64_t rest_us(
	const struct restart_history *history, size_t n, uint64_t period_s, uint64_t now_s)
{
	uint64_t end_s;

	if (!history || history->n_times < n)
		return 0;
	end_s = MIN(history->times[history->n_times - n].at_s, now_s) + period_s;
	return end_s > now_s ? (end_s - now_s) * USEC_PER_SEC : 0;
}

enum reason may_restart(const struct daemon *daemon, const struct restart_history *history,
	enum restart_policy policy, uint64_t now_s, uint64_t *wait_us)
{
	size_t kept = policy != RESTART_TO_UNDO;
	bool waits = policy == RESTART_WHEN_IDLE;
	uint64_t budget_us = MAX(rest_us(history, RESTARTS_AN_HOUR - kept, HOUR_S, now_s),
		rest_us(history, RESTARTS_A_DAY - kept, DAY_S, now_s));
	uint64_t hour_us = waits ? rest_us(history, 1, HOUR_S, now_s) : 0;
	const struct {
		bool holds;
		enum reason reason;
		uint64_t wait_us;
	} rules[] = {
		{policy == RESTART_NEVER, REASON_RESTART_PENDING, UINT64_MAX},
		{!daemon->unit[0], REASON_RESTART_REFUSED, RESTART_REFUSED_US},
		{history && history->open, REASON_RESTART_REFUSED, RESTART_OPEN_US},
		{budget_us > 0, REASON_RESTARTED_TOO_OFTEN, budget_us},
		{waits && daemon->busy, REASON_RESTART_PENDING, 0},
		{hour_us > 0, REASON_RESTART_PENDING, hour_us},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (rules[i].holds) {
			*wait_us = rules[i].wait_us;
			return rules[i].reason;
		}
	*wait_us = 0;
	return REASON_NONE;
}

size_t restarts_today(const struct restart_history *history, uint64_t now_s)
{
	size_t n = 0;

	for (size_t i = 0; history && i < history->n_times; i++)
		n += history->times[i].at_s + DAY_S > now_s;
	return n;
}

void restart_describe(const struct restart_history *history, uint64_t now_s, enum reason reason,
	char why[static SETTING_WHY_MAX])
{
	why[0] = '\0';
	if (reason == REASON_RESTARTED_TOO_OFTEN)
		snprintf(why, SETTING_WHY_MAX, "%.60s was restarted %zu times within a day",
			history->unit, restarts_today(history, now_s));
}

void restart_add(struct restart_history *history, uint64_t now_s)
{
	if (history->n_times == RESTARTS_A_DAY)
		memmove(&history->times[0], &history->times[1],
			--history->n_times * sizeof(*history->times));
	history->times[history->n_times++].at_s = now_s;
}

void restart_set_clock(struct restart_history *history, uint64_t now_s)
{
	for (size_t i = 0; i < history->n_times; i++)
		history->times[i].at_s = MIN(history->times[i].at_s, now_s);
}
