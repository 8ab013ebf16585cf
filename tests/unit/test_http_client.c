/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_http.h"

#include "runtime/http_client.h"

#include <sys/eventfd.h>

#define MIB ((size_t)1024 * 1024)

static void serve_echo(int fd, const char *head, void *)
{
	fake_reply(fd, 200, head);
}

#define REDIRECT "HTTP/1.1 302 X\r\nLocation: /other\r\nContent-Length: 2\r\n\r\nno"

static void serve_chunks(int fd, const char *, void *)
{
	fake_begin_chunks(fd);
	fake_chunk(fd, "one ");
	usleep(20000);
	fake_chunk(fd, "two ");
	fake_chunk(fd, "three");
	fake_chunk(fd, "");
}

static void serve_trickle(int fd, const char *, void *)
{
	fake_begin_chunks(fd);
	while (send(fd, "1\r\nx\r\n", 6, MSG_NOSIGNAL) > 0)
		usleep(5000);
}

static void get(const struct fake_socket *server, struct http_get *get, uint64_t timeout_us)
{
	struct wait wait = {.deadline_us = now_us() + timeout_us, .cancel_fd = -1};

	if (!get->url)
		get->url = "http://name/path?q=1";
	get->unix_socket = server->path;
	http_get_all(get, 1, &wait);
}

TEST(answers_are_collected_without_credentials_or_proxy)
{
	struct fake_socket server;
	struct http_get request = {0};

	setenv("http_proxy", "http://127.0.0.1:1", 1);
	fake_socket_open(&server, serve_echo, NULL);
	get(&server, &request, 10 * USEC_PER_SEC);
	assert_int_equal(request.error, 0);
	assert_int_equal(request.status, 200);
	assert_true(starts_with(request.body, "GET /path?q=1 HTTP/1.1\r\n"));
	assert_non_null(strstr(request.body, "User-Agent: headroom/"));
	assert_null(strstr(request.body, "Authorization"));
	assert_int_equal(request.len, strlen(request.body));
	assert_string_equal(request.why, "");
	free(request.body);
	request = (struct http_get){.url = "http://user:word@name/"};
	get(&server, &request, 10 * USEC_PER_SEC);
	assert_true(request.error < 0);
	fake_socket_close(&server);
	unsetenv("http_proxy");
}

TEST(broken_and_endless_answers_have_distinct_errors)
{
	static const struct {
		fake_http_fn *serve;
		const char *said;
		int error;
		long status;
		const char *why;
	} cases[] = {
		{fake_say, REDIRECT, 0, 302, ""}, /* not followed */
		{fake_say, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf", -ECONNRESET, 200,
			"996 bytes"}, /* the rest of the text depends on the version of libcurl */
		{fake_say, "", -ECONNRESET, 0, "Empty reply"},
		{fake_say, "SSH-2.0-OpenSSH_9.2\r\n\r\n", -EPROTO, 0, "HTTP/0.9"},
		{fake_flood, "HTTP/1.1 200 OK\r\n\r\n\0xxxxxxxxxxxxxxxxxxxxxxxxxxxxx", -EFBIG, 200,
			"the answer is too large"},
		{fake_flood, "HTTP/1.1 200 OK\r\n\0X-Header: xxxxxxxxxxxxxxxxxxxxxxxx\r\n", -EFBIG,
			200, "the answer is too large"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_get request = {.limit = MIB};
		struct fake_socket server;

		fake_socket_open(&server, cases[i].serve, (void *)cases[i].said);
		get(&server, &request, 20 * USEC_PER_SEC);
		assert_int_equal(request.error, cases[i].error);
		assert_int_equal(request.status, cases[i].status);
		if (!strstr(request.why, cases[i].why))
			fail_msg("%zu: %s", i, request.why);
		assert_true(request.len <= MIB);
		assert_int_equal(atomic_load(&server.http.requests), 1);
		free(request.body);
		fake_socket_close(&server);
		assert_true(atomic_load(&fake_flooded) < 10 * MIB);
	}
}

struct pieces {
	char text[64];
	int returns;
};

/* Consumes whole words. */
static int on_data(const char *text, size_t len, size_t *used, void *userdata)
{
	struct pieces *pieces = userdata;
	const char *blank = memrchr(text, ' ', len);

	*used = blank ? (size_t)(blank - text) + 1 : 0;
	strncat(pieces->text, text, *used);
	return pieces->returns;
}

TEST(the_callback_can_end_a_stream)
{
	static const struct {
		int returns, error;
		const char *text;
	} cases[] = {{0, 0, "one two "}, {1, 0, "one "}, {-EBADMSG, -EBADMSG, "one "}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pieces pieces = {.returns = cases[i].returns};
		struct http_get request = {.data = on_data, .userdata = &pieces};
		struct fake_socket server;

		fake_socket_open(&server, serve_chunks, NULL);
		get(&server, &request, 10 * USEC_PER_SEC);
		assert_int_equal(request.error, cases[i].error);
		assert_string_equal(pieces.text, cases[i].text);
		assert_string_equal(request.body, cases[i].returns ? "" : "three");
		free(request.body);
		fake_socket_close(&server);
	}
}

TEST(requests_end_at_the_deadline_and_when_cancelled)
{
	fake_http_fn *const serves[] = {fake_hang, serve_trickle};

	for (size_t i = 0; i < ARRAY_SIZE(serves); i++) {
		struct http_get request = {0};
		struct wait wait = {.deadline_us = UINT64_MAX};
		struct fake_socket server;
		uint64_t start = now_us();

		fake_socket_open(&server, serves[i], NULL);
		get(&server, &request, 50 * USEC_PER_MSEC);
		assert_int_equal(request.error, -ETIMEDOUT);
		free(request.body);
		request = (struct http_get){.url = "http://name/", .unix_socket = server.path};
		wait.cancel_fd = eventfd(1, EFD_CLOEXEC);
		http_get_all(&request, 1, &wait);
		assert_int_equal(request.error, -ECANCELED);
		assert_true(now_us() - start < 5 * USEC_PER_SEC);
		free(request.body);
		close(wait.cancel_fd);
		fake_socket_close(&server);
	}
}

TEST(unreachable_servers_have_a_reason)
{
	struct http_get request = {.url = "http://name/", .unix_socket = "/nowhere/at/all"};
	struct wait wait = {.deadline_us = now_us() + 10 * USEC_PER_SEC, .cancel_fd = -1};

	http_get_all(&request, 1, &wait);
	assert_int_equal(request.error, -ENOENT);
	assert_string_equal(request.why, strerror(ENOENT));
	request = (struct http_get){.url = "http://na me/"};
	http_get_all(&request, 1, &wait);
	assert_int_equal(request.error, -EINVAL);
}
