/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <stddef.h>
#include <stdint.h>

/*
 * Runs another program to its end, without a shell: standard input is /dev/null, the environment
 * holds a PATH and GOMAXPROCS alone, all of its descriptors and signals are as at a fresh start. It
 * dies with the thread that started it. It leads a process group, which is killed as a whole.
 */
struct child {
	const char *const *arguments; /* the program's path first, ended by NULL */
	const char *root;             /* chroot(2) into it; NULL or "" for none */
	uint64_t deadline_us;         /* CLOCK_MONOTONIC: then it is killed */
	size_t output_max;            /* bytes of standard output; more ends it */
};

struct child_result {
	int status;      /* of waitpid(2) */
	char *output;    /* standard output, terminated; freed by the caller */
	char error[256]; /* the beginning of standard error: its first line */
};

/*
 * Blocks until then. 0 with result, whatever the program's exit code; -ETIMEDOUT; -EFBIG for too
 * much output; -errno of starting it, such as -EPERM for a chroot(2) that is not allowed.
 */
int child_run(const struct child *child, struct child_result *result);

#endif
