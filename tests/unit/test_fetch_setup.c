/* SPDX-License-Identifier: Apache-2.0 */
#include "fetch_bench.h"

#include <fcntl.h>
#include <netdb.h>
#include <semaphore.h>

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
	directory_put_bytes(&bench.directory, "/file", data, 2 * MIB);
	directory_path(&bench.directory, "/file", path);
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
		cmocka_unit_test(has_methods_and_follows_nowhere),
		cmocka_unit_test(heeds_no_proxy_and_no_password),
		cmocka_unit_test(sends_a_file),
		cmocka_unit_test(waits_for_no_resolver),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
