/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/util.h"
#include "base/wait.h"

#include <poll.h>
#include <sys/eventfd.h>

TEST(a_wait_ends_with_the_first_event)
{
	int ready = eventfd(1, 0), idle = eventfd(0, 0), hung_up[2] = {-1, -1};
	bool made = pipe(hung_up) == 0 && close(hung_up[1]) == 0;
	const struct {
		const char *name;
		int fd, cancel_fd;
		uint64_t timeout_us;
		int expected;
	} cases[] = {
		{"ready", ready, -1, USEC_PER_SEC, 0},
		{"ready, deadline over", ready, -1, 0, -ETIMEDOUT},
		{"ready, not cancelled", ready, idle, USEC_PER_SEC, 0},
		{"hang-up", hung_up[0], -1, USEC_PER_SEC, 0},
		{"cancelled", idle, ready, USEC_PER_SEC, -ECANCELED},
		{"cancelled before ready", ready, ready, USEC_PER_SEC, -ECANCELED},
		{"cancelled without a descriptor", -1, ready, USEC_PER_SEC, -ECANCELED},
		{"deadline", idle, idle, 20 * USEC_PER_MSEC, -ETIMEDOUT},
		{"deadline over", idle, -1, 0, -ETIMEDOUT},
		{"deadline without a descriptor", -1, -1, 20 * USEC_PER_MSEC, -ETIMEDOUT},
		{"closed descriptor", 1000000, -1, USEC_PER_SEC, -EBADF},
	};

	assert_true(made);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t start = now_us();
		struct wait wait = {start + cases[i].timeout_us, cases[i].cancel_fd};
		int r = wait_for(&wait, cases[i].fd, POLLIN);

		if (r != cases[i].expected)
			fail_msg("%s: %d", cases[i].name, r);
		assert_true(now_us() - start < USEC_PER_SEC);
		if (r == -ETIMEDOUT)
			assert_true(now_us() >= wait.deadline_us);
	}
	close(ready);
	close(idle);
	close(hung_up[0]);
}

TEST(a_shorter_wait_keeps_the_earlier_deadline_and_the_cancel_descriptor)
{
	struct wait wait = {now_us() + USEC_PER_SEC, 7}, endless = {UINT64_MAX, -1};

	assert_int_equal(wait_at_most(&wait, 10 * USEC_PER_SEC).deadline_us, wait.deadline_us);
	assert_true(wait_at_most(&wait, USEC_PER_MSEC).deadline_us < wait.deadline_us);
	assert_int_equal(wait_at_most(&wait, USEC_PER_MSEC).cancel_fd, 7);
	assert_int_equal(wait_at_most(&endless, UINT64_MAX).deadline_us, UINT64_MAX);
}
