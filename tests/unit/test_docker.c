/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_docker.h"

static void knows_the_daemon(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	const struct docker_state *docker;

	(void)state;
	fake_docker_start(&fake);
	docker = docker_state(fake.docker);
	assert_int_equal(docker->error, 0);
	assert_string_equal(docker->why, "");
	assert_string_equal(docker->version, "20.10.24+dfsg1");
	assert_string_equal(docker->api_version, "1.41");
	assert_string_equal(docker->storage_driver, "overlay2");
	assert_string_equal(docker->root_dir, "/var/lib/docker");
	assert_true(docker->live_restore);
	assert_false(docker->containerd_store);
	assert_int_equal(docker->containers, 5);
	assert_int_equal(docker->running, 3);
	assert_int_equal(docker->images, 7);
	assert_int_equal(docker->n_mirrors, 1);
	assert_string_equal(docker->mirrors[0], "https://mirror.example");
	assert_int_equal(docker->source, DOCKER_SOURCE_DEFAULT); /* no daemon.json */
	assert_int_equal(docker->max_downloads, 3);
	assert_int_equal(docker->pid, 0);
	assert_true(docker->since_us > 0);
	assert_int_equal(fake.changes, 1);
}

static void takes_the_last_reload_of_the_past(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;

	(void)state;
	fake_docker_open(&fake);
	atomic_store(&fake.past, RELOAD(5) RELOAD(7));
	fake_docker_begin(&fake);
	fake_docker_open_client(&fake);
	run_until(fake.event, docker_settled(fake.docker));
	assert_int_equal(docker_state(fake.docker)->source, DOCKER_SOURCE_RELOAD);
	assert_int_equal(docker_state(fake.docker)->max_downloads, 7);
	assert_int_equal(docker_state(fake.docker)->reloads, 0);
	assert_int_equal(fake.events, 0);
}

static void hears_of_reloads(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	const struct docker_state *docker;

	(void)state;
	fake_docker_start(&fake);
	docker = docker_state(fake.docker);
	run_until(fake.event, atomic_load(&fake.live_fd) >= 0);
	fake_chunk(fake.live_fd, RELOAD(10));
	run_until(fake.event, docker->reloads == 1);
	assert_int_equal(docker->source, DOCKER_SOURCE_RELOAD);
	assert_int_equal(docker->max_downloads, 10);
	assert_false(docker->live_restore);
	assert_int_equal(docker->n_mirrors, 1);
	assert_string_equal(docker->mirrors[0], "http://127.0.0.1:30020");
	assert_int_equal(fake.events, 1);
	assert_int_equal(fake.last.kind, DOCKER_EVENT_RELOAD);
	assert_int_equal(fake.changes, 2);
	/* In pieces, beside what nobody asked for. */
	fake_chunk(fake.live_fd, "{\"Type\":\"network\",\"Action\":\"create\"}\n{\"Type\":\"ima");
	fake_chunk(fake.live_fd, "ge\",\"Action\":\"pull\",\"time\":1700000001,\"Actor\":{\"ID\":"
				 "\"busybox:1.36\",\"Attributes\":{\"name\":\"busybox\"}}}");
	run_until(fake.event, fake.events == 2);
	assert_int_equal(fake.last.kind, DOCKER_EVENT_IMAGE_PULL);
	assert_string_equal(fake.last.name, "busybox:1.36");
	assert_int_equal(fake.last.when_us, UINT64_C(1700000001) * USEC_PER_SEC);
	fake_chunk(fake.live_fd, "{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{\"ID\":"
				 "\"c0ffee\",\"Attributes\":{\"name\":\"web\"}}}\n");
	run_until(fake.event, fake.events == 3);
	assert_int_equal(fake.last.kind, DOCKER_EVENT_CONTAINER_START);
	assert_string_equal(fake.last.id, "c0ffee");
	assert_string_equal(fake.last.name, "web");
}

static void says_why_nobody_answers_and_comes_back(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	const struct docker_state *docker;

	(void)state;
	fake_docker_open(&fake);
	fake_docker_open_client(&fake);
	docker = docker_state(fake.docker);
	assert_int_equal(docker->error, -EINPROGRESS);
	run_until(fake.event, docker_settled(fake.docker));
	assert_int_equal(docker->error, -ESRCH);
	assert_non_null(strstr(docker->why, "/run/docker.sock: dockerd: it does not run: no /"));
	assert_int_equal(fake.changes, 1);
	directory_put(&fake.directory, "/run/docker.pid", "999999999");
	fake_docker_look(&fake);
	run_until(fake.event, docker->error == -ENOENT);
	assert_non_null(strstr(docker->why, "/run/docker.sock: GET /version: No such file"));
	fake_docker_begin(&fake);
	fake_docker_look(&fake);
	run_until(fake.event, docker->error == 0);
	assert_string_equal(docker->version, "20.10.24+dfsg1");
	assert_string_equal(docker->why, "");
	assert_int_equal(fake.changes, 3);
}

/* Whoever listens, perhaps systemd: a connection would start a daemon that was stopped. */
static void wakes_nobody_who_does_not_run(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	const struct docker_state *docker;

	(void)state;
	fake_docker_open(&fake);
	fake_docker_begin(&fake);
	directory_delete(&fake.directory, "/run/docker.pid");
	fake_docker_open_client(&fake);
	docker = docker_state(fake.docker);
	run_until(fake.event, docker_settled(fake.docker));
	assert_int_equal(docker->error, -ESRCH);
	fake_docker_look(&fake);
	run_for(fake.event, 50 * USEC_PER_MSEC);
	assert_int_equal(fake.http.requests, 0);
	assert_int_equal(fake.http.n, 0);
	directory_put(&fake.directory, "/run/docker.pid", "999999999");
	fake_docker_look(&fake);
	run_until(fake.event, docker->error == 0);
}

static void serve_garbage(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_send(fd, "\x15\x03\x01\x00\x02\x02\x46");
}

static void serve_death(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"Version\":");
}

static void serve_flood(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_send(fd, "HTTP/1.1 200 OK\r\n\r\n");
	fake_flood(fd, "{\"Version\":\"20.10\",\"ApiVersion\":\"1.41\"}                    ", 100);
}

static void serve_other_json(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_reply(fd, 200, "{\"ServerVersion\":3,\"Version\":{}}");
}

static void serve_no_json(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_reply(fd, 200, "<html>It works!</html>");
}

static void serve_refusal(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_reply(fd, 503, "{\"message\":\"shutting\\ndown\"}");
}

static void lives_through_a_mad_daemon(void **state)
{
	static const struct {
		fake_http_fn *misbehave;
		int error;
		const char *why;
	} cases[] = {
		{serve_garbage, -EPROTO, "GET /version"},
		{serve_death, -ECONNRESET, "GET /version: Connection reset by peer"},
		{serve_flood, -EFBIG, "GET /version: the answer is larger than it may be"},
		{serve_other_json, -EBADMSG, "not what a Docker daemon answers"},
		{serve_no_json, -EBADMSG, "not what a Docker daemon answers"},
		{serve_refusal, -EPROTO, "GET /version: shutting down"},
	};
	_cleanup_fake_docker_ struct fake_docker fake;
	const struct docker_state *docker;

	(void)state;
	fake_docker_start(&fake);
	docker = docker_state(fake.docker);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		atomic_store(&fake.misbehave, cases[i].misbehave);
		fake_docker_look(&fake);
		run_until(fake.event, docker->error != 0);
		assert_int_equal(docker->error, cases[i].error);
		if (!strstr(docker->why, cases[i].why))
			fail_msg("not because of %s: %s", cases[i].why, docker->why);
		/* What was known stays known. */
		assert_string_equal(docker->version, "20.10.24+dfsg1");
		assert_string_equal(docker->root_dir, "/var/lib/docker");
		atomic_store(&fake.misbehave, NULL);
		fake_docker_look(&fake);
		run_until(fake.event, docker->error == 0);
	}
}

static void serve_hang(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_wait(fd);
}

static void waits_for_no_daemon_that_hangs(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	const struct docker_state *docker;

	(void)state;
	fake_docker_open(&fake);
	atomic_store(&fake.misbehave, serve_hang);
	fake_docker_begin(&fake);
	fake_docker_open_client(&fake);
	docker = docker_state(fake.docker);
	run_until(fake.event, docker_settled(fake.docker));
	assert_int_equal(docker->error, -ETIMEDOUT);
	assert_non_null(strstr(docker->why, "no answer in time"));
}

static void notices_broken_info_and_events(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	const struct docker_state *docker;

	(void)state;
	fake_docker_open(&fake);
	atomic_store(&fake.info, "[]");
	fake_docker_begin(&fake);
	fake_docker_open_client(&fake);
	docker = docker_state(fake.docker);
	run_until(fake.event, docker_settled(fake.docker));
	assert_int_equal(docker->error, -EBADMSG);
	assert_non_null(strstr(docker->why, "GET /info"));
	atomic_store(&fake.info, NULL);
	atomic_store(&fake.past, "{\"Type\":");
	fake_docker_look(&fake);
	run_until(fake.event, strstr(docker->why, "GET /events"));
	assert_int_equal(docker->error, -EBADMSG);
	atomic_store(&fake.past, "no events");
	fake_docker_look(&fake);
	run_for(fake.event, 100 * USEC_PER_MSEC);
	assert_int_equal(docker->error, -EBADMSG);
	atomic_store(&fake.past, NULL);
	run_until(fake.event, docker->error == 0);
	/* The stream goes mad: it is begun anew. */
	run_until(fake.event, atomic_load(&fake.live_fd) >= 0);
	fake_chunk(fake.live_fd, "}}}");
	run_until(fake.event, atomic_load(&fake.live_fd) < 0);
	run_until(fake.event, atomic_load(&fake.live_fd) >= 0);
	fake_chunk(fake.live_fd, RELOAD(9));
	run_until(fake.event, docker->max_downloads == 9);
}

static void follows_a_daemon_that_restarts(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	const struct docker_state *docker;

	(void)state;
	fake_docker_open(&fake);
	atomic_store(&fake.past, RELOAD(5));
	fake_docker_begin(&fake);
	fake_docker_open_client(&fake);
	docker = docker_state(fake.docker);
	run_until(fake.event, docker->max_downloads == 5);
	run_until(fake.event, atomic_load(&fake.live_fd) >= 0);
	shutdown(fake.live_fd, SHUT_RDWR);
	fake_http_stop(&fake.http);
	run_until(fake.event, docker->error == -ECONNREFUSED);
	/* Another version, which remembers no reload. */
	atomic_store(&fake.past, NULL);
	atomic_store(&fake.version, "{\"Version\":\"28.5.2\",\"ApiVersion\":\"1.51\"}");
	fake_docker_begin(&fake);
	run_until(fake.event, docker->error == 0);
	assert_string_equal(docker->version, "28.5.2");
	assert_int_equal(docker->source, DOCKER_SOURCE_DEFAULT);
}

static void notices_a_socket_that_was_replaced(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	struct fake_http old;
	const struct docker_state *docker;

	(void)state;
	fake_docker_start(&fake);
	docker = docker_state(fake.docker);
	run_until(fake.event, atomic_load(&fake.live_fd) >= 0);
	/* The old one still runs, and its stream is open; the new one has the name. */
	old = fake.http;
	fake_docker_begin(&fake);
	atomic_store(&fake.past, RELOAD(8));
	fake_docker_look(&fake);
	run_until(fake.event, docker->max_downloads == 8);
	assert_int_equal(docker->error, 0);
	shutdown(old.fd, SHUT_RDWR);
	assert_int_equal(pthread_join(old.thread, NULL), 0);
	for (size_t i = 0; i < old.n; i++)
		assert_int_equal(pthread_join(old.connections[i], NULL), 0);
	close(old.fd);
}

static void closes_at_any_time(void **state)
{
	(void)state;
	for (uint64_t us = 0; us < 4000; us += 400) {
		_cleanup_fake_docker_ struct fake_docker fake;

		fake_docker_open(&fake);
		fake_docker_begin(&fake);
		fake_docker_open_client(&fake);
		run_for(fake.event, us);
		assert_true(fake.changes <= 1);
	}
}

static void refuses_paths_that_are_too_long(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	struct docker_options options = {0};
	char path[128];

	(void)state;
	fake_docker_open(&fake);
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[107] = '\0';
	options = (struct docker_options){.host_root = "", .socket_path = path};
	assert_int_equal(docker_open(fake.event, fake.fetcher, &options, &fake.docker), 0);
	docker_close(steal(fake.docker));
	path[107] = 'a';
	path[108] = '\0';
	assert_int_equal(
		docker_open(fake.event, fake.fetcher, &options, &fake.docker), -ENAMETOOLONG);
	assert_null(fake.docker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_the_daemon),
		cmocka_unit_test(takes_the_last_reload_of_the_past),
		cmocka_unit_test(hears_of_reloads),
		cmocka_unit_test(says_why_nobody_answers_and_comes_back),
		cmocka_unit_test(wakes_nobody_who_does_not_run),
		cmocka_unit_test(lives_through_a_mad_daemon),
		cmocka_unit_test(waits_for_no_daemon_that_hangs),
		cmocka_unit_test(notices_broken_info_and_events),
		cmocka_unit_test(follows_a_daemon_that_restarts),
		cmocka_unit_test(notices_a_socket_that_was_replaced),
		cmocka_unit_test(closes_at_any_time),
		cmocka_unit_test(refuses_paths_that_are_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
