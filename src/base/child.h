/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/wait.h"

/*
 * Another program, which runs without a shell. Its standard input is /dev/null, its environment has
 * only PATH and GOMAXPROCS, and no descriptors, signal handlers or capabilities are inherited or
 * gained. It dies with the thread that started it. It leads a process group. When it ends, the
 * whole group is killed.
 */
struct child {
	const char *const *arguments; /* the program's path first, ended by NULL */
	const char *root;             /* chroot(2) into it; NULL or "": none */
	const char *directory;        /* its working directory, below root; NULL or "": / */
	const char *skip;             /* its message begins after these words; NULL: at its begin */
	size_t output_max;            /* bytes of standard output; more is an error */
};

#define CHILD_WHY_MAX 320

/*
 * Runs a program for at most 20 s. Returns 0 with its standard output, which the caller frees
 * (output may be NULL). Otherwise why names the program, and the return value is -EINVAL if its
 * exit status is not 0, -ETIMEDOUT or -ECANCELED if it was killed, -EFBIG for too much output, or
 * -errno if it cannot be started, such as -EPERM if chroot(2) is not allowed.
 */
int child_ask(const struct child *child, const struct wait *wait, char **output,
	char why[static CHILD_WHY_MAX]);
