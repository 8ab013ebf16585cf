/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/wait.h"

/*
 * Another program, run to its end without a shell: standard input is /dev/null, the environment has
 * only PATH and GOMAXPROCS, descriptors and signals are as at a fresh start. It dies with the
 * thread that started it. It leads a process group, which is killed as a whole when it ends.
 */
struct child {
	const char *const *arguments; /* the program's path first, ended by NULL */
	const char *root;             /* chroot(2) into it; NULL or "": none */
	const char *directory;        /* its working directory, below root; NULL or "": / */
	size_t output_max;            /* bytes of standard output; more is an error */
};

#define CHILD_WHY_MAX 320

/*
 * Has a program judge something, for at most 10 s. 0 with its standard output, which the caller
 * frees (output may be NULL). Else, with why, which names the program: -EINVAL when it exits with
 * another status than 0; -ETIMEDOUT or -ECANCELED of the wait, after which it is killed; -EFBIG for
 * too much output; -errno of starting it, such as -EPERM for a chroot(2) that is not allowed.
 */
int child_ask(const struct child *child, const struct wait *wait, char **output,
	char why[static CHILD_WHY_MAX]);
