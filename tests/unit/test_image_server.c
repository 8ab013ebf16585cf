/* SPDX-License-Identifier: Apache-2.0 */
#include "image_archive.h"

#include <arpa/inet.h>

#define REPOSITORY "headroom-preload/0123"
#define ANSWER_MAX 8192

struct served {
	struct archive_fixture files;
	struct image_server *server;
	_Atomic uint64_t sent;
	uint16_t port;
};

static void served_open(struct served *served)
{
	archive_fixture_make(&served->files);
	assert_opens(&served->files, &served->files.tar);
	assert_int_equal(image_server_open(served->files.archive, REPOSITORY, &served->sent,
				 &served->server, &served->port),
		0);
}

static void served_close(struct served *served)
{
	image_server_close(served->server);
	archive_fixture_clear(&served->files);
}

#define SERVER_TEST(name) TEST_OF(served, served, served_open, served_close, name)

static int dial(const struct served *served)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons(served->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void ask(const struct served *served, const char *method, const char *path,
	const char *header, char answer[static ANSWER_MAX])
{
	static const struct timeval limit = {.tv_sec = 10};
	int fd = dial(served);
	char request[1024];
	size_t have = 0;
	ssize_t n = 1;

	snprintf(request, sizeof(request),
		"%s %s HTTP/1.1\r\nHost: x\r\n%sConnection: close\r\n\r\n", method, path, header);
	send_text(fd, request);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	for (; n > 0; have += (size_t)MAX(n, 0)) {
		n = recv(fd, answer + have, ANSWER_MAX - 1 - have, 0);
		if (n < 0 && errno == EAGAIN)
			fail_msg("no end of the answer to: %s", request);
	}
	answer[have] = '\0';
	close(fd);
}

static void expect(const struct served *served, const char *method, const char *path,
	const char *header, const char *const parts[])
{
	char answer[ANSWER_MAX];

	ask(served, method, path, header, answer);
	for (; *parts; parts++)
		if (!strstr(answer, *parts))
			fail_msg("%s %s: no '%s' in: %s", method, path, *parts, answer);
}

#define EXPECT(served, method, path, header, ...) \
	expect(served, method, path, header, (const char *const[]){__VA_ARGS__, NULL})

static const char *path_of(const char *kind, const char *digest)
{
	static char path[256];

	snprintf(path, sizeof(path), "/v2/" REPOSITORY "/%s/%s", kind, digest);
	return path;
}

SERVER_TEST(an_interrupted_transfer_continues_at_its_offset)
{
	EXPECT(served, "GET", path_of("blobs", served->files.sample.layers[0]),
		"Range: bytes=4-\r\n", "HTTP/1.1 206", "Content-Range: bytes 4-", &LAYER_0[4]);
	EXPECT(served, "GET", path_of("blobs", served->files.sample.layers[0]),
		"Range: bytes=1-2\r\n", "HTTP/1.1 200", "\r\n\r\n" LAYER_0);
	EXPECT(served, "GET", path_of("blobs", served->files.sample.layers[0]),
		"Range: bytes=99999-\r\n", "HTTP/1.1 200", "\r\n\r\n" LAYER_0);
}

SERVER_TEST(questions_and_bytes_are_counted)
{
	const char *path = path_of("blobs", served->files.sample.layers[0]);

	EXPECT(served, "GET", "/v2/", "", "HTTP/1.1 200");
	EXPECT(served, "GET", "/v2/other/manifests/x", "", "HTTP/1.1 404");
	assert_false(image_server_was_asked(served->server));
	EXPECT(served, "HEAD", path, "", "HTTP/1.1 200");
	assert_true(image_server_was_asked(served->server));
	assert_int_equal(served->sent, 0);
	EXPECT(served, "GET", path, "", "HTTP/1.1 200");
	assert_int_equal(served->sent, strlen(LAYER_0));
}

SERVER_TEST(a_blob_is_not_sent_while_the_load_waits)
{
	_Atomic bool waits = true;
	char answer[ANSWER_MAX], request[1024];
	int fd = dial(served);
	size_t have = 0;
	ssize_t n;

	image_server_hold(served->server, &waits);
	snprintf(request, sizeof(request),
		"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		path_of("blobs", served->files.sample.layers[0]));
	send_text(fd, request);
	usleep(500000);
	assert_int_equal(served->sent, 0);
	waits = false;
	while ((n = recv(fd, answer + have, ANSWER_MAX - 1 - have, 0)) > 0)
		have += (size_t)n;
	answer[have] = '\0';
	assert_non_null(strstr(answer, "\r\n\r\n" LAYER_0));
	close(fd);
}

SERVER_TEST(other_methods_and_paths_are_refused)
{
	static const char *const methods[] = {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"};
	const char *const paths[] = {"/", "/v2", "/v2/_catalog", "/v2/" REPOSITORY "/",
		"/v2/" REPOSITORY "/tags/list", "/v2/other/manifests/x",
		"/v2/" REPOSITORY "/blobs/", "/v2/" REPOSITORY "/blobs/../../../etc/passwd",
		"/v2/" REPOSITORY "/blobs/%2e%2e/%2e%2e/etc/passwd",
		"/v2/" REPOSITORY "/manifests/latest",
		path_of("blobs", "sha256:0123456789abcdef0123456789abcdef0123456789abcdef"
				 "0123456789abcdef")};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		EXPECT(served, "GET", paths[i], "", "HTTP/1.1 404");
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		EXPECT(served, methods[i], path_of("blobs", served->files.sample.layers[0]), "",
			"HTTP/1.1 405", "Allow: GET, HEAD");
}

SERVER_TEST(a_client_that_tries_tls_gets_an_answer_in_http)
{
	static const char hello[] = "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03";
	static const struct timeval limit = {.tv_sec = 10};
	char answer[13] = "";
	int fd = dial(served);

	assert_int_equal(send(fd, hello, sizeof(hello) - 1, 0), sizeof(hello) - 1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL);
	assert_string_equal(answer, "HTTP/1.0 400");
	close(fd);
}

/* Slow clients send nothing, half a request, or read no answer. */
SERVER_TEST(slow_clients_do_not_block_others)
{
	char request[512];
	int slow[200];

	snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n",
		path_of("blobs", served->files.sample.layers[1]));
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		slow[i] = dial(served);
		if (i >= 100)
			send_text(slow[i], i % 2 ? request : "GET /v2/ HTTP/1.1\r\nHo");
	}
	EXPECT(served, "GET", path_of("blobs", served->files.sample.layers[0]), "", "HTTP/1.1 200",
		"\r\n\r\n" LAYER_0);
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++)
		close(slow[i]);
}
