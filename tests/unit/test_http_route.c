/* SPDX-License-Identifier: Apache-2.0 */
#include "http_bench.h"

static void serves_routes(void **state)
{
	static const struct {
		const char *request, *part;
	} routes[] = {
		{"GET /livez HTTP/1.1" END, "\r\n\r\nok\n"},
		{"GET /healthz HTTP/1.1" END, "\r\n\r\nok\n"},
		{"GET /readyz HTTP/1.1" END, "\r\n\r\nok\n"},
		{"GET /readyz?verbose HTTP/1.1" END, "[+] neighbor: active\n"},
		{"GET /health HTTP/1.1" END, "{\"status\":\"warning\""},
		{"GET /metrics HTTP/1.1" END, "text/plain; version=0.0.4; charset=utf-8\r\n"},
		{"GET /v1/status HTTP/1.1" END, "{\"schema\":1,"},
		{"GET / HTTP/1.1" END, "Content-Security-Policy: default-src 'none'; "},
		{"GET / HTTP/1.1" END, "Content-Type: text/html; charset=utf-8\r\n"},
		{"GET / HTTP/1.1" END, "Cache-Control: no-store\r\n"},
		{"GET / HTTP/1.1" END, "X-Content-Type-Options: nosniff\r\n"},
		{"GET /v1/status HTTP/1.1" END, "Content-Type: application/json\r\n"},
		{"GET /livez HTTP/1.0\r\n\r\n", "\r\n\r\nok\n"},
	};
	struct bench bench;

	(void)state;
	bench_begin(&bench, (struct http_options){0});
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		expect(&bench, routes[i].request, "HTTP/1.", "200 OK");
		expect(&bench, routes[i].request, "HTTP/1.", routes[i].part);
		expect_unix(&bench, routes[i].request, "HTTP/1.", routes[i].part);
	}
	bench_end(&bench);
}

static void answers_head(void **state)
{
	static const char *const paths[] = {
		"/livez", "/readyz", "/health", "/metrics", "/v1/status", "/"};
	struct bench bench;

	(void)state;
	bench_begin(&bench, (struct http_options){0});
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_free_ char *answer = NULL;
		char request[128];

		snprintf(request, sizeof(request), "HEAD %s HTTP/1.1" END, paths[i]);
		answer = ask(&bench, request);
		starts(answer, "HTTP/1.1 200 OK");
		has(answer, "Content-Length: ");
		assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
	}
	bench_end(&bench);
}

static void refuses_what_it_must(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench, (struct http_options){0});
	expect(&bench, "GET /nothing HTTP/1.1" END, "HTTP/1.1 404", "not found");
	expect(&bench, "GET /livez/ HTTP/1.1" END, "HTTP/1.1 404", "");
	expect(&bench, "POST /livez HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect(&bench, "DELETE /metrics HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect(&bench, "PUT /nothing HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect(&bench, "OPTIONS * HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect(&bench, "POST /v1/apply HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect(&bench, "POST /v1/restore HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect(&bench, "GET /v1/apply HTTP/1.1" END, "HTTP/1.1 405", "Allow: POST\r\n");
	expect_unix(&bench, "GET /v1/apply HTTP/1.1" END, "HTTP/1.1 405", "Allow: POST\r\n");
	expect_unix(&bench, "POST /livez HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect_unix(&bench, "POST /nothing HTTP/1.1" END, "HTTP/1.1 404", "");
	expect(&bench, "GET /livez HTTP/1.1\r\n\r\n", "HTTP/1.1 400", ""); /* no Host */
	assert_int_equal(bench.changes, 0);
	bench_end(&bench);
}

static void bounds_requests(void **state)
{
	struct bench bench;
	_cleanup_free_ char *request = malloc(ANSWER_MAX);
	char long_text[32 * 1024];

	(void)state;
	assert_non_null(request);
	memset(long_text, 'a', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	bench_begin(&bench, (struct http_options){0});
	snprintf(request, ANSWER_MAX, "GET /%s HTTP/1.1" END, long_text);
	expect(&bench, request, "HTTP/1.1 4", ""); /* 414, or 431 where the memory ends first */
	snprintf(request, ANSWER_MAX, "GET / HTTP/1.1\r\nX: %s" END, long_text);
	expect(&bench, request, "HTTP/1.1 431", "");
	snprintf(request, ANSWER_MAX, "POST / HTTP/1.1\r\nContent-Length: 4097" END "%.4097s",
		long_text);
	expect(&bench, request, "HTTP/1.1 413", "");
	snprintf(request, ANSWER_MAX,
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked" END "1770\r\n%.6000s\r\n0\r\n\r\n",
		long_text);
	expect(&bench, request, "HTTP/1.1 413", "");
	snprintf(request, ANSWER_MAX, "GET /livez HTTP/1.1\r\nContent-Length: 4096" END "%.4096s",
		long_text);
	expect(&bench, request, "HTTP/1.1 200", "ok");
	bench_end(&bench);
}

static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

static void keeps_alive_and_pipelines(void **state)
{
	struct bench bench;
	_cleanup_free_ char *answer = NULL;
	char buffer[1024];
	int fd;

	(void)state;
	bench_begin(&bench, (struct http_options){0});
	fd = dial(&bench);
	for (int i = 0; i < 3; i++) {
		say(fd, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
		assert_true(recv(fd, buffer, sizeof(buffer), 0) > 0);
	}
	answer = ask_on(fd,
		"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nHEAD / HTTP/1.1\r\nHost: x\r\n\r\n"
		"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\nGET /readyz HTTP/1.1" END);
	assert_int_equal(count(answer, "HTTP/1.1 200"), 3);
	assert_int_equal(count(answer, "HTTP/1.1 404"), 1);
	bench_end(&bench);
}

static void do_late_beat(struct bench *bench)
{
	bench->fake.node.heartbeat_us = now_us() - 11 * USEC_PER_SEC;
}

static void do_unapplied(struct bench *bench)
{
	bench->fake.node.heartbeat_us = now_us();
	bench->fake.node.applied = false;
}

static void tells_health(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench, (struct http_options){0});
	in_loop(&bench, do_late_beat);
	expect(&bench, "GET /livez HTTP/1.1" END, "HTTP/1.1 503", "late");
	in_loop(&bench, do_unapplied);
	expect(&bench, "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
	expect(&bench, "GET /readyz HTTP/1.1" END, "HTTP/1.1 503", "[-] applied");
	expect(&bench, "GET /health HTTP/1.1" END, "HTTP/1.1 200", "warning");
	expect(&bench, "GET /health?strict=0 HTTP/1.1" END, "HTTP/1.1 200", "warning");
	expect(&bench, "GET /health?strict=1 HTTP/1.1" END, "HTTP/1.1 503", "warning");
	bench_end(&bench);
}

static void serves_openmetrics(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench, (struct http_options){0});
	expect(&bench,
		"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0" END,
		"HTTP/1.1 200",
		"Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n");
	expect(&bench, "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text" END,
		"HTTP/1.1 200", "\n# EOF\n");
	bench_end(&bench);
}

static void changes_over_unix(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench, (struct http_options){0});
	expect_unix(&bench, "POST /v1/apply HTTP/1.1" END, "HTTP/1.1 200", "{\"failed\":0}");
	assert_string_equal(bench.only, "(all)");
	expect_unix(&bench, "POST /v1/restore?only=thp HTTP/1.1\r\nContent-Length: 2" END "{}",
		"HTTP/1.1 200", "{\"failed\":0}");
	assert_string_equal(bench.only, "thp");
	assert_int_equal(bench.changes, 2);
	expect_unix(&bench, "POST /v1/apply?only=THP HTTP/1.1" END, "HTTP/1.1 400", "");
	expect_unix(&bench, "POST /v1/apply?only= HTTP/1.1" END, "HTTP/1.1 400", "");
	expect_unix(&bench, "POST /v1/apply?only HTTP/1.1" END, "HTTP/1.1 400", "");
	expect_unix(&bench, "POST /v1/apply?only=a%2fb HTTP/1.1" END, "HTTP/1.1 400", "");
	expect_unix(&bench, "POST /v1/apply?only=abcdefghijklmnopqrstuvwxyzabcdef HTTP/1.1" END,
		"HTTP/1.1 400", "");
	assert_int_equal(bench.changes, 2);
	bench_end(&bench);
}

static void refuses_others(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench, (struct http_options){.admin = getuid() + 1});
	expect_unix(&bench, "POST /v1/apply HTTP/1.1" END, "HTTP/1.1 403", "");
	expect_unix(&bench, "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
	assert_int_equal(bench.changes, 0);
	bench_end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(serves_routes),
		cmocka_unit_test(answers_head),
		cmocka_unit_test(refuses_what_it_must),
		cmocka_unit_test(bounds_requests),
		cmocka_unit_test(keeps_alive_and_pipelines),
		cmocka_unit_test(tells_health),
		cmocka_unit_test(serves_openmetrics),
		cmocka_unit_test(changes_over_unix),
		cmocka_unit_test(refuses_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
