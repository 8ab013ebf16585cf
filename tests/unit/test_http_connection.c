/* SPDX-License-Identifier: Apache-2.0 */
#include "http_bench.h"

static void trickle(int fd, const char *text)
{
	for (; *text && !closed_within(fd, 20); text++)
		if (send(fd, text, 1, MSG_NOSIGNAL) <= 0)
			return;
}

static void ends_slow_requests(void **state)
{
	struct bench bench;
	uint64_t start;
	int silent, slow;

	(void)state;
	bench_begin(&bench, (struct http_options){.request_us = 200 * USEC_PER_MSEC});
	start = now_us();
	silent = dial(&bench);
	slow = dial(&bench);
	trickle(slow, "GET /livez HTTP/1.1\r\nX-Long-Header: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	assert_true(closed_within(slow, 1000));
	assert_true(now_us() - start >= 190 * USEC_PER_MSEC);
	assert_true(now_us() - start < 900 * USEC_PER_MSEC);
	assert_true(closed_within(silent, 100));
	close(silent);
	close(slow);
	bench_end(&bench);
}

/* Each request of a kept connection has its whole time, and no more. */
static void renews_the_deadline(void **state)
{
	struct bench bench;
	char buffer[1024];
	int fd;

	(void)state;
	bench_begin(&bench, (struct http_options){.request_us = 300 * USEC_PER_MSEC});
	fd = dial(&bench);
	for (int i = 0; i < 4; i++) {
		assert_false(closed_within(fd, 150));
		say(fd, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
		assert_true(recv(fd, buffer, sizeof(buffer), 0) > 0);
	}
	assert_true(closed_within(fd, 1000));
	close(fd);
	bench_end(&bench);
}

static void evicts_the_oldest(void **state)
{
	enum { MAX_OPEN = 4 };
	struct bench bench;
	int fds[MAX_OPEN];

	(void)state;
	bench_begin(&bench, (struct http_options){.connections = MAX_OPEN});
	for (int i = 0; i < MAX_OPEN; i++) {
		fds[i] = dial(&bench);
		say(fds[i], "GET /livez HTTP/1.1\r\n");
		usleep(20000);
	}
	expect(&bench, "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
	assert_true(closed_within(fds[0], 1000));
	for (int i = 1; i < MAX_OPEN; i++) {
		_cleanup_free_ char *answer = NULL;

		assert_false(closed_within(fds[i], 20));
		answer = ask_on(fds[i], "Host: x\r\nConnection: close\r\n\r\n");
		starts(answer, "HTTP/1.1 200");
	}
	close(fds[0]);
	bench_end(&bench);
}

static void survives_a_crowd(void **state)
{
	enum { CROWD = 300 };
	struct bench bench;
	int fds[CROWD];

	(void)state;
	bench_begin(&bench, (struct http_options){.connections = 8});
	for (int i = 0; i < CROWD; i++) {
		fds[i] = dial(&bench);
		say(fds[i], "GET");
	}
	expect(&bench, "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
	for (int i = 0; i < CROWD; i++)
		close(fds[i]);
	expect(&bench, "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
	bench_end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_slow_requests),
		cmocka_unit_test(renews_the_deadline),
		cmocka_unit_test(evicts_the_oldest),
		cmocka_unit_test(survives_a_crowd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
