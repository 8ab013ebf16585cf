/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_GRPC_SERVER_H
#define TESTS_UNIT_GRPC_SERVER_H

/* A gRPC server in the test's own event loop that behaves as badly as the test wants. */

#include "directory.h"

#include "runtime/grpc.h"

#include <errno.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct server_connection;

struct server_call {
	struct server_call *next;
	struct server_connection *connection;
	int32_t stream;
	char path[128], namespace[64], timeout[16];
	uint8_t body[1024]; /* of the request, with its prefix; what is more is dropped */
	size_t body_len;
	bool complete;   /* the whole request is here */
	bool unfinished; /* there is more to come, which never comes */
	bool reset;      /* once the answer is sent: nobody wants the rest of the request */
	uint8_t *out;    /* of the answer, with its prefix; owned */
	size_t out_len, out_sent;
	char status[16]; /* in the trailers; empty: none */
	char message[256];
};

struct server_connection {
	struct server_connection *next;
	struct server *server;
	int fd;
	sd_event_source *source;
	nghttp2_session *session;
	struct server_call *calls;
	const uint8_t *unsent;
	size_t left;
	bool drop; /* closed at the end of this turn */
};

struct server {
	sd_event *event;
	char path[PATH_MAX];
	int listener;
	sd_event_source *source;
	struct server_connection *connections;
	/* Called for each request's headers and again when it is complete. */
	void (*serve)(struct server_call *call, void *userdata);
	void *userdata;
	const char *raw; /* said to whoever connects, instead of HTTP/2 */
	size_t raw_len;
	bool raw_close, deaf; /* closes after it; never reads */
	unsigned accepted;
};

static inline void server_connection_free(struct server_connection *connection)
{
	while (connection->calls) {
		struct server_call *call = connection->calls;

		connection->calls = call->next;
		free(call->out);
		free(call);
	}
	sd_event_source_disable_unref(connection->source);
	nghttp2_session_del(connection->session);
	close(connection->fd);
	free(connection);
}

/* As when the process is killed: what was not read is lost. */
static inline void server_drop_connections(struct server *server)
{
	while (server->connections) {
		struct server_connection *connection = server->connections;

		server->connections = connection->next;
		server_connection_free(connection);
	}
}

static inline struct server_call *server_find(struct server_connection *connection, int32_t stream)
{
	for (struct server_call *call = connection->calls; call; call = call->next)
		if (call->stream == stream)
			return call;
	return NULL;
}

static inline int server_on_begin(
	nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct server_connection *connection = userdata;
	struct server_call *call = calloc(1, sizeof(*call));

	(void)session;
	assert_non_null(call);
	call->connection = connection;
	call->stream = frame->hd.stream_id;
	call->next = connection->calls;
	connection->calls = call;
	return 0;
}

static inline int server_on_header(nghttp2_session *session, const nghttp2_frame *frame,
	const uint8_t *name, size_t name_len, const uint8_t *value, size_t len, uint8_t flags,
	void *userdata)
{
	struct server_call *call = server_find(userdata, frame->hd.stream_id);

	(void)session, (void)flags, (void)name_len, (void)len;
	if (streq((const char *)name, ":path"))
		copy_text(call->path, sizeof(call->path), (const char *)value);
	else if (streq((const char *)name, "containerd-namespace"))
		copy_text(call->namespace, sizeof(call->namespace), (const char *)value);
	else if (streq((const char *)name, "grpc-timeout"))
		copy_text(call->timeout, sizeof(call->timeout), (const char *)value);
	return 0;
}

static inline int server_on_data(nghttp2_session *session, uint8_t flags, int32_t stream,
	const uint8_t *data, size_t len, void *userdata)
{
	struct server_call *call = server_find(userdata, stream);
	size_t n = MIN(len, sizeof(call->body) - call->body_len);

	(void)session, (void)flags;
	memcpy(call->body + call->body_len, data, n);
	call->body_len += n;
	return 0;
}

static inline int server_on_frame(
	nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct server_connection *connection = userdata;
	struct server_call *call = server_find(connection, frame->hd.stream_id);

	(void)session;
	if (!call || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
		return 0;
	call->complete = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	if (frame->hd.type == NGHTTP2_HEADERS || call->complete)
		connection->server->serve(call, connection->server->userdata);
	return 0;
}

static inline nghttp2_nv server_header(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

static inline size_t server_trailers(const struct server_call *call, nghttp2_nv headers[2])
{
	size_t n = 0;

	if (call->status[0])
		headers[n++] = server_header("grpc-status", call->status);
	if (call->message[0])
		headers[n++] = server_header("grpc-message", call->message);
	return n;
}

static inline ssize_t server_read(nghttp2_session *session, int32_t stream, uint8_t *buffer,
	size_t length, uint32_t *flags, nghttp2_data_source *source, void *userdata)
{
	struct server_call *call = source->ptr;
	size_t n = MIN(length, call->out_len - call->out_sent);
	nghttp2_nv trailers[2];
	size_t n_trailers = server_trailers(call, trailers);

	(void)userdata;
	memcpy(buffer, call->out + call->out_sent, n);
	call->out_sent += n;
	if (call->out_sent < call->out_len)
		return (ssize_t)n;
	if (call->unfinished)
		return n > 0 ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (n_trailers > 0) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		assert_int_equal(nghttp2_submit_trailer(session, stream, trailers, n_trailers), 0);
	}
	return (ssize_t)n;
}

/* Bytes as they are behind the headers of an answer, then trailers with status, if there is one. */
static inline void server_answer_raw(
	struct server_call *call, const void *data, size_t len, const char *status)
{
	const nghttp2_nv headers[] = {
		server_header(":status", "200"), server_header("content-type", "application/grpc")};
	nghttp2_data_provider body = {.source.ptr = call, .read_callback = server_read};

	call->out = malloc(len + 1);
	assert_non_null(call->out);
	memcpy(call->out, data, len);
	call->out_len = len;
	copy_text(call->status, sizeof(call->status), status);
	assert_int_equal(nghttp2_submit_response(call->connection->session, call->stream, headers,
				 ARRAY_SIZE(headers), &body),
		0);
}

static inline void server_prefix(uint8_t prefix[5], size_t len)
{
	prefix[0] = 0;
	for (int i = 0; i < 4; i++)
		prefix[1 + i] = (uint8_t)(len >> (24 - 8 * i));
}

/* A message and status 0. */
static inline void server_answer(struct server_call *call, const void *data, size_t len)
{
	_cleanup_free_ uint8_t *message = malloc(5 + len);

	assert_non_null(message);
	server_prefix(message, len);
	if (len > 0)
		memcpy(message + 5, data, len);
	server_answer_raw(call, message, 5 + len, "0");
}

/* Headers alone end the answer. */
static inline void server_answer_status(
	struct server_call *call, const char *status, const char *message)
{
	const nghttp2_nv headers[] = {server_header(":status", "200"),
		server_header("content-type", "application/grpc"),
		server_header("grpc-status", status), server_header("grpc-message", message)};

	assert_int_equal(nghttp2_submit_response(call->connection->session, call->stream, headers,
				 ARRAY_SIZE(headers), NULL),
		0);
}

/* What the socket does not take now is sent when it does. */
static inline void server_flush(struct server_connection *connection)
{
	for (;;) {
		ssize_t n;

		if (connection->left == 0) {
			n = nghttp2_session_mem_send(connection->session, &connection->unsent);
			assert_true(n >= 0);
			connection->left = (size_t)n;
		}
		if (connection->left == 0)
			break;
		n = send(connection->fd, connection->unsent, connection->left, MSG_NOSIGNAL);
		if (n < 0)
			break;
		connection->unsent += n;
		connection->left -= (size_t)n;
	}
	sd_event_source_set_io_events(
		connection->source, connection->left ? EPOLLIN | EPOLLOUT : (uint32_t)EPOLLIN);
}

static inline void server_reset(struct server_connection *connection)
{
	for (struct server_call *call = connection->calls; call; call = call->next) {
		if (!call->reset)
			continue;
		call->reset = false;
		nghttp2_submit_rst_stream(connection->session, 0, call->stream, NGHTTP2_NO_ERROR);
	}
	server_flush(connection);
}

static inline void server_forget(struct server_connection *connection)
{
	struct server_connection **p = &connection->server->connections;

	while (*p != connection)
		p = &(*p)->next;
	*p = connection->next;
	server_connection_free(connection);
}

/* False when the client has gone, or talks nonsense. */
static inline bool server_receive(struct server_connection *connection)
{
	uint8_t buffer[16384];
	ssize_t n = recv(connection->fd, buffer, sizeof(buffer), MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	return !connection->session ||
	       nghttp2_session_mem_recv(connection->session, buffer, (size_t)n) == n;
}

static inline int server_on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct server_connection *connection = userdata;

	(void)source, (void)fd, (void)events;
	if (!server_receive(connection)) {
		server_forget(connection);
		return 0;
	}
	if (connection->session) {
		server_flush(connection);
		server_reset(connection);
	}
	if (connection->drop)
		server_forget(connection);
	return 0;
}

static inline void server_start_session(struct server_connection *connection)
{
	nghttp2_session_callbacks *callbacks;

	assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, server_on_begin);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, server_on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, server_on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, server_on_frame);
	assert_int_equal(
		nghttp2_session_server_new(&connection->session, callbacks, connection), 0);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(connection->session, 0, NULL, 0);
	server_flush(connection);
}

static inline int server_on_accept(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct server *server = userdata;
	struct server_connection *connection = calloc(1, sizeof(*connection));

	(void)source, (void)events;
	assert_non_null(connection);
	connection->server = server;
	connection->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(connection->fd >= 0);
	server->accepted++;
	connection->next = server->connections;
	server->connections = connection;
	assert_true(sd_event_add_io(server->event, &connection->source, connection->fd,
			    server->deaf ? 0 : EPOLLIN, server_on_io, connection) >= 0);
	if (!server->raw && !server->deaf)
		server_start_session(connection);
	else if (server->raw)
		(void)!send(connection->fd, server->raw, server->raw_len, MSG_NOSIGNAL);
	if (server->raw_close)
		server_forget(connection);
	return 0;
}

static inline void server_listen(struct server *server)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int directory = -1;
	char parent[PATH_MAX];

	copy_text(parent, sizeof(parent), server->path);
	*strrchr(parent, '/') = '\0';
	/* The path may be longer than sun_path. */
	directory = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(directory >= 0);
	unlink(server->path);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", directory,
		strrchr(server->path, '/') + 1);
	server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(server->listener, 64), 0);
	assert_true(sd_event_add_io(server->event, &server->source, server->listener, EPOLLIN,
			    server_on_accept, server) >= 0);
}

/* The listening socket alone: open connections go on. */
static inline void server_close_listener(struct server *server)
{
	sd_event_source_disable_unref(server->source);
	server->source = NULL;
	close(server->listener);
	server->listener = -1;
}

static inline void server_stop(struct server *server)
{
	server_drop_connections(server);
	if (server->source)
		server_close_listener(server);
	unlink(server->path);
}

#endif
