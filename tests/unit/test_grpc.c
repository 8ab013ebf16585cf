/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_server.h"

#define SERVER_TIME (20 * USEC_PER_SEC)

struct bench {
	struct folder folder;
	sd_event *event;
	struct server server;
	struct grpc_client *client;
};

/* What a call came to. */
struct outcome {
	unsigned n; /* callbacks */
	enum grpc_status status;
	bool local;
	char message[256];
	uint8_t data[256];
	size_t size;
	unsigned *open;
};

static void server_behave(struct server_call *call, void *userdata);

static void bench_begin(struct bench *bench)
{
	memset(bench, 0, sizeof(*bench));
	folder_make(&bench->folder);
	assert_true(sd_event_new(&bench->event) >= 0);
	bench->server.event = bench->event;
	bench->server.serve = server_behave;
	bench->server.userdata = bench;
	folder_path(&bench->folder, "/s.sock", bench->server.path);
	assert_int_equal(grpc_client_open(bench->event, bench->server.path, &bench->client), 0);
}

static void bench_end(struct bench *bench)
{
	if (bench->client)
		grpc_client_close(bench->client);
	server_stop(&bench->server);
	sd_event_unref(bench->event);
	folder_remove(&bench->folder);
}

static void on_done(const struct grpc_result *result, void *userdata)
{
	struct outcome *outcome = userdata;

	outcome->n++;
	outcome->status = result->status;
	outcome->local = result->local;
	outcome->size = result->size;
	copy_text(outcome->message, sizeof(outcome->message), result->message);
	if (result->data)
		memcpy(outcome->data, result->data, MIN(result->size, sizeof(outcome->data)));
}

static int ask_for(struct bench *bench, const char *method, const void *message, size_t size,
	uint64_t timeout_us, struct outcome *outcome)
{
	const struct grpc_call call = {
		.method = method,
		.containerd_namespace = "k8s.io",
		.message = message,
		.size = size,
		.timeout_us = timeout_us,
		.limit = 1024 * 1024,
	};

	memset(outcome, 0, sizeof(*outcome));
	return grpc_call(bench->client, &call, on_done, outcome);
}

static void wait_for(struct bench *bench, const unsigned *n, unsigned wanted)
{
	uint64_t until = now_us() + SERVER_TIME;

	while (*n < wanted) {
		if (now_us() > until)
			fail_msg("no answer after %u", *n);
		assert_true(sd_event_run(bench->event, USEC_PER_SEC) >= 0);
	}
}

static struct outcome ask_within(
	struct bench *bench, const char *method, const char *text, uint64_t timeout_us)
{
	struct outcome outcome;

	assert_int_equal(ask_for(bench, method, text, strlen(text), timeout_us, &outcome), 0);
	assert_int_equal(outcome.n, 0); /* never from inside the call */
	wait_for(bench, &outcome.n, 1);
	assert_int_equal(outcome.n, 1);
	return outcome;
}

static struct outcome ask(struct bench *bench, const char *method, const char *text)
{
	return ask_within(bench, method, text, SERVER_TIME);
}

static void expect(struct bench *bench, const char *method, const char *text,
	enum grpc_status status, bool local)
{
	struct outcome outcome = ask(bench, method, text);

	if (outcome.status != status || outcome.local != local)
		fail_msg("%s(%s): %s %d, \"%s\"", method, text, grpc_status_name(outcome.status),
			outcome.local, outcome.message);
}

static void expect_well(struct bench *bench)
{
	struct outcome outcome = ask(bench, "/t.T/Echo", "hello");

	assert_int_equal(outcome.status, GRPC_OK);
	assert_false(outcome.local);
	assert_int_equal(outcome.size, 5);
	assert_memory_equal(outcome.data, "hello", 5);
}

static void answer_http(struct server_call *call, const char *status)
{
	const nghttp2_nv headers[] = {
		server_header(":status", status), server_header("content-type", "text/html")};

	nghttp2_submit_response(
		call->connection->session, call->stream, headers, ARRAY_SIZE(headers), NULL);
}

/* 100 MB announced, and begun. */
static void answer_big(struct server_call *call)
{
	static uint8_t data[300000];

	server_prefix(data, 100000000);
	server_answer_raw(call, data, sizeof(data), "0");
}

static void server_behave_complete(struct server_call *call, const char *name)
{
	const char *text = (const char *)call->body + 5;
	size_t len = call->body_len - MIN(call->body_len, (size_t)5);
	char word[64] = "";

	memcpy(word, text, MIN(len, sizeof(word) - 1));
	if (streq(name, "Echo"))
		server_answer(call, text, len);
	else if (streq(name, "Namespace"))
		server_answer(call, call->namespace, strlen(call->namespace));
	else if (streq(name, "Timeout"))
		server_answer(call, call->timeout, strlen(call->timeout));
	else if (streq(name, "TrailersOnly"))
		server_answer_status(call, word, "as%20asked%3a%0ano%00%e2%82%ac%ff");
	else if (streq(name, "Trailers"))
		server_answer_raw(call, "", 0, word);
	else if (streq(name, "TrailersAfterMessage"))
		server_answer_raw(call, "\0\0\0\0\1x", 6, word);
	else if (streq(name, "Raw"))
		server_answer_raw(call, text + 1, len - 1, text[0] == '-' ? "" : "0");
	else if (streq(name, "Http"))
		answer_http(call, word);
	else if (streq(name, "Big"))
		answer_big(call);
	else if (streq(name, "Reset"))
		nghttp2_submit_rst_stream(
			call->connection->session, 0, call->stream, (uint32_t)atoi(word));
	else if (streq(name, "Die"))
		call->connection->drop = true;
}

static void server_behave(struct server_call *call, void *userdata)
{
	const char *name = call->path + strlen("/t.T/");
	nghttp2_session *session = call->connection->session;

	(void)userdata;
	if (!call->complete && streq(name, "Early")) {
		server_answer_status(call, "8", "no");
		call->reset = true;
	} else if (!call->complete && streq(name, "EarlyWithoutReset")) {
		server_answer_status(call, "9", "no");
	} else if (call->complete && streq(name, "GoAway")) {
		server_answer(call, "bye", 3);
		nghttp2_submit_goaway(session, 0, call->stream, 0, NULL, 0);
	} else if (call->complete && streq(name, "Refuse")) {
		if (call->connection->server->accepted > 1)
			server_answer(call, "second", 6);
		else
			nghttp2_submit_goaway(session, 0, 0, 0, NULL, 0);
	} else if (call->complete && streq(name, "HalfAnswer")) {
		server_answer_raw(call, "\0\0\0\1\0half", 9, "");
		call->unfinished = true;
		call->connection->drop = true;
	} else if (call->complete) {
		server_behave_complete(call, name);
	}
}

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
	struct outcome slow, outcome;

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
	assert_int_equal(slow.n, 0);
	bench_end(&bench); /* abandons the slow one */
	assert_int_equal(slow.n, 0);
}

static void outlives_a_deaf_server(void **state)
{
	struct bench bench;
	struct outcome outcome;

	(void)state;
	bench_begin(&bench);
	bench.server.deaf = true;
	server_listen(&bench.server);
	outcome = ask_within(&bench, "/t.T/Echo", "x", 30 * USEC_PER_MSEC);
	assert_int_equal(outcome.status, GRPC_DEADLINE_EXCEEDED);
	bench.server.deaf = false;
	expect_well(&bench);
	bench_end(&bench);
}

static void outlives_garbage(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		bool close;
	} cases[] = {
		{"HTTP/1.1 400 Bad Request\r\n\r\n", 28, false},
		{"HTTP/1.1 400 Bad Request\r\n\r\n", 28, true},
		{"\0\0\4\6\0\0\0\0\0abcdabcd", 17, false},
		{"\0\0\0\4\0\0\0\0\0\0\0\1\0\0\0\0\0\0x", 19, false},
		{"SSH-2.0-OpenSSH_9.2\r\n", 21, false},
		{"", 0, true},
	};
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bench.server.raw = cases[i].bytes;
		bench.server.raw_len = cases[i].len;
		bench.server.raw_close = cases[i].close;
		expect(&bench, "/t.T/Echo", "x", GRPC_UNAVAILABLE, true);
		expect(&bench, "/t.T/Echo", "x", GRPC_UNAVAILABLE, true);
		server_drop_connections(&bench.server);
		bench.server.raw = NULL;
		bench.server.raw_close = false;
		expect_well(&bench);
		server_drop_connections(&bench.server);
	}
	bench_end(&bench);
}

static void outlives_a_death(void **state)
{
	struct bench bench;
	struct outcome beside;

	(void)state;
	bench_begin(&bench);
	expect(&bench, "/t.T/Echo", "x", GRPC_UNAVAILABLE, true); /* no socket */
	server_listen(&bench.server);
	expect_well(&bench);
	assert_int_equal(ask_for(&bench, "/t.T/Hang", "x", 1, SERVER_TIME, &beside), 0);
	expect(&bench, "/t.T/HalfAnswer", "x", GRPC_UNAVAILABLE, true);
	wait_for(&bench, &beside.n, 1);
	assert_int_equal(beside.status, GRPC_UNAVAILABLE);
	expect_well(&bench);
	expect(&bench, "/t.T/Die", "x", GRPC_UNAVAILABLE, true);
	expect_well(&bench);
	/* Dead since the last turn of the loop: the next call must not fall into the grave. */
	server_drop_connections(&bench.server);
	expect_well(&bench);
	server_stop(&bench.server);
	expect(&bench, "/t.T/Echo", "x", GRPC_UNAVAILABLE, true);
	server_listen(&bench.server);
	expect_well(&bench);
	bench_end(&bench);
}

static void follows_a_replaced_socket(void **state)
{
	struct bench bench;
	struct server other;
	struct outcome slow;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	expect_well(&bench);
	assert_int_equal(ask_for(&bench, "/t.T/Hang", "x", 1, SERVER_TIME, &slow), 0);
	expect_well(&bench);
	/* The old process lives on, and nobody can reach it any more. */
	other = bench.server;
	other.connections = NULL;
	other.accepted = 0;
	server_listen(&other);
	expect_well(&bench);
	assert_int_equal(other.accepted, 1);
	assert_int_equal(slow.n, 0);
	server_drop_connections(&bench.server);
	wait_for(&bench, &slow.n, 1);
	assert_int_equal(slow.status, GRPC_UNAVAILABLE);
	expect_well(&bench);
	assert_int_equal(other.accepted, 1);
	server_stop(&other);
	bench_end(&bench);
}

static void follows_goaway(void **state)
{
	struct bench bench;
	struct outcome outcome;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	outcome = ask(&bench, "/t.T/Refuse", "x"); /* sent again, on a second connection */
	assert_int_equal(outcome.status, GRPC_OK);
	assert_memory_equal(outcome.data, "second", 6);
	assert_int_equal(bench.server.accepted, 2);
	outcome = ask(&bench, "/t.T/GoAway", "x");
	assert_int_equal(outcome.status, GRPC_OK);
	expect_well(&bench);
	assert_int_equal(bench.server.accepted, 3);
	bench_end(&bench);
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

static void takes_long_paths(void **state)
{
	struct bench bench;
	char folder[PATH_MAX];

	(void)state;
	bench_begin(&bench);
	grpc_client_close(bench.client);
	folder_path(&bench.folder,
		"/a-folder-that-a-host-was-mounted-to-whose-name-is-longer-than-what-fits-into-a-"
		"socket-address-of-linux/run",
		folder);
	assert_int_equal(make_directories(folder, 0700), 0);
	snprintf(bench.server.path, sizeof(bench.server.path), "%.200s/s.sock", folder);
	assert_int_equal(grpc_client_open(bench.event, bench.server.path, &bench.client), 0);
	expect(&bench, "/t.T/Echo", "x", GRPC_UNAVAILABLE, true);
	assert_int_equal(grpc_client_peer(bench.client), 0);
	server_listen(&bench.server);
	expect_well(&bench);
	assert_int_equal(grpc_client_peer(bench.client), getpid());
	bench_end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_every_status),
		cmocka_unit_test(makes_a_status_where_there_is_none),
		cmocka_unit_test(wants_one_whole_message),
		cmocka_unit_test(takes_early_errors),
		cmocka_unit_test(bounds_an_answer),
		cmocka_unit_test(keeps_deadlines),
		cmocka_unit_test(outlives_a_deaf_server),
		cmocka_unit_test(outlives_garbage),
		cmocka_unit_test(outlives_a_death),
		cmocka_unit_test(follows_a_replaced_socket),
		cmocka_unit_test(follows_goaway),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(closes_in_a_callback),
		cmocka_unit_test(refuses_wrong_calls),
		cmocka_unit_test(takes_long_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
