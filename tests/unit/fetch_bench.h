/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FETCH_BENCH_H
#define TESTS_UNIT_FETCH_BENCH_H

/* A fetcher, a server to ask, and what came of a request. */

#include "fake_http.h"

#include "runtime/fetch.h"

#define MIB (1024u * 1024u)

struct bench {
	struct directory directory;
	char socket[PATH_MAX];
	struct fake_http http;
	sd_event *event;
	struct fetcher *fetcher;
};

/* What one request came to. */
struct outcome {
	unsigned int calls, pieces;
	int error, data_returns;
	long status;
	char body[4096], message[256];
	size_t len, streamed;
	struct fetch *to_cancel;
};

static inline void on_done(const struct fetch_result *result, void *userdata)
{
	struct outcome *outcome = userdata;

	outcome->calls++;
	outcome->error = result->error;
	outcome->status = result->status;
	outcome->len = result->len;
	copy_text(outcome->body, sizeof(outcome->body), result->body);
	copy_text(outcome->message, sizeof(outcome->message), result->message);
	fetch_cancel(steal(outcome->to_cancel));
}

static inline int on_data(const char *data, size_t len, void *userdata)
{
	struct outcome *outcome = userdata;
	size_t kept = MIN(len, sizeof(outcome->body) - 1 - MIN(outcome->streamed, 4095u));

	if (outcome->streamed < sizeof(outcome->body) - 1)
		memcpy(outcome->body + outcome->streamed, data, kept);
	outcome->streamed += len;
	outcome->pieces++;
	fetch_cancel(steal(outcome->to_cancel));
	return outcome->data_returns;
}

static inline void bench_open(struct bench *bench, fake_http_fn *serve)
{
	directory_make(&bench->directory);
	directory_path(&bench->directory, "/s", bench->socket);
	fake_http_start_unix(&bench->http, bench->socket, serve, bench);
	assert_int_equal(sd_event_new(&bench->event), 0);
	assert_int_equal(fetcher_open(bench->event, &bench->fetcher), 0);
}

static inline void bench_close(struct bench *bench)
{
	fetcher_close(bench->fetcher);
	sd_event_unref(bench->event);
	fake_http_stop(&bench->http);
	directory_remove(&bench->directory);
}

#define _cleanup_bench_ __attribute__((cleanup(bench_close)))

static inline struct fetch_request a_request(const struct bench *bench, struct outcome *outcome)
{
	return (struct fetch_request){.url = "http://x/path?q=1",
		.unix_socket = bench->socket,
		.deadline_us = 20 * USEC_PER_SEC,
		.limit = MIB,
		.done = on_done,
		.userdata = outcome};
}

static inline void fetch_and_wait(
	struct bench *bench, const struct fetch_request *request, struct outcome *outcome)
{
	assert_int_equal(fetch_start(bench->fetcher, request, NULL), 0);
	assert_int_equal(outcome->calls, 0);
	run_until(bench->event, outcome->calls > 0);
	run_for(bench->event, 20 * USEC_PER_MSEC);
	assert_int_equal(outcome->calls, 1);
}

static inline void serve_echo(int fd, const char *head, void *userdata)
{
	(void)userdata;
	fake_reply(fd, 200, head);
}

#endif
