/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An HTTP server on a unix socket or a loopback port, with a thread for each connection. It answers
 * as the test needs: well, badly or never.
 */

#include "directory.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/un.h>

#define FAKE_CONNECTIONS_MAX 256

/* Answers one request; head is its text up to the empty line. Then the connection is closed. */
typedef void fake_http_fn(int fd, const char *head, void *userdata);

struct fake_connection {
	struct fake_http *http;
	pthread_t thread;
	int fd;
};

struct fake_http {
	int fd;
	int port;
	pthread_t thread;
	struct fake_connection connections[FAKE_CONNECTIONS_MAX];
	size_t n;
	_Atomic(fake_http_fn *) serve; /* may change while the server runs */
	void *userdata;
	atomic_uint requests;
};

static inline void fake_reply(int fd, int status, const char *body)
{
	char head[128];

	snprintf(head, sizeof(head), "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n", status,
		strlen(body));
	send_text(fd, head);
	send_text(fd, body);
}

static inline void fake_begin_chunks(int fd)
{
	send_text(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
}

static inline void fake_chunk(int fd, const char *text)
{
	char size[32];

	snprintf(size, sizeof(size), "%zx\r\n", strlen(text));
	send_text(fd, size);
	send_text(fd, text);
	send_text(fd, "\r\n");
}

/* Waits until the client closes. */
static inline void fake_wait(int fd)
{
	char byte;

	while (recv(fd, &byte, 1, 0) > 0)
		;
}

/* Sends the text in userdata. */
static inline void fake_say(int fd, const char *, void *userdata)
{
	send_text(fd, userdata);
}

/* Never answers. */
static inline void fake_hang(int fd, const char *, void *)
{
	fake_wait(fd);
}

static atomic_size_t fake_flooded; /* bytes that the client accepted */

/*
 * userdata has two texts, each ended by a zero byte. Sends the first, then the second repeatedly:
 * until the client closes, or up to 100 MiB.
 */
static inline void fake_flood(int fd, const char *, void *userdata)
{
	const char *unit = (const char *)userdata + strlen(userdata) + 1;
	size_t sent = 0;
	ssize_t n = 1;

	send_text(fd, userdata);
	for (; n > 0 && sent < (size_t)100 * 1024 * 1024; sent += (size_t)MAX(n, 0))
		n = send(fd, unit, strlen(unit), MSG_NOSIGNAL);
	atomic_store(&fake_flooded, sent);
}

static inline void *fake_connection_run(void *userdata)
{
	struct fake_connection *connection = userdata;
	struct fake_http *http = connection->http;
	char head[8192];
	size_t len = 0;

	head[0] = '\0';
	while (len + 1 < sizeof(head) && !strstr(head, "\r\n\r\n")) {
		ssize_t n = recv(connection->fd, head + len, 1, 0);

		if (n <= 0)
			break;
		len += (size_t)n;
		head[len] = '\0';
	}
	if (strstr(head, "\r\n\r\n")) {
		atomic_fetch_add(&http->requests, 1);
		atomic_load (&http->serve)(connection->fd, head, http->userdata);
	}
	shutdown(connection->fd, SHUT_RDWR);
	return NULL;
}

static inline void *fake_http_run(void *userdata)
{
	struct fake_http *http = userdata;
	int fd;

	while ((fd = accept4(http->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct fake_connection *connection = &http->connections[http->n++];

		if (http->n > FAKE_CONNECTIONS_MAX)
			abort();
		*connection = (struct fake_connection){.http = http, .fd = fd};
		if (pthread_create(&connection->thread, NULL, fake_connection_run, connection) != 0)
			abort();
	}
	return NULL;
}

static inline void fake_http_begin(struct fake_http *http, const void *address, socklen_t len,
	fake_http_fn *serve, void *userdata)
{
	const struct sockaddr *at = address;

	*http = (struct fake_http){.fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	atomic_store(&http->serve, serve);
	http->userdata = userdata;
	assert_int_equal(bind(http->fd, at, len), 0);
	assert_int_equal(listen(http->fd, 16), 0);
	assert_int_equal(pthread_create(&http->thread, NULL, fake_http_run, http), 0);
}

static inline void fake_http_start_unix(
	struct fake_http *http, const char *path, fake_http_fn *serve, void *userdata)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	assert_true(set_text(address.sun_path, path));
	fake_http_begin(http, &address, sizeof(address), serve, userdata);
}

static inline void fake_http_start_tcp(struct fake_http *http, fake_http_fn *serve, void *userdata)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);

	fake_http_begin(http, &address, len, serve, userdata);
	assert_int_equal(getsockname(http->fd, (struct sockaddr *)&address, &len), 0);
	http->port = ntohs(address.sin_port);
}

/* Ends all connections, as when a process is killed. */
static inline void fake_http_stop(struct fake_http *http)
{
	if (http->fd < 0)
		return;
	shutdown(http->fd, SHUT_RDWR);
	assert_int_equal(pthread_join(http->thread, NULL), 0);
	for (size_t i = 0; i < http->n; i++) {
		shutdown(http->connections[i].fd, SHUT_RDWR);
		assert_int_equal(pthread_join(http->connections[i].thread, NULL), 0);
		close(http->connections[i].fd);
	}
	close(http->fd);
	http->fd = -1;
}

/* A server on a unix socket in a temporary directory. */
struct fake_socket {
	struct directory directory;
	struct fake_http http;
	char path[PATH_MAX];
};

static inline void fake_socket_open(struct fake_socket *fake, fake_http_fn *serve, void *userdata)
{
	directory_make(&fake->directory);
	directory_path(&fake->directory, "/socket", fake->path);
	fake_http_start_unix(&fake->http, fake->path, serve, userdata);
}

static inline void fake_socket_close(struct fake_socket *fake)
{
	fake_http_stop(&fake->http);
	directory_remove(&fake->directory);
}
