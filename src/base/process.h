/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

/* When processes began, as procfs tells it (proc(5), /proc/PID/stat). */

#include <stdint.h>

/*
 * From the text of a stat file: CLOCK_BOOTTIME in microseconds, the beginning of the clock tick
 * (process_tick_us) in which the process began. 0 or -EBADMSG.
 */
int process_start(const char *stat, uint64_t *boottime_us);

uint64_t process_tick_us(void); /* 10 ms nearly everywhere */

/* What CLOCK_REALTIME showed then, if nobody has set it since, in microseconds; now at the latest.
 */
uint64_t realtime_of_boottime(uint64_t boottime_us);

#endif
