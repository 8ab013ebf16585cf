/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/grpc_client.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PREFIX_LEN 5 /* a compression flag and the message's length */
#define READ_SIZE  ((size_t)16384)

/* Bytes in flight, by HTTP/2 flow control. */
#define STREAM_WINDOW     (1 << 20)
#define CONNECTION_WINDOW (4 << 20)

#define OVERHEAD_MAX     ((size_t)1024 * 1024) /* headers, control frames and padding */
#define HEADERS_MAX      (64 * 1024)
#define CONNECT_AGAIN_US (20 * USEC_PER_MSEC) /* when the server's backlog is full */
#define GRACE_S          2                    /* added to the server's own time limit */
#define TIMEOUT_MAX_S    UINT64_C(99999999)
#define ALIGNMENT        ((size_t)16) /* in an arena */

struct grpc_call {
	uint8_t *body; /* the message with its prefix */
	size_t size, sent;
	int32_t stream;
	size_t received;      /* bytes, overhead included */
	bool ended;           /* the answer is complete, or the stream was closed */
	uint32_t http2_error; /* why the stream was closed: RFC 9113, section 7 */
	unsigned http_status; /* 0: not received yet */
	int status;           /* grpc-status; -1: not received yet */
	int fault;            /* -errno of an invalid answer */

	uint8_t prefix[PREFIX_LEN];
	size_t have_prefix;
	struct arena *arena;
	uint8_t *data; /* in the arena */
	size_t data_size, have;
};

/* ---- the answer ---- */

/* Notes and returns the first fault. */
static int PRINTF_LIKE(3, 4) fail(struct grpc *grpc, int fault, const char *format, ...)
{
	va_list args;

	if (grpc->call->fault != 0)
		return grpc->call->fault;
	grpc->call->fault = fault;
	va_start(args, format);
	vsnprintf(grpc->error, sizeof(grpc->error), format, args);
	va_end(args);
	return fault;
}

/* Returns the call in progress if the stream belongs to it, else NULL. */
static struct grpc_call *call_of(const struct grpc *grpc, int32_t stream)
{
	return grpc->call && grpc->call->stream == stream ? grpc->call : NULL;
}

/* nghttp2 terminates names and values, and refuses zero bytes in them. */
static int on_header(nghttp2_session *, const nghttp2_frame *frame, const uint8_t *name_data,
	size_t, const uint8_t *data, size_t, uint8_t, void *userdata)
{
	const char *name = (const char *)name_data, *value = (const char *)data;
	struct grpc *grpc = userdata;
	struct grpc_call *call = call_of(grpc, frame->hd.stream_id);
	uint64_t number;

	if (!call || call->fault != 0)
		return 0;
	if (streq(name, ":status")) {
		call->http_status = (unsigned)atoi(value); /* nghttp2 ensures three digits */
	} else if (streq(name, "grpc-status")) {
		if (parse_count(value, &number) < 0 || number > GRPC_STATUS_MAX)
			number = GRPC_UNKNOWN;
		call->status = (int)number;
	} else if (streq(name, "grpc-message")) {
		/* percent-encoded */
		char *decoded = must(curl_easy_unescape(NULL, value, 0, NULL));

		set_text(grpc->error, decoded);
		text_make_printable(grpc->error);
		curl_free(decoded);
	}
	return 0;
}

static int on_data(
	nghttp2_session *, uint8_t, int32_t stream, const uint8_t *data, size_t len, void *userdata)
{
	struct grpc_call *call = call_of(userdata, stream);
	uint32_t size;
	size_t n;

	/* Another status is from a proxy or a different server. */
	if (!call || call->fault != 0 || call->http_status != 200)
		return 0;
	n = MIN(len, PREFIX_LEN - call->have_prefix);
	memcpy(call->prefix + call->have_prefix, data, n);
	call->have_prefix += n;
	if (n > 0 && call->have_prefix == PREFIX_LEN) {
		memcpy(&size, call->prefix + 1, sizeof(size));
		call->data_size = ntohl(size);
		if (call->prefix[0] == 0 && call->data_size <= GRPC_ANSWER_MAX)
			call->data = arena_alloc(call->arena, MAX(call->data_size, (size_t)1));
	}
	len -= n;
	if (call->have_prefix < PREFIX_LEN)
		return 0;
	if (call->prefix[0] != 0) {
		fail(userdata, -EBADMSG, "the answer is compressed");
	} else if (call->data_size > GRPC_ANSWER_MAX) {
		fail(userdata, -EFBIG, "an answer of %zu bytes, the limit is %zu", call->data_size,
			GRPC_ANSWER_MAX);
	} else if (!call->data) {
		fail(userdata, -ENOMEM, "no memory for an answer of %zu bytes", call->data_size);
	} else if (len > call->data_size - call->have) {
		fail(userdata, -EBADMSG, "more than one message in the answer");
	} else if (len > 0) {
		memcpy(call->data + call->have, data + n, len);
		call->have += len;
	}
	return 0;
}

/* Returns 0, the server's status, or the fault of a call that has ended. */
static int result_of(struct grpc *grpc)
{
	const struct grpc_call *call = grpc->call;

	if (call->fault != 0)
		return call->fault;
	if (call->status > 0)
		return call->status;
	if (call->status < 0 && call->http2_error != NGHTTP2_NO_ERROR)
		return fail(grpc, -ECONNRESET, "the call was reset: %s",
			nghttp2_http2_strerror(call->http2_error));
	if (call->status < 0 && call->http_status != 200)
		return fail(grpc, -EPROTO, "HTTP status %u", call->http_status);
	if (call->status < 0)
		return fail(grpc, -EBADMSG, "the answer lacks a status");
	if (call->have_prefix < PREFIX_LEN || call->have < call->data_size)
		return fail(grpc, -EBADMSG, "the answer is truncated");
	return 0;
}

/* ---- the connection ---- */

static int on_frame(nghttp2_session *, const nghttp2_frame *frame, void *userdata)
{
	struct grpc_call *call = call_of(userdata, frame->hd.stream_id);

	/* A server may answer before it has read the whole request. */
	if (call && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
		frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		call->ended = true;
	return 0;
}

static int on_stream_close(nghttp2_session *, int32_t stream, uint32_t error, void *userdata)
{
	struct grpc_call *call = call_of(userdata, stream);

	if (call && !call->ended) {
		call->ended = true;
		call->http2_error = error;
	}
	return 0;
}

static ssize_t read_body(nghttp2_session *, int32_t stream, uint8_t *buffer, size_t length,
	uint32_t *flags, nghttp2_data_source *, void *userdata)
{
	struct grpc_call *call = call_of(userdata, stream);
	size_t n;

	if (!call)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* reset an ended call */
	n = MIN(length, call->size - call->sent);
	memcpy(buffer, call->body + call->sent, n);
	call->sent += n;
	if (call->sent == call->size)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

/* After a send error, still read what the server sent before: it may tell why. */
static ssize_t send_bytes(nghttp2_session *, const uint8_t *data, size_t len, int, void *userdata)
{
	const struct grpc *grpc = userdata;
	ssize_t n = send(grpc->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	return n < 0 ? NGHTTP2_ERR_WOULDBLOCK : n;
}

/*
 * Connects by a descriptor of the socket, because its path may be longer than sun_path. connect()
 * fails with EAGAIN while the server's backlog is full.
 */
static int open_connection(struct grpc *grpc, const struct wait *wait)
{
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX},
	};
	_cleanup_close_ int file = open(grpc->path, O_PATH | O_CLOEXEC);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	nghttp2_session_callbacks *callbacks = NULL;
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
	nghttp2_session_callbacks_new(&callbacks);
	must(callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_send_callback(callbacks, send_bytes);
	nghttp2_session_client_new(&grpc->session, callbacks, grpc);
	must(grpc->session);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(grpc->session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
	nghttp2_session_set_local_window_size(
		grpc->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
	return 0;
}

/* ---- the call ---- */

#define HEADER(n, v) \
	{(uint8_t *)(n), (uint8_t *)(v), sizeof(n) - 1, strlen(v), NGHTTP2_NV_FLAG_NO_COPY_NAME}

static void submit(struct grpc *grpc, const struct wait *wait, const struct grpc_request *request)
{
	const char *namespace = request->containerd_namespace, *lease = request->containerd_lease;
	nghttp2_data_provider body = {.read_callback = read_body};
	uint64_t now = now_us();
	/* Our own time-out comes first: a server's resets the call without a reason. */
	uint64_t left_s = (MAX(wait->deadline_us, now) - now) / USEC_PER_SEC;
	char timeout[16]; /* has eight digits at most */

	snprintf(timeout, sizeof(timeout), "%uS", (unsigned)MIN(left_s + GRACE_S, TIMEOUT_MAX_S));
	nghttp2_nv headers[10] = {
		HEADER(":method", "POST"),
		HEADER(":scheme", "http"),
		HEADER(":path", request->method),
		HEADER(":authority", "localhost"),
		HEADER("te", "trailers"),
		HEADER("content-type", "application/grpc"),
		HEADER("user-agent", "headroom"),
		HEADER("grpc-timeout", timeout),
	};
	size_t n = 8;

	if (namespace)
		headers[n++] = (nghttp2_nv)HEADER("containerd-namespace", namespace);
	if (lease)
		headers[n++] = (nghttp2_nv)HEADER("containerd-lease", lease);
	grpc->call->stream = nghttp2_submit_request(grpc->session, NULL, headers, n, &body, NULL);
}

static void receive(struct grpc *grpc)
{
	struct grpc_call *call = grpc->call;
	uint8_t buffer[READ_SIZE];
	ssize_t n = recv(grpc->fd, buffer, sizeof(buffer), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	call->received += (size_t)MAX(n, (ssize_t)0);
	if (n < 0)
		fail(grpc, -errno, "%s", strerror(errno));
	else if (n == 0)
		fail(grpc, -ECONNRESET, "connection closed");
	else if (call->received > GRPC_ANSWER_MAX + OVERHEAD_MAX)
		fail(grpc, -EFBIG, "the answer is too large");
	else if (nghttp2_session_mem_recv(grpc->session, buffer, (size_t)n) != n)
		fail(grpc, -EPROTO, "the server does not speak HTTP/2");
}

int grpc_unary(struct grpc *grpc, const struct wait *wait, const struct grpc_request *request,
	struct arena *arena, struct grpc_answer *answer)
{
	struct grpc_call call = {.size = PREFIX_LEN + request->size, .status = -1, .arena = arena};
	_cleanup_free_ uint8_t *body = must(calloc(1, call.size));
	const uint32_t size = htonl((uint32_t)request->size);
	int r = 0;

	memcpy(body + 1, &size, sizeof(size));
	if (request->size > 0)
		memcpy(body + PREFIX_LEN, request->message, request->size);
	call.body = body;
	grpc->error[0] = '\0';
	grpc->call = &call;
	/* The server accepts no further calls on this connection. */
	if (grpc->session && !nghttp2_session_check_request_allowed(grpc->session))
		grpc_close(grpc);
	if (grpc->fd < 0)
		r = open_connection(grpc, wait);
	if (r == 0)
		submit(grpc, wait, request);
	while (r == 0 && !call.ended && call.fault == 0) {
		bool want_write;

		r = nghttp2_session_send(grpc->session) < 0 ? -EPROTO : 0;
		if (r < 0 || call.ended)
			break;
		want_write = nghttp2_session_want_write(grpc->session);
		if (!want_write && !nghttp2_session_want_read(grpc->session))
			r = fail(grpc, -EPROTO, "the server violated HTTP/2");
		else
			r = wait_for(wait, grpc->fd, want_write ? POLLIN | POLLOUT : POLLIN);
		if (r == 0)
			receive(grpc);
	}
	if (r < 0)
		fail(grpc, r, "%s", r == -ETIMEDOUT ? "no answer in time" : strerror(-r));
	r = result_of(grpc);
	grpc->call = NULL;
	/* Closing the connection cancels the rest of the call on the server. */
	if (call.fault != 0 || call.http2_error || call.sent < call.size)
		grpc_close(grpc);
	if (r == 0)
		*answer = (struct grpc_answer){call.data, call.data_size};
	return r;
}

void grpc_open(struct grpc *grpc, const char *path)
{
	*grpc = (struct grpc){.path = path, .fd = -1};
}

void grpc_close(struct grpc *grpc)
{
	nghttp2_session_del(grpc->session);
	grpc->session = NULL;
	cleanup_close(&grpc->fd);
	grpc->fd = -1;
}

/* A mapping, unlike the heap, returns the memory of a large answer to the kernel. */
void arena_free(struct arena *arena)
{
	if (arena->memory)
		munmap(arena->memory, ARENA_MAX);
	*arena = (struct arena){0};
}

void *arena_alloc(void *data, size_t size)
{
	struct arena *arena = data;
	size_t start = arena->used;
	void *mapped;

	if (!arena->memory) {
		mapped = mmap(NULL, ARENA_MAX, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (mapped == MAP_FAILED)
			return NULL;
		arena->memory = mapped;
	}
	if (size > ARENA_MAX - start)
		return NULL;
	arena->used = MIN(start + ((size + ALIGNMENT - 1) & ~(ALIGNMENT - 1)), ARENA_MAX);
	return arena->memory + start;
}
