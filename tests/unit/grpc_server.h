/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A gRPC server whose serve() answers well, badly or never. fake_http.h reads the preface of HTTP/2
 * as a request of HTTP/1.
 */

#include "fake_http.h"

#include "runtime/grpc_client.h"

#include <nghttp2/nghttp2.h>

struct server_call {
	struct grpc_server *server;
	nghttp2_session *session;
	int32_t stream;
	char path[128], namespace[64], timeout[16];
	uint8_t body[16384]; /* the request with its prefix, cut to this size */
	size_t body_len;
	bool complete;   /* the whole request is here */
	bool unfinished; /* announces more bytes and never sends them */
	bool drop;       /* the connection is closed once the answer is sent */
	uint8_t *out;    /* the answer with its prefix; owned */
	size_t out_len, out_sent;
	char status[16]; /* in the trailers; empty: no trailers */
};

struct grpc_server {
	struct fake_http http;
	char path[PATH_MAX];
	/* Called for each request's headers and again when it is complete. */
	void (*serve)(struct server_call *call, void *userdata);
	void *userdata;
};

static inline int server_on_begin(
	nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct server_call *call = userdata;

	free(call->out);
	*call = (struct server_call){
		.server = call->server, .session = session, .stream = frame->hd.stream_id};
	return 0;
}

static inline int server_on_header(nghttp2_session *, const nghttp2_frame *, const uint8_t *name,
	size_t, const uint8_t *value, size_t, uint8_t, void *userdata)
{
	struct server_call *call = userdata;

	if (streq((const char *)name, ":path"))
		set_text(call->path, (const char *)value);
	else if (streq((const char *)name, "containerd-namespace"))
		set_text(call->namespace, (const char *)value);
	else if (streq((const char *)name, "grpc-timeout"))
		set_text(call->timeout, (const char *)value);
	return 0;
}

static inline int server_on_data(
	nghttp2_session *, uint8_t, int32_t, const uint8_t *data, size_t len, void *userdata)
{
	struct server_call *call = userdata;
	size_t n = MIN(len, sizeof(call->body) - call->body_len);

	memcpy(call->body + call->body_len, data, n);
	call->body_len += n;
	return 0;
}

static inline int server_on_frame(nghttp2_session *, const nghttp2_frame *frame, void *userdata)
{
	struct server_call *call = userdata;

	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	call->complete = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	if (frame->hd.type == NGHTTP2_HEADERS || call->complete)
		call->server->serve(call, call->server->userdata);
	return 0;
}

static inline nghttp2_nv server_header(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

static inline ssize_t server_read(nghttp2_session *session, int32_t stream, uint8_t *buffer,
	size_t length, uint32_t *flags, nghttp2_data_source *, void *userdata)
{
	struct server_call *call = userdata;
	size_t n = MIN(length, call->out_len - call->out_sent);
	const nghttp2_nv trailer = server_header("grpc-status", call->status);

	memcpy(buffer, call->out + call->out_sent, n);
	call->out_sent += n;
	if (call->out_sent < call->out_len)
		return (ssize_t)n;
	if (call->unfinished)
		return n > 0 ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (call->status[0]) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		nghttp2_submit_trailer(session, stream, &trailer, 1);
	}
	return (ssize_t)n;
}

/* Answers with headers, these bytes, and trailers if status is not empty. */
static inline void server_answer_raw(
	struct server_call *call, const void *data, size_t len, const char *status)
{
	const nghttp2_nv headers[] = {
		server_header(":status", "200"), server_header("content-type", "application/grpc")};
	nghttp2_data_provider body = {.read_callback = server_read};

	call->out = malloc(len + 1);
	memcpy(call->out, data, len);
	call->out_len = len;
	set_text(call->status, status);
	nghttp2_submit_response(call->session, call->stream, headers, ARRAY_SIZE(headers), &body);
}

/* Answers with a message and status 0. */
static inline void server_answer(struct server_call *call, const void *data, size_t len)
{
	_cleanup_free_ uint8_t *message = calloc(1, 5 + len);

	for (int i = 0; i < 4; i++)
		message[1 + i] = (uint8_t)(len >> (24 - 8 * i));
	if (len > 0)
		memcpy(message + 5, data, len);
	server_answer_raw(call, message, 5 + len, "0");
}

/* Answers with headers only: an HTTP status and, unless NULL, a gRPC status. */
static inline void server_answer_status(
	struct server_call *call, const char *http, const char *status)
{
	const nghttp2_nv headers[] = {server_header(":status", http),
		server_header("content-type", "application/grpc"),
		server_header(status ? "grpc-status" : "server", status ? status : "x")};

	nghttp2_submit_response(call->session, call->stream, headers, ARRAY_SIZE(headers), NULL);
}

/* False when the client has gone. */
static inline bool server_send(nghttp2_session *session, int fd)
{
	const uint8_t *data;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(session, &data)) > 0)
		if (send(fd, data, (size_t)n, MSG_NOSIGNAL) != n)
			return false;
	return true;
}

static inline void server_serve(int fd, const char *head, void *userdata)
{
	struct server_call *call = calloc(1, sizeof(*call));
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session;
	uint8_t buffer[16384];
	ssize_t n = (ssize_t)strlen(head);

	call->server = userdata;
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, server_on_begin);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, server_on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, server_on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, server_on_frame);
	nghttp2_session_server_new(&session, callbacks, call);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(session, 0, NULL, 0);
	memcpy(buffer, head, (size_t)n);
	while (n > 0 && nghttp2_session_mem_recv(session, buffer, (size_t)n) == n &&
		server_send(session, fd) && !call->drop)
		n = recv(fd, buffer, sizeof(buffer), 0);
	nghttp2_session_del(session);
	free(call->out);
	free(call);
}

static inline void server_start(struct grpc_server *server)
{
	fake_http_start_unix(&server->http, server->path, server_serve, server);
}

static inline void server_stop(struct grpc_server *server)
{
	fake_http_stop(&server->http);
	unlink(server->path);
}

/* A server and its client in a temporary directory. */
struct grpc_fixture {
	struct directory directory;
	struct grpc_server server;
	struct grpc grpc;
	struct wait wait;
	struct arena arena;
	struct grpc_answer answer; /* in the arena */
};

static inline void grpc_fixture_make(struct grpc_fixture *fixture,
	void (*serve)(struct server_call *call, void *userdata), void *userdata)
{
	*fixture = (struct grpc_fixture){.server = {.serve = serve, .userdata = userdata},
		.wait = {now_us() + 20 * USEC_PER_SEC, -1}};
	directory_make(&fixture->directory);
	directory_path(&fixture->directory, "/s.sock", fixture->server.path);
	grpc_open(&fixture->grpc, fixture->server.path);
}

static inline void grpc_fixture_remove(struct grpc_fixture *fixture)
{
	grpc_close(&fixture->grpc);
	arena_free(&fixture->arena);
	directory_remove(&fixture->directory);
}
