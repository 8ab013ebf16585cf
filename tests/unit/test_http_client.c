/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_http.h"

#include "runtime/http_client.h"

#include <sys/eventfd.h>

#define MIB ((size_t)1024 * 1024)

static atomic_size_t taken_mib;

static void serve_echo(int fd, const char *head, void *userdata)
{
	(void)userdata;
	fake_reply(fd, 200, head);
}

#define REDIRECT "HTTP/1.1 302 X\r\nLocation: /other\r\nContent-Length: 2\r\n\r\nno"
#define REFUSAL  "HTTP/1.1 500 X\r\nContent-Length: 16\r\n\r\n{\"message\":\"no\"}"

static void serve_chunks(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_begin_chunks(fd);
	fake_chunk(fd, "one ");
	usleep(20000);
	fake_chunk(fd, "two ");
	fake_chunk(fd, "three");
	fake_chunk(fd, "");
}

static void serve_trickle(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_begin_chunks(fd);
	while (send(fd, "1\r\nx\r\n", 6, MSG_NOSIGNAL) > 0)
		usleep(5000);
}

/* userdata: the beginning, and what follows for ever, each ended by a zero byte. */
static void serve_flood(int fd, const char *head, void *userdata)
{
	const char *unit = (const char *)userdata + strlen(userdata) + 1;

	(void)head;
	send_text(fd, userdata);
	atomic_store(&taken_mib, fake_flood(fd, unit, 100));
}

struct server {
	struct directory directory;
	struct fake_http http;
	char socket[PATH_MAX];
};

static void server_start(struct server *server, fake_http_fn *serve, const char *said)
{
	directory_make(&server->directory);
	directory_path(&server->directory, "/socket", server->socket);
	fake_http_start_unix(&server->http, server->socket, serve, (void *)said);
}

static void server_stop(struct server *server)
{
	fake_http_stop(&server->http);
	directory_remove(&server->directory);
}

static void get(const struct server *server, struct http_get *get, uint64_t timeout_us)
{
	struct wait wait = {.deadline_us = now_us() + timeout_us, .cancel_fd = -1};

	if (!get->url)
		get->url = "http://name/path?q=1";
	get->unix_socket = server->socket;
	http_get_all(get, 1, &wait);
}

TEST(answers_are_collected_without_credentials_or_proxy)
{
	struct server server;
	struct http_get request = {0};

	setenv("http_proxy", "http://127.0.0.1:1", 1);
	server_start(&server, serve_echo, NULL);
	get(&server, &request, 10 * USEC_PER_SEC);
	assert_int_equal(request.error, 0);
	assert_int_equal(request.status, 200);
	assert_true(starts_with(request.body, "GET /path?q=1 HTTP/1.1\r\n"));
	assert_non_null(strstr(request.body, "User-Agent: headroom/"));
	assert_null(strstr(request.body, "Authorization"));
	assert_int_equal(request.len, strlen(request.body));
	assert_string_equal(request.why, "");
	http_get_clear(&request);
	request = (struct http_get){.url = "http://user:word@name/"};
	get(&server, &request, 10 * USEC_PER_SEC);
	assert_true(request.error < 0);
	server_stop(&server);
	unsetenv("http_proxy");
}

TEST(redirects_are_not_followed)
{
	struct server server;
	struct http_get request = {0};

	server_start(&server, fake_say, REDIRECT);
	get(&server, &request, 10 * USEC_PER_SEC);
	assert_int_equal(request.error, 0);
	assert_int_equal(request.status, 302);
	assert_int_equal(atomic_load(&server.http.requests), 1);
	http_get_clear(&request);
	server_stop(&server);
}

struct pieces {
	char text[64];
	int returns;
};

/* Takes whole words. */
static int on_data(const char *text, size_t len, size_t *used, void *userdata)
{
	struct pieces *pieces = userdata;
	const char *blank = memrchr(text, ' ', len);

	*used = blank ? (size_t)(blank - text) + 1 : 0;
	strncat(pieces->text, text, *used);
	return pieces->returns;
}

TEST(a_stream_ends_when_its_owner_says_so)
{
	static const struct {
		int returns, error;
		const char *text;
	} cases[] = {{0, 0, "one two "}, {1, 0, "one "}, {-EBADMSG, -EBADMSG, "one "}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pieces pieces = {.returns = cases[i].returns};
		struct http_get request = {.data = on_data, .userdata = &pieces};
		struct server server;

		server_start(&server, serve_chunks, NULL);
		get(&server, &request, 10 * USEC_PER_SEC);
		assert_int_equal(request.error, cases[i].error);
		assert_string_equal(pieces.text, cases[i].text);
		assert_string_equal(request.body, cases[i].returns ? "" : "three");
		http_get_clear(&request);
		server_stop(&server);
	}
}

TEST(a_refusal_is_collected_not_streamed)
{
	struct pieces pieces = {0};
	struct http_get request = {.data = on_data, .userdata = &pieces};
	struct server server;

	server_start(&server, fake_say, REFUSAL);
	get(&server, &request, 10 * USEC_PER_SEC);
	assert_int_equal(request.error, 0);
	assert_int_equal(request.status, 500);
	assert_string_equal(request.body, "{\"message\":\"no\"}");
	assert_string_equal(pieces.text, "");
	http_get_clear(&request);
	server_stop(&server);
}

TEST(requests_end_at_the_deadline_and_when_cancelled)
{
	fake_http_fn *const serves[] = {fake_hang, serve_trickle};

	for (size_t i = 0; i < ARRAY_SIZE(serves); i++) {
		struct http_get request = {0};
		struct wait wait = {.deadline_us = UINT64_MAX};
		struct server server;
		uint64_t start = now_us();

		server_start(&server, serves[i], NULL);
		get(&server, &request, 50 * USEC_PER_MSEC);
		assert_int_equal(request.error, -ETIMEDOUT);
		http_get_clear(&request);
		request = (struct http_get){.url = "http://name/", .unix_socket = server.socket};
		wait.cancel_fd = eventfd(1, EFD_CLOEXEC);
		http_get_all(&request, 1, &wait);
		assert_int_equal(request.error, -ECANCELED);
		assert_true(now_us() - start < 5 * USEC_PER_SEC);
		http_get_clear(&request);
		close(wait.cancel_fd);
		server_stop(&server);
	}
}

TEST(answers_are_bounded)
{
	static const char *const floods[] = {
		"HTTP/1.1 200 OK\r\n\r\n\0xxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
		"HTTP/1.1 200 OK\r\n\0X-Header: xxxxxxxxxxxxxxxxxxxxxxxx\r\n"};

	for (size_t i = 0; i < ARRAY_SIZE(floods); i++) {
		struct http_get request = {.limit = MIB};
		struct server server;

		server_start(&server, serve_flood, floods[i]);
		get(&server, &request, 20 * USEC_PER_SEC);
		assert_int_equal(request.error, -EFBIG);
		assert_string_equal(request.why, "the answer is too large");
		assert_true(request.len <= MIB);
		http_get_clear(&request);
		server_stop(&server);
		assert_true(atomic_load(&taken_mib) < 10);
	}
}

TEST(broken_answers_have_errors_of_their_own)
{
	static const struct {
		const char *said;
		int error;
	} cases[] = {{"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf", -ECONNRESET},
		{"", -ECONNRESET}, {"SSH-2.0-OpenSSH_9.2\r\n\r\n", -EPROTO}};
	struct http_get request = {.url = "http://name/", .unix_socket = "/nowhere/at/all"};
	struct wait wait = {.deadline_us = now_us() + 10 * USEC_PER_SEC, .cancel_fd = -1};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_get broken = {0};
		struct server server;

		server_start(&server, fake_say, cases[i].said);
		get(&server, &broken, 10 * USEC_PER_SEC);
		assert_int_equal(broken.error, cases[i].error);
		assert_true(broken.why[0] != '\0');
		http_get_clear(&broken);
		server_stop(&server);
	}
	http_get_all(&request, 1, &wait);
	assert_int_equal(request.error, -ENOENT);
	assert_string_equal(request.why, strerror(ENOENT));
	request = (struct http_get){.url = "http://na me/"};
	http_get_all(&request, 1, &wait);
	assert_int_equal(request.error, -EINVAL);
}

TEST(several_requests_run_at_the_same_time)
{
	struct server slow, fast;
	struct http_get requests[3] = {0};
	struct wait wait = {.deadline_us = now_us() + 300 * USEC_PER_MSEC, .cancel_fd = -1};

	server_start(&slow, fake_hang, NULL);
	server_start(&fast, serve_echo, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		requests[i] = (struct http_get){
			.url = "http://name/", .unix_socket = i == 1 ? fast.socket : slow.socket};
	http_get_all(requests, ARRAY_SIZE(requests), &wait);
	assert_int_equal(requests[0].error, -ETIMEDOUT);
	assert_int_equal(requests[1].error, 0);
	assert_true(requests[1].took_us < 250 * USEC_PER_MSEC);
	assert_int_equal(requests[2].error, -ETIMEDOUT);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		http_get_clear(&requests[i]);
	server_stop(&slow);
	server_stop(&fast);
}
