/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_http.h"

#include "runtime/fetch.h"

#include <fcntl.h>
#include <netdb.h>
#include <semaphore.h>

#define MIB (1024u * 1024u)

struct bench {
	struct folder folder;
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

static void on_done(const struct fetch_result *result, void *userdata)
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

static int on_data(const char *data, size_t len, void *userdata)
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

static void bench_open(struct bench *bench, fake_http_fn *serve)
{
	folder_make(&bench->folder);
	folder_path(&bench->folder, "/s", bench->socket);
	fake_http_start_unix(&bench->http, bench->socket, serve, bench);
	assert_int_equal(sd_event_new(&bench->event), 0);
	assert_int_equal(fetcher_open(bench->event, &bench->fetcher), 0);
}

static void bench_close(struct bench *bench)
{
	fetcher_close(bench->fetcher);
	sd_event_unref(bench->event);
	fake_http_stop(&bench->http);
	folder_remove(&bench->folder);
}

#define _cleanup_bench_ __attribute__((cleanup(bench_close)))

static struct fetch_request a_request(const struct bench *bench, struct outcome *outcome)
{
	return (struct fetch_request){.url = "http://x/path?q=1",
		.unix_socket = bench->socket,
		.deadline_us = 20 * USEC_PER_SEC,
		.limit = MIB,
		.done = on_done,
		.userdata = outcome};
}

static void fetch_and_wait(
	struct bench *bench, const struct fetch_request *request, struct outcome *outcome)
{
	assert_int_equal(fetch_start(bench->fetcher, request, NULL), 0);
	assert_int_equal(outcome->calls, 0);
	run_until(bench->event, outcome->calls > 0);
	run_for(bench->event, 20 * USEC_PER_MSEC);
	assert_int_equal(outcome->calls, 1);
}

static void serve_echo(int fd, const char *head, void *userdata)
{
	(void)userdata;
	fake_reply(fd, 200, head);
}

static void collects_an_answer(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {0};
	struct fetch_request request;

	(void)state;
	bench_open(&bench, serve_echo);
	request = a_request(&bench, &outcome);
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.status, 200);
	assert_true(starts_with(outcome.body, "GET /path?q=1 HTTP/1.1\r\n"));
	assert_non_null(strstr(outcome.body, "User-Agent: headroom/"));
	assert_null(strstr(outcome.body, "Authorization"));
	assert_int_equal(outcome.len, strlen(outcome.body));
	assert_string_equal(outcome.message, "");
}

static void serve_status(int fd, const char *head, void *userdata)
{
	(void)userdata;
	if (starts_with(head, "HEAD"))
		fake_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n");
	else if (starts_with(head, "POST"))
		fake_reply(fd, 201, "made");
	else
		fake_send(fd, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
			      "Content-Length: 0\r\n\r\n");
}

static void has_methods_and_follows_nowhere(void **state)
{
	static const struct {
		const char *method;
		long status;
		const char *body;
	} cases[] = {{"HEAD", 200, ""}, {"POST", 201, "made"}, {"GET", 302, ""}};
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_open(&bench, serve_status);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct outcome outcome = {0};
		struct fetch_request request = a_request(&bench, &outcome);

		request.method = cases[i].method;
		fetch_and_wait(&bench, &request, &outcome);
		assert_int_equal(outcome.error, 0);
		assert_int_equal(outcome.status, cases[i].status);
		assert_string_equal(outcome.body, cases[i].body);
	}
}

static void heeds_no_proxy_and_no_password(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct fake_http tcp;
	struct outcome outcome = {0};
	struct fetch_request request;
	char url[64];

	(void)state;
	bench_open(&bench, serve_echo);
	fake_http_start_tcp(&tcp, serve_echo, NULL);
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/", tcp.port);
	request = a_request(&bench, &outcome);
	request.unix_socket = NULL;
	request.url = url;
	fetch_and_wait(&bench, &request, &outcome);
	unsetenv("http_proxy");
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.status, 200);

	outcome = (struct outcome){0};
	request.url = "http://user:secret@127.0.0.1/";
	if (fetch_start(bench.fetcher, &request, NULL) == 0) {
		run_until(bench.event, outcome.calls > 0);
		assert_int_equal(outcome.error, -EPROTO);
	}
	outcome = (struct outcome){0};
	request.url = "file:///etc/passwd";
	if (fetch_start(bench.fetcher, &request, NULL) == 0) {
		run_until(bench.event, outcome.calls > 0);
		assert_int_equal(outcome.error, -EPROTO);
	}
	assert_int_equal(tcp.requests, 1);
	fake_http_stop(&tcp);
}

static void serve_chunks(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_begin_chunks(fd);
	fake_chunk(fd, "one ");
	fake_chunk(fd, "two ");
	fake_chunk(fd, "three");
	fake_chunk(fd, "");
}

static void streams_an_answer(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {0};
	struct fetch_request request;

	(void)state;
	bench_open(&bench, serve_chunks);
	request = a_request(&bench, &outcome);
	request.data = on_data;
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.streamed, strlen("one two three"));
	assert_int_equal(outcome.len, outcome.streamed);
	assert_string_equal(outcome.body, ""); /* of the result: it was streamed */
}

static void ends_a_stream_with_its_owners_error(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {.data_returns = -EBADMSG};
	struct fetch_request request;

	(void)state;
	bench_open(&bench, serve_chunks);
	request = a_request(&bench, &outcome);
	request.data = on_data;
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, -EBADMSG);
	assert_int_equal(outcome.pieces, 1);
}

static void serve_refusal(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_reply(fd, 500, "{\"message\":\"no\"}");
}

static void collects_a_refusal_instead_of_streaming_it(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {0};
	struct fetch_request request;

	(void)state;
	bench_open(&bench, serve_refusal);
	request = a_request(&bench, &outcome);
	request.data = on_data;
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.status, 500);
	assert_int_equal(outcome.pieces, 0);
	assert_string_equal(outcome.body, "{\"message\":\"no\"}");
}

static void serve_hang(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_wait(fd);
}

static void serve_trickle(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_begin_chunks(fd);
	for (;;) {
		if (send(fd, "1\r\nx\r\n", 6, MSG_NOSIGNAL) < 0)
			return;
		usleep(5000);
	}
}

static void has_a_deadline(void **state)
{
	fake_http_fn *const serves[] = {serve_hang, serve_trickle};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(serves); i++) {
		_cleanup_bench_ struct bench bench;
		struct outcome outcome = {0};
		struct fetch_request request;

		bench_open(&bench, serves[i]);
		request = a_request(&bench, &outcome);
		request.deadline_us = 100 * USEC_PER_MSEC;
		fetch_and_wait(&bench, &request, &outcome);
		assert_int_equal(outcome.error, -ETIMEDOUT);
	}
}

static atomic_size_t taken_mib;

static void serve_flood(int fd, const char *head, void *userdata)
{
	char unit[4097];

	(void)head;
	(void)userdata;
	memset(unit, 'x', 4096);
	unit[4096] = '\0';
	fake_send(fd, "HTTP/1.1 200 OK\r\n\r\n");
	atomic_store(&taken_mib, fake_flood(fd, unit, 100));
}

static void serve_header_flood(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_send(fd, "HTTP/1.1 200 OK\r\n");
	atomic_store(&taken_mib, fake_flood(fd, "X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 100));
}

static void refuses_100_MB(void **state)
{
	static const struct {
		fake_http_fn *serve;
		fetch_data_fn *data;
	} cases[] = {{serve_flood, NULL}, {serve_flood, on_data}, {serve_header_flood, NULL}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bench bench;
		struct outcome outcome = {0};
		struct fetch_request request;

		bench_open(&bench, cases[i].serve);
		request = a_request(&bench, &outcome);
		request.data = cases[i].data;
		fetch_and_wait(&bench, &request, &outcome);
		bench_close(&bench);
		assert_int_equal(outcome.error, -EFBIG);
		assert_string_equal(outcome.message, "the answer is larger than it may be");
		assert_true(outcome.streamed <= MIB);
		assert_true(atomic_load(&taken_mib) < 10);
	}
}

static void serve_death(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
}

static void serve_silence(int fd, const char *head, void *userdata)
{
	(void)fd;
	(void)head;
	(void)userdata;
}

static void serve_garbage(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_send(fd, "\x16\x03\x01 this is no HTTP at all\r\n\r\n\xff\xfe");
}

static void tells_broken_answers_apart(void **state)
{
	static const struct {
		fake_http_fn *serve;
		int error;
	} cases[] = {
		{serve_death, -ECONNRESET}, {serve_silence, -ECONNRESET}, {serve_garbage, -EPROTO}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bench_ struct bench bench;
		struct outcome outcome = {0};
		struct fetch_request request;

		bench_open(&bench, cases[i].serve);
		request = a_request(&bench, &outcome);
		fetch_and_wait(&bench, &request, &outcome);
		assert_int_equal(outcome.error, cases[i].error);
		assert_true(*outcome.message != '\0');
	}
}

static void tells_why_it_could_not_connect(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {0};
	struct fetch_request request;
	char path[PATH_MAX];

	(void)state;
	bench_open(&bench, serve_echo);
	request = a_request(&bench, &outcome);
	folder_path(&bench.folder, "/none", path);
	request.unix_socket = path;
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, -ENOENT);

	/* A socket that nobody listens on any more. */
	outcome = (struct outcome){0};
	folder_path(&bench.folder, "/old", path);
	{
		struct fake_http old;

		fake_http_start_unix(&old, path, serve_echo, NULL);
		fake_http_stop(&old);
	}
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, -ECONNREFUSED);

	outcome = (struct outcome){0};
	request.unix_socket = NULL;
	request.url = "http://127.0.0.1:1/";
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, -ECONNREFUSED);
}

static void cancels_without_a_call(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome cancelled = {0}, canceller = {0};
	struct fetch_request request;
	struct fetch *fetch;

	(void)state;
	bench_open(&bench, serve_hang);
	request = a_request(&bench, &cancelled);
	assert_int_equal(fetch_start(bench.fetcher, &request, &fetch), 0);
	fetch_cancel(fetch);
	assert_int_equal(fetch_start(bench.fetcher, &request, &fetch), 0);
	run_until(bench.event, atomic_load(&bench.http.requests) > 0);
	fetch_cancel(fetch);
	fetch_cancel(NULL);

	/* By the end of another one. */
	assert_int_equal(fetch_start(bench.fetcher, &request, &canceller.to_cancel), 0);
	request.deadline_us = 50 * USEC_PER_MSEC;
	request.userdata = &canceller;
	fetch_and_wait(&bench, &request, &canceller);
	assert_null(canceller.to_cancel);
	/* And by the end of the fetcher: bench_close. */
	request.userdata = &cancelled;
	assert_int_equal(fetch_start(bench.fetcher, &request, NULL), 0);
	assert_int_equal(cancelled.calls, 0);
}

static void cancels_itself_while_streaming(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct outcome outcome = {0};
	struct fetch_request request;

	(void)state;
	bench_open(&bench, serve_chunks);
	request = a_request(&bench, &outcome);
	request.data = on_data;
	assert_int_equal(fetch_start(bench.fetcher, &request, &outcome.to_cancel), 0);
	run_until(bench.event, outcome.pieces > 0);
	run_for(bench.event, 50 * USEC_PER_MSEC);
	assert_int_equal(outcome.pieces, 1);
	assert_int_equal(outcome.calls, 0);
}

static char received[3 * MIB];
static atomic_size_t received_len;

static void serve_upload(int fd, const char *head, void *userdata)
{
	const char *length = strstr(head, "Content-Length: ");
	size_t wanted = length ? strtoul(length + 16, NULL, 10) : 0, len = 0;

	(void)userdata;
	while (len < wanted && len < sizeof(received)) {
		ssize_t n = recv(fd, received + len, sizeof(received) - len, 0);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	atomic_store(&received_len, len);
	fake_reply(fd, strstr(head, "Content-Type: application/x-tar\r\n") ? 200 : 400, "taken");
}

static void sends_a_file(void **state)
{
	_cleanup_bench_ struct bench bench;
	_cleanup_free_ char *data = malloc(2 * MIB);
	_cleanup_close_ int fd = -1;
	struct outcome outcome = {0};
	struct fetch_request request;
	char path[PATH_MAX];

	(void)state;
	bench_open(&bench, serve_upload);
	for (size_t i = 0; i < 2 * MIB; i++)
		data[i] = (char)(i * 7 + i / 4096);
	folder_put_bytes(&bench.folder, "/file", data, 2 * MIB);
	folder_path(&bench.folder, "/file", path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(lseek(fd, 100, SEEK_SET), 100);
	/* Nothing of it in memory, as far as the file system lets go. */
	assert_int_equal(fsync(fd), 0);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	request = a_request(&bench, &outcome);
	request.method = "POST";
	request.body_fd = fd;
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, 0);
	assert_int_equal(outcome.status, 200);
	assert_int_equal(received_len, 2 * MIB - 100);
	assert_memory_equal(received, data + 100, 2 * MIB - 100);
}

/* libcurl's thread asks here for names: nobody answers until the test says so. */
static sem_t resolver_may_go;
static atomic_uint resolving;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
	struct addrinfo **result)
{
	(void)node;
	(void)service;
	(void)hints;
	(void)result;
	atomic_fetch_add(&resolving, 1);
	sem_wait(&resolver_may_go);
	atomic_fetch_sub(&resolving, 1);
	return EAI_FAIL;
}

static void waits_for_no_resolver(void **state)
{
	struct bench bench;
	struct outcome outcome = {0}, other = {0};
	struct fetch_request request;

	(void)state;
	assert_int_equal(sem_init(&resolver_may_go, 0, 0), 0);
	bench_open(&bench, serve_echo);
	request = a_request(&bench, &outcome);
	request.unix_socket = NULL;
	request.url = "http://mirror.example/";
	request.deadline_us = 100 * USEC_PER_MSEC;
	fetch_and_wait(&bench, &request, &outcome);
	assert_int_equal(outcome.error, -ETIMEDOUT);
	/* One more is under way when the fetcher closes. */
	request.userdata = &other;
	request.deadline_us = 20 * USEC_PER_SEC;
	assert_int_equal(fetch_start(bench.fetcher, &request, NULL), 0);
	run_until(bench.event, atomic_load(&resolving) == 2);
	bench_close(&bench);
	assert_int_equal(other.calls, 0);
	assert_int_equal(atomic_load(&resolving), 2);
	sem_post(&resolver_may_go);
	sem_post(&resolver_may_go);
	while (atomic_load(&resolving) > 0)
		usleep(1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collects_an_answer),
		cmocka_unit_test(has_methods_and_follows_nowhere),
		cmocka_unit_test(heeds_no_proxy_and_no_password),
		cmocka_unit_test(streams_an_answer),
		cmocka_unit_test(ends_a_stream_with_its_owners_error),
		cmocka_unit_test(collects_a_refusal_instead_of_streaming_it),
		cmocka_unit_test(has_a_deadline),
		cmocka_unit_test(refuses_100_MB),
		cmocka_unit_test(tells_broken_answers_apart),
		cmocka_unit_test(tells_why_it_could_not_connect),
		cmocka_unit_test(cancels_without_a_call),
		cmocka_unit_test(cancels_itself_while_streaming),
		cmocka_unit_test(sends_a_file),
		cmocka_unit_test(waits_for_no_resolver),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
