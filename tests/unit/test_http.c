/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

/* Each request of a kept connection has its whole time, and no more. */
HTTP_TEST(each_request_has_its_own_deadline)
{
	char buffer[1024];
	int fd;

	fixture.tcp->request_us = 200 * USEC_PER_MSEC;
	fd = dial();
	for (int i = 0; i < 4; i++) {
		assert_false(closed_within(fd, 100));
		send_text(fd, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
		assert_true(recv(fd, buffer, sizeof(buffer), 0) > 0);
	}
	assert_true(closed_within(fd, 1000));
	close(fd);
}

HTTP_TEST(the_oldest_connection_is_evicted)
{
	enum { MAX_OPEN = 4 };
	int fds[MAX_OPEN];

	fixture.tcp->max_open = MAX_OPEN;
	for (int i = 0; i < MAX_OPEN; i++) {
		fds[i] = dial();
		send_text(fds[i], "GET /livez HTTP/1.1\r\n");
		usleep(20000);
	}
	expect_alive();
	assert_true(closed_within(fds[0], 1000));
	for (int i = 1; i < MAX_OPEN; i++) {
		_cleanup_free_ char *answer = NULL;

		assert_false(closed_within(fds[i], 20));
		answer = ask_on(fds[i], "Host: x\r\nConnection: close\r\n\r\n");
		assert_true(starts_with(answer, "HTTP/1.1 200"));
	}
	close(fds[0]);
}

static int open_at(sd_event *event, const char *listen_on, struct http_server **server)
{
	static const struct node node;

	return http_server_open(event, listen_on, &node, fixture_change, NULL, server);
}

TEST(only_a_dead_socket_is_replaced)
{
	struct http_server *server = NULL, *second = NULL;
	char directory[] = "/tmp/headroom-http-XXXXXX", path[64], aside[64];
	sd_event *event;
	struct stat st;

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

/* The loop neither spins without descriptors, nor is it deaf afterwards. */
HTTP_TEST(a_shortage_of_descriptors_is_survived)
{
	struct rlimit before, none;
	uint64_t turns;
	int fd;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	none = (struct rlimit){.rlim_cur = (rlim_t)fd + 1, .rlim_max = before.rlim_max};
	close(fd);
	fd = dial();
	usleep(20000); /* the first one is accepted */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	close(fd);
	usleep(20000);
	fd = dial(); /* takes the last number: accept has none */
	turns = iterations();
	usleep(200000);
	assert_true(iterations() - turns < 10);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	free(ask_on(fd, "GET /livez HTTP/1.1" END));
	expect_alive();
}

static void do_finish(void)
{
	http_reply(fixture.client, 200, "{\"later\":true}");
	fixture.client = NULL;
}

/* Until the handler has the request. */
static void wait_for_reply(void)
{
	for (int i = 0; i < 500 && !fixture.client; i++) {
		usleep(2000);
		in_loop(do_nothing);
	}
	assert_non_null(fixture.client);
}

static int post_held(void)
{
	int fd = dial_unix();

	fixture.hold = true;
	send_text(fd, "POST /v1/apply HTTP/1.1" END);
	wait_for_reply();
	return fd;
}

HTTP_TEST(handlers_have_no_deadline)
{
	_cleanup_free_ char *answer = NULL;
	int fd;

	fixture.tcp->request_us = fixture.local->request_us = 100 * USEC_PER_MSEC;
	fd = post_held();
	assert_false(closed_within(fd, 150)); /* work has no deadline */
	expect_alive();
	in_loop(do_finish);
	answer = receive_all(fd);
	close(fd);
	assert_true(starts_with(answer, "HTTP/1.1 200"));
	assert_non_null(strstr(answer, "{\"later\":true}"));
}

HTTP_TEST(a_reply_to_a_client_that_left_is_dropped)
{
	close(post_held());
	expect_alive();
	in_loop(do_finish);
	expect_on(dial_unix(), "GET /livez HTTP/1.1" END, "HTTP/1.1 200", "ok");
}

HTTP_TEST(close_during_a_handler_is_safe)
{
	int fd;

	fd = post_held();
	in_loop(do_close);
	assert_true(closed_within(fd, 1000));
	in_loop(do_finish);
	close(fd);
}

HTTP_TEST(the_idle_server_sleeps)
{
	uint64_t before;

	fixture.tcp->request_us = fixture.local->request_us = 100 * USEC_PER_MSEC;
	expect_alive();
	usleep(20000);
	before = iterations();
	usleep(200000);
	assert_int_equal(iterations(), before);
}
