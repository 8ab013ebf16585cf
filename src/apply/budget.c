/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_work.h"

#define HOUR_S UINT64_C(3600)

/* The time until a unit has been restarted less than n times within a period, or 0. */
static uint64_t rest_of(struct unit_mark *mark, size_t n, uint64_t period_s)
{
	uint64_t now_s = realtime_us() / USEC_PER_SEC, end_s;

	/* After the clock was set back, a restart counts from now on. */
	for (size_t i = 0; mark && i < mark->n_times; i++)
		mark->times[i].at_s = MIN(mark->times[i].at_s, now_s);
	if (!mark || mark->n_times < n)
		return 0;
	end_s = mark->times[mark->n_times - n].at_s + period_s;
	return end_s > now_s ? (end_s - now_s) * USEC_PER_SEC : 0;
}

uint64_t budget_rest(const struct file_job *job, struct unit_mark *mark, bool roll_back)
{
	/* A restart that may fail leaves one for its roll-back. */
	size_t kept = job->task == FILE_APPLY && !roll_back ? 1 : 0;

	return MAX(rest_of(mark, RESTARTS_AN_HOUR - kept, HOUR_S),
		rest_of(mark, RESTARTS_A_DAY - kept, 24 * HOUR_S));
}

uint64_t budget_hour_rest(struct unit_mark *mark)
{
	return rest_of(mark, 1, HOUR_S);
}

size_t budget_used_today(const struct unit_mark *mark)
{
	uint64_t now_s = realtime_us() / USEC_PER_SEC;
	size_t n = 0;

	for (size_t i = 0; i < mark->n_times; i++)
		n += mark->times[i].at_s + 24 * HOUR_S > now_s;
	return n;
}

int budget_take(struct file_job *job, struct unit_mark *mark, bool roll_back)
{
	if (budget_rest(job, mark, roll_back) > 0)
		return -EDQUOT;
	if (mark->n_times == RESTARTS_A_DAY)
		memmove(&mark->times[0], &mark->times[1], --mark->n_times * sizeof(*mark->times));
	mark->times[mark->n_times++].at_s = realtime_us() / USEC_PER_SEC;
	return work_store(job);
}
