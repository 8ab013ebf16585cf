/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to preload, for tests only. The clocks stand still and move when a test writes other
 * times into a control file: sleeps, timers and timeouts end at those times. Plain files serve as
 * sysctls and switches, and a process can be killed or stopped at a chosen change of a file.
 *
 * SHIFT_CONTROL names the control file. A test changes it through a mapping, and then writes to
 * the file SHIFT_BELL: each waiting thread watches that file.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS         1000000000LL
#define TIMERS_MAX 64
#define FILES_MAX  1024
#define FDS_MAX    256

/* machine.py has the same layout. */
struct control {
	_Atomic int64_t monotonic, realtime, boottime; /* ns */
	_Atomic int64_t crash_pid;                     /* this process is killed */
	_Atomic int64_t crash_left;                    /* after this many changes of files */
};

struct timer {
	int fd; /* an eventfd; 0: the entry is free */
	clockid_t clock;
	int64_t deadline, interval; /* INT64_MAX: not armed */
};

static struct control *control;
static _Atomic int64_t crash_left; /* of SHIFT_CRASH; 0: no crash */
static int crash_signal = SIGKILL; /* of SHIFT_SIGNAL */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct timer timers[TIMERS_MAX];
static _Atomic bool is_kernel_file[FILES_MAX];
static pthread_key_t bell_key;

static void close_bell(void *fd)
{
	close((int)(intptr_t)fd - 1);
}

__attribute__((constructor)) static void init(void)
{
	const char *path = getenv("SHIFT_CONTROL"), *crash = getenv("SHIFT_CRASH");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (control || fd < 0)
		return;
	pthread_key_create(&bell_key, close_bell);
	crash_left = crash ? atoll(crash) : 0;
	if (getenv("SHIFT_SIGNAL"))
		crash_signal = atoi(getenv("SHIFT_SIGNAL"));
	control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (control == MAP_FAILED)
		abort();
	close(fd);
}

#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* ---- clocks ---- */

static int64_t ns_of(const struct timespec *ts)
{
	return ts->tv_sec * NS + ts->tv_nsec;
}

static struct timespec timespec_of_ns(int64_t ns)
{
	return (struct timespec){.tv_sec = ns / NS, .tv_nsec = ns % NS};
}

/* Negative for a clock that is not shifted. */
static int64_t now_of(clockid_t clock)
{
	if (!control)
		init();
	if (!control)
		return -1;
	switch (clock) {
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
		return control->monotonic;
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
		return control->realtime;
	case CLOCK_BOOTTIME:
		return control->boottime;
	default:
		return -1;
	}
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int64_t now = now_of(clock);

	if (now < 0)
		return REAL(clock_gettime)(clock, ts);
	*ts = timespec_of_ns(now);
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &ts);
	*tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (ret)
		*ret = ts.tv_sec;
	return ts.tv_sec;
}

int timespec_get(struct timespec *ts, int base)
{
	return clock_gettime(CLOCK_REALTIME, ts) == 0 ? base : 0;
}

/* ---- waits ---- */

static void fire_timers(void)
{
	uint64_t one = 1;

	pthread_mutex_lock(&lock);
	for (struct timer *timer = timers; timer < timers + TIMERS_MAX; timer++) {
		if (timer->fd == 0 || now_of(timer->clock) < timer->deadline)
			continue;
		(void)!REAL(write)(timer->fd, &one, sizeof(one));
		timer->deadline =
			timer->interval > 0 ? now_of(timer->clock) + timer->interval : INT64_MAX;
	}
	pthread_mutex_unlock(&lock);
}

/* One for each thread: another thread must not take its event. */
static int bell(void)
{
	int fd = (int)(intptr_t)pthread_getspecific(bell_key) - 1;

	if (fd >= 0)
		return fd;
	fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0 || inotify_add_watch(fd, getenv("SHIFT_BELL"), IN_MODIFY) < 0)
		abort();
	pthread_setspecific(bell_key, (void *)(intptr_t)(fd + 1));
	return fd;
}

/* Waits until an event, a signal or a time of CLOCK_MONOTONIC. */
static int wait_until(struct pollfd *fds, nfds_t n, int64_t deadline, const sigset_t *mask)
{
	const struct timespec zero = {0};
	struct pollfd all[FDS_MAX];
	char events[4096];

	if (n >= FDS_MAX)
		abort();
	for (;;) {
		struct pollfd *mine = &all[n];
		bool is_over;
		int r;

		if (n > 0)
			memcpy(all, fds, n * sizeof(*fds));
		*mine = (struct pollfd){.fd = bell(), .events = POLLIN};
		fire_timers();
		is_over = control->monotonic >= deadline;
		r = REAL(ppoll)(all, n + 1, is_over ? &zero : NULL, mask);
		if (r < 0)
			return -1;
		if (mine->revents) {
			(void)!read(mine->fd, events, sizeof(events));
			r--;
		}
		if (r == 0 && !is_over)
			continue;
		for (nfds_t i = 0; i < n; i++)
			fds[i].revents = all[i].revents;
		return r;
	}
}

static int64_t deadline_of(int64_t timeout)
{
	int64_t now = now_of(CLOCK_MONOTONIC);

	return timeout < 0 || timeout > INT64_MAX - now ? INT64_MAX : now + timeout;
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	if (now_of(CLOCK_MONOTONIC) < 0 || timeout == 0)
		return REAL(poll)(fds, n, timeout);
	return wait_until(fds, n, deadline_of(timeout < 0 ? -1 : timeout * (NS / 1000)), NULL);
}

/* A program built with _FORTIFY_SOURCE calls it. */
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size);
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size)
{
	(void)size;
	return poll(fds, n, timeout);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	if (now_of(CLOCK_MONOTONIC) < 0 || (timeout && ns_of(timeout) == 0))
		return REAL(ppoll)(fds, n, timeout, mask);
	return wait_until(fds, n, deadline_of(timeout ? ns_of(timeout) : -1), mask);
}

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
	size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
	size_t size)
{
	(void)size;
	return ppoll(fds, n, timeout, mask);
}

int epoll_pwait(int fd, struct epoll_event *events, int max, int timeout, const sigset_t *mask)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	int r;

	if (now_of(CLOCK_MONOTONIC) < 0)
		return REAL(epoll_pwait)(fd, events, max, timeout, mask);
	fire_timers();
	r = REAL(epoll_pwait)(fd, events, max, 0, mask);
	if (r != 0 || timeout == 0)
		return r;
	r = wait_until(&wait, 1, deadline_of(timeout < 0 ? -1 : timeout * (NS / 1000)), mask);
	return r > 0 ? REAL(epoll_pwait)(fd, events, max, 0, mask) : r;
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
	return epoll_pwait(fd, events, max, timeout, NULL);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	int64_t duration = ns_of(time);

	if (now_of(clock) < 0)
		return REAL(clock_nanosleep)(clock, flags, time, left);
	if (flags & TIMER_ABSTIME)
		duration -= now_of(clock);
	(void)wait_until(NULL, 0, deadline_of(duration > 0 ? duration : 0), NULL);
	return 0;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
}

int usleep(useconds_t us)
{
	const struct timespec time = timespec_of_ns((int64_t)us * 1000);

	return nanosleep(&time, NULL);
}

unsigned sleep(unsigned seconds)
{
	const struct timespec time = {.tv_sec = seconds};

	return nanosleep(&time, NULL) < 0;
}

/* The end of a thread rings no bell: look for it at real intervals, too. */
int pthread_clockjoin_np(
	pthread_t thread, void **ret, clockid_t clock, const struct timespec *until)
{
	const struct timespec soon = {.tv_nsec = NS / 200};
	char events[4096];
	int r;

	if (now_of(clock) < 0)
		return REAL(pthread_clockjoin_np)(thread, ret, clock, until);
	while ((r = pthread_tryjoin_np(thread, ret)) == EBUSY) {
		struct pollfd ring = {.fd = bell(), .events = POLLIN};

		if (now_of(clock) >= ns_of(until))
			return ETIMEDOUT;
		if (REAL(ppoll)(&ring, 1, &soon, NULL) > 0)
			(void)!read(ring.fd, events, sizeof(events));
	}
	return r;
}

/* ---- timers ---- */

int timerfd_create(clockid_t clock, int flags)
{
	int fd;

	if (now_of(clock) < 0)
		return REAL(timerfd_create)(clock, flags);
	fd = eventfd(0, (flags & TFD_CLOEXEC ? EFD_CLOEXEC : 0) | EFD_NONBLOCK);
	pthread_mutex_lock(&lock);
	for (struct timer *timer = timers; fd >= 0; timer++) {
		if (timer == timers + TIMERS_MAX)
			abort();
		if (timer->fd > 0)
			continue;
		*timer = (struct timer){fd, clock, INT64_MAX, 0};
		break;
	}
	pthread_mutex_unlock(&lock);
	return fd;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	int64_t value = ns_of(&new->it_value);
	bool found = false;
	uint64_t count;

	pthread_mutex_lock(&lock);
	for (struct timer *timer = timers; timer < timers + TIMERS_MAX && !found; timer++) {
		found = fd > 0 && timer->fd == fd;
		if (!found)
			continue;
		(void)!read(fd, &count, sizeof(count));
		if (!(flags & TFD_TIMER_ABSTIME))
			value += now_of(timer->clock);
		timer->deadline = ns_of(&new->it_value) == 0 ? INT64_MAX : value;
		timer->interval = ns_of(&new->it_interval);
	}
	pthread_mutex_unlock(&lock);
	return found ? 0 : REAL(timerfd_settime)(fd, flags, new, old);
}

int close(int fd)
{
	if (fd > 0 && fd < FILES_MAX)
		is_kernel_file[fd] = false;
	pthread_mutex_lock(&lock);
	for (struct timer *timer = timers; timer < timers + TIMERS_MAX; timer++)
		if (fd > 0 && timer->fd == fd)
			timer->fd = 0;
	pthread_mutex_unlock(&lock);
	return REAL(close)(fd);
}

/* ---- changes of files ---- */

static bool counts_down(_Atomic int64_t *left)
{
	return *left > 0 && atomic_fetch_sub(left, 1) == 1;
}

/* Before each change: the process may end or stop here. */
static void before_change(void)
{
	if (!control)
		return;
	if (counts_down(&crash_left))
		kill(getpid(), crash_signal);
	if (control->crash_pid == getpid() && counts_down(&control->crash_left))
		kill(getpid(), SIGKILL);
}

static int opened(int fd, const char *path, int flags)
{
	if (fd >= 0 && fd < FILES_MAX)
		is_kernel_file[fd] =
			(flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH) &&
			(strstr(path, "/proc/sys/") || strstr(path, "/sys/kernel/mm/"));
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
	return n;
}

#define CHANGES(type, name, parameters, arguments) \
	type name parameters                       \
	{                                          \
		before_change();                   \
		return REAL(name) arguments;       \
	}

CHANGES(int, rename, (const char *from, const char *to), (from, to))
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
