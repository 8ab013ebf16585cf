/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes, as procfs shows them: proc(5). root is the prefix of the host's /proc, "" for this
 * system's own.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A file of /proc/PID; len may be NULL. 0, -ESRCH for a process that is gone, or -errno. */
int process_read(const char *root, pid_t pid, const char *name, char **text, size_t *len);

/*
 * CLOCK_BOOTTIME of the process's start in microseconds, rounded down to a clock tick. With the pid
 * it tells a process from a later one with the same pid. 0 or -errno.
 */
int process_start(const char *root, pid_t pid, uint64_t *boottime_us);

/* Whether the process that had this start still runs. */
bool process_is(const char *root, pid_t pid, uint64_t start_us);

/* CLOCK_REALTIME at that moment, unless the clock was set since; never later than now. */
uint64_t realtime_of_boottime(uint64_t boottime_us);

/* Whether its name (comm) is this. */
bool process_is_named(const char *root, pid_t pid, const char *name);

/* Whether root runs it, outside of any container's PID namespace. */
bool process_is_of_host(const char *root, pid_t pid);

/* The real path of a file that the process names: a relative one is below its working directory. */
int process_path(const char *root, pid_t pid, const char *name, char path[static PATH_MAX]);

/* The first process for which match() is true; 0: none. */
typedef bool process_match(const char *root, pid_t pid, void *userdata);
pid_t process_find(const char *root, process_match *match, void *userdata);

/* The pid that a file holds. 0, -EINVAL or -errno. */
int process_of_pid_file(const char *path, pid_t *pid);

/*
 * The value of an option on the command line, which must fit: "--name=VALUE" or "--name VALUE",
 * with one dash or two and '_' for '-' in the name. That of a boolean never is the next word:
 * "true" for "--name". The last one counts, what follows "--" is no option. 1; 0 when it is not
 * given; else as process_read().
 */
int process_option(
	const char *root, pid_t pid, const char *name, bool boolean, char *value, size_t size);
