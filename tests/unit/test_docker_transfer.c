/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_docker.h"

#include <fcntl.h>

struct moved {
	unsigned int calls, steps;
	int error;
	char why[DOCKER_WHY_MAX];
	struct docker_progress last;
};

static void on_progress(const struct docker_progress *progress, void *userdata)
{
	struct moved *moved = userdata;

	moved->steps++;
	moved->last = *progress;
}

static void on_done(int error, const char *why, void *userdata)
{
	struct moved *moved = userdata;

	moved->calls++;
	moved->error = error;
	copy_text(moved->why, sizeof(moved->why), why);
}

static struct docker_transfer_options options_of(struct moved *moved)
{
	return (struct docker_transfer_options){.deadline_us = 20 * USEC_PER_SEC,
		.progress = on_progress,
		.done = on_done,
		.userdata = moved};
}

static struct moved pull(struct fake_docker *fake, const char *answer)
{
	struct moved moved = {0};
	const struct docker_transfer_options options = options_of(&moved);
	struct docker_transfer *transfer;

	atomic_store(&fake->transfer, answer);
	assert_int_equal(docker_pull(fake->docker, "busybox:1.36", &options, &transfer), 0);
	run_until(fake->event, moved.calls > 0);
	return moved;
}

static void reads_progress(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	struct moved moved;

	(void)state;
	fake_docker_start(&fake);
	moved = pull(&fake, "{\"status\":\"Pulling from library/busybox\",\"id\":\"1.36\"}\r\n"
			    "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":512,"
			    "\"total\":2048},\"progress\":\"[=>  ]\",\"id\":\"9ad6\"}\r\n");
	assert_int_equal(moved.error, 0);
	assert_string_equal(moved.why, "");
	assert_int_equal(moved.steps, 2);
	assert_string_equal(moved.last.id, "9ad6");
	assert_string_equal(moved.last.status, "Downloading");
	assert_int_equal(moved.last.current, 512);
	assert_int_equal(moved.last.total, 2048);
}

#define SPACES_10 "          "
#define SPACES_100                                                                                \
	SPACES_10 SPACES_10 SPACES_10 SPACES_10 SPACES_10 SPACES_10 SPACES_10 SPACES_10 SPACES_10 \
		SPACES_10
#define ERROR_MESSAGE(text) \
	"{\"errorDetail\":{\"message\":\"" text "\"},\"error\":\"" text "\"}\r\n"

static void finds_the_error_inside_a_good_answer(void **state)
{
	static const struct {
		const char *answer;
		int error;
		const char *why;
	} cases[] = {
		{"{\"status\":\"Pulling\"}" ERROR_MESSAGE("manifest unknown: manifest unknown"),
			-ENOENT, "manifest unknown: manifest unknown"},
		{ERROR_MESSAGE("pull access denied for x, repository does not exist or may require "
			       "'docker login': denied: requested access"),
			-EACCES, NULL},
		{ERROR_MESSAGE("toomanyrequests: You have reached your pull rate limit."), -EDQUOT,
			NULL},
		{ERROR_MESSAGE("received unexpected HTTP status: 429 Too Many Requests"), -EDQUOT,
			NULL},
		{ERROR_MESSAGE("write /var/lib/docker/tmp/x: no space left on device"), -ENOSPC,
			NULL},
		{ERROR_MESSAGE("unexpected EOF"), -EIO, "unexpected EOF"},
		{"{\"error\":\"archive/tar: invalid\\ntar header\"}", -EIO,
			"archive/tar: invalid tar header"},
		{ERROR_MESSAGE("Get https://me:pass@r.invalid/blob?X-Amz-Signature=12: EOF"), -EIO,
			"Get https://r.invalid/blob EOF"},
		{"{\"error\":\"" SPACES_100 SPACES_100 SPACES_100 "unauthorized\"}", -EACCES, NULL},
		{"{\"error\":\"\"}", -EIO, "an error without a message"},
		/* The first is the cause. */
		{ERROR_MESSAGE("unauthorized") ERROR_MESSAGE("no space left on device"), -EACCES,
			"unauthorized"},
		{"{\"status\":\"Pul", -ECONNRESET, "the daemon stopped in a message"},
		{"not JSON", -EBADMSG, NULL},
		{"{\"status\":}", -EBADMSG, NULL},
	};
	_cleanup_fake_docker_ struct fake_docker fake;

	(void)state;
	fake_docker_start(&fake);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct moved moved = pull(&fake, cases[i].answer);

		if (moved.error != cases[i].error)
			fail_msg("%s: %d", cases[i].answer, moved.error);
		if (cases[i].why)
			assert_string_equal(moved.why, cases[i].why);
		assert_int_equal(moved.calls, 1);
	}
}

static void serve_not_found(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_reply(fd, 404, "{\"message\":\"manifest for x not found\"}");
}

static void serve_hang(int fd, const char *head, void *userdata)
{
	(void)head;
	(void)userdata;
	fake_begin_chunks(fd);
	fake_chunk(fd, "{\"status\":\"Waiting\"}");
	fake_wait(fd);
}

static void ends_what_does_not_end(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	struct moved moved = {0}, cancelled = {0};
	struct docker_transfer_options options = options_of(&moved);
	struct docker_transfer *transfer;

	(void)state;
	fake_docker_start(&fake);
	atomic_store(&fake.misbehave, serve_not_found);
	assert_int_equal(docker_pull(fake.docker, "x", &options, &transfer), 0);
	run_until(fake.event, moved.calls == 1);
	assert_int_equal(moved.error, -ENOENT);
	assert_string_equal(moved.why, "manifest for x not found");

	atomic_store(&fake.misbehave, serve_hang);
	options.deadline_us = 100 * USEC_PER_MSEC;
	assert_int_equal(docker_pull(fake.docker, "x", &options, &transfer), 0);
	run_until(fake.event, moved.calls == 2);
	assert_int_equal(moved.error, -ETIMEDOUT);

	options = options_of(&cancelled);
	assert_int_equal(docker_pull(fake.docker, "x", &options, &transfer), 0);
	run_until(fake.event, cancelled.steps == 1);
	docker_transfer_cancel(transfer);
	docker_transfer_cancel(NULL);
	/* And one that the client's end abandons. */
	assert_int_equal(docker_pull(fake.docker, "x", &options, &transfer), 0);
	run_until(fake.event, cancelled.steps == 2);
	assert_int_equal(cancelled.calls, 0);
}

static void takes_references_only(void **state)
{
	static const char *const bad[] = {"", "a b", "a&repo=x", "a?x", "a%20", "a#", "a\n", "ü"};
	_cleanup_fake_docker_ struct fake_docker fake;
	struct moved moved = {0};
	const struct docker_transfer_options options = options_of(&moved);
	struct docker_transfer *transfer = NULL;
	unsigned int before;

	(void)state;
	fake_docker_start(&fake);
	before = fake.http.requests;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(docker_pull(fake.docker, bad[i], &options, &transfer), -EINVAL);
	assert_null(transfer);
	assert_int_equal(fake.http.requests, before);
}

static char asked_for[8][256];
static atomic_size_t n_asked;

static void serve_noting(int fd, const char *head, void *userdata)
{
	(void)userdata;
	if (starts_with(head, "POST"))
		snprintf(asked_for[atomic_fetch_add(&n_asked, 1)], 256, "%.*s",
			(int)strcspn(head, "\r"), head);
	fake_reply(fd, 200, "");
}

static void asks_for_one_tag(void **state)
{
	static const char *const cases[][2] = {
		{"busybox", "busybox:latest"},
		{"host:5000/a/b", "host:5000/a/b:latest"},
		{"host:5000/a/b:1", "host:5000/a/b:1"},
		{"a@sha256:00ff", "a@sha256:00ff"},
	};
	_cleanup_fake_docker_ struct fake_docker fake;

	(void)state;
	fake_docker_start(&fake);
	atomic_store(&fake.misbehave, serve_noting);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct moved moved = {0};
		const struct docker_transfer_options options = options_of(&moved);
		struct docker_transfer *transfer;
		char wanted[256];

		assert_int_equal(docker_pull(fake.docker, cases[i][0], &options, &transfer), 0);
		run_until(fake.event, moved.calls == 1);
		snprintf(wanted, sizeof(wanted), "POST /images/create?fromImage=%s HTTP/1.1",
			cases[i][1]);
		assert_string_equal(asked_for[i], wanted);
	}
}

static void loads_an_archive(void **state)
{
	_cleanup_fake_docker_ struct fake_docker fake;
	_cleanup_close_ int fd = -1;
	struct moved moved = {0};
	const struct docker_transfer_options options = options_of(&moved);
	struct docker_transfer *transfer;
	char path[PATH_MAX];

	(void)state;
	fake_docker_start(&fake);
	directory_put(&fake.directory, "/archive.tar", "what a tar holds");
	directory_path(&fake.directory, "/archive.tar", path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	atomic_store(&fake.transfer, "{\"stream\":\"Loaded image: a:1\\n\"}\r\n");
	assert_int_equal(docker_load(fake.docker, fd, &options, &transfer), 0);
	run_until(fake.event, moved.calls == 1);
	assert_int_equal(moved.error, 0);
	moved = (struct moved){0};
	atomic_store(&fake.transfer, ERROR_MESSAGE("open /tmp/x/json: no such file or directory"));
	assert_int_equal(docker_load(fake.docker, fd, &options, &transfer), 0);
	run_until(fake.event, moved.calls == 1);
	assert_int_equal(moved.error, -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_progress),
		cmocka_unit_test(finds_the_error_inside_a_good_answer),
		cmocka_unit_test(ends_what_does_not_end),
		cmocka_unit_test(takes_references_only),
		cmocka_unit_test(asks_for_one_tag),
		cmocka_unit_test(loads_an_archive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
