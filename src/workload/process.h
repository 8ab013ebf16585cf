/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKLOAD_PROCESS_H
#define WORKLOAD_PROCESS_H

/*
 * Processes, as procfs shows them: proc(5). root is the prefix of the host's /proc, "" for this
 * system's own.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

/* A file of /proc/PID; len may be NULL. 0, -ESRCH for a process that is gone, or -errno. */
int process_read(const char *root, pid_t pid, const char *name, char **text, size_t *len);

/*
 * CLOCK_BOOTTIME of the process's start in microseconds, rounded down to a clock tick. With the pid
 * it tells a process from a later one with the same pid. 0 or -errno.
 */
int process_start(const char *root, pid_t pid, uint64_t *boottime_us);

/* CLOCK_REALTIME at that moment if nobody has set the clock since; never later than now. */
uint64_t realtime_of_boottime(uint64_t boottime_us);

/* Whether its name (comm) is this. */
bool process_is_named(const char *root, pid_t pid, const char *name);

/* Whether root runs it, outside of any container's PID namespace. */
bool process_is_of_host(const char *root, pid_t pid);

/* The real path of a file that the process names: a relative one is below its working directory. */
int process_path(const char *root, pid_t pid, const char *name, char path[static PATH_MAX]);

/* The first process for which match() is true, of a systemd unit or of all; 0: none. */
typedef bool process_match(const char *root, pid_t pid, void *userdata);
pid_t process_of_unit(const char *root, const char *unit, process_match *match, void *userdata);
pid_t process_find(const char *root, process_match *match, void *userdata);

/* The pid that a file holds. 0, -EINVAL or -errno. */
int process_of_pid_file(const char *path, pid_t *pid);

/* Who listens on a unix socket, as seen from this PID namespace. 0, -ESRCH or -errno. */
int process_of_socket(const char *path, pid_t *pid);

/* A command line: words, each terminated. */
struct command {
	char *text;
	size_t len;
};

int command_read(const char *root, pid_t pid, struct command *command); /* as process_read() */
void command_free(struct command *command);

/* The word after this one; the first for NULL. NULL at the end. */
const char *command_next(const struct command *command, const char *word);

/*
 * The value of an option: "--name=VALUE" or "--name VALUE", with one dash or two and '_' for '-' in
 * the name. The last one counts, what follows "--" is no option. NULL when it is not given.
 */
const char *command_option(const struct command *command, const char *name);

/* The same for a boolean, whose value never is the next word: "true" for "--name". */
const char *command_switch(const struct command *command, const char *name);

#endif
