/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The deadline of blocking calls and the descriptor that cancels them. Every call that waits for
 * another program has one as an argument; several calls may share it.
 */

#include <stdatomic.h>
#include <stdint.h>

struct wait {
	uint64_t deadline_us;      /* CLOCK_MONOTONIC; UINT64_MAX: none */
	int cancel_fd;             /* readable: cancelled. -1: none */
	const char *_Atomic *path; /* set by wait_path(); NULL: nobody reads it */
};

/*
 * Tells other threads which path is read next: it may hang in the kernel, where neither deadline
 * nor cancel_fd ends it. path stays valid as long as the task, or is NULL.
 */
static inline void wait_path(const struct wait *wait, const char *path)
{
	if (wait->path)
		atomic_store(wait->path, path);
}

/*
 * Waits until a descriptor has events of poll(2), an error or a hang-up; with fd -1 only for the
 * deadline. Returns 0, -ECANCELED, -ETIMEDOUT, or -errno. After the deadline it returns -ETIMEDOUT
 * even for a ready descriptor, so that a peer that never stops sending cannot prolong a loop.
 */
int wait_for(const struct wait *wait, int fd, short events);

/* Returns the same wait with a deadline of at most timeout_us from now. */
struct wait wait_at_most(const struct wait *wait, uint64_t timeout_us);
