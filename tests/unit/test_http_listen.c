/* SPDX-License-Identifier: Apache-2.0 */
#include "http_bench.h"

static int open_at(sd_event *event, const char *path, struct http_server **server)
{
	const char *what;
	int r = http_server_open(event, "", path, &bench_handlers, NULL, server, &what);

	if (r < 0)
		assert_string_equal(what, "socket");
	return r;
}

static void owns_its_socket(void **state)
{
	struct http_server *server = NULL, *second = NULL;
	char directory[] = "/tmp/headroom-http-XXXXXX", path[64], aside[64];
	sd_event *event;
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/sock", directory);
	snprintf(aside, sizeof(aside), "%s/aside", directory);
	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(open_at(event, path, &server), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	assert_int_equal(open_at(event, path, &second), -EADDRINUSE); /* it lives */
	assert_null(second);

	/* One that another agent put there stays; ours, moved aside, is dead after the close. */
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(open_at(event, path, &second), 0);
	http_server_close(server);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(open_at(event, aside, &server), 0);
	http_server_close(server);
	assert_int_equal(access(aside, F_OK), -1);
	http_server_close(second);
	assert_int_equal(access(path, F_OK), -1);

	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(open_at(event, path, &server), -EADDRINUSE); /* no socket at all */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(directory), 0);
	sd_event_unref(event);
}

static void refuses_bad_addresses(void **state)
{
	static const char *const bad[] = {"x", ":1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
		"127.0.0.1:99999", "localhost:1", "::1:80", "[::1]", "[::1:80", "1.2.3:80x"};
	struct http_server *server = NULL;
	const char *what;
	sd_event *event;

	(void)state;
	assert_int_equal(sd_event_new(&event), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int r = http_server_open(
			event, bad[i], NULL, &bench_handlers, NULL, &server, &what);

		if (r != -EINVAL)
			fail_msg("%s: %d", bad[i], r);
		assert_string_equal(what, "listen");
	}
	sd_event_unref(event);
}

/* The loop neither spins without descriptors, nor is it deaf afterwards. */
static void outlasts_a_shortage(void **state)
{
	struct bench bench;
	struct rlimit before, none;
	uint64_t turns;
	int fd;

	(void)state;
	bench_begin(&bench, (struct http_options){0});
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	none = (struct rlimit){.rlim_cur = (rlim_t)fd + 1, .rlim_max = before.rlim_max};
	close(fd);
	fd = dial(&bench);
	usleep(20000); /* the first one is accepted */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	close(fd);
	usleep(20000);
	fd = dial(&bench); /* takes the last number: accept has none */
	turns = iterations(&bench);
	usleep(300000);
	assert_true(iterations(&bench) - turns < 10);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	free(ask_on(fd, "GET /livez HTTP/1.1" END));
	expect(&bench, "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
	bench_end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owns_its_socket),
		cmocka_unit_test(refuses_bad_addresses),
		cmocka_unit_test(outlasts_a_shortage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
