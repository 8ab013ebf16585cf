/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/child.h"

#include <poll.h>
#include <sys/eventfd.h>

#define SHELL(script) ((const char *const[]){"/bin/sh", "-c", script, NULL})

static const struct wait patient = {UINT64_MAX, -1};

/* said: the output of the child, or why it failed; NULL: any text. */
static void run_child(struct child child, const struct wait *wait, int r, const char *said)
{
	_cleanup_free_ char *output = NULL;
	char why[CHILD_WHY_MAX];

	child.output_max = 10000;
	assert_int_equal(child_ask(&child, wait, &output, why), r);
	assert_int_equal(output != NULL, r == 0);
	if (said)
		assert_string_equal(r == 0 ? output : why, said);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left behind */
}

static void expect(const char *script, int r, const char *said)
{
	run_child((struct child){.arguments = SHELL(script)}, &patient, r, said);
}

TEST(output_or_the_first_line_of_an_error_is_returned)
{
	expect("echo one; echo two", 0, "one\ntwo\n");
	expect("true", 0, "");
	expect("echo no >&2", 0, "");
	expect("printf 'bad thing\nmore' >&2; exit 3", -EINVAL, "/bin/sh refuses it: bad thing");
	expect("echo level=warning x >&2; echo bad >&2; exit 1", -EINVAL,
		"/bin/sh refuses it: bad");
	expect("printf 'a\33b' >&2; kill -9 $$", -EINVAL,
		"/bin/sh was ended by a signal, Killed: a?b");
	expect("exit 1", -EINVAL, "/bin/sh refuses it: without a message");
	expect("yes", -EFBIG, "/bin/sh could not be run: File too large");
}

/* This process has variables, blocked and ignored signals, descriptors and input. */
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
	expect("sed -n '/^Cap[IPEA]/s/.*\t//p' /proc/self/status | sort -u", 0,
		"0000000000000000\n");
	expect("sed -n '/^NoNewPrivs/s/.*\t//p' /proc/self/status", 0, "1\n");
	expect("ls /proc/self/fd | wc -l", 0, "4\n"); /* ls has opened the fourth */
	sigprocmask(SIG_UNBLOCK, &all, NULL);
	signal(SIGPIPE, SIG_DFL);
}

TEST(a_child_that_hangs_or_is_cancelled_is_killed)
{
	static const char *const scripts[] = {
		"sleep 1000", "exec >&- 2>&-; sleep 1000", "trap '' TERM; while :; do :; done"};
	_cleanup_close_ int cancel = eventfd(1, EFD_CLOEXEC);

	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		const struct child child = {.arguments = SHELL(scripts[i])};

		run_child(
			child, &(struct wait){now_us() + 50 * USEC_PER_MSEC, -1}, -ETIMEDOUT, NULL);
		run_child(child, &(struct wait){UINT64_MAX, cancel}, -ECANCELED, NULL);
	}
}

TEST(a_child_runs_in_its_working_directory)
{
	run_child((struct child){.arguments = SHELL("pwd"), .directory = "/usr"}, &patient, 0,
		"/usr\n");
}

/* The child and its children are the only writers of a FIFO, which ends with the last of them. */
DIRECTORY_TEST(grandchildren_are_killed_too)
{
	struct path fifo = directory_at(directory, "/fifo");
	char script[2 * PATH_MAX + 64], byte;
	const struct child child = {.arguments = SHELL(script), .output_max = 100};
	struct wait wait = {.cancel_fd = -1};
	char why[CHILD_WHY_MAX];
	_cleanup_close_ int reader = -1;
	struct pollfd ended = {.events = POLLIN};

	assert_int_equal(mkfifo(fifo.text, 0600), 0);
	reader = open(fifo.text, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(reader >= 0);
	snprintf(script, sizeof(script), "sleep 1000 3>'%s' & echo begun >'%s'; wait", fifo.text,
		fifo.text);
	wait.deadline_us = now_us() + 300 * USEC_PER_MSEC;
	assert_int_equal(child_ask(&child, &wait, NULL, why), -ETIMEDOUT);
	for (ended.fd = reader; poll(&ended, 1, 20000) == 1;)
		if (read(reader, &byte, 1) == 0)
			return;
	fail_msg("a grandchild still runs");
}

TEST(failures_to_start_are_errors)
{
	run_child((struct child){.arguments = (const char *const[]){"/nonexistent", NULL}},
		&patient, -ENOENT, "/nonexistent could not be run: No such file or directory");
	run_child((struct child){.arguments = SHELL("true"), .root = "/nonexistent"}, &patient,
		geteuid() == 0 ? -ENOENT : -EPERM, NULL);
}
