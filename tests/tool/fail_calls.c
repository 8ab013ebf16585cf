/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program and makes a system call of it fail, for tests/calls.
 *
 * fail_calls [OPTION...] PROGRAM [ARGUMENT...]
 *     --report FILE     a line for each call: its number, name, errors that it can have, and
 * object; the last line is "exit STATUS" or "signal NUMBER"
 *     --at N            the call that fails; the first is 1
 *     --error NAME      EIO, ENOSPC, ...; "short" reads or writes half; "kill" ends the program
 * before it
 *     --always          later calls that can have this error fail, too
 *     --disk DIRECTORY  with "kill": the power fails, and all that is not synced below DIRECTORY is
 * lost
 *
 * The kernel asks this process before each call (seccomp_unotify(2)), so calls inside of libraries
 * are seen, too. Calls of PROGRAM and its forks count. Programs that it executes run as always.
 * SIGTERM and SIGHUP are passed on.
 */
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOST_MAX  4096
#define DISKS_MAX 4
#define PART_MAX  65536 /* bytes of a short read or write */

/* Where a call names its object. */
enum object {
	NONE,
	FD,   /* the first argument */
	PATH, /* the first argument */
	AT,   /* a directory and a path */
};

/* What a call does to a disk. */
enum change {
	NO_CHANGE,
	OPENS, /* and may make or empty the file */
	MAKES,
	REMOVES,
	RENAMES,
	WRITES,
	SYNCS,
};

struct call {
	long nr;
	const char *name;
	enum object object;
	const char *errors;
	enum change change;
};

#define CALL(name, object, errors)           CHANGE(name, object, errors, NO_CHANGE)
#define CHANGE(name, object, errors, change) {SYS_##name, #name, object, errors, change}

static const struct call calls[] = {
#ifdef SYS_open
	CALL(open, PATH, "EIO EMFILE ENOSPC EROFS EINTR ENOMEM"),
	CALL(stat, PATH, "EIO ENOMEM"),
	CALL(lstat, PATH, "EIO ENOMEM"),
	CALL(access, PATH, "EIO"),
	CHANGE(rename, PATH, "EIO ENOSPC EROFS", RENAMES),
	CHANGE(unlink, PATH, "EIO EROFS", REMOVES),
	CALL(rmdir, PATH, "EIO EROFS"),
	CALL(chmod, PATH, "EIO EROFS"),
	CALL(dup2, FD, "EINTR"),
	CHANGE(mkdir, PATH, "EIO ENOSPC EROFS", MAKES),
	CALL(readlink, PATH, "EIO ENOMEM"),
	CALL(poll, NONE, "EINTR ENOMEM"),
	CALL(epoll_wait, FD, "EINTR"),
	CALL(pipe, NONE, "EMFILE"),
#endif
#ifdef SYS_newfstatat
	CALL(newfstatat, AT, "EIO ENOMEM"),
#endif
#ifdef SYS_renameat
	CHANGE(renameat, AT, "EIO ENOSPC EROFS", RENAMES),
#endif
	CHANGE(openat, AT, "EIO EMFILE ENOSPC EROFS EINTR ENOMEM", OPENS),
	CALL(openat2, AT, "EIO EMFILE EINTR ENOMEM"),
	CALL(read, FD, "EIO EINTR short"),
	CALL(pread64, FD, "EIO EINTR short"),
	CHANGE(write, FD, "EIO ENOSPC EINTR short", WRITES),
	CHANGE(pwrite64, FD, "EIO ENOSPC EINTR short", WRITES),
	CALL(writev, FD, "EIO ENOSPC EINTR"),
	CHANGE(fsync, FD, "EIO ENOSPC", SYNCS),
	CHANGE(fdatasync, FD, "EIO ENOSPC", SYNCS),
	CHANGE(renameat2, AT, "EIO ENOSPC EROFS", RENAMES),
	CHANGE(unlinkat, AT, "EIO EROFS", REMOVES),
	CHANGE(mkdirat, AT, "EIO ENOSPC EROFS", MAKES),
	CALL(linkat, AT, "EIO ENOSPC EROFS"),
	CALL(symlinkat, NONE, "EIO ENOSPC EROFS"),
	CALL(readlinkat, AT, "EIO ENOMEM"),
	CALL(fstat, FD, "EIO ENOMEM"),
	CALL(statx, AT, "EIO ENOMEM"),
	CALL(statfs, PATH, "EIO ENOMEM"),
	CALL(fstatfs, FD, "EIO ENOMEM"),
	CALL(faccessat, AT, "EIO"),
	CALL(faccessat2, AT, "EIO ENOMEM"),
	CALL(chdir, PATH, "EIO ENOMEM"),
	CALL(chroot, PATH, "EIO ENOMEM EPERM"),
	CALL(lseek, FD, "ENOMEM"),
	CALL(fcntl, FD, "EMFILE"),
	CALL(ioctl, FD, "EIO EINTR ENOMEM"),
	CALL(dup3, FD, "EINTR EMFILE"),
	CHANGE(truncate, PATH, "EIO ENOSPC", WRITES),
	CHANGE(ftruncate, FD, "EIO ENOSPC", WRITES),
	CHANGE(fallocate, FD, "EIO ENOSPC", WRITES),
	CALL(fchmod, FD, "EIO EROFS"),
	CALL(fchmodat, AT, "EIO EROFS"),
	CALL(fchown, FD, "EIO EROFS"),
	CALL(fchownat, AT, "EIO EROFS"),
	CALL(fsetxattr, FD, "EIO ENOSPC"),
	CALL(fgetxattr, FD, "EIO ENOMEM"),
	CALL(flistxattr, FD, "EIO ENOMEM"),
	CALL(getdents64, FD, "EIO ENOMEM"),
	CALL(copy_file_range, FD, "EIO ENOSPC"),
	CALL(flock, FD, "EINTR ENOMEM"),
	CALL(inotify_init1, NONE, "EMFILE ENOMEM"),
	CALL(inotify_add_watch, FD, "ENOMEM ENOSPC"),
	CALL(mmap, NONE, "ENOMEM"),
	CALL(mremap, NONE, "ENOMEM"),
	CALL(mprotect, NONE, "ENOMEM"),
	CALL(madvise, NONE, "ENOMEM"),
	CALL(clone, NONE, "EAGAIN ENOMEM"),
#ifdef SYS_clone3
	CALL(clone3, NONE, "EAGAIN ENOMEM"),
#endif
	CALL(execve, PATH, "ENOMEM"),
	CALL(wait4, NONE, "EINTR"),
	CALL(waitid, NONE, "EINTR"),
	CALL(pipe2, NONE, "EMFILE"),
	CALL(eventfd2, NONE, "EMFILE ENOMEM"),
	CALL(signalfd4, NONE, "EMFILE ENOMEM"),
	CALL(timerfd_create, NONE, "EMFILE ENOMEM"),
	CALL(timerfd_settime, FD, "ENOMEM"),
	CALL(epoll_create1, NONE, "EMFILE ENOMEM"),
	CALL(epoll_ctl, FD, "ENOMEM ENOSPC"),
	CALL(epoll_pwait, FD, "EINTR"),
	CALL(ppoll, NONE, "EINTR ENOMEM"),
	CALL(memfd_create, NONE, "EMFILE ENOMEM"),
	CALL(socket, NONE, "EMFILE ENOMEM"),
	CALL(socketpair, NONE, "EMFILE ENOMEM"),
	CALL(bind, FD, "ENOMEM EROFS"),
	CALL(listen, FD, "ENOMEM"),
	CALL(connect, FD, "EAGAIN EINTR ENOMEM"),
	CALL(accept4, FD, "EMFILE EAGAIN EINTR"),
	CALL(sendto, FD, "EAGAIN EINTR ENOMEM"),
	CALL(sendmsg, FD, "EAGAIN EINTR ENOMEM"),
	CALL(recvfrom, FD, "EAGAIN EINTR ENOMEM"),
	CALL(recvmsg, FD, "EAGAIN EINTR ENOMEM"),
	CALL(shutdown, FD, "ENOTCONN"),
	CALL(getpeername, FD, "ENOTCONN"),
	CALL(getsockopt, FD, "ENOMEM"),
	CALL(setsockopt, FD, "ENOMEM"),
	CALL(bpf, NONE, "ENOMEM EPERM"),
	CALL(perf_event_open, NONE, "ENOMEM EPERM"),
	CALL(setns, FD, "EPERM ENOMEM"),
	CALL(unshare, NONE, "EPERM ENOMEM"),
	CALL(kill, NONE, "EPERM"),
	CALL(pidfd_send_signal, FD, "EPERM"),
	CALL(capset, NONE, "EPERM"),
	CALL(prctl, NONE, "EPERM"),
	CALL(setpgid, NONE, "EPERM"),
	CALL(sched_setscheduler, NONE, "EPERM"),
	CALL(prlimit64, NONE, "EPERM"),
	CALL(nanosleep, NONE, "EINTR"),
	CALL(rt_sigtimedwait, NONE, "EINTR EAGAIN"),
	CALL(getrandom, NONE, "EINTR"),
	CALL(pidfd_open, NONE, "EMFILE ENOMEM"),
};

static const struct {
	const char *name;
	int value;
} errors[] = {
	{"EIO", EIO},
	{"EMFILE", EMFILE},
	{"ENOSPC", ENOSPC},
	{"EROFS", EROFS},
	{"EINTR", EINTR},
	{"ENOMEM", ENOMEM},
	{"EAGAIN", EAGAIN},
	{"EPERM", EPERM},
	{"ENOTCONN", ENOTCONN},
};

/* A change below a disk that is lost when the power fails. */
struct lost {
	enum { CREATED, REMOVED, RENAMED, WRITTEN } kind;
	char path[PATH_MAX], to[PATH_MAX];
	dev_t dev; /* of the directory that must be synced; with WRITTEN of the file */
	ino_t ino;
	char *text; /* REMOVED and RENAMED: the bytes of the file that was there; NULL: none */
	size_t size;
	mode_t mode;
};

static const char *program, *disks[DISKS_MAX], *error;
static size_t n_disks, n_lost;
static struct lost *losses[LOST_MAX];
static unsigned long count, at;
static bool always;
static FILE *report;
static pid_t child;

static void die(const char *what)
{
	perror(what);
	exit(125);
}

/* ---- what a call is about ---- */

static const struct call *find_call(long nr)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (calls[i].nr == nr)
			return &calls[i];
	}
	return NULL;
}

/*
 * The errors that this call can have: opening a file for reading needs no room, and neither does
 * /proc. A call with many purposes fails for some of them only.
 */
static const char *errors_of(
	const struct call *call, const struct seccomp_notif *asked, const char *object)
{
	bool is_kernel = strncmp(object, "/proc/", 6) == 0 || strncmp(object, "/sys/", 5) == 0;
	const __u64 *a = asked->data.args;

	if (call->object == FD && a[0] <= STDERR_FILENO)
		return ""; /* the program could not tell us */
	if (call->nr == SYS_openat && !(a[2] & (O_CREAT | O_WRONLY | O_RDWR)))
		return "EIO EMFILE EINTR ENOMEM";
	if (call->nr == SYS_openat && is_kernel)
		return "EIO EMFILE EROFS EINTR ENOMEM";
	if (call->nr == SYS_fcntl && a[1] != F_DUPFD && a[1] != F_DUPFD_CLOEXEC)
		return "";
	if (call->nr == SYS_prctl && a[0] != PR_CAPBSET_DROP && a[0] != PR_CAP_AMBIENT &&
		a[0] != PR_SET_SECCOMP)
		return "";
	if (call->nr == SYS_prlimit64 && !a[2])
		return ""; /* it reads only */
	if (call->nr == SYS_write && is_kernel)
		return "EIO EINTR";
	if (call->nr == SYS_read && is_kernel)
		return "EIO EINTR";
	return call->errors;
}

static bool can_have(const char *all, const char *name)
{
	const char *found = strstr(all, name);

	return found && (found[strlen(name)] == ' ' || !found[strlen(name)]);
}

static bool is_of_program(pid_t thread)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", thread);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return false;
	path[n] = '\0';
	return strcmp(path, program) == 0;
}

static void path_of_fd(pid_t thread, int fd, char out[PATH_MAX])
{
	char link[64];
	ssize_t n;

	if (fd == AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/%d/cwd", thread);
	else
		snprintf(link, sizeof(link), "/proc/%d/fd/%d", thread, fd);
	n = readlink(link, out, PATH_MAX - 1);
	out[MAX(n, 0)] = '\0';
}

static void read_path(pid_t thread, uint64_t address, char out[PATH_MAX])
{
	size_t done = 0;

	while (done < PATH_MAX - 1) { /* a page at a time: the next one may not be mapped */
		size_t part = MIN((size_t)PATH_MAX - 1 - done, 4096 - (address + done) % 4096);
		struct iovec to = {out + done, part},
			     from = {(void *)(uintptr_t)(address + done), part};
		ssize_t n = process_vm_readv(thread, &to, 1, &from, 1, 0);

		if (n <= 0)
			break;
		if (memchr(out + done, 0, (size_t)n))
			return;
		done += (size_t)n;
	}
	out[done] = '\0';
}

/* The absolute name that a call gives with a directory and a path. */
static void absolute(pid_t thread, int dir, uint64_t address, char out[PATH_MAX])
{
	char path[PATH_MAX], base[PATH_MAX];

	read_path(thread, address, path);
	if (path[0] == '/') {
		snprintf(out, PATH_MAX, "%s", path);
		return;
	}
	path_of_fd(thread, dir, base);
	if (!path[0])
		snprintf(out, PATH_MAX, "%s", base);
	else if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX)
		out[0] = '\0';
}

static void describe(const struct call *call, const struct seccomp_notif *asked, char out[PATH_MAX])
{
	const __u64 *a = asked->data.args;

	out[0] = '\0';
	if (call->object == FD)
		path_of_fd((pid_t)asked->pid, (int)a[0], out);
	else if (call->object == PATH)
		absolute((pid_t)asked->pid, AT_FDCWD, a[0], out);
	else if (call->object == AT)
		absolute((pid_t)asked->pid, (int)a[0], a[1], out);
}

/* ---- a power failure ---- */

static bool is_on_disk(const char *path)
{
	for (size_t i = 0; i < n_disks; i++) {
		size_t len = strlen(disks[i]);

		if (strncmp(path, disks[i], len) == 0 && (path[len] == '/' || !path[len]))
			return true;
	}
	return false;
}

static void keep_old(struct lost *lost, const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		lost->mode = st.st_mode & 07777;
		lost->text = malloc((size_t)st.st_size + 1);
		if (!lost->text || pread(fd, lost->text, (size_t)st.st_size, 0) != st.st_size)
			die("a copy of an old file");
		lost->size = (size_t)st.st_size;
	}
	if (fd >= 0)
		close(fd);
}

static struct lost *add_lost(int kind, const char *path, const char *owner)
{
	struct lost *lost;
	struct stat st;

	if (!is_on_disk(path) || stat(owner, &st) < 0)
		return NULL;
	lost = n_lost < LOST_MAX ? calloc(1, sizeof(*lost)) : NULL;
	if (!lost)
		die("a list of changes");
	lost->kind = kind;
	lost->dev = st.st_dev;
	lost->ino = st.st_ino;
	snprintf(lost->path, sizeof(lost->path), "%s", path);
	losses[n_lost++] = lost;
	return lost;
}

static struct lost *add_entry(int kind, const char *path)
{
	char directory[PATH_MAX];
	char *slash;

	snprintf(directory, sizeof(directory), "%s", path);
	slash = strrchr(directory, '/');
	if (!slash || slash == directory)
		return NULL;
	*slash = '\0';
	return add_lost(kind, path, directory);
}

/* All changes of a file or directory are on the disk now. */
static void forget(const char *path)
{
	struct stat st;
	size_t kept = 0;

	if (stat(path, &st) < 0)
		return;
	for (size_t i = 0; i < n_lost; i++) {
		if (losses[i]->dev == st.st_dev && losses[i]->ino == st.st_ino) {
			free(losses[i]->text);
			free(losses[i]);
		} else {
			losses[kept++] = losses[i];
		}
	}
	n_lost = kept;
}

static void note_removal(const char *path)
{
	struct lost *lost = add_entry(REMOVED, path);

	if (lost)
		keep_old(lost, path);
}

static void note_rename(const struct call *call, const struct seccomp_notif *asked)
{
	const __u64 *a = asked->data.args;
	bool has_directories = call->object == AT;
	char old[PATH_MAX], new[PATH_MAX];
	struct lost *lost;

	absolute((pid_t)asked->pid, has_directories ? (int)a[0] : AT_FDCWD,
		has_directories ? a[1] : a[0], old);
	absolute((pid_t)asked->pid, has_directories ? (int)a[2] : AT_FDCWD,
		has_directories ? a[3] : a[1], new);
	lost = add_entry(RENAMED, new);
	if (!lost)
		return;
	snprintf(lost->to, sizeof(lost->to), "%s", old);
	keep_old(lost, new);
}

static void note(const struct call *call, const struct seccomp_notif *asked, const char *object)
{
	switch (call->change) {
	case OPENS:
		if ((asked->data.args[2] & O_CREAT) && access(object, F_OK) < 0)
			add_entry(CREATED, object);
		else if (asked->data.args[2] & O_TRUNC)
			add_lost(WRITTEN, object, object);
		break;
	case MAKES:
		add_entry(CREATED, object);
		break;
	case REMOVES:
		note_removal(object);
		break;
	case RENAMES:
		note_rename(call, asked);
		break;
	case WRITES:
		add_lost(WRITTEN, object, object);
		break;
	case SYNCS:
		forget(object);
		break;
	case NO_CHANGE:
		break;
	}
}

static void put_back(const char *path, const struct lost *lost)
{
	int fd;

	if (!lost->text)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, lost->text, lost->size) != (ssize_t)lost->size ||
		fchmod(fd, lost->mode) < 0)
		die(path);
	close(fd);
}

/* The last change is undone first. Bytes that were not synced are gone. */
static void lose(void)
{
	while (n_lost > 0) {
		struct lost *lost = losses[--n_lost];

		switch (lost->kind) {
		case CREATED:
			if (remove(lost->path) < 0 && errno != ENOENT)
				die(lost->path);
			break;
		case REMOVED:
			if (access(lost->path, F_OK) < 0)
				put_back(lost->path, lost);
			break;
		case RENAMED:
			if (access(lost->to, F_OK) < 0 && rename(lost->path, lost->to) == 0)
				put_back(lost->path, lost);
			break;
		case WRITTEN:
			(void)!truncate(lost->path, 0);
			break;
		}
	}
}

/* ---- the answer ---- */

/* Does half of a read or write in place of the program. The number of bytes, or -errno. */
static int64_t do_half(const struct call *call, const struct seccomp_notif *asked)
{
	const __u64 *a = asked->data.args;
	bool writes = call->nr == SYS_write || call->nr == SYS_pwrite64;
	bool placed = call->nr == SYS_pread64 || call->nr == SYS_pwrite64;
	size_t size = MIN((size_t)a[2] / 2, (size_t)PART_MAX);
	char *data = malloc(PART_MAX);
	struct iovec here = {data, size}, there = {(void *)(uintptr_t)a[1], size};
	int64_t result = -EIO;
	int pidfd, fd;

	pidfd = (int)syscall(SYS_pidfd_open, asked->pid, O_EXCL); /* PIDFD_THREAD, Linux 6.9 */
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, (int)a[0], 0);
	if (!data || fd < 0)
		goto out;
	if (writes) {
		result = process_vm_readv((pid_t)asked->pid, &here, 1, &there, 1, 0);
		if (result >= 0)
			result = placed ? pwrite(fd, data, size, (off_t)a[3])
					: write(fd, data, size);
	} else {
		result = placed ? pread(fd, data, size, (off_t)a[3]) : read(fd, data, size);
		here.iov_len = there.iov_len = (size_t)MAX(result, 0);
		if (result > 0)
			result = process_vm_writev((pid_t)asked->pid, &here, 1, &there, 1, 0);
	}
	if (result < 0)
		result = -errno;
out:
	if (fd >= 0)
		close(fd);
	if (pidfd >= 0)
		close(pidfd);
	free(data);
	return result;
}

static void inject(const struct call *call, const struct seccomp_notif *asked,
	struct seccomp_notif_resp *answer)
{
	int64_t half;

	if (strcmp(error, "kill") == 0) {
		kill(child, SIGKILL);
		return;
	}
	answer->flags = 0;
	if (strcmp(error, "short") == 0) {
		half = asked->data.args[2] < 2 ? -EINTR : do_half(call, asked);
		if (half < 0)
			answer->error = (int)half;
		else
			answer->val = half;
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		if (strcmp(errors[i].name, error) == 0)
			answer->error = -errors[i].value;
	}
}

static bool is_injected(const char *all)
{
	if (!error || count < at || (count > at && !always))
		return false;
	return strcmp(error, "kill") == 0 || can_have(all, error);
}

/* Answers one call. A call of a thread that has ended meanwhile needs no answer. */
static void answer_one(int listener)
{
	struct seccomp_notif asked = {0};
	struct seccomp_notif_resp answer = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
	const struct call *call;
	char object[PATH_MAX] = "";
	const char *all;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
		return;
	answer.id = asked.id;
	call = find_call(asked.data.nr);
	if (call && is_of_program((pid_t)asked.pid)) {
		count++;
		describe(call, &asked, object);
		all = errors_of(call, &asked, object);
		if (report && !(at && count > at))
			fprintf(report, "%lu %s %s%s %s\n", count, call->name, all,
				call->change ? " kill power" : "", object);
		if (is_injected(all))
			inject(call, &asked, &answer);
		else if (n_disks)
			note(call, &asked, object);
	}
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

/* ---- the program ---- */

static int filter(void)
{
	struct sock_filter code[2 * ARRAY_SIZE(calls) + 2];
	size_t n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].nr, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		&(struct sock_fprog){.len = (unsigned short)n, .filter = code});
}

/* Starts the program below the filter, and returns the descriptor that asks for each of its calls.
 */
static int start(char **arguments)
{
	volatile int *shared =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int pidfd, listener;

	if (shared == MAP_FAILED)
		die("mmap");
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		shared[0] = filter();
		while (!shared[1])
			sched_yield(); /* any other call would wait for an answer */
		execv(arguments[0], arguments);
		_exit(127);
	}
	while (!shared[0])
		sched_yield();
	pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	listener = (int)syscall(SYS_pidfd_getfd, pidfd, shared[0], 0);
	if (shared[0] < 0 || listener < 0)
		die("seccomp");
	shared[1] = 1;
	return listener;
}

static void pass_on(int signal)
{
	if (child > 0)
		kill(child, signal);
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"report", required_argument, NULL, 'r'},
		{"at", required_argument, NULL, 'n'},
		{"error", required_argument, NULL, 'e'},
		{"always", no_argument, NULL, 'a'},
		{"disk", required_argument, NULL, 'd'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "+", options, NULL)) >= 0) {
		if (option == 'r' && !(report = fopen(optarg, "we")))
			die(optarg);
		else if (option == 'n')
			at = strtoul(optarg, NULL, 10);
		else if (option == 'e')
			error = optarg;
		else if (option == 'a')
			always = true;
		else if (option == 'd' && n_disks < DISKS_MAX)
			disks[n_disks++] = optarg;
		else if (option == '?')
			exit(125);
	}
	if (optind == argc || !(program = realpath(argv[optind], NULL)))
		die("no program");
}

int main(int argc, char **argv)
{
	int listener, status = 0;
	bool ended = false;

	parse(argc, argv);
	listener = start(argv + optind);
	signal(SIGTERM, pass_on);
	signal(SIGHUP, pass_on);
	for (;;) {
		struct pollfd poller = {.fd = listener, .events = POLLIN};
		int ready = poll(&poller, 1, ended ? 1000 : 100);

		if (!ended && waitpid(child, &status, WNOHANG) == child)
			ended = true;
		if (ready > 0 && (poller.revents & POLLIN))
			answer_one(listener);
		else if (ended && (ready == 0 || (poller.revents & POLLHUP)))
			break;
	}
	if (n_disks && error && strcmp(error, "kill") == 0)
		lose();
	if (report) {
		fprintf(report, WIFSIGNALED(status) ? "signal %d\n" : "exit %d\n",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		fclose(report);
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
