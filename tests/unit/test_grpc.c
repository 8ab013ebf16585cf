/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_bench.h"

#include "runtime/grpc_reply.h"

static void knows_every_status(void **state)
{
	static const char *const methods[] = {
		"/t.T/TrailersOnly", "/t.T/Trailers", "/t.T/TrailersAfterMessage"};
	struct bench bench;
	unsigned right = 0;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	for (unsigned i = 0; i < 300; i++) {
		char status[16];
		struct outcome outcome;

		snprintf(status, sizeof(status), "%u", 1 + i % 16);
		outcome = ask(&bench, methods[i % ARRAY_SIZE(methods)], status);
		right += (unsigned)outcome.status == 1 + i % 16 && !outcome.local;
		if (i == 0)
			assert_string_equal(outcome.message, "as asked: no €\xef\xbf\xbd");
	}
	assert_int_equal(right, 300);
	assert_int_equal(bench.server.accepted, 1);
	expect_well(&bench);
	bench_end(&bench);
}

static void makes_a_status_where_there_is_none(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	expect(&bench, "/t.T/TrailersOnly", "17", GRPC_UNKNOWN, false);
	expect(&bench, "/t.T/TrailersOnly", "x", GRPC_UNKNOWN, false);
	expect(&bench, "/t.T/TrailersOnly", "007", GRPC_UNKNOWN, false);
	expect(&bench, "/t.T/Trailers", "0", GRPC_INTERNAL, true); /* no message */
	expect(&bench, "/t.T/Raw", "-", GRPC_UNKNOWN, true);
	expect(&bench, "/t.T/Http", "200", GRPC_UNKNOWN, true);
	expect(&bench, "/t.T/Http", "400", GRPC_INTERNAL, true);
	expect(&bench, "/t.T/Http", "401", GRPC_UNAUTHENTICATED, true);
	expect(&bench, "/t.T/Http", "403", GRPC_PERMISSION_DENIED, true);
	expect(&bench, "/t.T/Http", "404", GRPC_UNIMPLEMENTED, true);
	expect(&bench, "/t.T/Http", "503", GRPC_UNAVAILABLE, true);
	expect(&bench, "/t.T/Http", "500", GRPC_UNKNOWN, true);
	expect(&bench, "/t.T/Reset", "8", GRPC_CANCELLED, true);
	expect(&bench, "/t.T/Reset", "2", GRPC_INTERNAL, true);
	expect(&bench, "/t.T/Reset", "7", GRPC_UNAVAILABLE, true);
	expect(&bench, "/t.T/Reset", "11", GRPC_RESOURCE_EXHAUSTED, true);
	expect_well(&bench);
	bench_end(&bench);
}

static void hides_secrets(void **state)
{
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{"Get \"https://r.invalid/v2/a?sig=abc&x=1\": 403 denied?",
			"Get \"https://r.invalid/v2/a\": 403 denied?"},
		{"http://user:secret@r.invalid:5000/a and https://token@b/?q",
			"http://r.invalid:5000/a and https://b/"},
		{"a@b ://?x", "a@b ://"},
		{"://", "://"},
		{"https://r.invalid/user@sha256:12", "https://r.invalid/user@sha256:12"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct grpc_reply reply;
		struct grpc_result result;
		size_t budget = 0;

		grpc_reply_init(&reply, 1, &budget);
		assert_true(grpc_reply_header(&reply, "grpc-status", 11, "2", 1));
		assert_true(grpc_reply_header(
			&reply, "grpc-message", 12, cases[i].text, strlen(cases[i].text)));
		grpc_reply_result(&reply, 0, &result);
		assert_int_equal(result.status, GRPC_UNKNOWN);
		assert_string_equal(result.message, cases[i].shown);
		grpc_reply_clear(&reply);
	}
}

static void wants_one_whole_message(void **state)
{
	static const struct {
		char text[16];
		size_t len;
		enum grpc_status status;
	} cases[] = {
		{"0\0\0\0\0\1x", 7, GRPC_OK},
		{"0\0\0\0\0\0", 6, GRPC_OK},
		{"0\0\0\0\0\2x", 7, GRPC_INTERNAL},
		{"0\0\0\0", 4, GRPC_INTERNAL},
		{"0\1\0\0\0\1x", 7, GRPC_INTERNAL},
		{"0\0\0\0\0\1x\0\0\0\0\1x", 13, GRPC_INTERNAL},
		{"0\0\xff\xff\xff\xffx", 7, GRPC_RESOURCE_EXHAUSTED},
	};
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct outcome outcome;

		assert_int_equal(ask_for(&bench, "/t.T/Raw", cases[i].text, cases[i].len,
					 SERVER_TIME, &outcome),
			0);
		wait_for(&bench, &outcome.n, 1);
		assert_int_equal(outcome.status, cases[i].status);
	}
	expect_well(&bench);
	bench_end(&bench);
}

static void takes_early_errors(void **state)
{
	struct bench bench;
	_cleanup_free_ char *much = calloc(1, 4 << 20);
	struct outcome outcome;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	expect(&bench, "/t.T/Early", "x", GRPC_RESOURCE_EXHAUSTED, false);
	/* More than the server's window: the request can never be sent whole. */
	assert_int_equal(
		ask_for(&bench, "/t.T/EarlyWithoutReset", much, 4 << 20, SERVER_TIME, &outcome), 0);
	wait_for(&bench, &outcome.n, 1);
	assert_int_equal(outcome.status, GRPC_FAILED_PRECONDITION);
	expect_well(&bench);
	assert_int_equal(bench.server.accepted, 1);
	bench_end(&bench);
}

static void bounds_an_answer(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	for (int i = 0; i < 5; i++)
		expect(&bench, "/t.T/Big", "x", GRPC_RESOURCE_EXHAUSTED, true);
	expect_well(&bench);
	assert_int_equal(bench.server.accepted, 1);
	bench_end(&bench);
}

static void keeps_deadlines(void **state)
{
	struct bench bench;
	struct outcome slow, late, outcome;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	expect_well(&bench);
	assert_int_equal(ask_for(&bench, "/t.T/Hang", "x", 1, SERVER_TIME, &slow), 0);
	outcome = ask_within(&bench, "/t.T/Hang", "x", 30 * USEC_PER_MSEC);
	assert_int_equal(outcome.status, GRPC_DEADLINE_EXCEEDED);
	assert_true(outcome.local);
	assert_int_equal(slow.n, 0);
	expect_well(&bench);
	outcome = ask_within(&bench, "/t.T/Timeout", "x", 5 * USEC_PER_SEC);
	assert_true(starts_with((char *)outcome.data, "4") || /* milliseconds that are left */
		    starts_with((char *)outcome.data, "5000m"));
	outcome = ask(&bench, "/t.T/Namespace", "x");
	assert_memory_equal(outcome.data, "k8s.io", 6);
	/* One that begins when another's time is over, before the loop has seen that. */
	assert_int_equal(ask_for(&bench, "/t.T/Hang", "x", 1, 10 * USEC_PER_MSEC, &outcome), 0);
	sd_event_run(bench.event, 0);
	usleep(20000);
	assert_int_equal(ask_for(&bench, "/t.T/Hang", "x", 1, 30 * USEC_PER_MSEC, &late), 0);
	wait_for(&bench, &outcome.n, 1);
	wait_for(&bench, &late.n, 1);
	assert_int_equal(late.status, GRPC_DEADLINE_EXCEEDED);
	assert_int_equal(slow.n, 0);
	bench_end(&bench); /* abandons the slow one */
	assert_int_equal(slow.n, 0);
}

static void many_at_once(void **state)
{
	struct bench bench;
	struct outcome outcomes[GRPC_CALLS_MAX], refused;
	_cleanup_free_ char *data = malloc(100000);

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	memset(data, 'x', 100000);
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++)
		assert_int_equal(
			ask_for(&bench, "/t.T/Echo", data, 500 + i, SERVER_TIME, &outcomes[i]), 0);
	assert_int_equal(ask_for(&bench, "/t.T/Echo", "x", 1, SERVER_TIME, &refused), -EBUSY);
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		wait_for(&bench, &outcomes[i].n, 1);
		assert_int_equal(outcomes[i].status, GRPC_OK);
		assert_int_equal(outcomes[i].size, 500 + i);
	}
	assert_int_equal(bench.server.accepted, 1);
	bench_end(&bench);
}

static void close_inside(const struct grpc_result *result, void *userdata)
{
	struct bench *bench = userdata;

	assert_int_equal(result->status, GRPC_OK);
	grpc_client_close(bench->client);
	bench->client = NULL;
}

static void count_release(void *userdata)
{
	++*(unsigned *)userdata;
}

static void on_never(const struct grpc_result *result, void *userdata)
{
	(void)result, (void)userdata;
	fail_msg("an abandoned call was answered");
}

static void closes_in_a_callback(void **state)
{
	struct bench bench;
	unsigned released = 0;
	struct grpc_call call = {.method = "/t.T/Echo", .timeout_us = SERVER_TIME};
	uint64_t until;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	assert_int_equal(grpc_call(bench.client, &call, close_inside, &bench), 0);
	call.method = "/t.T/Hang";
	call.release = count_release;
	assert_int_equal(grpc_call(bench.client, &call, on_never, &released), 0);
	until = now_us() + SERVER_TIME;
	while (bench.client && now_us() < until)
		sd_event_run(bench.event, USEC_PER_SEC);
	assert_null(bench.client);
	assert_int_equal(released, 1);
	bench_end(&bench);
}

static void refuses_wrong_calls(void **state)
{
	struct bench bench;
	struct grpc_call call = {.method = "/t.T/Echo", .timeout_us = SERVER_TIME};

	(void)state;
	bench_begin(&bench);
	call.method = "t.T/Echo";
	assert_int_equal(grpc_call(bench.client, &call, on_never, NULL), -EINVAL);
	call.method = "/t.T/Echo\r\nx: y";
	assert_int_equal(grpc_call(bench.client, &call, on_never, NULL), -EINVAL);
	call.method = "/t.T/Echo";
	call.containerd_namespace = "";
	assert_int_equal(grpc_call(bench.client, &call, on_never, NULL), -EINVAL);
	call.containerd_namespace = NULL;
	call.timeout_us = 0;
	assert_int_equal(grpc_call(bench.client, &call, on_never, NULL), -EINVAL);
	bench_end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_every_status),
		cmocka_unit_test(makes_a_status_where_there_is_none),
		cmocka_unit_test(hides_secrets),
		cmocka_unit_test(wants_one_whole_message),
		cmocka_unit_test(takes_early_errors),
		cmocka_unit_test(bounds_an_answer),
		cmocka_unit_test(keeps_deadlines),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(closes_in_a_callback),
		cmocka_unit_test(refuses_wrong_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
