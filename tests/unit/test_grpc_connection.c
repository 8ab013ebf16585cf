/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_bench.h"

static void outlives_a_deaf_server(void **state)
{
	struct bench bench;
	struct outcome outcome;

	(void)state;
	bench_begin(&bench);
	bench.server.deaf = true;
	server_listen(&bench.server);
	outcome = ask_within(&bench, "/t.T/Echo", "x", 30 * USEC_PER_MSEC);
	assert_int_equal(outcome.status, GRPC_DEADLINE_EXCEEDED);
	bench.server.deaf = false;
	expect_well(&bench);
	bench_end(&bench);
}

static void outlives_garbage(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		bool close;
	} cases[] = {
		{"HTTP/1.1 400 Bad Request\r\n\r\n", 28, false},
		{"HTTP/1.1 400 Bad Request\r\n\r\n", 28, true},
		{"\0\0\4\6\0\0\0\0\0abcdabcd", 17, false},
		{"\0\0\0\4\0\0\0\0\0\0\0\1\0\0\0\0\0\0x", 19, false},
		{"SSH-2.0-OpenSSH_9.2\r\n", 21, false},
		{"", 0, true},
	};
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bench.server.raw = cases[i].bytes;
		bench.server.raw_len = cases[i].len;
		bench.server.raw_close = cases[i].close;
		expect(&bench, "/t.T/Echo", "x", GRPC_UNAVAILABLE, true);
		expect(&bench, "/t.T/Echo", "x", GRPC_UNAVAILABLE, true);
		server_drop_connections(&bench.server);
		bench.server.raw = NULL;
		bench.server.raw_close = false;
		expect_well(&bench);
		server_drop_connections(&bench.server);
	}
	bench_end(&bench);
}

static void outlives_a_death(void **state)
{
	struct bench bench;
	struct outcome beside;

	(void)state;
	bench_begin(&bench);
	expect(&bench, "/t.T/Echo", "x", GRPC_UNAVAILABLE, true); /* no socket */
	server_listen(&bench.server);
	expect_well(&bench);
	assert_int_equal(ask_for(&bench, "/t.T/Hang", "x", 1, SERVER_TIME, &beside), 0);
	expect(&bench, "/t.T/HalfAnswer", "x", GRPC_UNAVAILABLE, true);
	wait_for(&bench, &beside.n, 1);
	assert_int_equal(beside.status, GRPC_UNAVAILABLE);
	expect_well(&bench);
	expect(&bench, "/t.T/Die", "x", GRPC_UNAVAILABLE, true);
	expect_well(&bench);
	/* Dead since the last turn of the loop: the next call must not fall into the grave. */
	server_drop_connections(&bench.server);
	expect_well(&bench);
	server_stop(&bench.server);
	expect(&bench, "/t.T/Echo", "x", GRPC_UNAVAILABLE, true);
	server_listen(&bench.server);
	expect_well(&bench);
	bench_end(&bench);
}

static void follows_a_replaced_socket(void **state)
{
	struct bench bench;
	struct server other;
	struct outcome slow;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	expect_well(&bench);
	assert_int_equal(ask_for(&bench, "/t.T/Hang", "x", 1, SERVER_TIME, &slow), 0);
	expect_well(&bench);
	/* The old process lives on, and nobody can reach it any more. */
	other = bench.server;
	other.connections = NULL;
	other.accepted = 0;
	server_listen(&other);
	expect_well(&bench);
	assert_int_equal(other.accepted, 1);
	assert_int_equal(slow.n, 0);
	server_drop_connections(&bench.server);
	wait_for(&bench, &slow.n, 1);
	assert_int_equal(slow.status, GRPC_UNAVAILABLE);
	expect_well(&bench);
	assert_int_equal(other.accepted, 1);
	server_stop(&other);
	bench_end(&bench);
}

static void follows_goaway(void **state)
{
	struct bench bench;
	struct outcome outcome;

	(void)state;
	bench_begin(&bench);
	server_listen(&bench.server);
	outcome = ask(&bench, "/t.T/Refuse", "x"); /* sent again, on a second connection */
	assert_int_equal(outcome.status, GRPC_OK);
	assert_memory_equal(outcome.data, "second", 6);
	assert_int_equal(bench.server.accepted, 2);
	outcome = ask(&bench, "/t.T/GoAway", "x");
	assert_int_equal(outcome.status, GRPC_OK);
	expect_well(&bench);
	assert_int_equal(bench.server.accepted, 3);
	bench_end(&bench);
}

static void takes_long_paths(void **state)
{
	struct bench bench;
	char directory[PATH_MAX];

	(void)state;
	bench_begin(&bench);
	grpc_client_close(bench.client);
	directory_path(&bench.directory,
		"/a-directory-that-a-host-was-mounted-to-whose-name-is-longer-than-what-fits-into-a-"
		"socket-address-of-linux/run",
		directory);
	assert_int_equal(make_directories(directory, 0700), 0);
	snprintf(bench.server.path, sizeof(bench.server.path), "%.200s/s.sock", directory);
	assert_int_equal(grpc_client_open(bench.event, bench.server.path, &bench.client), 0);
	expect(&bench, "/t.T/Echo", "x", GRPC_UNAVAILABLE, true);
	assert_int_equal(grpc_client_peer(bench.client), 0);
	server_listen(&bench.server);
	expect_well(&bench);
	assert_int_equal(grpc_client_peer(bench.client), getpid());
	bench_end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outlives_a_deaf_server),
		cmocka_unit_test(outlives_garbage),
		cmocka_unit_test(outlives_a_death),
		cmocka_unit_test(follows_a_replaced_socket),
		cmocka_unit_test(follows_goaway),
		cmocka_unit_test(takes_long_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
