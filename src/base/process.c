/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define FIELD_STATE 3
#define FIELD_START 22

/* Counted behind the name, field 2 in brackets, which may hold spaces and brackets itself. */
static const char *find_start(const char *stat)
{
	const char *field = strrchr(stat, ')');

	for (int i = FIELD_STATE; field && i <= FIELD_START; i++) {
		field = strchr(field, ' ');
		if (field)
			field++;
	}
	return field;
}

int process_start(const char *stat, uint64_t *boottime_us)
{
	const char *field = find_start(stat);
	unsigned long long ticks;
	uint64_t us;
	char *end;

	if (!field || *field < '0' || *field > '9')
		return -EBADMSG;
	errno = 0;
	ticks = strtoull(field, &end, 10);
	if (errno || (*end != ' ' && *end != '\n' && *end != '\0') ||
		__builtin_mul_overflow(ticks, process_tick_us(), &us))
		return -EBADMSG;
	*boottime_us = us;
	return 0;
}

uint64_t process_tick_us(void)
{
	return USEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
}

uint64_t realtime_of_boottime(uint64_t boottime_us)
{
	struct timespec ts = {0};
	uint64_t now;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	now = (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
	return realtime_us() - (now - MIN(boottime_us, now));
}
