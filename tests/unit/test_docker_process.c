/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/docker_process.h"

#include <sys/prctl.h>

struct node {
	struct directory directory;
	struct host host;
	char socket[PATH_MAX];
};

static void node_open(struct node *node)
{
	memset(node, 0, sizeof(*node));
	directory_make(&node->directory);
	assert_true(host_init(&node->host, node->directory.path));
	directory_path(&node->directory, "/run/docker.sock", node->socket);
}

static void node_close(struct node *node)
{
	directory_remove(&node->directory);
}

#define NODE_TEST(name) TEST_OF(node, node, node_open, node_close, name)

/* This program with another command line and name, which the pid file names. */
static pid_t start(const struct node *node, const char *const *words)
{
	char number[16], comm[64];
	_cleanup_free_ char *text = NULL;
	pid_t pid = fork();

	if (pid == 0) {
		execv("/proc/self/exe", (char *const *)words);
		_exit(1);
	}
	snprintf(number, sizeof(number), "%d\n", (int)pid);
	directory_put(&node->directory, "/run/docker.pid", number);
	snprintf(comm, sizeof(comm), "/proc/%d/comm", (int)pid);
	for (int i = 0; i < 2000; i++, usleep(1000)) {
		free(steal(text));
		if (read_file(comm, 64, &text, NULL) == 0 && streq(text, "dockerd\n"))
			break;
	}
	return pid;
}

NODE_TEST(options_of_the_process_are_read)
{
	static const struct {
		const char *words[6];
		const char *downloads;
		bool mirrors;
	} cases[] = {
		{{"dockerd", "-H", "fd://"}, "", false},
		{{"dockerd", "--max-concurrent-downloads=7"}, "7", false},
		{{"dockerd", "--max-concurrent-downloads", "5"}, "5", false},
		{{"dockerd", "--registry-mirror", "http://m"}, "", true},
		{{"dockerd", "--max-concurrent-uploads=7"}, "", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		pid_t pid = start(node, cases[i].words);
		struct docker_process process;

		assert_int_equal(docker_process_read(&node->host, node->socket, &process), 0);
		assert_int_equal(process.pid, pid);
		assert_string_equal(process.downloads, cases[i].downloads);
		assert_int_equal(process.downloads_on_command, cases[i].downloads[0] != '\0');
		assert_int_equal(process.mirrors_on_command, cases[i].mirrors);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* It runs, and its options are not known: what comes from no command line is no "no option". */
NODE_TEST(a_process_that_is_not_visible_has_no_pid)
{
	struct docker_process process = {.pid = 1};

	directory_put(&node->directory, "/run/docker.pid", "999999999\n");
	assert_int_equal(docker_process_read(&node->host, node->socket, &process), 0);
	assert_int_equal(process.pid, 0);
	/* A stale pid file names a process of another name. */
	directory_put(&node->directory, "/run/docker.pid", "1\n");
	assert_int_equal(docker_process_read(&node->host, node->socket, &process), 0);
	assert_int_equal(process.pid, 0);
}

/* Started again under the name of dockerd this program is one. */
static void __attribute__((constructor)) run_as_dockerd(int argc, char **argv)
{
	if (argc > 0 && streq(argv[0], "dockerd")) {
		prctl(PR_SET_NAME, "dockerd");
		pause();
	}
}
