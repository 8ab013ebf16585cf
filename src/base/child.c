/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include "base/text.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/capability.h>

#define ERROR_MAX   4096
#define ASK_US      (20 * USEC_PER_SEC)
#define OUTPUT_ROOM ((size_t)1 << 20) /* the kernel refuses whole pages, or more */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* Linux 6.3 */
#endif

/*
 * Returns a file in memory for output: no thread has to read while the program runs. It cannot grow
 * far beyond max bytes. Its shared offset is the number of bytes written.
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

/* Returns -EFBIG for more than max bytes. */
static int read_output(int fd, size_t max, char **text)
{
	off_t len = lseek(fd, 0, SEEK_CUR);
	_cleanup_free_ char *read = NULL;

	if (len < 0 || (size_t)len > max)
		return len < 0 ? -errno : -EFBIG;
	read = must(calloc(1, (size_t)len + 1));
	if (pread(fd, read, (size_t)len, 0) != len)
		return -EIO;
	*text = steal(read);
	return 0;
}

/* Without new privileges, execve(2) does not give them back to root. */
static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	return (int)syscall(SYS_capset, &header, none);
}

#define REPORT (STDERR_FILENO + 1)

/*
 * Closes what else the agent has open before anything else: after its SIGKILL its lock must be
 * free. Linux 5.9.
 */
static bool keep_only(int out, int err, int report)
{
	if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0 ||
		(report != REPORT && dup3(report, REPORT, O_CLOEXEC) < 0))
		return false;
	syscall(SYS_close_range, REPORT + 1, ~0U, 0);
	return true;
}

/*
 * Returns only after an error, with errno. After a fork() of a process with threads, it may call
 * only functions that are safe in a signal handler.
 */
static void become(const struct child *child, pid_t parent)
{
	static const char *const environment[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		/* Keep a Go program from starting a thread for each CPU: the unit has a limit. */
		"GOMAXPROCS=2", NULL};
	const char *directory = child->directory && child->directory[0] ? child->directory : "/";
	struct sigaction fresh = {.sa_handler = SIG_DFL};
	sigset_t none;
	int null;

	for (int signal = 1; signal < NSIG; signal++)
		sigaction(signal, &fresh, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (getppid() == parent && null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
		(!child->root || !child->root[0] || chroot(child->root) == 0) && chdir("/") == 0 &&
		chdir(directory) == 0 && drop_capabilities() == 0)
		execve(child->arguments[0], (char *const *)child->arguments,
			(char *const *)environment);
}

/*
 * Returns 0 with the status of waitpid(2), standard output and standard error; the last may be
 * NULL.
 */
static int run(const struct child *child, const struct wait *wait, int *status, char **output,
	char **error)
{
	_cleanup_close_ int out = open_output(child->output_max), err = open_output(ERROR_MAX);
	_cleanup_close_ int pidfd = -1, report = open_output(sizeof(int));
	pid_t pid, parent = getpid();
	int r, failed = 0;

	if (out < 0 || err < 0 || report < 0)
		return MIN(MIN(out, err), report);
	/* vfork(2) would wait for execve(2), and so for a file system, without a deadline. */
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		if (keep_only(out, err, report)) {
			report = REPORT;
			become(child, parent);
		}
		(void)!write(report, &errno, sizeof(errno));
		_exit(127);
	}
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	r = pidfd < 0 ? -errno : wait_for(wait, pidfd, POLLIN);
	/* Kill its process group, even if it has ended. */
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL); /* it may not be the leader of its group yet */
	waitpid(pid, status, 0);
	if (r < 0)
		return r;
	if (pread(report, &failed, sizeof(failed), 0) < 0)
		failed = errno;
	if (failed)
		return -failed;
	(void)read_output(err, ERROR_MAX + OUTPUT_ROOM, error);
	return read_output(out, child->output_max, output);
}

/* Returns the text of 'time="..." level=fatal msg="..."', else the line. */
static char *logged_message(char *line)
{
	char *begin = strstr(line, "level=fatal") ? strstr(line, "msg=\"") : NULL, *to;

	if (!begin)
		return line;
	begin = to = begin + strlen("msg=\"");
	for (const char *from = begin; *from && *from != '"'; from++) {
		from += *from == '\\' && from[1];
		*to++ = *from;
	}
	*to = '\0';
	return begin;
}

/* Returns the first line that is not logged, or is fatal; else the first error; else the first. */
static const char *error_line(char *text)
{
	char *first = NULL, *state = NULL;

	for (char *line = strtok_r(text, "\r\n", &state); line;
		line = strtok_r(NULL, "\r\n", &state)) {
		text_make_printable(line);
		if (!strstr(line, "level=") || strstr(line, "level=fatal"))
			return logged_message(line);
		if (!first || (strstr(line, "level=error") && !strstr(first, "level=error")))
			first = line;
	}
	return first ? logged_message(first) : "without a message";
}

int child_ask(const struct child *child, const struct wait *wait, char **output,
	char why[static CHILD_WHY_MAX])
{
	_cleanup_free_ char *text = NULL, *error = NULL;
	struct wait limited = wait_at_most(wait, ASK_US);
	const char *message, *begin;
	int status, r = run(child, &limited, &status, &text, &error);

	if (r < 0) {
		snprintf(why, CHILD_WHY_MAX, "%.200s could not be run%s: %s%s", child->arguments[0],
			child->root && child->root[0] ? " in the host's root" : "", strerror(-r),
			r == -EPERM ? ": give CAP_SYS_CHROOT" : "");
		return r;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		if (output)
			*output = steal(text);
		return 0;
	}
	if (error)
		hide_secrets(error); /* before a line is cut */
	message = error_line(error ? error : (char[]){""});
	begin = child->skip ? strstr(message, child->skip) : NULL;
	snprintf(why, CHILD_WHY_MAX, "%.100s %s%s: %.180s", child->arguments[0],
		WIFSIGNALED(status) ? "was ended by a signal, " : "refuses it",
		WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "",
		begin ? begin + strlen(child->skip) : message);
	return -EINVAL;
}
