/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_http.h"

#include "runtime/registry.h"

#include <sys/eventfd.h>

static atomic_int status_to_give;

static void serve_status(int fd, const char *head, void *)
{
	if (!starts_with(head, "GET /v2/ HTTP/1.1\r\n") || strstr(head, "Authorization"))
		fake_reply(fd, 400, "");
	else if (atomic_load(&status_to_give) == 302)
		send_text(fd, "HTTP/1.1 302 X\r\nLocation: /v2/\r\nContent-Length: 0\r\n\r\n");
	else
		fake_reply(fd, atomic_load(&status_to_give), "{}");
}

static void check(struct mirror *mirrors, size_t n, const char *root)
{
	struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};

	mirrors_check(mirrors, n, root, &wait);
}

static struct mirror mirror_at(int port, const char *path)
{
	struct mirror mirror = {0};

	snprintf(mirror.url, sizeof(mirror.url), "http://127.0.0.1:%d%s", port, path);
	return mirror;
}

static struct mirror checked(int port, const char *path)
{
	struct mirror mirror = mirror_at(port, path);

	check(&mirror, 1, "");
	return mirror;
}

TEST(only_200_and_401_are_healthy)
{
	static const struct {
		int status;
		enum mirror_state state;
		const char *why;
	} cases[] = {{200, MIRROR_UP, ""}, {401, MIRROR_UP, ""},
		{302, MIRROR_DOWN, "Maximum (10) redirects followed"},
		{403, MIRROR_DOWN, "GET /v2/ answers 403"},
		{404, MIRROR_DOWN, "GET /v2/ answers 404"},
		{500, MIRROR_DOWN, "GET /v2/ answers 500"}};
	struct fake_http http;

	fake_http_start_tcp(&http, serve_status, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mirror mirror;

		atomic_store(&status_to_give, cases[i].status);
		mirror = checked(http.port, "");
		assert_int_equal(mirror.state, cases[i].state);
		assert_string_equal(mirror.why, cases[i].why);
		assert_true(mirror.due_us > now_us() + 5 * USEC_PER_SEC);
	}
	fake_http_stop(&http);
}

TEST(mirrors_are_checked_at_the_same_time)
{
	struct fake_http hang, flood;
	struct mirror mirrors[4];
	uint64_t start = now_us();

	fake_http_start_tcp(&hang, fake_hang, NULL);
	fake_http_start_tcp(&flood, fake_flood,
		"HTTP/1.1 200 OK\r\n\r\n\0xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	mirrors[0] = mirror_at(hang.port, "");
	mirrors[1] = mirror_at(flood.port, "");
	mirrors[2] = mirror_at(1, "");
	mirrors[3] = mirror_at(hang.port, "/other");
	check(mirrors, ARRAY_SIZE(mirrors), "");
	assert_true(now_us() - start < 3 * USEC_PER_SEC);
	for (size_t i = 0; i < ARRAY_SIZE(mirrors); i++)
		assert_int_equal(mirrors[i].state, MIRROR_DOWN);
	assert_string_equal(mirrors[0].why, "no answer within 2 s");
	assert_string_equal(mirrors[1].why, "the answer is too large");
	assert_string_equal(mirrors[2].why, "Connection refused");
	fake_http_stop(&hang);
	fake_http_stop(&flood);
}

TEST(only_due_mirrors_are_checked_and_cancelling_keeps_the_state)
{
	struct wait wait = {.deadline_us = UINT64_MAX};
	struct mirror mirror;
	struct fake_http http;

	atomic_store(&status_to_give, 200);
	fake_http_start_tcp(&http, serve_status, NULL);
	mirror = checked(http.port, "");
	check(&mirror, 1, "");
	assert_int_equal(atomic_load(&http.requests), 1);
	atomic_store(&http.serve, fake_hang);
	mirror.due_us = 0;
	wait.cancel_fd = eventfd(1, EFD_CLOEXEC);
	mirrors_check(&mirror, 1, "", &wait);
	assert_int_equal(mirror.state, MIRROR_UP);
	assert_int_equal(mirror.due_us, 0);
	close(wait.cancel_fd);
	fake_http_stop(&http);
}

/* An answer against the state is followed by another check after one second. */
TEST(a_state_changes_after_two_answers)
{
	static const struct {
		int status;
		enum mirror_state state;
		bool soon;
	} answers[] = {{200, MIRROR_UP, false}, {500, MIRROR_UP, true}, {200, MIRROR_UP, false},
		{500, MIRROR_UP, true}, {500, MIRROR_DOWN, false}, {200, MIRROR_DOWN, true},
		{200, MIRROR_UP, false}};
	struct mirror mirror;
	struct fake_http http;

	fake_http_start_tcp(&http, serve_status, NULL);
	mirror = mirror_at(http.port, "");
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		atomic_store(&status_to_give, answers[i].status);
		mirror.due_us = 0;
		check(&mirror, 1, "");
		assert_int_equal(mirror.state, answers[i].state);
		assert_int_equal(mirror.due_us < now_us() + 5 * USEC_PER_SEC, answers[i].soon);
	}
	fake_http_stop(&http);
}

static void serve_path(int fd, const char *head, void *userdata)
{
	fake_reply(fd, starts_with(head, userdata) ? 200 : 404, "");
}

TEST(the_checked_url_is_the_url_of_containerd)
{
	static const char *const cases[][2] = {{"", "GET /v2/ "}, {"/proxy", "GET /proxy/v2/ "},
		{"/v2", "GET /v2/ "}, {"/x/v2", "GET /x/v2/ "},
		/* With override_path the API is above the namespace. */
		{"/v2/hub", "GET /v2/ "}, {"/x/v2/hub/y", "GET /x/v2/ "}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fake_http http;

		fake_http_start_tcp(&http, serve_path, (void *)cases[i][1]);
		assert_int_equal(checked(http.port, cases[i][0]).state, MIRROR_UP);
		fake_http_stop(&http);
	}
}

static atomic_int redirect_status;

/* Sends all requests to /moved, with the same status again to /there. */
static void serve_redirect(int fd, const char *head, void *userdata)
{
	char answer[256];

	if (starts_with(head, "GET /there "))
		return fake_reply(fd, userdata ? 200 : 404, "{}");
	snprintf(answer, sizeof(answer),
		"HTTP/1.1 %d X\r\nLocation: %s\r\nContent-Length: 2\r\n\r\nxx",
		atomic_load(&redirect_status),
		starts_with(head, "GET /moved ") ? "/there" : "/moved");
	send_text(fd, answer);
}

static void serve_circle(int fd, const char *, void *)
{
	send_text(fd, "HTTP/1.1 302 X\r\nLocation: /v2/\r\nContent-Length: 0\r\n\r\n");
}

TEST(a_mirror_behind_redirects_is_asked_there_as_containerd_does)
{
	static const int statuses[] = {301, 302, 303, 307, 308};
	struct fake_http http;

	for (size_t i = 0; i < 2 * ARRAY_SIZE(statuses); i++) {
		atomic_store(&redirect_status, statuses[i / 2]);
		fake_http_start_tcp(&http, serve_redirect, i % 2 ? "good" : NULL);
		assert_int_equal(checked(http.port, "").state, i % 2 ? MIRROR_UP : MIRROR_DOWN);
		fake_http_stop(&http);
	}
	fake_http_start_tcp(&http, serve_circle, NULL);
	assert_int_equal(checked(http.port, "").state, MIRROR_DOWN);
	assert_int_equal(atomic_load(&http.requests), 11);
	fake_http_stop(&http);
}

static void shell(const char *format, const char *directory)
{
	char command[1024];

	snprintf(command, sizeof(command), "cd %s && %s", directory, format);
	assert_int_equal(system(command), 0);
}

/* The server of openssl answers three requests with a web page. ca-certificates depends on openssl.
 */
static FILE *start_tls(const struct directory *directory, int *port)
{
	char text[256];
	FILE *server;

	snprintf(text, sizeof(text),
		"cd %s && exec openssl s_server -accept 127.0.0.1:0 -naccept 3 -key server.key "
		"-cert server.crt -www",
		directory->path);
	server = popen(text, "re");
	while (*port == 0 && fgets(text, sizeof(text), server))
		(void)sscanf(text, "ACCEPT 127.0.0.1:%d", port);
	assert_true(*port > 0);
	return server;
}

#define NEW_CERTIFICATE                                                                 \
	"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 " \
	"-subj /CN=test -addext subjectAltName=IP:127.0.0.1 2>/dev/null "

DIRECTORY_TEST(certificates_of_the_node_are_trusted)
{
	struct mirror mirror = {0};
	FILE *server;
	int port = 0;

	snprintf(mirror.url, sizeof(mirror.url), "https://127.0.0.1:1");
	check(&mirror, 1, directory->path);
	assert_string_equal(mirror.why, "no CA certificates found on this node");
	directory_put(directory, "/etc/ssl/certs/keep", "");
	shell(NEW_CERTIFICATE "-keyout server.key -out server.crt", directory->path);
	shell(NEW_CERTIFICATE "-keyout other.key -out etc/ssl/certs/ca-certificates.crt",
		directory->path);
	server = start_tls(directory, &port);
	snprintf(mirror.url, sizeof(mirror.url), "https://127.0.0.1:%d", port);
	mirror.due_us = 0;
	check(&mirror, 1, directory->path);
	assert_string_equal(mirror.why, "this node does not trust its certificate");
	shell("cat server.crt >> etc/ssl/certs/ca-certificates.crt", directory->path);
	for (int i = 0; i < 2; i++) {
		mirror.due_us = 0;
		check(&mirror, 1, directory->path);
		assert_string_equal(mirror.why, "GET /v2/ answers with a web page");
	}
	assert_int_equal(mirror.state, MIRROR_DOWN);
	pclose(server);
}
