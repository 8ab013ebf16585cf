/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

HTTP_TEST(each_path_has_its_document)
{
	static const struct {
		const char *request, *part;
	} routes[] = {
		{"GET /healthz HTTP/1.1" END, "\r\n\r\nok\n"},
		{"GET /readyz HTTP/1.1" END, "\r\n\r\nok\n"},
		{"GET /readyz?verbose HTTP/1.1" END, "[+] neighbor: active\n"},
		{"GET /health HTTP/1.1" END, "{\"status\":\"warning\""},
		{"GET /metrics HTTP/1.1" END, "text/plain; version=0.0.4; charset=utf-8\r\n"},
		{"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0" END,
			"Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"},
		{"GET /v1/status HTTP/1.1" END, "{\"schema\":1,"},
		{"GET / HTTP/1.1" END, "Content-Security-Policy: default-src 'none'; "},
		{"GET / HTTP/1.1" END, "Content-Type: text/html; charset=utf-8\r\n"},
		{"GET / HTTP/1.1" END, "X-Content-Type-Options: nosniff\r\n"},
		{"GET /livez HTTP/1.0\r\n\r\n", "\r\n\r\nok\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		expect(routes[i].request, "HTTP/1.", "200 OK");
		expect(routes[i].request, "HTTP/1.", routes[i].part);
		expect_on(dial_unix(), routes[i].request, "HTTP/1.", routes[i].part);
	}
}

HTTP_TEST(wrong_methods_and_paths_are_refused)
{
	expect("GET /livez/ HTTP/1.1" END, "HTTP/1.1 404", "not found");
	expect("DELETE /metrics HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect("PUT /nothing HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect("OPTIONS * HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect("GET /v1/apply HTTP/1.1" END, "HTTP/1.1 405", "Allow: POST\r\n");
	expect_on(dial_unix(), "GET /v1/apply HTTP/1.1" END, "HTTP/1.1 405", "Allow: POST\r\n");
	expect_on(dial_unix(), "POST /livez HTTP/1.1" END, "HTTP/1.1 405", "Allow: GET, HEAD\r\n");
	expect_on(dial_unix(), "POST /nothing HTTP/1.1" END, "HTTP/1.1 404", "");
	expect("GET /livez HTTP/1.1\r\n\r\n", "HTTP/1.1 400", ""); /* no Host */
	assert_int_equal(fixture.changes, 0);
}

HTTP_TEST(requests_are_bounded)
{
	_cleanup_free_ char *request = malloc(ANSWER_MAX), *answer = NULL;
	char long_text[32 * 1024];

	assert_non_null(request);
	memset(long_text, 'a', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	snprintf(request, ANSWER_MAX, "GET /%s HTTP/1.1" END, long_text);
	expect(request, "HTTP/1.1 4", ""); /* 414, or 431 where the memory ends first */
	snprintf(request, ANSWER_MAX, "GET / HTTP/1.1\r\nX: %s" END, long_text);
	expect(request, "HTTP/1.1 431", "");
	snprintf(request, ANSWER_MAX, "POST / HTTP/1.1\r\nContent-Length: 4097" END "%.4097s",
		long_text);
	expect(request, "HTTP/1.1 413", "");
	snprintf(request, ANSWER_MAX,
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked" END "1770\r\n%.6000s\r\n0\r\n\r\n",
		long_text);
	answer = ask_on(dial(), request);
	assert_string_equal(answer, "");
	snprintf(request, ANSWER_MAX, "GET /livez HTTP/1.1\r\nContent-Length: 4096" END "%.4096s",
		long_text);
	expect(request, "HTTP/1.1 200", "ok");
}

static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

HTTP_TEST(connections_are_kept_and_pipelined)
{
	_cleanup_free_ char *answer = NULL;
	char buffer[1024];
	int fd;

	fd = dial();
	for (int i = 0; i < 3; i++) {
		send_text(fd, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
		assert_true(recv(fd, buffer, sizeof(buffer), 0) > 0);
	}
	answer = ask_on(fd,
		"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nHEAD / HTTP/1.1\r\nHost: x\r\n\r\n"
		"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\nGET /readyz HTTP/1.1" END);
	assert_int_equal(count(answer, "HTTP/1.1 200"), 3);
	assert_int_equal(count(answer, "HTTP/1.1 404"), 1);
}

static void do_late_beat(void)
{
	fixture.fake.node.heartbeat_us = now_us() - 11 * USEC_PER_SEC;
}

static void do_unapplied(void)
{
	fixture.fake.node.heartbeat_us = now_us();
	fixture.fake.node.applied = false;
}

HTTP_TEST(health_follows_the_node)
{
	in_loop(do_late_beat);
	expect("GET /livez HTTP/1.1" END, "HTTP/1.1 503", "late");
	in_loop(do_unapplied);
	expect_alive();
	expect("GET /readyz HTTP/1.1" END, "HTTP/1.1 503", "[-] applied");
	expect("GET /health HTTP/1.1" END, "HTTP/1.1 200", "warning");
	expect("GET /health?strict=0 HTTP/1.1" END, "HTTP/1.1 200", "warning");
	expect("GET /health?strict=1 HTTP/1.1" END, "HTTP/1.1 503", "warning");
}

static void do_tick(void)
{
	fixture.fake.node.revision++;
}

static void do_rename(void)
{
	copy_text(fixture.fake.node.name, sizeof(fixture.fake.node.name), "renamed");
}

HTTP_TEST(a_document_is_rendered_once_a_revision)
{
	static const char *const paths[] = {"/", "/v1/status", "/v1/status?pretty"};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		char request[64];

		in_loop(do_tick);
		snprintf(request, sizeof(request), "GET %s HTTP/1.1" END, paths[i]);
		copy_text(fixture.fake.node.name, sizeof(fixture.fake.node.name), "node-1");
		expect(request, "HTTP/1.1 200", "node-1");
		in_loop(do_rename);
		expect(request, "HTTP/1.1 200", "node-1");
		in_loop(do_tick);
		expect(request, "HTTP/1.1 200", "renamed");
	}
}

HTTP_TEST(root_changes_the_node_over_the_socket)
{
	expect_on(dial_unix(), "POST /v1/apply HTTP/1.1" END, "HTTP/1.1 200", "{\"failed\":0}");
	assert_string_equal(fixture.only, "(all)");
	expect_on(dial_unix(), "POST /v1/restore?only=thp HTTP/1.1\r\nContent-Length: 2" END "{}",
		"HTTP/1.1 200", "{\"failed\":0}");
	assert_string_equal(fixture.only, "thp");
	assert_int_equal(fixture.changes, 2);
	expect_on(dial_unix(), "POST /v1/apply?only=THP HTTP/1.1" END, "HTTP/1.1 400", "");
	expect_on(dial_unix(), "POST /v1/apply?only= HTTP/1.1" END, "HTTP/1.1 400", "");
	expect_on(dial_unix(), "POST /v1/apply?only HTTP/1.1" END, "HTTP/1.1 400", "");
	expect_on(dial_unix(), "POST /v1/apply?only=a%2fb HTTP/1.1" END, "HTTP/1.1 400", "");
	expect_on(dial_unix(), "POST /v1/apply?only=abcdefghijklmnopqrstuvwxyzabcdef HTTP/1.1" END,
		"HTTP/1.1 400", "");
	assert_int_equal(fixture.changes, 2);
}

HTTP_TEST(others_change_nothing)
{
	fixture.local->admin = getuid() + 1;
	expect_on(dial_unix(), "POST /v1/apply HTTP/1.1" END, "HTTP/1.1 403", "");
	expect_on(dial_unix(), "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
	assert_int_equal(fixture.changes, 0);
}

TEST(the_accept_header_is_negotiated)
{
	static const struct {
		const char *accept;
		bool openmetrics;
	} cases[] = {
		{NULL, false},
		{"", false},
		{"*/*", false},
		{"text/plain", false},
		{"text/html,application/xhtml+xml,*/*;q=0.8", false},
		{"application/openmetrics-text", true},
		{"Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", true},
		{"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version="
		 "0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
			true},
		{"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;"
		 "version=0.0.4;q=0.3,*/*;q=0.2",
			true},
		{"application/openmetrics-text;version=0.0.1", false},
		{"application/openmetrics-text;q=0", false},
		{"application/openmetrics-text;q=0.3,text/plain;q=0.5", false},
		{"application/openmetrics-text;q=0.3,text/*;q=0.5,text/plain;q=0.1", true},
		{";,;q=,,", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (http_accepts_openmetrics(cases[i].accept) != cases[i].openmetrics)
			fail_msg("%s", cases[i].accept);
}
