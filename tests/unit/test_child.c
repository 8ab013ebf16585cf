/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/child.h"

#include <poll.h>
#include <sys/eventfd.h>

static int run(const struct child *child, char **output, char why[static CHILD_WHY_MAX])
{
	const struct wait wait = {.deadline_us = now_us() + 20 * USEC_PER_SEC, .cancel_fd = -1};

	return child_ask(child, &wait, output, why);
}

/* said: its output or, when it fails, why. */
static void expect(const char *script, int r, const char *said)
{
	const char *const arguments[] = {"/bin/sh", "-c", script, NULL};
	const struct child child = {.arguments = arguments, .output_max = 10000};
	_cleanup_free_ char *output = NULL;
	char why[CHILD_WHY_MAX];

	assert_int_equal(run(&child, &output, why), r);
	assert_int_equal(output != NULL, r == 0);
	assert_string_equal(r == 0 ? output : why, said);
}

TEST(output_or_the_first_line_of_an_error_is_returned)
{
	expect("echo one; echo two", 0, "one\ntwo\n");
	expect("true", 0, "");
	expect("echo no >&2", 0, "");
	expect("printf 'bad thing\nmore' >&2; exit 3", -EINVAL, "/bin/sh refuses it: bad thing");
	expect("printf 'a\33b' >&2; kill -9 $$", -EINVAL, "/bin/sh refuses it: a?b");
	expect("exit 1", -EINVAL, "/bin/sh refuses it: without a message");
	expect("yes", -EFBIG, "/bin/sh could not be run: File too large");
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
	expect("echo \"$SECRET$HOME\"; cat", 0, "\n");
	expect("sed -n '/^Sig[BI]/s/.*\t//p' /proc/self/status | sort -u", 0, "0000000000000000\n");
	expect("ls /proc/self/fd | wc -l", 0, "4\n"); /* and that of ls */
	sigprocmask(SIG_UNBLOCK, &all, NULL);
	signal(SIGPIPE, SIG_DFL);
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
		char why[CHILD_WHY_MAX];

		assert_int_equal(child_ask(&child, &wait, NULL, why), -ETIMEDOUT);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left behind */
	}
}

TEST(cancelling_kills_the_child)
{
	const char *const arguments[] = {"/bin/sleep", "1000", NULL};
	const struct child child = {.arguments = arguments, .output_max = 100};
	char why[CHILD_WHY_MAX];
	_cleanup_close_ int cancel = eventfd(1, EFD_CLOEXEC);

	assert_int_equal(
		child_ask(&child, &(struct wait){UINT64_MAX, cancel}, NULL, why), -ECANCELED);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(a_child_runs_in_its_working_directory)
{
	const char *const arguments[] = {"/bin/pwd", NULL};
	const struct child child = {.arguments = arguments, .directory = "/usr", .output_max = 100};
	_cleanup_free_ char *output = NULL;
	char why[CHILD_WHY_MAX];

	assert_int_equal(run(&child, &output, why), 0);
	assert_string_equal(output, "/usr\n");
}

/* A pipe that only it and its children hold open for writing ends with the last of them. */
DIRECTORY_TEST(grandchildren_are_killed_too)
{
	char fifo[PATH_MAX], script[2 * PATH_MAX], byte;
	const char *const arguments[] = {"/bin/sh", "-c", script, NULL};
	const struct child child = {.arguments = arguments, .output_max = 100};
	struct wait wait = {.cancel_fd = -1};
	char why[CHILD_WHY_MAX];
	_cleanup_close_ int reader = -1;
	struct pollfd ended = {.events = POLLIN};

	directory_path(directory, "/fifo", fifo);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	reader = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(reader >= 0);
	snprintf(script, sizeof(script), "sleep 1000 3>'%s' & echo begun >'%s'; wait", fifo, fifo);
	wait.deadline_us = now_us() + 300 * USEC_PER_MSEC;
	assert_int_equal(child_ask(&child, &wait, NULL, why), -ETIMEDOUT);
	for (ended.fd = reader; poll(&ended, 1, 20000) == 1;)
		if (read(reader, &byte, 1) == 0)
			return;
	fail_msg("it runs on");
}

TEST(failures_to_start_are_errors)
{
	const char *const missing[] = {"/nonexistent", NULL}, *const shell[] = {"/bin/sh", NULL};
	struct child child = {.arguments = missing, .output_max = 100};
	char why[CHILD_WHY_MAX];

	assert_int_equal(run(&child, NULL, why), -ENOENT);
	assert_string_equal(why, "/nonexistent could not be run: No such file or directory");
	child.arguments = shell;
	child.root = "/nonexistent";
	assert_int_equal(run(&child, NULL, why), geteuid() == 0 ? -ENOENT : -EPERM);
}
