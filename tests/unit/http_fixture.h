/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server with a fake node. It runs in a thread of its own, so that the tests can use plain
 * blocking sockets.
 */

#include "test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/un.h>

#include "report/http_internal.h"

#include "fake_node.h"

#define ANSWER_MAX ((size_t)256 * 1024)

static struct {
	struct fake_node fake;
	sd_event *event;
	struct http_server *tcp, *local;
	struct http_connection *client; /* whom the fake change function has not answered yet */
	bool hold;
	unsigned changes;
	char only[64];
	char directory[32], path[64];
	uint16_t port;
	pthread_t thread;
	int todo, done; /* eventfds */
	void (*action)(void);
} fixture;

static inline void fixture_change(
	void *userdata, bool restore, const char *only, struct http_connection *client)
{
	(void)userdata, (void)restore;

	fixture.changes++;
	copy_text(fixture.only, sizeof(fixture.only), only ? only : "(all)");
	if (fixture.hold)
		fixture.client = client;
	else
		http_reply(client, 200, "{\"failed\":0}");
}

static inline int on_todo(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	eventfd_t n;

	(void)source, (void)events, (void)userdata;
	eventfd_read(fd, &n);
	fixture.action();
	eventfd_write(fixture.done, 1);
	return 0;
}

static inline void *fixture_loop(void *userdata)
{
	(void)userdata;

	sd_event_loop(fixture.event);
	return NULL;
}

/* Runs something where the server's state may be touched. */
static inline void in_loop(void (*action)(void))
{
	eventfd_t n;

	fixture.action = action;
	eventfd_write(fixture.todo, 1);
	eventfd_read(fixture.done, &n);
}

static inline void do_nothing(void)
{
}

static inline void do_close(void)
{
	http_server_close(fixture.tcp);
	http_server_close(fixture.local);
	fixture.tcp = fixture.local = NULL;
}

static inline void do_exit(void)
{
	if (fixture.tcp)
		do_close();
	sd_event_exit(fixture.event, 0);
}

static inline int begin(void **state)
{
	struct sockaddr_in address;
	socklen_t length = sizeof(address);

	(void)state;
	memset(&fixture, 0, sizeof(fixture));
	strcpy(fixture.directory, "/tmp/headroom-http-XXXXXX");
	fake_node_make(&fixture.fake);
	assert_non_null(mkdtemp(fixture.directory));
	snprintf(fixture.path, sizeof(fixture.path), "%s/run/sock", fixture.directory);
	assert_int_equal(sd_event_new(&fixture.event), 0);
	fixture.todo = eventfd(0, EFD_CLOEXEC);
	fixture.done = eventfd(0, EFD_CLOEXEC);
	assert_true(
		sd_event_add_io(fixture.event, NULL, fixture.todo, EPOLLIN, on_todo, NULL) >= 0);
	assert_int_equal(http_server_open(fixture.event, "127.0.0.1:0", &fixture.fake.node,
				 fixture_change, NULL, &fixture.tcp),
		0);
	assert_int_equal(http_server_open(fixture.event, fixture.path, &fixture.fake.node,
				 fixture_change, NULL, &fixture.local),
		0);
	fixture.local->admin = getuid();
	assert_int_equal(getsockname(fixture.tcp->fd, (struct sockaddr *)&address, &length), 0);
	fixture.port = ntohs(address.sin_port);
	assert_int_equal(pthread_create(&fixture.thread, NULL, fixture_loop, NULL), 0);
	return 0;
}

static inline int end(void **state)
{
	char parent[sizeof(fixture.path)];

	(void)state;
	in_loop(do_exit);
	pthread_join(fixture.thread, NULL);
	sd_event_unref(fixture.event);
	close(fixture.todo);
	close(fixture.done);
	assert_int_equal(access(fixture.path, F_OK), -1);
	snprintf(parent, sizeof(parent), "%s/run", fixture.directory);
	assert_int_equal(rmdir(parent), 0);
	assert_int_equal(rmdir(fixture.directory), 0);
	return 0;
}

#define HTTP_TEST(name) TEST_FIXTURE(name, begin, end)

static inline int dial(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons(fixture.port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static inline int dial_unix(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	copy_text(address.sun_path, sizeof(address.sun_path), fixture.path);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* All until the end of the stream; "" for a connection that was closed without an answer. */
static inline char *receive_all(int fd)
{
	char *answer = malloc(ANSWER_MAX);
	size_t have = 0;

	assert_non_null(answer);
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		ssize_t n;

		if (poll(&wait, 1, 5000) != 1)
			fail_msg("no end of stream after: %.*s", (int)have, answer);
		n = recv(fd, answer + have, ANSWER_MAX - have - 1, 0);
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	answer[have] = '\0';
	return answer;
}

static inline bool closed_within(int fd, int milliseconds)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	char byte;

	return poll(&wait, 1, milliseconds) == 1 && recv(fd, &byte, 1, MSG_PEEK) <= 0;
}

#define END "\r\nHost: x\r\nConnection: close\r\n\r\n"

static inline char *ask_on(int fd, const char *request)
{
	char *answer;

	send_text(fd, request);
	answer = receive_all(fd);
	close(fd);
	return answer;
}

static inline void expect_on(int fd, const char *request, const char *start, const char *part)
{
	_cleanup_free_ char *answer = ask_on(fd, request);

	if (!starts_with(answer, start))
		fail_msg("%.60s: not '%s' but: %.600s", request, start, answer);
	if (!strstr(answer, part))
		fail_msg("%.60s: no '%s' in: %.1200s", request, part, answer);
}

static inline void expect(const char *request, const char *start, const char *part)
{
	expect_on(dial(), request, start, part);
}

static inline void expect_alive(void)
{
	expect("GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
}

static inline uint64_t iterations(void)
{
	uint64_t n = 0;

	sd_event_get_iteration(fixture.event, &n);
	return n;
}
