/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of an agent that is ready, and of the programs that check files for it.
 * tests/check/syscalls.txt lists the calls of the tests, and a check compares. The other calls of a
 * row do the same on another architecture, C library or version.
 */
#include "agent/syscalls.h"

#include "base/log.h"
#include "base/text.h"
#include "base/util.h"

#include <malloc.h>
#include <seccomp.h>

/* Each row has calls that do the same. */
static const char *const allowed[] = {
	/* files */
	"read readv pread64 preadv preadv2",
	"write writev pwrite64 pwritev pwritev2",
	"open openat openat2 creat",
	"close close_range",
	"stat lstat fstat fstat64 stat64 lstat64 newfstatat fstatat64 statx",
	"statfs statfs64 fstatfs fstatfs64",
	"access faccessat faccessat2",
	"readlink readlinkat",
	"getdents getdents64",
	"lseek _llseek",
	"truncate truncate64 ftruncate ftruncate64",
	"fallocate",
	"fsync fdatasync",
	"mkdir mkdirat",
	"rmdir unlink unlinkat",
	"rename renameat renameat2",
	"symlink symlinkat",
	"chmod fchmod fchmodat fchmodat2",
	"chown fchown fchownat lchown",
	"chdir fchdir getcwd",
	"umask",
	"flistxattr listxattr llistxattr fgetxattr getxattr lgetxattr fsetxattr fremovexattr",
	"flock",
	"fcntl fcntl64",
	"ioctl",
	"dup dup2 dup3",
	"pipe pipe2",
	"memfd_create",
	"inotify_init inotify_init1",
	"inotify_add_watch inotify_rm_watch",
	/* waiting */
	"poll ppoll ppoll_time64 select pselect6",
	"epoll_create epoll_create1",
	"epoll_ctl",
	"epoll_wait epoll_pwait epoll_pwait2",
	"eventfd eventfd2",
	"signalfd signalfd4",
	"timerfd_create timerfd_settime timerfd_settime64 timerfd_gettime",
	"nanosleep clock_nanosleep clock_nanosleep_time64",
	"futex futex_time64",
	/* sockets */
	"socket socketpair",
	"bind listen",
	"accept accept4",
	"connect shutdown",
	"getsockname getpeername",
	"getsockopt setsockopt",
	"sendto sendmsg sendmmsg",
	"recvfrom recvmsg recvmmsg",
	/* memory */
	"brk",
	"mmap mmap2",
	"mprotect",
	"mremap",
	"munmap",
	"madvise",
	/* processes */
	"clone clone3 fork vfork",
	"execve",
	"exit exit_group",
	"wait4 waitid",
	"kill tgkill tkill",
	"pidfd_open pidfd_send_signal",
	"setpgid",
	"chroot",
	"prctl",
	"capget capset",
	"arch_prctl set_tls",
	"set_tid_address set_robust_list rseq",
	"getpid gettid getppid",
	"getuid geteuid getgid getegid",
	"prlimit64 getrlimit",
	"sched_getaffinity",
	"sched_setscheduler sched_setparam sched_setattr",
	"sched_yield",
	"rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall",
	/* the library of tests/chaos that moves the clocks */
	"pause rt_sigtimedwait rt_sigtimedwait_time64",
	/* facts */
	"clock_gettime clock_gettime64 clock_getres clock_getres_time64 gettimeofday time",
	"adjtimex clock_adjtime clock_adjtime64",
	"getrandom",
	"sysinfo",
	"syslog",
	"uname",
	"bpf",
};

static int allow(scmp_filter_ctx filter)
{
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++) {
		char row[256], *state = NULL;

		set_text(row, allowed[i]);
		for (char *name = strtok_r(row, " ", &state); name;
			name = strtok_r(NULL, " ", &state)) {
			/* A call that libseccomp or the architecture does not know is left out. */
			int number = seccomp_syscall_resolve_name(name);
			int r = number == __NR_SCMP_ERROR
					? 0
					: seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

void syscalls_restrict(void)
{
	/* For tests: "kill" makes each other call fatal, "log" allows it. */
	const char *test = getenv("HEADROOM_TEST_SYSCALLS");
	uint32_t other = test && streq(test, "kill")  ? SCMP_ACT_KILL_PROCESS
			 : test && streq(test, "log") ? SCMP_ACT_LOG
						      : SCMP_ACT_ERRNO(ENOSYS);
	scmp_filter_ctx filter = seccomp_init(other);
	int r = filter ? 0 : -ENOMEM;

	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, other);
	if (r == 0) /* other threads too */
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (r == 0)
		(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1); /* Linux 4.14 */
	if (r == 0)
		r = allow(filter);
	if (r == 0)
		r = seccomp_load(filter);
	if (r < 0)
		log_warning(
			"privileges", "system calls are not restricted: seccomp: %s", strerror(-r));
	if (filter)
		seccomp_release(filter);
	malloc_trim(0);
}
