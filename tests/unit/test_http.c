/* SPDX-License-Identifier: Apache-2.0 */
#include "http_bench.h"

static void do_finish(struct bench *bench)
{
	http_reply_finish(bench->reply, 200, "{\"later\":true}");
	bench->reply = NULL;
}

/* Until the handler has the request. */
static void wait_for_reply(struct bench *bench)
{
	for (int i = 0; i < 500 && !bench->reply; i++) {
		usleep(2000);
		in_loop(bench, do_nothing);
	}
	assert_non_null(bench->reply);
}

static int post_held(struct bench *bench)
{
	int fd = dial_unix(bench);

	bench->hold = true;
	say(fd, "POST /v1/apply HTTP/1.1" END);
	wait_for_reply(bench);
	return fd;
}

static void answers_later(void **state)
{
	struct bench bench;
	_cleanup_free_ char *answer = NULL;
	int fd;

	(void)state;
	bench_begin(&bench, (struct http_options){.request_us = 100 * USEC_PER_MSEC});
	fd = post_held(&bench);
	assert_false(closed_within(fd, 300)); /* work has no deadline */
	expect(&bench, "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
	in_loop(&bench, do_finish);
	answer = hear(fd);
	close(fd);
	starts(answer, "HTTP/1.1 200");
	has(answer, "{\"later\":true}");
	bench_end(&bench);
}

static void forgets_a_client_that_left(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench, (struct http_options){0});
	close(post_held(&bench));
	expect(&bench, "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
	in_loop(&bench, do_finish);
	expect_unix(&bench, "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
	bench_end(&bench);
}

static void closes_under_a_handler(void **state)
{
	struct bench bench;
	int fd;

	(void)state;
	bench_begin(&bench, (struct http_options){0});
	fd = post_held(&bench);
	in_loop(&bench, do_close);
	assert_true(closed_within(fd, 1000));
	in_loop(&bench, do_finish);
	close(fd);
	bench_end(&bench);
}

static int count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(directory))
		n++;
	closedir(directory);
	return n;
}

static void leaks_nothing_and_sleeps(void **state)
{
	struct bench bench;
	uint64_t before;
	int descriptors;

	(void)state;
	bench_begin(&bench, (struct http_options){.request_us = 200 * USEC_PER_MSEC});
	expect(&bench, "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
	usleep(20000);
	descriptors = count_descriptors();
	for (int i = 0; i < 200; i++) {
		int fd = dial(&bench);

		say(fd, i % 2 ? "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n" : "GET /li");
		close(fd);
		expect(&bench, "GET /metrics HTTP/1.1" END, "HTTP/1.1 200", "headroom_build_info");
	}
	/* An end of stream that comes with the last bytes is only seen at the deadline. */
	usleep(400000);
	assert_int_equal(count_descriptors(), descriptors);
	before = iterations(&bench);
	usleep(500000);
	assert_int_equal(iterations(&bench), before);
	bench_end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_later),
		cmocka_unit_test(forgets_a_client_that_left),
		cmocka_unit_test(closes_under_a_handler),
		cmocka_unit_test(leaks_nothing_and_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
