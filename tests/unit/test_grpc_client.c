/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_server.h"

#include <sys/timerfd.h>

/* Far more than any call takes. */
#define LONG_US (20 * USEC_PER_SEC)

static void serve_complete(struct server_call *call, const char *name)
{
	static const uint8_t big[300000] = {0, 5, 0xf5, 0xe1, 0}; /* 100 MB announced, and begun */
	const char *text = (const char *)call->body + 5;
	size_t len = call->body_len - MIN(call->body_len, (size_t)5);
	char word[64] = "";

	memcpy(word, text, MIN(len, sizeof(word) - 1));
	if (streq(name, "Echo")) {
		server_answer(call, text, len);
	} else if (streq(name, "Namespace")) {
		server_answer(call, call->namespace, strlen(call->namespace));
	} else if (streq(name, "Timeout")) {
		server_answer(call, call->timeout, strlen(call->timeout));
	} else if (streq(name, "TrailersOnly")) {
		server_answer_status(call, "200", word);
	} else if (streq(name, "Trailers")) {
		server_answer_raw(call, "", 0, word);
	} else if (streq(name, "TrailersAfterMessage")) {
		server_answer_raw(call, "\0\0\0\0\1x", 6, word);
	} else if (streq(name, "Raw")) {
		server_answer_raw(call, text + 1, len - 1, text[0] == '-' ? "" : "0");
	} else if (streq(name, "Http")) {
		server_answer_status(call, word, NULL);
	} else if (streq(name, "Big")) {
		server_answer_raw(call, big, sizeof(big), "0");
	} else if (streq(name, "Reset")) {
		nghttp2_submit_rst_stream(call->session, 0, call->stream, (uint32_t)atoi(word));
	} else if (streq(name, "Die")) {
		call->drop = true;
	} else if (streq(name, "HalfAnswer")) {
		server_answer_raw(call, "\0\0\0\1\0half", 9, "");
		call->unfinished = call->drop = true;
	} else if (streq(name, "GoAway")) {
		server_answer(call, "bye", 3);
		nghttp2_submit_goaway(call->session, 0, call->stream, 0, NULL, 0);
	}
}

static void serve(struct server_call *call, void *)
{
	const char *name = call->path + strlen("/t.T/");

	if (!call->complete && streq(name, "Early"))
		server_answer_status(call, "200", "8");
	else if (call->complete)
		serve_complete(call, name);
}

static void begin(struct grpc_fixture *fixture)
{
	grpc_fixture_make(fixture, serve, NULL);
}

static void begin_served(struct grpc_fixture *fixture)
{
	begin(fixture);
	server_start(&fixture->server);
}

static void end_served(struct grpc_fixture *fixture)
{
	server_stop(&fixture->server);
	grpc_fixture_remove(fixture);
}

/* The name of the called method chooses what the server does: "/t.T/Echo" is a good answer. */
#define FIXTURE_TEST(name) TEST_OF(grpc_fixture, fixture, begin, grpc_fixture_remove, name)
#define SERVER_TEST(name)  TEST_OF(grpc_fixture, fixture, begin_served, end_served, name)

static int call_bytes(struct grpc_fixture *fixture, const char *method, const void *message,
	size_t size, uint64_t timeout_us, int cancel_fd)
{
	const struct wait wait = {now_us() + timeout_us, cancel_fd};
	const struct grpc_request request = {method, "k8s.io", NULL, message, size};
	uint64_t start = now_us();
	int r;

	arena_free(&fixture->arena);
	r = grpc_unary(&fixture->grpc, &wait, &request, &fixture->arena, &fixture->answer);
	if (now_us() - start > timeout_us + 2 * USEC_PER_SEC)
		fail_msg("%s: after its deadline", method);
	return r;
}

static void expect(struct grpc_fixture *fixture, const char *method, const char *text, int expected)
{
	int r = call_bytes(fixture, method, text, strlen(text), LONG_US, -1);

	if (r != expected)
		fail_msg("%s(%s): %d, %s", method, text, r, fixture->grpc.error);
}

static void expect_well(struct grpc_fixture *fixture)
{
	expect(fixture, "/t.T/Echo", "hello", 0);
	assert_int_equal(fixture->answer.size, 5);
	assert_memory_equal(fixture->answer.data, "hello", 5);
}

SERVER_TEST(the_servers_status_is_returned)
{
	static const char *const methods[] = {
		"/t.T/TrailersOnly", "/t.T/Trailers", "/t.T/TrailersAfterMessage"};

	for (int i = 0; i < 48; i++) {
		char status[16];

		snprintf(status, sizeof(status), "%d", 1 + i % 16);
		expect(fixture, methods[i % ARRAY_SIZE(methods)], status, 1 + i % 16);
	}
	expect_well(fixture);
	assert_int_equal(atomic_load(&fixture->server.http.requests), 1);
}

SERVER_TEST(invalid_answers_have_an_error)
{
	static const struct {
		const char *method, *text;
		int expected;
		const char *error;
	} cases[] = {
		{"/t.T/TrailersOnly", "17", GRPC_UNKNOWN, NULL},
		{"/t.T/Trailers", "0", -EBADMSG, "the answer is truncated"},
		{"/t.T/Raw", "-", -EBADMSG, "the answer lacks a status"},
		{"/t.T/Http", "404", -EPROTO, "HTTP status 404"},
		{"/t.T/Reset", "2", -ECONNRESET, "the call was reset: INTERNAL_ERROR"},
		{"/t.T/Early", "x", 8, NULL},
		{"/t.T/Big", "x", -EFBIG, "an answer of 100000000 bytes, the limit is 5242880"},
		{"/t.T/HalfAnswer", "x", -ECONNRESET, "connection closed"},
		{"/t.T/Die", "x", -ECONNRESET, "connection closed"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		expect(fixture, cases[i].method, cases[i].text, cases[i].expected);
		if (cases[i].error)
			assert_string_equal(fixture->grpc.error, cases[i].error);
		expect_well(fixture);
	}
}

SERVER_TEST(an_answer_is_one_whole_message)
{
	static const struct {
		char text[16];
		size_t len;
		int expected;
	} cases[] = {
		{"0\0\0\0\0\1x", 7, 0},
		{"0\0\0\0\0\2x", 7, -EBADMSG},
		{"0\0\0\0", 4, -EBADMSG},
		{"0\1\0\0\0\1x", 7, -EBADMSG},
		{"0\0\0\0\0\1x\0\0\0\0\1x", 13, -EBADMSG},
		{"0\0\xff\xff\xff\xffx", 7, -EFBIG},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(
			call_bytes(fixture, "/t.T/Raw", cases[i].text, cases[i].len, LONG_US, -1),
			cases[i].expected);
	expect_well(fixture);
}

/* The request exceeds the window of the server, so it is never complete. */
SERVER_TEST(an_early_error_ends_a_large_request)
{
	_cleanup_free_ char *much = calloc(1, 4 << 20);

	assert_int_equal(call_bytes(fixture, "/t.T/Early", much, 4 << 20, LONG_US, -1), 8);
	expect_well(fixture);
}

struct raw {
	const char *name, *bytes;
	size_t len;
	bool close;
	useconds_t every; /* sends the bytes repeatedly, with this pause */
	bool silent;      /* until the deadline */
};

static void serve_raw(int fd, const char *, void *userdata)
{
	const struct raw *raw = userdata;

	do {
		if (send(fd, raw->bytes, raw->len, MSG_NOSIGNAL) < 0)
			return;
		usleep(raw->every);
	} while (raw->every);
	if (!raw->close)
		fake_wait(fd);
}

FIXTURE_TEST(hostile_servers_end_in_time)
{
	static const struct raw cases[] = {
		{"HTTP/1", "HTTP/1.1 400 Bad Request\r\n\r\n", 28, false, 0, false},
		{"GOAWAY", "\0\0\4\6\0\0\0\0\0abcdabcd", 17, false, 0, false},
		{"SSH", "SSH-2.0-OpenSSH_9.2\r\n", 21, false, 0, false},
		{"nothing", "", 0, false, 0, true},
		{"a byte at a time", "\0", 1, false, 30000, true},
		{"PING again and again", "\0\0\10\6\0\0\0\0\0abcdabcd", 17, false, 1, false},
	};

	server_start(&fixture->server);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fake_http *http = &fixture->server.http;
		int r;

		http->userdata = (void *)&cases[i];
		atomic_store(&http->serve, serve_raw);
		for (int n = 0; n < 2; n++) {
			r = call_bytes(fixture, "/t.T/Echo", "x", 1, 100 * USEC_PER_MSEC, -1);
			if (r >= 0 || (r == -ETIMEDOUT) != cases[i].silent)
				fail_msg("%s: %d, %s", cases[i].name, r, fixture->grpc.error);
		}
		http->userdata = &fixture->server;
		atomic_store(&http->serve, server_serve);
		expect_well(fixture);
		grpc_close(&fixture->grpc);
	}
	server_stop(&fixture->server);
}

SERVER_TEST(deadline_and_cancel_descriptor_end_a_call)
{
	const struct itimerspec soon = {.it_value.tv_nsec = 50000000};
	int cancel = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	uint64_t start;

	expect_well(fixture);
	assert_int_equal(
		call_bytes(fixture, "/t.T/Hang", "x", 1, 30 * USEC_PER_MSEC, -1), -ETIMEDOUT);
	assert_string_equal(fixture->grpc.error, "no answer in time");
	expect_well(fixture);
	assert_int_equal(call_bytes(fixture, "/t.T/Timeout", "x", 1, 5 * USEC_PER_SEC, -1), 0);
	assert_memory_equal(fixture->answer.data, "6S", 2);
	expect(fixture, "/t.T/Namespace", "x", 0);
	assert_memory_equal(fixture->answer.data, "k8s.io", 6);
	start = now_us();
	assert_int_equal(timerfd_settime(cancel, 0, &soon, NULL), 0);
	assert_int_equal(call_bytes(fixture, "/t.T/Hang", "x", 1, LONG_US, cancel), -ECANCELED);
	assert_int_equal(call_bytes(fixture, "/t.T/Echo", "x", 1, LONG_US, cancel), -ECANCELED);
	assert_true(now_us() - start < 2 * USEC_PER_SEC);
	expect_well(fixture);
	close(cancel);
}

FIXTURE_TEST(a_lost_connection_is_opened_again)
{
	expect(fixture, "/t.T/Echo", "x", -ENOENT);
	assert_int_equal(fixture->grpc.peer, 0);
	for (int i = 0; i < 2; i++) {
		server_start(&fixture->server);
		expect_well(fixture);
		assert_int_equal(fixture->grpc.peer, getpid());
		server_stop(&fixture->server);
		expect(fixture, "/t.T/Echo", "x", -ECONNRESET);
		expect(fixture, "/t.T/Echo", "x", -ENOENT);
	}
	directory_put(&fixture->directory, "/s.sock", "");
	expect(fixture, "/t.T/Echo", "x", -ECONNREFUSED);
	assert_string_equal(fixture->grpc.error, "Connection refused");
}

SERVER_TEST(a_call_after_goaway_opens_a_new_connection)
{
	expect(fixture, "/t.T/GoAway", "x", 0);
	expect_well(fixture);
	assert_int_equal(atomic_load(&fixture->server.http.requests), 2);
}

SERVER_TEST(a_socket_path_may_be_long)
{
	static const char name[] =
		"/a-link-on-a-host-that-was-mounted-whose-name-is-longer-than-what-fits-into-a-"
		"socket-address-of-linux";
	struct path path = directory_at(&fixture->directory, name);

	directory_link(&fixture->directory, name, "s.sock");
	grpc_open(&fixture->grpc, path.text);
	expect_well(fixture);
}
