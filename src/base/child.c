/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include "base/cleanup.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/close_range.h>

#define ERROR_MAX   4096
#define ASK_US      (10 * USEC_PER_SEC)
#define OUTPUT_ROOM ((size_t)1 << 20) /* the kernel refuses whole pages, or more */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* Linux 6.3 */
#endif

/*
 * Output goes to files in memory: nobody has to read while the program runs. They cannot grow
 * far beyond max bytes; how much was written is where the shared offset is.
 */
static int open_output(size_t max)
{
	_cleanup_close_ int fd =
		memfd_create("output", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("output", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)(max + OUTPUT_ROOM)) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* -EFBIG for more than max bytes. */
static int read_output(int fd, size_t max, char **text)
{
	off_t len = lseek(fd, 0, SEEK_CUR);
	_cleanup_free_ char *read = NULL;

	if (len < 0 || (size_t)len > max)
		return len < 0 ? -errno : -EFBIG;
	read = calloc(1, (size_t)len + 1);
	if (!read)
		return -ENOMEM;
	if (pread(fd, read, (size_t)len, 0) != len)
		return -EIO;
	*text = steal(read);
	return 0;
}

/* Between fork(2) and execve(2): only what is safe in a signal handler. */
static void become(const struct child *child, int out, int err, int started, pid_t parent)
{
	static const char *const environment[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		/* A Go program would start a thread for each CPU: more than our unit may have. */
		"GOMAXPROCS=2", NULL};
	const char *directory = child->directory && child->directory[0] ? child->directory : "/";
	struct sigaction fresh = {.sa_handler = SIG_DFL};
	sigset_t none;
	int null, error;

	for (int signal = 1; signal < NSIG; signal++)
		sigaction(signal, &fresh, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	/* Descriptors that others opened without O_CLOEXEC; kernels before 5.11 cannot do this. */
	syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (getppid() == parent && null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
		dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0 &&
		(!child->root || !child->root[0] || chroot(child->root) == 0) && chdir("/") == 0 &&
		chdir(directory) == 0)
		execve(child->arguments[0], (char *const *)child->arguments,
			(char *const *)environment);
	error = errno;
	(void)!write(started, &error, sizeof(error));
	_exit(127);
}

/* Kills all that it started with it, whether it has ended by itself or not. */
static int end(pid_t pid, int *status)
{
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL); /* should it not have come to its group yet */
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static void keep_first_line(const char *text, char *line, size_t size)
{
	copy_text(line, size, text);
	line[strcspn(line, "\r\n")] = '\0';
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
}

int child_run(const struct child *child, const struct wait *wait, struct child_result *result)
{
	_cleanup_close_ int out = open_output(child->output_max), err = open_output(ERROR_MAX);
	_cleanup_close_ int read_end = -1, write_end = -1, pidfd = -1;
	_cleanup_free_ char *output = NULL, *error = NULL;
	pid_t parent = getpid(), pid;
	int fds[2], r, ended, status, failed;

	if (out < 0 || err < 0)
		return MIN(out, err);
	/* The write end is closed by a successful execve(2), else it carries errno. */
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	read_end = fds[0];
	write_end = fds[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become(child, out, err, write_end, parent);
	close(steal_fd(&write_end));
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	r = pidfd < 0 ? -errno : wait_for(wait, pidfd, POLLIN);
	ended = end(pid, &status);
	if (r < 0 || ended < 0)
		return MIN(r, ended);
	if (read(read_end, &failed, sizeof(failed)) == sizeof(failed))
		return -failed;
	r = read_output(out, child->output_max, &output);
	if (r == 0 && read_output(err, ERROR_MAX + OUTPUT_ROOM, &error) == 0)
		keep_first_line(error, result->error, sizeof(result->error));
	if (r < 0)
		return r;
	result->status = status;
	result->output = steal(output);
	return 0;
}

int child_ask(const struct child *child, const struct wait *wait, char **output,
	char why[static CHILD_WHY_MAX])
{
	struct wait limited = wait_at_most(wait, ASK_US);
	struct child_result result = {0};
	int r = child_run(child, &limited, &result);

	if (r < 0) {
		snprintf(why, CHILD_WHY_MAX, "%.200s could not be run%s: %s%s", child->arguments[0],
			child->root && child->root[0] ? " in the host's root" : "", strerror(-r),
			r == -EPERM ? ": give CAP_SYS_CHROOT" : "");
		return r;
	}
	if (WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0) {
		if (output)
			*output = steal(result.output);
		free(result.output);
		return 0;
	}
	free(result.output);
	snprintf(why, CHILD_WHY_MAX, "%.100s refuses it: %.200s", child->arguments[0],
		result.error[0] ? result.error : "without a message");
	return -EINVAL;
}
