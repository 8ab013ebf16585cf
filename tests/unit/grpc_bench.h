/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_GRPC_BENCH_H
#define TESTS_UNIT_GRPC_BENCH_H

/* A client beside a server whose behaviour the called method names: "/t.T/Echo" answers well. */

#include "grpc_server.h"

/* Far more than anything takes. */
#define SERVER_TIME (20 * USEC_PER_SEC)

struct bench {
	struct directory directory;
	sd_event *event;
	struct server server;
	struct grpc_client *client;
};

/* What a call came to. */
struct outcome {
	unsigned n; /* callbacks */
	enum grpc_status status;
	bool local;
	char message[256];
	uint8_t data[256];
	size_t size;
	unsigned *open;
};

static inline void server_behave(struct server_call *call, void *userdata);

static inline void bench_begin(struct bench *bench)
{
	memset(bench, 0, sizeof(*bench));
	directory_make(&bench->directory);
	assert_true(sd_event_new(&bench->event) >= 0);
	bench->server.event = bench->event;
	bench->server.serve = server_behave;
	bench->server.userdata = bench;
	directory_path(&bench->directory, "/s.sock", bench->server.path);
	assert_int_equal(grpc_client_open(bench->event, bench->server.path, &bench->client), 0);
}

static inline void bench_end(struct bench *bench)
{
	if (bench->client)
		grpc_client_close(bench->client);
	server_stop(&bench->server);
	sd_event_unref(bench->event);
	directory_remove(&bench->directory);
}

static inline void on_done(const struct grpc_result *result, void *userdata)
{
	struct outcome *outcome = userdata;

	outcome->n++;
	outcome->status = result->status;
	outcome->local = result->local;
	outcome->size = result->size;
	copy_text(outcome->message, sizeof(outcome->message), result->message);
	if (result->data)
		memcpy(outcome->data, result->data, MIN(result->size, sizeof(outcome->data)));
}

static inline int ask_for(struct bench *bench, const char *method, const void *message, size_t size,
	uint64_t timeout_us, struct outcome *outcome)
{
	const struct grpc_call call = {
		.method = method,
		.containerd_namespace = "k8s.io",
		.message = message,
		.size = size,
		.timeout_us = timeout_us,
		.limit = 1024 * 1024,
	};

	memset(outcome, 0, sizeof(*outcome));
	return grpc_call(bench->client, &call, on_done, outcome);
}

static inline void wait_for(struct bench *bench, const unsigned *n, unsigned wanted)
{
	uint64_t until = now_us() + SERVER_TIME;

	while (*n < wanted) {
		if (now_us() > until)
			fail_msg("no answer after %u", *n);
		assert_true(sd_event_run(bench->event, USEC_PER_SEC) >= 0);
	}
}

static inline struct outcome ask_within(
	struct bench *bench, const char *method, const char *text, uint64_t timeout_us)
{
	struct outcome outcome;

	assert_int_equal(ask_for(bench, method, text, strlen(text), timeout_us, &outcome), 0);
	assert_int_equal(outcome.n, 0); /* never from inside the call */
	wait_for(bench, &outcome.n, 1);
	assert_int_equal(outcome.n, 1);
	return outcome;
}

static inline struct outcome ask(struct bench *bench, const char *method, const char *text)
{
	return ask_within(bench, method, text, SERVER_TIME);
}

static inline void expect(struct bench *bench, const char *method, const char *text,
	enum grpc_status status, bool local)
{
	struct outcome outcome = ask(bench, method, text);

	if (outcome.status != status || outcome.local != local)
		fail_msg("%s(%s): %s %d, \"%s\"", method, text, grpc_status_name(outcome.status),
			outcome.local, outcome.message);
}

static inline void expect_well(struct bench *bench)
{
	struct outcome outcome = ask(bench, "/t.T/Echo", "hello");

	assert_int_equal(outcome.status, GRPC_OK);
	assert_false(outcome.local);
	assert_int_equal(outcome.size, 5);
	assert_memory_equal(outcome.data, "hello", 5);
}

static inline void answer_http(struct server_call *call, const char *status)
{
	const nghttp2_nv headers[] = {
		server_header(":status", status), server_header("content-type", "text/html")};

	nghttp2_submit_response(
		call->connection->session, call->stream, headers, ARRAY_SIZE(headers), NULL);
}

/* 100 MB announced, and begun. */
static inline void answer_big(struct server_call *call)
{
	static uint8_t data[300000];

	server_prefix(data, 100000000);
	server_answer_raw(call, data, sizeof(data), "0");
}

static inline void server_behave_complete(struct server_call *call, const char *name)
{
	const char *text = (const char *)call->body + 5;
	size_t len = call->body_len - MIN(call->body_len, (size_t)5);
	char word[64] = "";

	memcpy(word, text, MIN(len, sizeof(word) - 1));
	if (streq(name, "Echo"))
		server_answer(call, text, len);
	else if (streq(name, "Namespace"))
		server_answer(call, call->namespace, strlen(call->namespace));
	else if (streq(name, "Timeout"))
		server_answer(call, call->timeout, strlen(call->timeout));
	else if (streq(name, "TrailersOnly"))
		server_answer_status(call, word, "as%20asked%3a%0ano%00%e2%82%ac%ff");
	else if (streq(name, "Trailers"))
		server_answer_raw(call, "", 0, word);
	else if (streq(name, "TrailersAfterMessage"))
		server_answer_raw(call, "\0\0\0\0\1x", 6, word);
	else if (streq(name, "Raw"))
		server_answer_raw(call, text + 1, len - 1, text[0] == '-' ? "" : "0");
	else if (streq(name, "Http"))
		answer_http(call, word);
	else if (streq(name, "Big"))
		answer_big(call);
	else if (streq(name, "Reset"))
		nghttp2_submit_rst_stream(
			call->connection->session, 0, call->stream, (uint32_t)atoi(word));
	else if (streq(name, "Die"))
		call->connection->drop = true;
}

static inline void server_behave(struct server_call *call, void *userdata)
{
	const char *name = call->path + strlen("/t.T/");
	nghttp2_session *session = call->connection->session;

	(void)userdata;
	if (!call->complete && streq(name, "Early")) {
		server_answer_status(call, "8", "no");
		call->reset = true;
	} else if (!call->complete && streq(name, "EarlyWithoutReset")) {
		server_answer_status(call, "9", "no");
	} else if (call->complete && streq(name, "GoAway")) {
		server_answer(call, "bye", 3);
		nghttp2_submit_goaway(session, 0, call->stream, 0, NULL, 0);
	} else if (call->complete && streq(name, "Refuse")) {
		if (call->connection->server->accepted > 1)
			server_answer(call, "second", 6);
		else
			nghttp2_submit_goaway(session, 0, 0, 0, NULL, 0);
	} else if (call->complete && streq(name, "HalfAnswer")) {
		server_answer_raw(call, "\0\0\0\1\0half", 9, "");
		call->unfinished = true;
		call->connection->drop = true;
	} else if (call->complete) {
		server_behave_complete(call, name);
	}
}

#endif
