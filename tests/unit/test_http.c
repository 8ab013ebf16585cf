/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <zlib.h>

#include "report/http.h"

#include "fake_node.h"

#define ANSWER_MAX ((size_t)256 * 1024)
#define END        "\r\nHost: localhost\r\nConnection: close\r\n\r\n"

/* A server with a fake node on both kinds of socket. It runs while the test waits for it. */
static struct {
	struct fake_node fake;
	sd_event *event;
	struct http_server *tcp, *local;
	struct http_connection *client; /* change() has not answered it yet */
	bool hold;
	unsigned changes;
	char only[64];
	struct path path;
} fixture;

static void change(void *, bool, const char *only, const char *, struct http_connection *client)
{
	fixture.changes++;
	set_text(fixture.only, only ? only : "(all)");
	if (fixture.hold)
		fixture.client = client;
	else
		http_reply(client, 200, "{\"failed\":0}");
}

static int open_at(const char *listen_on, struct http_server **server)
{
	return http_server_open(
		fixture.event, listen_on, NULL, &fixture.fake.node, change, NULL, server);
}

static void begin(struct directory *directory)
{
	memset(&fixture, 0, sizeof(fixture));
	fake_node_make(&fixture.fake);
	directory_make(directory);
	fixture.path = directory_at(directory, "/sock");
	assert_int_equal(sd_event_new(&fixture.event), 0);
	assert_int_equal(open_at("127.0.0.1:0", &fixture.tcp), 0);
	assert_int_equal(open_at(fixture.path.text, &fixture.local), 0);
}

static void close_servers(void)
{
	http_server_close(steal(fixture.tcp));
	http_server_close(steal(fixture.local));
}

static void end(struct directory *directory)
{
	if (fixture.tcp)
		close_servers();
	sd_event_unref(fixture.event);
	assert_int_equal(access(fixture.path.text, F_OK), -1);
	directory_remove(directory);
}

#define HTTP_TEST(name) TEST_OF(directory, directory, begin, end, name)

/* Runs the server until fd has data or the end of its stream, or for the whole time (fd -1). */
static bool readable_within(int fd, uint64_t milliseconds)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	uint64_t until = now_us() + milliseconds * USEC_PER_MSEC;

	do
		assert_true(sd_event_run(fixture.event, USEC_PER_MSEC) >= 0);
	while (poll(&wait, 1, 0) == 0 && now_us() < until);
	return wait.revents;
}

static bool closed_within(int fd, uint64_t milliseconds)
{
	char byte;

	return readable_within(fd, milliseconds) && recv(fd, &byte, 1, MSG_PEEK) <= 0;
}

static int dial(const struct http_server *server)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	int fd;

	assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &length), 0);
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, length), 0);
	return fd;
}

/* Returns all bytes until the end of the stream: "" when the server closed without an answer. */
static char *request_on(int fd, const char *request)
{
	char *answer = malloc(ANSWER_MAX);
	size_t have = 0;
	ssize_t n = 1;

	assert_non_null(answer);
	send_text(fd, request);
	while (n > 0) {
		if (!readable_within(fd, 5000))
			fail_msg("no end of stream after: %.*s", (int)have, answer);
		n = recv(fd, answer + have, ANSWER_MAX - have - 1, 0);
		have += (size_t)MAX(n, (ssize_t)0);
	}
	answer[have] = '\0';
	close(fd);
	return answer;
}

static void expect_on(int fd, const char *request, const char *start, const char *part)
{
	_cleanup_free_ char *answer = request_on(fd, request);

	if (!starts_with(answer, start))
		fail_msg("%.60s: not '%s' but: %.600s", request, start, answer);
	if (!strstr(answer, part))
		fail_msg("%.60s: no '%s' in: %.1200s", request, part, answer);
}

static void expect(const char *request, const char *start, const char *part)
{
	expect_on(dial(fixture.tcp), request, start, part);
}

static void expect_local(const char *request, const char *start, const char *part)
{
	expect_on(dial(fixture.local), request, start, part);
}

static void expect_alive(void)
{
	expect("GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
}

/* Lets time pass for the one connection; the server looks at it with the next client. */
static void pass_time(uint64_t time_us)
{
	fixture.tcp->connections->since_us -= time_us;
	expect_alive();
}

/* Each request of a kept connection has its whole time, but not more. */
HTTP_TEST(each_request_has_its_own_deadline)
{
	const uint64_t whole_us = 20 * USEC_PER_SEC;
	int fd = dial(fixture.tcp);
	char answer[1024];

	fixture.tcp->request_us = whole_us;
	for (int i = 0; i < 4; i++) {
		send_text(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
		assert_true(readable_within(fd, 5000));
		assert_true(recv(fd, answer, sizeof(answer), 0) > 0);
		pass_time(whole_us / 2);
		assert_false(closed_within(fd, 1));
	}
	pass_time(whole_us);
	assert_true(closed_within(fd, 5000));
	close(fd);
}

/* Returns how many of n requests on one kept connection are answered within the time. */
static int answered_within(const struct http_server *server, const char *path, int n, int ms)
{
	uint64_t until = now_us() + (uint64_t)ms * USEC_PER_MSEC;
	char request[80], *buffer = malloc(ANSWER_MAX);
	int fd = dial(server), done = 0;

	assert_non_null(buffer);
	snprintf(request, sizeof(request), "HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
	while (done < n && now_us() < until) {
		send_text(fd, request);
		if (!readable_within(fd, (until - now_us()) / USEC_PER_MSEC))
			break;
		assert_true(recv(fd, buffer, ANSWER_MAX, 0) > 0);
		done++;
	}
	free(buffer);
	close(fd);
	return done;
}

HTTP_TEST(tcp_connections_share_a_budget_of_requests)
{
	int n = answered_within(fixture.tcp, "/metrics", 300, 1000) +
		answered_within(fixture.tcp, "/metrics", 300, 500); /* a new connection */

	if (n < 1 || n > 265) /* a burst of 100, and 100 a second */
		fail_msg("%d answers in one and a half seconds", n);
	/* With a budget, 5 s would be too short. */
	assert_int_equal(answered_within(fixture.tcp, "/livez", 100, 5000), 100);
	assert_int_equal(answered_within(fixture.tcp, "/readyz", 100, 5000), 100);
	assert_int_equal(answered_within(fixture.local, "/metrics", 100, 5000), 100);
}

static bool both_wait(const struct http_connection *first)
{
	return first && first->next && first->wait && first->next->wait;
}

/* A waiting connection is evicted like another, and does not keep the server from closing. */
HTTP_TEST(waiting_connections_keep_nobody_out)
{
	static const char request[] = "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	int fds[2];

	fixture.tcp->max_open = 2;
	for (int i = 0; i < 2; i++) {
		fds[i] = dial(fixture.tcp);
		for (int k = 0; k < 100; k++)
			send_text(fds[i], request);
	}
	/* Both use up the budget within a moment. Sanitizers make it longer. */
	for (int i = 0; i < 100 && !both_wait(fixture.tcp->connections); i++)
		readable_within(-1, 50);
	assert_true(both_wait(fixture.tcp->connections));
	expect_alive();
	close_servers();
	for (int i = 0; i < 2; i++)
		close(fds[i]);
}

HTTP_TEST(only_a_dead_socket_is_replaced)
{
	struct http_server *second = NULL;
	const char *path = fixture.path.text;
	char aside[80];
	struct stat st;

	snprintf(aside, sizeof(aside), "%s.aside", path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	assert_int_equal(open_at(path, &second), -EADDRINUSE); /* it lives */
	assert_null(second);

	/* The socket of another agent stays; ours, moved aside, is dead after the close. */
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(open_at(path, &second), 0);
	http_server_close(fixture.local);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(open_at(aside, &fixture.local), 0);
	close_servers();
	assert_int_equal(access(aside, F_OK), -1);
	http_server_close(second);
	assert_int_equal(access(path, F_OK), -1);

	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(open_at(path, &second), -EADDRINUSE); /* not a socket */
	assert_int_equal(unlink(path), 0);
}

/* Without descriptors the loop does not spin, and later it accepts again. */
HTTP_TEST(a_shortage_of_descriptors_is_survived)
{
	struct rlimit before, none;
	uint64_t first, last;
	int fd;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	none = (struct rlimit){.rlim_cur = (rlim_t)fd + 1, .rlim_max = before.rlim_max};
	close(fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	fd = dial(fixture.tcp); /* accept() gets no number after this one */
	sd_event_get_iteration(fixture.event, &first);
	readable_within(-1, 100);
	sd_event_get_iteration(fixture.event, &last);
	assert_true(last - first < 110); /* iterations of 1 ms */
	assert_true(fixture.tcp->paused_until_us > 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	free(request_on(fd, "GET /livez HTTP/1.1" END));
	expect_alive();
}

static int post_held(void)
{
	int fd;

	if (geteuid() != 0)
		skip();
	fd = dial(fixture.local);
	fixture.hold = true;
	send_text(fd, "POST /v1/apply HTTP/1.1" END);
	while (!fixture.client)
		readable_within(fd, 1);
	return fd;
}

static void finish(void)
{
	http_reply(steal(fixture.client), 200, "{\"later\":true}");
}

HTTP_TEST(a_change_under_way_has_no_deadline)
{
	int fd = post_held();

	fixture.local->request_us = 50 * USEC_PER_MSEC;
	assert_false(closed_within(fd, 100));
	expect_alive();
	finish();
	expect_on(fd, "", "HTTP/1.1 200", "{\"later\":true}");
}

HTTP_TEST(a_reply_to_a_client_that_left_is_dropped)
{
	close(post_held());
	expect_alive();
	finish();
	expect_local("GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
}

HTTP_TEST(the_server_may_close_during_a_change)
{
	int fd = post_held();

	close_servers();
	assert_true(closed_within(fd, 1000));
	finish();
	close(fd);
}

HTTP_TEST(the_idle_server_sleeps)
{
	fixture.tcp->request_us = 100 * USEC_PER_MSEC;
	expect_alive();
	readable_within(-1, 20);
	assert_int_equal(sd_event_run(fixture.event, 200 * USEC_PER_MSEC), 0);
}

HTTP_TEST(wrong_methods_and_paths_are_refused)
{
	expect("GET /livez/ HTTP/1.1" END, "HTTP/1.1 404", "not found");
	expect("OPTIONS * HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect("GET /v1/apply HTTP/1.1" END, "HTTP/1.1 405", "Allow: POST\r\n");
	expect_local("GET /v1/apply HTTP/1.1" END, "HTTP/1.1 405", "Allow: POST\r\n");
	expect_local("POST /livez HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect_local("POST /nothing HTTP/1.1" END, "HTTP/1.1 404", "");
	expect("GET /livez HTTP/1.1\r\n\r\n", "HTTP/1.1 400", ""); /* no Host */
	assert_int_equal(fixture.changes, 0);
}

HTTP_TEST(requests_are_bounded)
{
	_cleanup_free_ char *request = malloc(ANSWER_MAX), *answer = NULL;
	char long_text[32 * 1024];

	assert_non_null(request);
	memset(long_text, 'a', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	snprintf(request, ANSWER_MAX, "GET /%s HTTP/1.1" END, long_text);
	expect(request, "HTTP/1.1 4", ""); /* 414; 431 if the memory ends first */
	snprintf(request, ANSWER_MAX, "GET / HTTP/1.1\r\nX: %s" END, long_text);
	expect(request, "HTTP/1.1 431", "");
	snprintf(request, ANSWER_MAX, "POST / HTTP/1.1\r\nContent-Length: 4097" END "%.4097s",
		long_text);
	expect(request, "HTTP/1.1 413", "");
	snprintf(request, ANSWER_MAX,
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked" END "1770\r\n%.6000s\r\n0\r\n\r\n",
		long_text);
	answer = request_on(dial(fixture.tcp), request);
	assert_string_equal(answer, "");
	snprintf(request, ANSWER_MAX, "GET /livez HTTP/1.1\r\nContent-Length: 4096" END "%.4096s",
		long_text);
	expect(request, "HTTP/1.1 200", "ok");
}

HTTP_TEST(health_follows_the_node)
{
	fixture.fake.node.heartbeat_us = now_us() - 11 * USEC_PER_SEC;
	expect("GET /livez HTTP/1.1" END, "HTTP/1.1 503", "late");
	fixture.fake.node.heartbeat_us = now_us();
	fixture.fake.node.applied = false;
	expect_alive();
	expect("GET /readyz HTTP/1.1" END, "HTTP/1.1 503", "[-] applied");
	expect("GET /health HTTP/1.1" END, "HTTP/1.1 200", "warning");
	expect("GET /health?strict=0 HTTP/1.1" END, "HTTP/1.1 200", "warning");
	expect("GET /health?strict=1 HTTP/1.1" END, "HTTP/1.1 503", "warning");
}

/* test_the_socket_is_for_root_only of the root tests has other users. */
HTTP_TEST(changes_name_one_tuner_or_all)
{
	static const char *const bad[] = {
		"=THP", "=", "", "=a%2fb", "=abcdefghijklmnopqrstuvwxyzabcdef"};
	char request[128];

	if (geteuid() != 0)
		skip();
	expect_local("POST /v1/apply HTTP/1.1" END, "HTTP/1.1 200", "{\"failed\":0}");
	assert_string_equal(fixture.only, "(all)");
	expect_local("POST /v1/restore?only=thp HTTP/1.1\r\nContent-Length: 2" END "{}",
		"HTTP/1.1 200", "{\"failed\":0}");
	assert_string_equal(fixture.only, "thp");
	assert_int_equal(fixture.changes, 2);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(request, sizeof(request), "POST /v1/apply?only%s HTTP/1.1" END, bad[i]);
		expect_local(request, "HTTP/1.1 400", "");
	}
	assert_int_equal(fixture.changes, 2);
}

HTTP_TEST(the_accept_header_is_negotiated)
{
	static const struct {
		const char *accept;
		bool openmetrics;
	} cases[] = {
		{"", false},
		{"text/html,application/xhtml+xml,*/*;q=0.8", false},
		{"Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", true},
		{"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version="
		 "0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
			true},
		{"application/openmetrics-text;version=0.0.1", false},
		{"application/openmetrics-text;q=0", false},
		{"application/openmetrics-text;q=0.3,text/plain;q=0.5", false},
		{"application/openmetrics-text;q=0.3,text/*;q=0.5,text/plain;q=0.1", true},
		{";,;q=,,", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char request[512];

		snprintf(request, sizeof(request), "GET /metrics HTTP/1.1\r\nAccept: %s" END,
			cases[i].accept);
		expect(request, "HTTP/1.1 200",
			cases[i].openmetrics ? "Type: application/openmetrics-text"
					     : "Type: text/plain; version=0.0.4");
	}
	expect("GET /metrics HTTP/1.1" END, "HTTP/1.1 200", "Type: text/plain; version=0.0.4");
}

HTTP_TEST(long_documents_are_compressed_for_clients_that_accept_it)
{
	static const char *const no[] = {"", "br, deflate", "gzip;q=0", "x-gzip"};
	static const char *const yes[] = {"gzip", "deflate, GZIP;q=0.5", "br;q=1.0, gzip"};
	char request[128], plain[ANSWER_MAX / 4] = "";
	_cleanup_free_ char *answer = NULL;
	z_stream stream = {.next_out = (Bytef *)plain, .avail_out = sizeof(plain) - 1};
	char *body;

	for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
		snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nAccept-Encoding: %s" END,
			no[i]);
		expect(request, "HTTP/1.1 200", "\r\n\r\n<!doctype html>");
	}
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nAccept-Encoding: %s" END,
			yes[i]);
		expect(request, "HTTP/1.1 200", "Content-Encoding: gzip\r\n");
	}
	expect("GET /health HTTP/1.1\r\nAccept-Encoding: gzip" END, "HTTP/1.1 200", "{\"status\":");
	answer = request_on(dial(fixture.tcp), request);
	body = strstr(answer, "\r\n\r\n") + 4;
	stream.next_in = (Bytef *)body;
	stream.avail_in = (uInt)strtoul(strstr(answer, "Content-Length: ") + 16, NULL, 10);
	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	inflateEnd(&stream);
	assert_true(starts_with(plain, "<!doctype html>") && strstr(plain, "</html>"));
}
