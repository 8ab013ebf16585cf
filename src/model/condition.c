/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/condition.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void condition_raise(struct condition_reading *reading, const char *reason)
{
	reading->status = CONDITION_TRUE;
	reading->reason = reason;
	if (reading->message[0])
		condition_append(reading, "; ");
}

void condition_append(struct condition_reading *reading, const char *format, ...)
{
	size_t used = strlen(reading->message);
	va_list args;

	va_start(args, format);
	vsnprintf(reading->message + used, sizeof(reading->message) - used, format, args);
	va_end(args);
}

bool condition_observe(
	struct condition *condition, const struct condition_reading *reading, uint64_t realtime)
{
	bool changed = condition->since_us == 0 || condition->now.status != reading->status;

	condition->now = *reading;
	if (changed)
		condition->since_us = realtime;
	return changed;
}

const char *const condition_status_names[] = {
	[CONDITION_FALSE] = "False",
	[CONDITION_TRUE] = "True",
	[CONDITION_UNKNOWN] = "Unknown",
};

const char *const severity_names[] = {
	[SEVERITY_WARNING] = "warning",
	[SEVERITY_CRITICAL] = "critical",
	[SEVERITY_ADVICE] = "advice",
};
