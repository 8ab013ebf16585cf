/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Processes in proc(5). root is the prefix of the host's /proc; "" for the own system's. */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a file of /proc/PID; len may be NULL. 0, -ESRCH when the process has ended, or -errno. */
int process_read(const char *root, pid_t pid, const char *name, char **text, size_t *len);

/*
 * Reads CLOCK_BOOTTIME of the process's start in microseconds, rounded down to a clock tick. It
 * identifies the process when its pid is reused. 0 or -errno.
 */
int process_start(const char *root, pid_t pid, uint64_t *boottime_us);

/* Returns whether the process with this start still runs. */
bool process_is(const char *root, pid_t pid, uint64_t start_us);

/* Converts CLOCK_BOOTTIME to CLOCK_REALTIME; the result is never in the future. */
uint64_t realtime_of_boottime(uint64_t boottime_us);

/* Compares the process's comm. */
bool process_is_named(const char *root, pid_t pid, const char *name);

/*
 * Returns whether root runs it, outside of any container's PID namespace and cgroup. Programs are
 * executed and files are written for such processes only: any other chooses its name and arguments
 * freely.
 */
bool process_is_of_host(const char *root, pid_t pid);

/* Resolves a file name of the process: a relative one is below its working directory. */
int process_path(const char *root, pid_t pid, const char *name, char path[static PATH_MAX]);

/* Returns the first process that match() accepts; 0: none. */
typedef bool process_match(const char *root, pid_t pid, void *userdata);
pid_t process_find(const char *root, process_match *match, void *userdata);

/* Returns the process that listens on a unix socket, which is 1 for a socket unit; 0: unknown. */
pid_t process_of_socket(const char *path);

/* Reads a pid file. 0, -EINVAL or -errno. */
int process_of_pid_file(const char *path, pid_t *pid);

/*
 * Finds the value of an option on the command line: "--name=VALUE" or "--name VALUE", with one or
 * two dashes, and '_' for '-' in the name. A boolean "--name" has the value "true". The last one
 * counts; options end at "--". Returns 1, 0 when the option is missing or its value does not fit,
 * or the error of process_read().
 */
int process_option(
	const char *root, pid_t pid, const char *name, bool boolean, char *value, size_t size);
