/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include "base/cleanup.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/close_range.h>

enum {
	OUT,
	ERR,
	STARTED, /* closed by a successful execve(2), else it carries errno */
	PIPES
};

struct pipes {
	int read[PIPES], write[PIPES];
};

static void close_pipes(struct pipes *pipes)
{
	for (int i = 0; i < PIPES; i++) {
		cleanup_close(&pipes->read[i]);
		cleanup_close(&pipes->write[i]);
	}
}

static int open_pipes(struct pipes *pipes)
{
	for (int i = 0; i < PIPES; i++) {
		int fds[2];

		if (pipe2(fds, O_CLOEXEC) < 0)
			return -errno;
		pipes->read[i] = fds[0];
		pipes->write[i] = fds[1];
		if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
			return -errno;
	}
	return 0;
}

/* Between fork(2) and execve(2): only what is safe in a signal handler. */
static void become(const struct child *child, const struct pipes *pipes, pid_t parent)
{
	static const char *const environment[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		/* A Go program would start a thread for each CPU: more than our unit may have. */
		"GOMAXPROCS=2", NULL};
	struct sigaction fresh = {.sa_handler = SIG_DFL};
	sigset_t none;
	int null, error;

	for (int signal = 1; signal < NSIG; signal++)
		sigaction(signal, &fresh, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	/* What others opened without O_CLOEXEC; kernels before 5.11 cannot do this, and need not.
	 */
	syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (getppid() == parent && null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
		dup2(pipes->write[OUT], STDOUT_FILENO) >= 0 &&
		dup2(pipes->write[ERR], STDERR_FILENO) >= 0 &&
		(!child->root || !child->root[0] || chroot(child->root) == 0) && chdir("/") == 0)
		execve(child->arguments[0], (char *const *)child->arguments,
			(char *const *)environment);
	error = errno;
	(void)!write(pipes->write[STARTED], &error, sizeof(error));
	_exit(127);
}

/* What has come in so far of one of its streams. */
struct stream {
	char *text;
	size_t len, max;
	bool ended;
};

/* Beyond max, bytes are counted as one too many, and dropped. */
static int take(struct stream *stream, int fd)
{
	char piece[16384];
	ssize_t n = read(fd, piece, sizeof(piece));
	char *moved;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	stream->ended = n == 0;
	if (n == 0 || stream->len > stream->max)
		return 0;
	moved = realloc(stream->text, stream->len + (size_t)n + 1);
	if (!moved)
		return -ENOMEM;
	stream->text = moved;
	memcpy(moved + stream->len, piece, (size_t)n);
	stream->len += (size_t)n;
	moved[stream->len] = '\0';
	return 0;
}

/* Until both streams have ended, which is when nobody holds them open any more. */
static int collect(const struct pipes *pipes, uint64_t deadline_us, struct stream streams[2])
{
	while (!streams[OUT].ended || !streams[ERR].ended) {
		struct pollfd fds[] = {
			{.fd = streams[OUT].ended ? -1 : pipes->read[OUT], .events = POLLIN},
			{.fd = streams[ERR].ended ? -1 : pipes->read[ERR], .events = POLLIN}};
		uint64_t now = now_us();
		int r;

		if (now >= deadline_us)
			return -ETIMEDOUT;
		r = poll(fds, 2, (int)MIN((deadline_us - now) / 1000 + 1, INT_MAX));
		if (r < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; r > 0 && i < 2; i++) {
			int taken = fds[i].revents ? take(&streams[i], pipes->read[i]) : 0;

			if (taken < 0)
				return taken;
		}
		if (streams[OUT].len > streams[OUT].max)
			return -EFBIG;
	}
	return 0;
}

/* Its streams have ended, and so should it: a program that closes them and stays is killed too. */
static int await(pid_t pid, uint64_t deadline_us, int *status)
{
	for (;;) {
		pid_t ended = waitpid(pid, status, WNOHANG);

		if (ended == pid)
			return 0;
		if (ended < 0 && errno != EINTR)
			return -errno;
		if (now_us() >= deadline_us)
			return -ETIMEDOUT;
		usleep(1000);
	}
}

/* With all that it started: these would hold files open, and run on. */
static void end(pid_t pid)
{
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL); /* should it not have come to its group yet */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void keep_first_line(const struct stream *stream, char *line, size_t size)
{
	copy_text(line, size, stream->text ? stream->text : "");
	line[strcspn(line, "\r\n")] = '\0';
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
}

static int start_error(const struct pipes *pipes)
{
	int error;

	return read(pipes->read[STARTED], &error, sizeof(error)) == sizeof(error) ? -error : 0;
}

int child_run(const struct child *child, struct child_result *result)
{
	_cleanup_(close_pipes) struct pipes pipes = {{-1, -1, -1}, {-1, -1, -1}};
	struct stream streams[2] = {{.max = child->output_max}, {.max = sizeof(result->error)}};
	pid_t parent = getpid(), pid;
	int r = open_pipes(&pipes), status = 0;

	if (r < 0)
		return r;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become(child, &pipes, parent);
	for (int i = 0; i < PIPES; i++)
		close(steal_fd(&pipes.write[i]));
	r = collect(&pipes, child->deadline_us, streams);
	if (r == 0)
		r = await(pid, child->deadline_us, &status);
	if (r < 0)
		end(pid);
	if (r == 0)
		r = start_error(&pipes);
	if (r == 0) {
		result->status = status;
		result->output = streams[OUT].text ? steal(streams[OUT].text) : strdup("");
		keep_first_line(&streams[ERR], result->error, sizeof(result->error));
		r = result->output ? 0 : -ENOMEM;
	}
	free(streams[OUT].text);
	free(streams[ERR].text);
	return r;
}
