/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to preload, for tests only. The clocks stand still and move when a test writes other
 * times into a control file: sleeps, timers and timeouts end at those times. files.c is about
 * files.
 *
 * A test changes /mnt/control through a mapping, and then writes to the FIFO /mnt/bell: each
 * waiting thread watches that FIFO.
 */
#include "timeshift.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS          1000000000LL
#define TIMERS_MAX  64
#define FDS_MAX     256
#define THREADS_MAX 64

struct timer {
	int fd; /* an eventfd; 0: the entry is free */
	clockid_t clock;
	int64_t deadline, interval; /* INT64_MAX: not armed */
};

struct thread {
	_Atomic bool is_running;
	pthread_t id;
	void *(*run)(void *argument);
	void *argument;
};

struct control *control;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct timer timers[TIMERS_MAX];
static struct thread threads[THREADS_MAX];
static pthread_key_t bell_key;
static int fifo, ended; /* a thread of this process: an eventfd */

/*
 * A thread that begins or has slept goes on at its turn: the test lets one thread after the other
 * run until all sleep again. So the order does not depend on the scheduler.
 */
static void await_turn(void)
{
	sigset_t turn, before;
	int error = errno;

	if (!control->turns)
		return;
	sigemptyset(&turn);
	sigaddset(&turn, SIGRTMAX);
	pthread_sigmask(SIG_BLOCK, &turn, &before);
	while (sigwaitinfo(&turn, NULL) < 0)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
}

/* The agent's own filter must allow the calls in which this library waits. */
int seccomp_load(void *filter);
int seccomp_load(void *filter)
{
	int (*add)(void *filter, uint32_t action, int call, unsigned arguments, ...) =
		(__typeof__(add))dlsym(RTLD_NEXT, "seccomp_rule_add");
	static const int calls[] = {SYS_rt_sigtimedwait, SYS_pause};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		add(filter, SECCOMP_RET_ALLOW, calls[i], 0);
	return REAL(seccomp_load)(filter);
}

static void close_bell(void *fd)
{
	close((int)(intptr_t)fd - 1);
}

__attribute__((constructor)) static void init(void)
{
	int fd = open("/mnt/control", O_RDWR | O_CLOEXEC);

	if (control || fd < 0)
		return;
	pthread_key_create(&bell_key, close_bell);
	fifo = open("/mnt/bell", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	files_init();
	control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (control == MAP_FAILED)
		abort();
	close(fd);
	await_turn();
}

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

/*
 * One for each thread: another thread must not take its event. An inotify descriptor would take
 * 10 ms to close.
 */
static int bell(void)
{
	struct epoll_event write = {.events = EPOLLIN | EPOLLET};
	int fd = (int)(intptr_t)pthread_getspecific(bell_key) - 1;

	if (fd >= 0)
		return fd;
	fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, fifo, &write) < 0 ||
		epoll_ctl(fd, EPOLL_CTL_ADD, ended, &write) < 0)
		abort();
	pthread_setspecific(bell_key, (void *)(intptr_t)(fd + 1));
	return fd;
}

/* Waits until an event, a signal or a time of CLOCK_MONOTONIC. */
static int wait_until(struct pollfd *fds, nfds_t n, int64_t deadline, const sigset_t *mask)
{
	const struct timespec zero = {0};
	struct epoll_event event;
	struct pollfd all[FDS_MAX];

	if (n >= FDS_MAX)
		abort();
	for (bool slept = false;; slept = true) {
		struct pollfd *mine = &all[n];
		bool is_over;
		int r;

		if (n > 0)
			memcpy(all, fds, n * sizeof(*fds));
		*mine = (struct pollfd){.fd = bell(), .events = POLLIN};
		fire_timers();
		is_over = control->monotonic >= deadline;
		r = REAL(ppoll)(all, n + 1, is_over || !slept ? &zero : NULL, mask);
		if (r > 0 && mine->revents) {
			REAL(epoll_pwait)(mine->fd, &event, 1, 0, NULL);
			r--;
		}
		if (r == 0 && !is_over)
			continue;
		if (slept)
			await_turn();
		for (nfds_t i = 0; r >= 0 && i < n; i++)
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

static void *run_thread(void *userdata)
{
	struct thread *thread = userdata;
	uint64_t one = 1;
	void *ret;

	await_turn();
	ret = thread->run(thread->argument);
	thread->is_running = false;
	(void)!REAL(write)(ended, &one, sizeof(one));
	return ret;
}

/* The end of a thread rings, too, so that a join takes no real time. */
int pthread_create(
	pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	struct thread *thread = threads;
	int r;

	if (now_of(CLOCK_MONOTONIC) < 0)
		return REAL(pthread_create)(ret, attributes, run, argument);
	while (atomic_exchange(&thread->is_running, true))
		if (++thread == threads + THREADS_MAX)
			abort();
	thread->run = run;
	thread->argument = argument;
	r = REAL(pthread_create)(&thread->id, attributes, run_thread, thread);
	if (r == 0)
		*ret = thread->id;
	else
		thread->is_running = false;
	return r;
}

static bool runs(pthread_t id)
{
	for (const struct thread *thread = threads; thread < threads + THREADS_MAX; thread++)
		if (thread->is_running && pthread_equal(thread->id, id))
			return true;
	return false;
}

int pthread_clockjoin_np(
	pthread_t thread, void **ret, clockid_t clock, const struct timespec *until)
{
	struct pollfd ring = {.events = POLLIN};
	struct epoll_event event;

	if (now_of(clock) < 0)
		return REAL(pthread_clockjoin_np)(thread, ret, clock, until);
	ring.fd = bell();
	while (runs(thread)) {
		if (now_of(clock) >= ns_of(until))
			return ETIMEDOUT;
		if (REAL(ppoll)(&ring, 1, NULL, NULL) > 0)
			REAL(epoll_pwait)(ring.fd, &event, 1, 0, NULL);
		await_turn();
	}
	return pthread_join(thread, ret);
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

/*
 * The program does not own its standard input, and nothing that is closed already. A descriptor
 * that is closed so is later another's.
 */
int close(int fd)
{
	bool is_program = control && strcmp(program_invocation_short_name, "headroom") == 0;
	int r;

	files_closed(fd);
	pthread_mutex_lock(&lock);
	for (struct timer *timer = timers; timer < timers + TIMERS_MAX; timer++)
		if (fd > 0 && timer->fd == fd)
			timer->fd = 0;
	pthread_mutex_unlock(&lock);
	r = REAL(close)(fd);
	if (is_program && (fd == 0 || (fd > 0 && r < 0 && errno == EBADF)))
		abort();
	return r;
}
