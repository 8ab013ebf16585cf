/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/child.h"

#include <poll.h>

static int run_shell(const char *script, size_t output_max, struct child_result *result)
{
	const char *const arguments[] = {"/bin/sh", "-c", script, NULL};
	const struct child child = {.arguments = arguments, .output_max = output_max};
	const struct wait wait = {.deadline_us = now_us() + 20 * USEC_PER_SEC, .cancel_fd = -1};

	return child_run(&child, &wait, result);
}

static void expect_output(const char *script, const char *output)
{
	struct child_result result = {0};

	assert_int_equal(run_shell(script, 65536, &result), 0);
	assert_true(WIFEXITED(result.status));
	assert_int_equal(WEXITSTATUS(result.status), 0);
	assert_string_equal(result.output, output);
	free(result.output);
}

TEST(the_output_of_a_child_is_returned)
{
	expect_output("echo one; echo two", "one\ntwo\n");
	expect_output("true", "");
	expect_output("echo no >&2", "");
}

TEST(the_exit_status_and_first_error_line_are_returned)
{
	struct child_result result = {0};

	assert_int_equal(run_shell("printf 'bad\\tthing\\nmore' >&2; exit 3", 100, &result), 0);
	assert_int_equal(WEXITSTATUS(result.status), 3);
	assert_string_equal(result.error, "bad thing");
	free(result.output);
}

/* Whatever this process has: variables, blocked and ignored signals, descriptors, input. */
TEST(a_child_inherits_nothing)
{
	sigset_t all;

	setenv("SECRET", "x", 1);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	signal(SIGPIPE, SIG_IGN);
	assert_true(open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0);
	expect_output("echo \"$SECRET$HOME\"; cat", "\n");
	expect_output(
		"sed -n '/^Sig[BI]/s/.*\t//p' /proc/self/status | sort -u", "0000000000000000\n");
	expect_output("ls /proc/self/fd | wc -l", "4\n"); /* and that of ls */
	sigprocmask(SIG_UNBLOCK, &all, NULL);
	signal(SIGPIPE, SIG_DFL);
}

TEST(too_much_output_is_an_error)
{
	struct child_result result = {0};

	assert_int_equal(run_shell("yes", 10000, &result), -EFBIG);
	assert_null(result.output);
}

TEST(a_child_that_hangs_is_killed)
{
	static const char *const scripts[] = {
		"sleep 1000", "exec >&- 2>&-; sleep 1000", "trap '' TERM; while :; do :; done"};

	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		const char *const arguments[] = {"/bin/sh", "-c", scripts[i], NULL};
		const struct child child = {.arguments = arguments, .output_max = 100};
		const struct wait wait = {
			.deadline_us = now_us() + 50 * USEC_PER_MSEC, .cancel_fd = -1};
		struct child_result result = {0};

		assert_int_equal(child_run(&child, &wait, &result), -ETIMEDOUT);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left behind */
	}
}

TEST(cancelling_kills_the_child)
{
	const char *const arguments[] = {"/bin/sleep", "1000", NULL};
	const struct child child = {.arguments = arguments, .output_max = 100};
	struct child_result result = {0};
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	close(fds[1]); /* readable: its end */
	{
		const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = fds[0]};

		assert_int_equal(child_run(&child, &wait, &result), -ECANCELED);
	}
	close(fds[0]);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(a_child_runs_in_its_working_directory)
{
	const char *const arguments[] = {"/bin/pwd", NULL};
	const struct child child = {.arguments = arguments, .directory = "/usr", .output_max = 100};
	const struct wait wait = {.deadline_us = now_us() + 20 * USEC_PER_SEC, .cancel_fd = -1};
	struct child_result result = {0};

	assert_int_equal(child_run(&child, &wait, &result), 0);
	assert_string_equal(result.output, "/usr\n");
	free(result.output);
}

/* A pipe that only it and its children hold open for writing ends with the last of them. */
DIRECTORY_TEST(grandchildren_are_killed_too)
{
	char fifo[PATH_MAX], script[2 * PATH_MAX], byte;
	const char *const arguments[] = {"/bin/sh", "-c", script, NULL};
	const struct child child = {.arguments = arguments, .output_max = 100};
	struct wait wait = {.cancel_fd = -1};
	struct child_result result = {0};
	_cleanup_close_ int reader = -1;
	struct pollfd ended = {.events = POLLIN};

	directory_path(directory, "/fifo", fifo);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	reader = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(reader >= 0);
	snprintf(script, sizeof(script), "sleep 1000 3>'%s' & echo begun >'%s'; wait", fifo, fifo);
	wait.deadline_us = now_us() + 300 * USEC_PER_MSEC;
	assert_int_equal(child_run(&child, &wait, &result), -ETIMEDOUT);
	for (ended.fd = reader; poll(&ended, 1, 20000) == 1;)
		if (read(reader, &byte, 1) == 0)
			return;
	fail_msg("it runs on");
}

TEST(failures_to_start_are_errors)
{
	const char *const missing[] = {"/nonexistent", NULL}, *const shell[] = {"/bin/sh", NULL};
	struct child child = {.arguments = missing, .output_max = 100};
	const struct wait wait = {.deadline_us = now_us() + 20 * USEC_PER_SEC, .cancel_fd = -1};
	struct child_result result = {0};

	assert_int_equal(child_run(&child, &wait, &result), -ENOENT);
	child.arguments = shell;
	child.root = "/nonexistent";
	assert_int_equal(child_run(&child, &wait, &result), geteuid() == 0 ? -ENOENT : -EPERM);
}
