/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain files serve as sysctls and switches, and a process can be killed or stopped at a chosen
 * change of a file.
 */
#include "timeshift.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 1024

static int64_t crash_left;      /* of SHIFT_CRASH; 0: no crash */
static const char *crash_after; /* of SHIFT_AFTER: right after a write to this kernel file, or the
				   change after another file got this name */
static int after_fd = -1;       /* that kernel file, open for a write */
static const char *stop_at;     /* of SHIFT_STOP: stops before it opens this file for a write */
static _Thread_local int64_t left; /* until this thread's crash */
static int crash_signal = SIGKILL; /* of SHIFT_SIGNAL */
static _Atomic bool is_kernel_file[FILES_MAX];

void files_init(void)
{
	const char *crash = getenv("SHIFT_CRASH");

	crash_left = crash ? atoll(crash) : 0;
	crash_after = getenv("SHIFT_AFTER");
	stop_at = getenv("SHIFT_STOP");
	if (getenv("SHIFT_SIGNAL"))
		crash_signal = atoi(getenv("SHIFT_SIGNAL"));
}

void files_closed(int fd)
{
	if (fd > 0 && fd < FILES_MAX)
		is_kernel_file[fd] = false;
	if (fd == after_fd)
		after_fd = -1;
}

/*
 * Before each change: the process may end or stop here. Each thread counts its own changes, because
 * their order is not the same each time. A thread that would end the process sleeps, so that the
 * others get as far each time: the test ends the process when all sleep.
 */
static void before_change(void)
{
	static _Thread_local int64_t order = -1;

	if (!control)
		return;
	if (order < 0) {
		order = 0;
		left = crash_left;
	}
	if (control->crash_pid == getpid() && control->crash_order != order) {
		order = control->crash_order;
		left = control->crash_left;
	}
	if (left == 0 || --left > 0)
		return;
	if (crash_signal != SIGKILL)
		kill(getpid(), crash_signal);
	while (crash_signal == SIGKILL)
		pause();
}

static int opened(int fd, const char *path, int flags)
{
	if (fd >= 0 && fd < FILES_MAX)
		is_kernel_file[fd] =
			(flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH) &&
			(strstr(path, "/proc/sys/") || strstr(path, "/sys/kernel/mm/"));
	if (fd >= 0 && fd < FILES_MAX && is_kernel_file[fd] && crash_after &&
		strcmp(path, crash_after) == 0)
		after_fd = fd;
	return fd;
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	if (flags & (O_CREAT | O_TRUNC))
		before_change();
	if (stop_at && strcmp(path, stop_at) == 0 && (flags & O_ACCMODE) != O_RDONLY)
		kill(getpid(), SIGSTOP);
	return opened(REAL(openat)(dir, path, flags, mode), path, flags);
}

int open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return openat(AT_FDCWD, path, flags, mode);
}

int __openat_2(int dir, const char *path, int flags);
int __openat_2(int dir, const char *path, int flags)
{
	return openat(dir, path, flags);
}

int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags)
{
	return open(path, flags);
}

ssize_t write(int fd, const void *data, size_t size)
{
	struct stat st;
	ssize_t n;

	if (fd > 2 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		before_change();
	n = REAL(write)(fd, data, size);
	/* A write to procfs replaces the value. */
	if (n > 0 && fd < FILES_MAX && is_kernel_file[fd])
		(void)!REAL(ftruncate)(fd, n);
	if (n > 0 && fd == after_fd) {
		left = 1;
		before_change();
	}
	return n;
}

int rename(const char *from, const char *to)
{
	int r;

	before_change();
	r = REAL(rename)(from, to);
	if (r == 0 && crash_after && strcmp(to, crash_after) == 0)
		left = 1;
	return r;
}

#define CHANGES(type, name, parameters, arguments) \
	type name parameters                       \
	{                                          \
		before_change();                   \
		return REAL(name) arguments;       \
	}

CHANGES(int, renameat, (int from_dir, const char *from, int to_dir, const char *to),
	(from_dir, from, to_dir, to))
CHANGES(int, unlink, (const char *path), (path))
CHANGES(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
CHANGES(int, rmdir, (const char *path), (path))
CHANGES(int, mkdir, (const char *path, mode_t mode), (path, mode))
CHANGES(int, mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
CHANGES(int, fsync, (int fd), (fd))
CHANGES(int, ftruncate, (int fd, off_t size), (fd, size))
CHANGES(int, fchmod, (int fd, mode_t mode), (fd, mode))
CHANGES(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group))
CHANGES(int, symlinkat, (const char *to, int dir, const char *path), (to, dir, path))
CHANGES(int, remove, (const char *path), (path))
