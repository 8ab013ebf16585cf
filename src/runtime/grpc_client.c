/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/grpc_client.h"

#include "base/util.h"
#include "runtime/grpc_response.h"

#include <errno.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#define METHOD_MAX 256

/* Room for a frame of the default size, 16 KiB (RFC 9113, section 4.2), and some before it. */
#define OUT_SIZE  ((size_t)16384 + 4096)
#define READ_SIZE ((size_t)16384)

/* What a server may send before it must wait for us: all of it is taken at once, never kept. */
#define STREAM_WINDOW     (1 << 20)
#define CONNECTION_WINDOW (4 << 20)

/* What a call takes besides its answer's message: headers, frames of control, padding. */
#define OVERHEAD_MAX ((size_t)1024 * 1024)

/* A server that has no room for another connection is tried again after this time. */
#define CONNECT_AGAIN_US (20 * USEC_PER_MSEC)

/* One call on one connection. */
struct exchange {
	const struct grpc_request *request;
	const uint8_t *body; /* the message with its prefix */
	size_t size, sent;
	int32_t stream;
	struct grpc_response response;
	size_t received; /* bytes of everything */
	uint32_t error;  /* code of HTTP/2 that the stream was closed with */
	bool ended;      /* the stream is */
	bool refused;    /* the server has not begun it: it may be sent again */
};

struct grpc {
	int fd; /* -1: not connected */
	pid_t peer;
	nghttp2_session *session;
	bool leaving;               /* the server takes no further calls on this connection */
	bool mute;                  /* it reads nothing any more; what it sent before counts */
	struct exchange *exchange;  /* the call under way */
	char error[GRPC_ERROR_MAX]; /* of the last call */
	size_t out_len, out_sent;
	uint8_t out[OUT_SIZE];
	char path[];
};

DEFINE_CLEANUP(nghttp2_session_callbacks, nghttp2_session_callbacks_del)

/* The call under way when the stream is its own, else NULL. */
static struct exchange *exchange_of(struct grpc *grpc, int32_t stream)
{
	return grpc->exchange && grpc->exchange->stream == stream ? grpc->exchange : NULL;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *userdata)
{
	struct exchange *exchange = exchange_of(userdata, frame->hd.stream_id);

	(void)session, (void)flags, (void)name_len, (void)len;
	if (exchange) /* nghttp2 terminates both, and refuses zero bytes in them */
		grpc_response_header(&exchange->response, (const char *)name, (const char *)value);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
	size_t len, void *userdata)
{
	struct exchange *exchange = exchange_of(userdata, stream);

	(void)session, (void)flags;
	if (exchange)
		grpc_response_data(&exchange->response, data, len);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct grpc *grpc = userdata;
	struct exchange *exchange = exchange_of(grpc, frame->hd.stream_id);

	(void)session;
	if (frame->hd.type == NGHTTP2_GOAWAY)
		grpc->leaving = true;
	if (!exchange || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS)
		grpc_response_headers_end(&exchange->response);
	/* Whether or not the server wanted to read all of the request. */
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		exchange->ended = true;
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *userdata)
{
	struct exchange *exchange = exchange_of(userdata, stream);

	(void)session;
	if (!exchange || exchange->ended)
		return 0;
	exchange->ended = true;
	exchange->error = error;
	exchange->refused = error == NGHTTP2_REFUSED_STREAM;
	return 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *buffer, size_t length,
	uint32_t *flags, nghttp2_data_source *source, void *userdata)
{
	struct exchange *exchange = exchange_of(userdata, stream);
	size_t n;

	(void)session, (void)source;
	if (!exchange)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* it has ended: reset */
	n = MIN(length, exchange->size - exchange->sent);
	memcpy(buffer, exchange->body + exchange->sent, n);
	exchange->sent += n;
	if (exchange->sent == exchange->size)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static void disconnect(struct grpc *grpc)
{
	nghttp2_session_del(grpc->session);
	grpc->session = NULL;
	cleanup_close(&grpc->fd);
	grpc->fd = -1;
	grpc->leaving = grpc->mute = false;
	grpc->out_len = grpc->out_sent = 0;
}

static int make_session(struct grpc *grpc)
{
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADERS_MAX},
	};
	_cleanup_(cleanup_nghttp2_session_callbacks_del) nghttp2_session_callbacks *callbacks =
		NULL;

	if (nghttp2_session_callbacks_new(&callbacks) < 0)
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	if (nghttp2_session_client_new(&grpc->session, callbacks, grpc) < 0)
		return -ENOMEM;
	if (nghttp2_submit_settings(
		    grpc->session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings)) < 0 ||
		nghttp2_session_set_local_window_size(
			grpc->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) < 0)
		return -ENOMEM;
	return 0;
}

/*
 * Through a descriptor of the socket's file: its path may be longer than sun_path. A unix socket
 * answers at once, with EAGAIN where the server has as many waiting as it wants.
 */
static int connect_socket(struct grpc *grpc, const struct wait *wait)
{
	_cleanup_close_ int file = open(grpc->path, O_PATH | O_CLOEXEC);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t length = sizeof(peer);

	if (file < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", file);
	grpc->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (grpc->fd < 0)
		return -errno;
	while (connect(grpc->fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		struct wait pause = wait_at_most(wait, CONNECT_AGAIN_US);
		int r;

		if (errno != EAGAIN)
			return -errno;
		r = wait_for(&pause, -1, 0);
		if (r != -ETIMEDOUT || pause.deadline_us == wait->deadline_us)
			return r;
	}
	grpc->peer = 0;
	if (getsockopt(grpc->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0)
		grpc->peer = peer.pid;
	return 0;
}

/* Keeps the connection of the call before, unless the server has closed it or is about to. */
static int ensure_connected(struct grpc *grpc, const struct wait *wait)
{
	char byte;
	int r;

	if (grpc->fd >= 0 && !grpc->leaving && !grpc->mute) {
		ssize_t n = recv(grpc->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

		if (n > 0 || (n < 0 && errno == EAGAIN))
			return 0;
	}
	disconnect(grpc);
	r = connect_socket(grpc, wait);
	return r < 0 ? r : make_session(grpc);
}

/* Collects frames, so that a call costs one system call. The bytes to send, or -EPROTO. */
static ssize_t fill_out(struct grpc *grpc)
{
	grpc->out_len = grpc->out_sent = 0;
	while (grpc->out_len <= OUT_SIZE - (16384 + 9)) {
		const uint8_t *frames;
		ssize_t n = nghttp2_session_mem_send(grpc->session, &frames);

		if (n < 0 || (size_t)n > OUT_SIZE - grpc->out_len)
			return -EPROTO;
		if (n == 0)
			break;
		memcpy(grpc->out + grpc->out_len, frames, (size_t)n);
		grpc->out_len += (size_t)n;
	}
	return (ssize_t)grpc->out_len;
}

/* Sends what the socket takes. The events to wait for, or -EPROTO. */
static int send_frames(struct grpc *grpc)
{
	while (!grpc->mute) {
		ssize_t n;

		if (grpc->out_sent == grpc->out_len) {
			n = fill_out(grpc);
			if (n < 0)
				return (int)n;
			if (n == 0)
				break;
		}
		n = send(grpc->fd, grpc->out + grpc->out_sent, grpc->out_len - grpc->out_sent,
			MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			return POLLIN | POLLOUT;
		/* It may have answered before it went: reading comes to the end. */
		if (n < 0 && errno != EINTR)
			grpc->mute = true;
		else if (n > 0)
			grpc->out_sent += (size_t)n;
	}
	return POLLIN;
}

/* Takes what has come. 0, or a fault of the response. */
static int receive(struct grpc *grpc, struct exchange *exchange)
{
	struct grpc_response *response = &exchange->response;
	uint8_t buffer[READ_SIZE];
	ssize_t n = recv(grpc->fd, buffer, sizeof(buffer), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return grpc_response_fail(response, -errno, "%s", strerror(errno));
	if (n == 0)
		return grpc_response_fail(response, -ECONNRESET, "connection closed");
	exchange->received += (size_t)n;
	if (exchange->received > response->max + OVERHEAD_MAX)
		return grpc_response_fail(response, -EFBIG, "more bytes than an answer may have");
	if (nghttp2_session_mem_recv(grpc->session, buffer, (size_t)n) != n)
		return grpc_response_fail(response, -EPROTO, "not understood: no HTTP/2");
	return response->fault;
}

/* A wait that brought nothing. */
static int fail_wait(struct grpc_response *response, int r)
{
	return grpc_response_fail(
		response, r, "%s", r == -ETIMEDOUT ? "no answer in time" : strerror(-r));
}

/* Until the stream has ended. 0, or the fault for which nothing more is waited for. */
static int run_exchange(struct grpc *grpc, const struct wait *wait, struct exchange *exchange)
{
	struct grpc_response *response = &exchange->response;

	while (!exchange->ended) {
		int events = send_frames(grpc), r;

		if (exchange->ended)
			break;
		/* It broke the protocol, and that was sent to it. */
		if (events < 0 || (!nghttp2_session_want_read(grpc->session) &&
					  !nghttp2_session_want_write(grpc->session)))
			return grpc_response_fail(
				response, -EPROTO, "not understood: broken HTTP/2");
		r = wait_for(wait, grpc->fd, (short)events);
		if (r < 0)
			return fail_wait(response, r);
		r = receive(grpc, exchange);
		if (r < 0)
			return r;
	}
	return 0;
}

#define HEADER(n, v)                                                      \
	{                                                                 \
		(uint8_t *)(n), (uint8_t *)(v), sizeof(n) - 1, strlen(v), \
			NGHTTP2_NV_FLAG_NO_COPY_NAME                      \
	}

static int submit(struct grpc *grpc, const struct wait *wait, struct exchange *exchange)
{
	const struct grpc_request *request = exchange->request;
	const char *namespace = request->containerd_namespace;
	nghttp2_data_provider body = {.read_callback = read_body};
	uint64_t now = now_us();
	uint64_t left_ms = (MAX(wait->deadline_us, now) - now) / USEC_PER_MSEC;
	char timeout[16];

	/* It has eight digits at most. */
	if (left_ms < 100000000)
		snprintf(timeout, sizeof(timeout), "%um", MAX((unsigned)left_ms, 1U));
	else
		snprintf(timeout, sizeof(timeout), "%uS",
			(unsigned)MIN(left_ms / 1000, (uint64_t)99999999));
	const nghttp2_nv headers[] = {
		HEADER(":method", "POST"), HEADER(":scheme", "http"),
		HEADER(":path", request->method), HEADER(":authority", "localhost"),
		HEADER("te", "trailers"), HEADER("content-type", "application/grpc"),
		HEADER("user-agent", "headroom"), HEADER("grpc-timeout", timeout),
		HEADER("containerd-namespace", namespace ? namespace : ""), /* may be left out */
	};

	exchange->stream = nghttp2_submit_request(grpc->session, NULL, headers,
		ARRAY_SIZE(headers) - (namespace ? 0 : 1), &body, NULL);
	return exchange->stream < 0 ? -ENOMEM : 0;
}

/* One try. -EAGAIN: the server has not begun the call, and may on another connection. */
static int try_call(struct grpc *grpc, const struct wait *wait, struct exchange *exchange)
{
	struct grpc_response *response = &exchange->response;
	int r = ensure_connected(grpc, wait);

	if (r == 0)
		r = submit(grpc, wait, exchange);
	if (r < 0)
		return fail_wait(response, r);
	grpc->exchange = exchange;
	r = run_exchange(grpc, wait, exchange);
	grpc->exchange = NULL;
	if (r == 0 && exchange->refused)
		return -EAGAIN;
	return r < 0 ? r : grpc_response_result(response, exchange->error);
}

/* What may stand in a header. */
static bool is_plain(const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return len > 0 && len < METHOD_MAX;
}

int grpc_unary(struct grpc *grpc, const struct wait *wait, const struct grpc_request *request,
	struct arena *arena, struct grpc_answer *answer)
{
	size_t size = GRPC_PREFIX_LEN + request->size;
	_cleanup_free_ uint8_t *body = calloc(1, size);
	struct exchange exchange;
	int r = -EAGAIN;

	if (request->method[0] != '/' || !is_plain(request->method) || request->size > UINT32_MAX ||
		(request->containerd_namespace && !is_plain(request->containerd_namespace)))
		return -EINVAL;
	if (!body)
		return -ENOMEM;
	for (int i = 0; i < 4; i++)
		body[1 + i] = (uint8_t)(request->size >> (24 - 8 * i));
	if (request->size > 0)
		memcpy(body + GRPC_PREFIX_LEN, request->message, request->size);
	for (int i = 0; i < 2 && r == -EAGAIN; i++) {
		exchange = (struct exchange){.request = request, .body = body, .size = size};
		grpc_response_init(&exchange.response, arena, request->answer_max);
		r = try_call(grpc, wait, &exchange);
		/* Without a connection the server gives up the call, and what is left of it. */
		if (!exchange.ended || exchange.error || exchange.sent < size)
			disconnect(grpc);
	}
	if (r == -EAGAIN)
		r = grpc_response_fail(&exchange.response, -ECONNRESET, "the call was refused");
	if (r == 0)
		*answer = (struct grpc_answer){exchange.response.data, exchange.response.size};
	else
		snprintf(grpc->error, sizeof(grpc->error), "%s%s%s",
			grpc_status_name(grpc_status_of(r)), exchange.response.text[0] ? ": " : "",
			exchange.response.text);
	return r;
}

int grpc_open(const char *path, struct grpc **ret)
{
	struct grpc *grpc = calloc(1, sizeof(*grpc) + strlen(path) + 1);

	if (!grpc)
		return -ENOMEM;
	grpc->fd = -1;
	strcpy(grpc->path, path);
	*ret = grpc;
	return 0;
}

void grpc_close(struct grpc *grpc)
{
	disconnect(grpc);
	free(grpc);
}

int grpc_refuse_answer(struct grpc *grpc)
{
	copy_text(grpc->error, sizeof(grpc->error),
		"INTERNAL: the answer is not what the API says, or far too large");
	return -EBADMSG;
}

const char *grpc_error(const struct grpc *grpc)
{
	return grpc->error;
}

pid_t grpc_peer(const struct grpc *grpc)
{
	return grpc->peer;
}
