/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/docker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#define PID 77

struct bench {
	struct directory directory;
	struct docker_paths paths;
	char proc[PATH_MAX];
};

static void bench_open(struct bench *bench)
{
	memset(bench, 0, sizeof(*bench));
	directory_make(&bench->directory);
	directory_path(&bench->directory, "/proc", bench->proc);
	strcpy(bench->paths.root, bench->directory.path);
	strcpy(bench->paths.config, "/etc/docker/daemon.json");
	snprintf(bench->paths.pid_file, sizeof(bench->paths.pid_file), "%s/run/docker.pid",
		bench->directory.path);
	snprintf(bench->paths.socket, sizeof(bench->paths.socket), "%s/run/docker.sock",
		bench->directory.path);
}

static void bench_close(struct bench *bench)
{
	directory_remove(&bench->directory);
}

#define _cleanup_bench_ __attribute__((cleanup(bench_close)))

/* A daemon that has just started, with a name that tries to be the end of a name. */
static void start_daemon(struct bench *bench, const char *command, size_t len)
{
	struct timespec ts;
	char text[512];
	unsigned long long ticks;

	assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &ts), 0);
	ticks = ((uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000) *
		(uint64_t)sysconf(_SC_CLK_TCK) / 1000;
	snprintf(text, sizeof(text),
		"77 (docker) d 0) S 1 77 77 0 -1 4194560 1 0 0 0 5 4 0 0 20 0 9 0 %llu 1 2 3\n",
		ticks);
	directory_put(&bench->directory, "/proc/77/stat", text);
	directory_put_bytes(&bench->directory, "/proc/77/cmdline", command, len);
}

/* Longer than the tick of the clock that starts are told in. */
static void wait_some_ticks(void)
{
	usleep(50000);
}

static struct docker_state look(const struct bench *bench, pid_t pid)
{
	struct docker_state state = {.version = "20.10.24"};

	docker_process_look_at(&bench->paths, bench->proc, pid, &state);
	return state;
}

/* The process that is found for the daemon. */
static pid_t found(const struct bench *bench)
{
	struct docker_state state = {.version = "20.10.24"};

	docker_process_look(&bench->paths, &state);
	return state.pid;
}

static void believes_a_file_that_has_not_changed(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct docker_state docker;

	(void)state;
	bench_open(&bench);
	directory_put(
		&bench.directory, "/etc/docker/daemon.json", "{\"max-concurrent-downloads\": 6}");
	start_daemon(&bench, "dockerd", 8);
	docker = look(&bench, PID);
	assert_int_equal(docker.pid, PID);
	assert_int_equal(docker.source, DOCKER_SOURCE_FILE);
	assert_int_equal(docker.max_downloads, 6);
	assert_string_equal(docker.config_path, "/etc/docker/daemon.json");
	assert_false(docker.max_downloads_on_command);
	wait_some_ticks();
	directory_put(
		&bench.directory, "/etc/docker/daemon.json", "{\"max-concurrent-downloads\": 9}");
	assert_int_equal(look(&bench, PID).source, DOCKER_SOURCE_NONE);
	/* What a reload told stands above all. */
	docker.source = DOCKER_SOURCE_RELOAD;
	docker.max_downloads = 4;
	docker_process_look_at(&bench.paths, bench.proc, PID, &docker);
	assert_int_equal(docker.source, DOCKER_SOURCE_RELOAD);
	assert_int_equal(docker.max_downloads, 4);
}

/* An absolute link on the host begins at the host's root. */
static void follows_links_as_the_host_does(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct docker_state docker;
	char path[PATH_MAX];

	(void)state;
	bench_open(&bench);
	directory_put(&bench.directory, "/opt/d.json", "{\"max-concurrent-downloads\": 6}");
	directory_put(&bench.directory, "/etc/docker/key.json", "");
	directory_path(&bench.directory, "/etc/docker/daemon.json", path);
	assert_int_equal(symlink("/opt/d.json", path), 0);
	start_daemon(&bench, "dockerd", 8);
	docker = look(&bench, PID);
	assert_int_equal(docker.source, DOCKER_SOURCE_FILE);
	assert_int_equal(docker.max_downloads, 6);
}

static void knows_the_default(void **state)
{
	static const char *const without[] = {"", "{}", "{\"debug\": true}"};
	struct docker_state docker;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(without); i++) {
		_cleanup_bench_ struct bench bench;

		bench_open(&bench);
		directory_put(&bench.directory, "/etc/docker/daemon.json", without[i]);
		start_daemon(&bench, "dockerd", 8);
		docker = look(&bench, PID);
		assert_int_equal(docker.source, DOCKER_SOURCE_DEFAULT);
		assert_int_equal(docker.max_downloads, 3);
	}
}

static void knows_whether_there_was_a_file(void **state)
{
	_cleanup_bench_ struct bench bench;

	(void)state;
	bench_open(&bench);
	start_daemon(&bench, "dockerd", 8);
	assert_int_equal(look(&bench, PID).source, DOCKER_SOURCE_DEFAULT); /* nor a directory */
	wait_some_ticks();
	directory_put(
		&bench.directory, "/etc/docker/daemon.json", "{\"max-concurrent-downloads\": 9}");
	directory_delete(&bench.directory, "/etc/docker/daemon.json");
	/* The directory has changed since: who knows what stood there. */
	assert_int_equal(look(&bench, PID).source, DOCKER_SOURCE_NONE);
	start_daemon(&bench, "dockerd", 8);
	assert_int_equal(look(&bench, PID).source, DOCKER_SOURCE_DEFAULT);
	wait_some_ticks();
	/* Docker 20.10 does this itself, right after its first start. */
	directory_put(&bench.directory, "/etc/docker/key.json", "{}");
	assert_int_equal(look(&bench, PID).source, DOCKER_SOURCE_DEFAULT);
	wait_some_ticks();
	directory_put(&bench.directory, "/etc/docker/daemon.json", "{}");
	directory_delete(&bench.directory, "/etc/docker/daemon.json");
	assert_int_equal(look(&bench, PID).source, DOCKER_SOURCE_NONE);
}

static void believes_no_broken_file(void **state)
{
	static const char *const broken[] = {"{", "{\"max-concurrent-downloads\": \"6\"}",
		"{\"max-concurrent-downloads\": -1}", "[]"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
		_cleanup_bench_ struct bench bench;

		bench_open(&bench);
		directory_put(&bench.directory, "/etc/docker/daemon.json", broken[i]);
		start_daemon(&bench, "dockerd", 8);
		assert_int_equal(look(&bench, PID).source, DOCKER_SOURCE_NONE);
	}
}

static void reads_the_command_line(void **state)
{
	static const struct {
		const char *command;
		size_t len;
	} cases[] = {
#define COMMAND(text) {text, sizeof(text)}
		COMMAND("/usr/sbin/dockerd\0--max-concurrent-downloads=8\0--registry-mirror="
			"https://m\0--config-file\0/opt/daemon.json\0--containerd\0/run/c.sock"),
		COMMAND("dockerd\0--max-concurrent-downloads\0"
			"8\0--registry-mirror\0https://m\0--config-file=/opt/daemon.json\0"
			"--containerd=/run/c.sock"),
#undef COMMAND
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bench_ struct bench bench;
		struct docker_state docker;

		bench_open(&bench);
		start_daemon(&bench, cases[i].command, cases[i].len);
		docker = look(&bench, PID);
		assert_int_equal(docker.source, DOCKER_SOURCE_COMMAND);
		assert_int_equal(docker.max_downloads, 8);
		assert_true(docker.max_downloads_on_command);
		assert_true(docker.mirrors_on_command);
		assert_string_equal(docker.config_path, "/opt/daemon.json");
		assert_string_equal(docker.containerd, "/run/c.sock");
	}
}

static void reads_the_file_that_the_command_line_names(void **state)
{
	static const char command[] = "dockerd\0--config-file=/opt/daemon.json\0"
				      "--max-concurrent-downloads-x=5\0--max-concurrent-uploads=5";
	_cleanup_bench_ struct bench bench;
	struct docker_state docker;

	(void)state;
	bench_open(&bench);
	directory_put(&bench.directory, "/opt/daemon.json", "{\"max-concurrent-downloads\": 0}");
	start_daemon(&bench, command, sizeof(command));
	docker = look(&bench, PID);
	assert_int_equal(docker.source, DOCKER_SOURCE_FILE);
	assert_int_equal(docker.max_downloads, 0); /* of 20.10: no limit */
	assert_false(docker.max_downloads_on_command);
	docker = (struct docker_state){.version = "27.5.1"};
	docker_process_look_at(&bench.paths, bench.proc, PID, &docker);
	assert_int_equal(docker.source, DOCKER_SOURCE_DEFAULT);
	assert_int_equal(docker.max_downloads, 3);
}

static void takes_the_pid_file_for_a_start_elsewhere(void **state)
{
	_cleanup_bench_ struct bench bench;
	struct docker_state docker;

	(void)state;
	bench_open(&bench);
	directory_put(
		&bench.directory, "/etc/docker/daemon.json", "{\"max-concurrent-downloads\": 6}");
	assert_int_equal(look(&bench, 0).source, DOCKER_SOURCE_NONE);
	wait_some_ticks();
	directory_put(&bench.directory, "/run/docker.pid", "77");
	docker = look(&bench, 0);
	assert_int_equal(docker.pid, 0);
	assert_int_equal(docker.source, DOCKER_SOURCE_FILE);
	assert_int_equal(docker.max_downloads, 6);
}

static void finds_no_daemon_by_number_alone(void **state)
{
	static const char *const numbers[] = {"1", "0", "-5", "x", "", "99999999999"};
	_cleanup_bench_ struct bench bench;
	char number[32];

	(void)state;
	bench_open(&bench);
	assert_int_equal(found(&bench), 0);
	/* This process runs, but it is no dockerd. */
	snprintf(number, sizeof(number), "%d\n", (int)getpid());
	directory_put(&bench.directory, "/run/docker.pid", number);
	assert_int_equal(found(&bench), 0);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		directory_put(&bench.directory, "/run/docker.pid", numbers[i]);
		assert_int_equal(found(&bench), 0);
	}
}

/* This process calls itself dockerd for a moment. */
static void finds_the_daemon_by_its_name(void **state)
{
	_cleanup_bench_ struct bench bench;
	char number[32], comm[32] = "";
	_cleanup_fclose_ FILE *file = fopen("/proc/self/comm", "r+e");

	(void)state;
	bench_open(&bench);
	assert_non_null(file);
	assert_non_null(fgets(comm, sizeof(comm), file));
	rewind(file);
	fputs("dockerd", file);
	fflush(file);
	snprintf(number, sizeof(number), "%d", (int)getpid());
	directory_put(&bench.directory, "/run/docker.pid", number);
	assert_int_equal(found(&bench), getpid());
	rewind(file);
	fputs(comm, file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(believes_a_file_that_has_not_changed),
		cmocka_unit_test(follows_links_as_the_host_does),
		cmocka_unit_test(knows_the_default),
		cmocka_unit_test(knows_whether_there_was_a_file),
		cmocka_unit_test(believes_no_broken_file),
		cmocka_unit_test(reads_the_command_line),
		cmocka_unit_test(reads_the_file_that_the_command_line_names),
		cmocka_unit_test(takes_the_pid_file_for_a_start_elsewhere),
		cmocka_unit_test(finds_no_daemon_by_number_alone),
		cmocka_unit_test(finds_the_daemon_by_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
