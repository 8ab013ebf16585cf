/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How long a blocking call may take, and what ends it early. Every call that waits for another
 * program takes one; several calls may share it.
 */

#include <stdint.h>

struct wait {
	uint64_t deadline_us; /* CLOCK_MONOTONIC; UINT64_MAX: none */
	int cancel_fd;        /* readable: give up. -1: none */
};

/*
 * Waits until the descriptor has one of the events of poll(2), an error or a hang-up. fd -1 waits
 * for the deadline only. 0, -ECANCELED, -ETIMEDOUT, or -errno. Once the deadline is over no
 * descriptor is ready any more: a peer that never stops sending cannot keep a loop around this
 * function going.
 */
int wait_for(const struct wait *wait, int fd, short events);

/* The same wait, but not for longer than timeout_us from now. */
struct wait wait_at_most(const struct wait *wait, uint64_t timeout_us);
