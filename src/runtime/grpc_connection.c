/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/grpc_internal.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

/* What one turn of the loop reads at most: some 100 us of work. The rest waits for the next. */
#define READ_SIZE ((size_t)64 * 1024)
#define READS_MAX 4

/* What a server may send before it must wait for us: all of it is taken at once, never kept. */
#define STREAM_WINDOW     (1 << 20)
#define CONNECTION_WINDOW (4 << 20)

/* More than can be under way when a call is cancelled. */
#define UNASKED_MAX ((size_t)2 * CONNECTION_WINDOW)

#define HEADER(n, v, l)                                                                    \
	{                                                                                  \
		.name = (uint8_t *)(n), .namelen = sizeof(n) - 1, .value = (uint8_t *)(v), \
		.valuelen = (l), .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME,                    \
	}
#define FIXED_HEADER(n, v) HEADER(n, v, sizeof(v) - 1)

DEFINE_CLEANUP(nghttp2_session_callbacks, nghttp2_session_callbacks_del)
DEFINE_CLEANUP(struct grpc_connection, connection_free)

static void cancel_and_end(struct call *call)
{
	connection_cancel(call->connection, call);
	call_end(call);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *userdata)
{
	struct call *call = call_find(userdata, frame->hd.stream_id);

	(void)session, (void)flags;
	if (call && !grpc_reply_header(
			    &call->reply, (const char *)name, name_len, (const char *)value, len))
		cancel_and_end(call);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
	size_t len, void *userdata)
{
	struct call *call = call_find(userdata, stream);

	(void)session, (void)flags;
	if (call && !grpc_reply_data(&call->reply, data, len))
		cancel_and_end(call);
	return 0;
}

/* The answer is complete, whether or not the server wanted to read all of the request. */
static void complete(struct call *call)
{
	if (call->sent < call->size)
		connection_cancel(call->connection, call);
	call_end(call);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct grpc_connection *connection = userdata;
	bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM, enough = false;
	struct call *call;

	(void)session;
	switch (frame->hd.type) {
	case NGHTTP2_SETTINGS:
		connection->greeted = true;
		break;
	case NGHTTP2_GOAWAY:
		connection->closing = true;
		break;
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		call = call_find(connection, frame->hd.stream_id);
		if (call && frame->hd.type == NGHTTP2_HEADERS)
			enough = !grpc_reply_headers_end(&call->reply);
		if (call && last)
			complete(call);
		else if (call && enough)
			cancel_and_end(call);
		break;
	default:
		break;
	}
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *userdata)
{
	struct call *call = call_find(userdata, stream);

	(void)session;
	if (!call || (error == NGHTTP2_REFUSED_STREAM && call_retry(call)))
		return 0;
	call->error = error;
	call_end(call);
	return 0;
}

/* A call that waited for room on a connection which takes no more calls. */
static int on_frame_not_sent(
	nghttp2_session *session, const nghttp2_frame *frame, int error, void *userdata)
{
	struct call *call = call_find(userdata, frame->hd.stream_id);

	(void)session;
	if (!call || frame->hd.type != NGHTTP2_HEADERS || call_retry(call))
		return 0;
	grpc_reply_fail(&call->reply, GRPC_UNAVAILABLE, "%s", nghttp2_strerror(error));
	call_end(call);
	return 0;
}

static ssize_t read_message(nghttp2_session *session, int32_t stream, uint8_t *buffer,
	size_t length, uint32_t *flags, nghttp2_data_source *source, void *userdata)
{
	struct call *call = call_find(userdata, stream);
	size_t n;

	(void)session, (void)source;
	if (!call)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* it has ended: reset */
	n = MIN(length, call->size - call->sent);
	memcpy(buffer, call->message + call->sent, n);
	call->sent += n;
	if (call->sent == call->size)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static void receive(struct grpc_connection *connection)
{
	uint8_t buffer[READ_SIZE];

	for (int i = 0; i < READS_MAX && !connection->dead; i++) {
		ssize_t n = recv(connection->fd, buffer, sizeof(buffer), MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			connection_fail(connection, n < 0 ? strerror(errno) : "connection closed");
			return;
		}
		connection->received_us = now_us();
		if (connection->n_calls == 0)
			connection->unasked += (size_t)n;
		if (nghttp2_session_mem_recv(connection->session, buffer, (size_t)n) != n)
			connection_fail(connection, "not understood: no HTTP/2");
		else if (connection->unasked > UNASKED_MAX)
			connection_fail(connection, "talks without being asked");
		if ((size_t)n < sizeof(buffer))
			return;
	}
}

static void watch(struct grpc_connection *connection, bool writable)
{
	sd_event_source_set_io_events(
		connection->source, writable ? EPOLLIN | EPOLLOUT : (uint32_t)EPOLLIN);
}

/* Collects frames, so that a call costs one system call. False: there is nothing to send. */
static bool fill_out(struct grpc_connection *connection)
{
	connection->out_len = connection->out_sent = 0;
	while (connection->out_len <= GRPC_OUT_SIZE / 2) {
		const uint8_t *frames;
		ssize_t n = nghttp2_session_mem_send(connection->session, &frames);

		if (n == 0)
			break;
		if (n < 0 || (size_t)n > GRPC_OUT_SIZE - connection->out_len) {
			connection_fail(connection,
				n < 0 ? nghttp2_strerror((int)n) : "a frame larger than expected");
			return false;
		}
		memcpy(connection->out + connection->out_len, frames, (size_t)n);
		connection->out_len += (size_t)n;
	}
	return connection->out_len > 0;
}

void connection_flush(struct grpc_connection *connection)
{
	while (!connection->dead && !connection->mute) {
		ssize_t n;

		if (connection->out_sent == connection->out_len && !fill_out(connection))
			break;
		n = send(connection->fd, connection->out + connection->out_sent,
			connection->out_len - connection->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			watch(connection, true);
			return;
		}
		/* It may have answered before it went: reading tells, and comes to the end. */
		if (n < 0)
			connection->mute = true;
		else
			connection->out_sent += (size_t)n;
	}
	watch(connection, false);
	/* It broke the protocol and was told so, or has gone away and all is done. */
	if (!connection->dead && !nghttp2_session_want_read(connection->session) &&
		!nghttp2_session_want_write(connection->session))
		connection_fail(connection, connection->greeted ? "not understood: broken HTTP/2"
								: "not understood: no HTTP/2");
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct grpc_connection *connection = userdata;

	(void)source, (void)fd;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(connection);
	connection_flush(connection);
	client_turn(connection->client);
	return 0;
}

static int make_session(struct grpc_connection *connection)
{
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADERS_MAX},
	};
	_cleanup_(cleanup_nghttp2_session_callbacks_del) nghttp2_session_callbacks *callbacks =
		NULL;
	nghttp2_session *session;

	if (nghttp2_session_callbacks_new(&callbacks) < 0)
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_sent);
	if (nghttp2_session_client_new(&session, callbacks, connection) < 0)
		return -ENOMEM;
	connection->session = session;
	if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)) <
			0 ||
		nghttp2_session_set_local_window_size(
			session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) < 0)
		return -ENOMEM;
	return 0;
}

/*
 * Through a descriptor of the socket's file: its path may be longer than sun_path, and what is
 * connected to is surely what was looked at.
 */
static int dial(struct grpc_connection *connection)
{
	_cleanup_close_ int place = open(connection->client->path, O_PATH | O_CLOEXEC);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (place < 0 || fstat(place, &connection->socket) < 0)
		return -errno;
	if (!S_ISSOCK(connection->socket.st_mode))
		return -ENOTSOCK;
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", place);
	connection->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (connection->fd < 0 ||
		connect(connection->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (getsockopt(connection->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0)
		connection->peer = peer.pid;
	return 0;
}

int connection_open(struct grpc_client *client, struct grpc_connection **ret)
{
	_cleanup_(cleanup_connection_free) struct grpc_connection *connection =
		calloc(1, sizeof(*connection));
	int r;

	if (!connection)
		return -ENOMEM;
	connection->client = client;
	connection->fd = -1;
	r = dial(connection);
	if (r < 0)
		return r;
	r = make_session(connection);
	if (r < 0)
		return r;
	r = sd_event_add_io(
		client->event, &connection->source, connection->fd, EPOLLIN, on_io, connection);
	if (r < 0)
		return r;
	*ret = steal(connection);
	return 0;
}

void connection_free(struct grpc_connection *connection)
{
	sd_event_source_disable_unref(connection->source);
	nghttp2_session_del(connection->session);
	cleanup_close(&connection->fd);
	free(connection);
}

/* Nothing but another socket at the path counts: one that was removed may still be served. */
static bool was_replaced(const struct grpc_connection *connection)
{
	const struct stat *was = &connection->socket;
	struct stat st;

	if (stat(connection->client->path, &st) < 0)
		return false;
	return st.st_dev != was->st_dev || st.st_ino != was->st_ino ||
	       st.st_ctim.tv_sec != was->st_ctim.tv_sec ||
	       st.st_ctim.tv_nsec != was->st_ctim.tv_nsec;
}

bool connection_usable(const struct grpc_connection *connection)
{
	char byte;
	ssize_t n;

	if (connection->dead || connection->closing || connection->mute)
		return false;
	if (was_replaced(connection))
		return false;
	/* The end may be there already, and the loop has not come to it. */
	n = recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return n > 0 || (n < 0 && errno == EAGAIN);
}

/* grpc-timeout has at most eight digits. */
static size_t format_timeout(const struct call *call, char text[static 16])
{
	uint64_t now = now_us();
	uint64_t left_ms = MAX(call->deadline_us, now) - now;

	left_ms = MAX(left_ms / USEC_PER_MSEC, (uint64_t)1);
	if (left_ms < 100000000)
		return (size_t)snprintf(text, 16, "%um", (unsigned)left_ms);
	return (size_t)snprintf(text, 16, "%uS", (unsigned)MIN(left_ms / 1000, (uint64_t)99999999));
}

int connection_submit(struct grpc_connection *connection, struct call *call)
{
	static const char namespace_header[] = "containerd-namespace";
	nghttp2_data_provider body = {.read_callback = read_message};
	char timeout[16];
	size_t timeout_len = format_timeout(call, timeout);
	const nghttp2_nv headers[] = {
		FIXED_HEADER(":method", "POST"),
		FIXED_HEADER(":scheme", "http"),
		HEADER(":path", call->method, strlen(call->method)),
		FIXED_HEADER(":authority", "localhost"),
		FIXED_HEADER("te", "trailers"),
		FIXED_HEADER("content-type", "application/grpc"),
		FIXED_HEADER("user-agent", "headroom"),
		HEADER("grpc-timeout", timeout, timeout_len),
		/* The last may be left out. */
		HEADER(namespace_header, call->namespace,
			call->namespace ? strlen(call->namespace) : 0),
	};
	size_t n = ARRAY_SIZE(headers) - (call->namespace ? 0 : 1);
	int32_t stream = nghttp2_submit_request(connection->session, NULL, headers, n, &body, NULL);

	if (stream < 0) {
		connection->closing = true; /* its streams are used up */
		return stream == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
	}
	call->connection = connection;
	call->stream = stream;
	call->sent = 0;
	call->sent_us = now_us();
	connection->n_calls++;
	connection->unasked = 0;
	return 0;
}

void connection_cancel(struct grpc_connection *connection, const struct call *call)
{
	nghttp2_submit_rst_stream(
		connection->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
}

void connection_fail(struct grpc_connection *connection, const char *why)
{
	struct call *next;

	connection->dead = true;
	for (struct call *call = connection->client->calls; call; call = next) {
		next = call->next;
		if (call->connection != connection)
			continue;
		grpc_reply_fail(&call->reply, GRPC_UNAVAILABLE, "%s", why);
		call_end(call);
	}
}
