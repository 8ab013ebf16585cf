/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wait.h"

#include "base/util.h"

#include <limits.h>
#include <poll.h>

int wait_for(const struct wait *wait, int fd, short events)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = fd, .events = events}, {.fd = wait->cancel_fd, .events = POLLIN}};
		uint64_t now = now_us();
		uint64_t left_us = wait->deadline_us > now ? wait->deadline_us - now : 0;
		/* Round up: poll(2) must not return before the deadline. */
		uint64_t left_ms = left_us / USEC_PER_MSEC + (left_us % USEC_PER_MSEC > 0);

		if (poll(fds, ARRAY_SIZE(fds), (int)MIN(left_ms, (uint64_t)INT_MAX)) < 0 &&
			errno != EINTR)
			return -errno;
		if (fds[1].revents)
			return -ECANCELED;
		if (left_us == 0)
			return -ETIMEDOUT;
		if (fds[0].revents & POLLNVAL)
			return -EBADF;
		if (fds[0].revents)
			return 0;
	}
}

struct wait wait_at_most(const struct wait *wait, uint64_t timeout_us)
{
	uint64_t now = now_us();
	uint64_t deadline_us = timeout_us < UINT64_MAX - now ? now + timeout_us : UINT64_MAX;

	return (struct wait){
		.deadline_us = MIN(wait->deadline_us, deadline_us),
		.cancel_fd = wait->cancel_fd,
		.path = wait->path,
	};
}
