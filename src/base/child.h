/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <stddef.h>

#include "base/wait.h"

/*
 * Runs another program to its end, without a shell: standard input is /dev/null, the environment
 * has only PATH and GOMAXPROCS, descriptors and signals are as at a fresh start. It dies with the
 * thread that started it. It leads a process group, which is killed as a whole when it ends.
 */
struct child {
	const char *const *arguments; /* the program's path first, ended by NULL */
	const char *root;             /* chroot(2) into it; NULL or "": none */
	const char *directory;        /* its working directory, below root; NULL or "": / */
	size_t output_max;            /* bytes of standard output; more is an error */
};

struct child_result {
	int status;      /* of waitpid(2) */
	char *output;    /* standard output, terminated; freed by the caller */
	char error[256]; /* the first line of standard error */
};

/*
 * 0 with result, whatever the program's exit code; -ETIMEDOUT or -ECANCELED of the wait, after
 * which it is killed; -EFBIG for too much output; -errno of starting it, such as -EPERM for a
 * chroot(2) that is not allowed.
 */
int child_run(const struct child *child, const struct wait *wait, struct child_result *result);

#define CHILD_WHY_MAX 320

/*
 * Has a program judge something, for at most 10 s. 0 with its standard output (output may be NULL);
 * -EINVAL when it exits with another status than 0, else as child_run(): both with why, which names
 * the program.
 */
int child_ask(const struct child *child, const struct wait *wait, char **output,
	char why[static CHILD_WHY_MAX]);

#endif
