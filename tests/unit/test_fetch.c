/* SPDX-License-Identifier: Apache-2.0 */
#include "fetch_bench.h"

static void collects_an_answer(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {0};
	struct fetch_request request;

	(void)state;
	bench_open(&bench, serve_echo);
	request = a_request(&bench, &outcome);
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.status, 200);
	assert_true(starts_with(outcome.body, "GET /path?q=1 HTTP/1.1\r\n"));
	assert_non_null(strstr(outcome.body, "User-Agent: headroom/"));
	assert_null(strstr(outcome.body, "Authorization"));
	assert_int_equal(outcome.len, strlen(outcome.body));
	assert_string_equal(outcome.message, "");
}

static void serve_chunks(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_begin_chunks(fd);
	fake_chunk(fd, "one ");
	fake_chunk(fd, "two ");
	fake_chunk(fd, "three");
	fake_chunk(fd, "");
}

static void streams_an_answer(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {0};
	struct fetch_request request;

	(void)state;
	bench_open(&bench, serve_chunks);
	request = a_request(&bench, &outcome);
	request.data = on_data;
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.streamed, strlen("one two three"));
	assert_int_equal(outcome.len, outcome.streamed);
	assert_string_equal(outcome.body, ""); /* of the result: it was streamed */
}

static void ends_a_stream_with_its_owners_error(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {.data_returns = -EBADMSG};
	struct fetch_request request;

	(void)state;
	bench_open(&bench, serve_chunks);
	request = a_request(&bench, &outcome);
	request.data = on_data;
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, -EBADMSG);
	assert_int_equal(outcome.pieces, 1);
}

static void serve_refusal(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_reply(fd, 500, "{\"message\":\"no\"}");
}

static void collects_a_refusal_instead_of_streaming_it(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {0};
	struct fetch_request request;

	(void)state;
	bench_open(&bench, serve_refusal);
	request = a_request(&bench, &outcome);
	request.data = on_data;
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.status, 500);
	assert_int_equal(outcome.pieces, 0);
	assert_string_equal(outcome.body, "{\"message\":\"no\"}");
}

static void serve_hang(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_wait(fd);
}

static void serve_trickle(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_begin_chunks(fd);
	for (;;) {
		if (send(fd, "1\r\nx\r\n", 6, MSG_NOSIGNAL) < 0)
			return;
		usleep(5000);
	}
}

static void has_a_deadline(void **state)
{
	fake_http_fn *const serves[] = {serve_hang, serve_trickle};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(serves); i++) {
		_cleanup_bench_ struct bench bench;
		struct outcome outcome = {0};
		struct fetch_request request;

		bench_open(&bench, serves[i]);
		request = a_request(&bench, &outcome);
		request.deadline_us = 100 * USEC_PER_MSEC;
		fetch_and_wait(&bench, &request, &outcome);
		assert_int_equal(outcome.error, -ETIMEDOUT);
	}
}

static atomic_size_t taken_mib;

static void serve_flood(int fd, const char *head, void *userdata)
{
	char unit[4097];

	(void)head;
	(void)userdata;
	memset(unit, 'x', 4096);
	unit[4096] = '\0';
	fake_send(fd, "HTTP/1.1 200 OK\r\n\r\n");
	atomic_store(&taken_mib, fake_flood(fd, unit, 100));
}

static void serve_header_flood(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_send(fd, "HTTP/1.1 200 OK\r\n");
	atomic_store(&taken_mib, fake_flood(fd, "X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 100));
}

static void refuses_100_MB(void **state)
{
	static const struct {
		fake_http_fn *serve;
		fetch_data_fn *data;
	} cases[] = {{serve_flood, NULL}, {serve_flood, on_data}, {serve_header_flood, NULL}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bench bench;
		struct outcome outcome = {0};
		struct fetch_request request;

		bench_open(&bench, cases[i].serve);
		request = a_request(&bench, &outcome);
		request.data = cases[i].data;
		fetch_and_wait(&bench, &request, &outcome);
		bench_close(&bench);
		assert_int_equal(outcome.error, -EFBIG);
		assert_string_equal(outcome.message, "the answer is larger than it may be");
		assert_true(outcome.streamed <= MIB);
		assert_true(atomic_load(&taken_mib) < 10);
	}
}

static void serve_death(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
}

static void serve_silence(int fd, const char *head, void *userdata)
{
	(void)fd;
	(void)head;
	(void)userdata;
}

static void serve_garbage(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_send(fd, "\x16\x03\x01 this is no HTTP at all\r\n\r\n\xff\xfe");
}

static void tells_broken_answers_apart(void **state)
{
	static const struct {
		fake_http_fn *serve;
		int error;
	} cases[] = {
		{serve_death, -ECONNRESET}, {serve_silence, -ECONNRESET}, {serve_garbage, -EPROTO}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bench_ struct bench bench;
		struct outcome outcome = {0};
		struct fetch_request request;

		bench_open(&bench, cases[i].serve);
		request = a_request(&bench, &outcome);
		fetch_and_wait(&bench, &request, &outcome);
		assert_int_equal(outcome.error, cases[i].error);
		assert_true(*outcome.message != '\0');
	}
}

static void tells_why_it_could_not_connect(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {0};
	struct fetch_request request;
	char path[PATH_MAX];

	(void)state;
	bench_open(&bench, serve_echo);
	request = a_request(&bench, &outcome);
	directory_path(&bench.directory, "/none", path);
	request.unix_socket = path;
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, -ENOENT);

	/* A socket that nobody listens on any more. */
	outcome = (struct outcome){0};
	directory_path(&bench.directory, "/old", path);
	{
		struct fake_http old;

		fake_http_start_unix(&old, path, serve_echo, NULL);
		fake_http_stop(&old);
	}
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, -ECONNREFUSED);

	outcome = (struct outcome){0};
	request.unix_socket = NULL;
	request.url = "http://127.0.0.1:1/";
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, -ECONNREFUSED);
}

static void cancels_without_a_call(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome cancelled = {0}, canceller = {0};
	struct fetch_request request;
	struct fetch *fetch;

	(void)state;
	bench_open(&bench, serve_hang);
	request = a_request(&bench, &cancelled);
	assert_int_equal(fetch_start(bench.fetcher, &request, &fetch), 0);
	fetch_cancel(fetch);
	assert_int_equal(fetch_start(bench.fetcher, &request, &fetch), 0);
	run_until(bench.event, atomic_load(&bench.http.requests) > 0);
	fetch_cancel(fetch);
	fetch_cancel(NULL);

	/* By the end of another one. */
	assert_int_equal(fetch_start(bench.fetcher, &request, &canceller.to_cancel), 0);
	request.deadline_us = 50 * USEC_PER_MSEC;
	request.userdata = &canceller;
	fetch_and_wait(&bench, &request, &canceller);
	assert_null(canceller.to_cancel);
	/* And by the end of the fetcher: bench_close. */
	request.userdata = &cancelled;
	assert_int_equal(fetch_start(bench.fetcher, &request, NULL), 0);
	assert_int_equal(cancelled.calls, 0);
}

static void cancels_itself_while_streaming(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {0};
	struct fetch_request request;

	(void)state;
	bench_open(&bench, serve_chunks);
	request = a_request(&bench, &outcome);
	request.data = on_data;
	assert_int_equal(fetch_start(bench.fetcher, &request, &outcome.to_cancel), 0);
	run_until(bench.event, outcome.pieces > 0);
	run_for(bench.event, 50 * USEC_PER_MSEC);
	assert_int_equal(outcome.pieces, 1);
	assert_int_equal(outcome.calls, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collects_an_answer),
		cmocka_unit_test(streams_an_answer),
		cmocka_unit_test(ends_a_stream_with_its_owners_error),
		cmocka_unit_test(collects_a_refusal_instead_of_streaming_it),
		cmocka_unit_test(has_a_deadline),
		cmocka_unit_test(refuses_100_MB),
		cmocka_unit_test(tells_broken_answers_apart),
		cmocka_unit_test(tells_why_it_could_not_connect),
		cmocka_unit_test(cancels_without_a_call),
		cmocka_unit_test(cancels_itself_while_streaming),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
