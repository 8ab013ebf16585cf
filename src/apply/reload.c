/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/reload.h"

#include "apply/file.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/util.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

static int find_pid(const struct host *host, const struct service *service, pid_t *pid)
{
	_cleanup_free_ char *text = NULL;
	struct file_at at;
	uint64_t number;
	int r;

	if (service->pid > 0) {
		*pid = service->pid;
		return 0;
	}
	if (!service->pid_file[0])
		return -ESRCH;
	r = file_locate(host, service->pid_file, &at);
	if (r == 0)
		r = read_file(at.full, 64, &text, NULL);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	text[strcspn(text, " \n")] = '\0';
	if (parse_count(text, &number) < 0 || number < 2 || number > INT32_MAX)
		return -ESRCH;
	*pid = (pid_t)number;
	return 0;
}

/* By our own /proc: the signal goes to whoever has that number here. */
static bool is_named(pid_t pid, const char *program)
{
	_cleanup_free_ char *name = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (read_file(path, 64, &name, NULL) < 0)
		return false;
	name[strcspn(name, "\n")] = '\0';
	return streq(name, program);
}

int reload_docker(const struct host *host, const struct service *service)
{
	_cleanup_close_ int fd = -1;
	pid_t pid;
	int r = find_pid(host, service, &pid);

	if (r < 0)
		return r;
	/* Held before it is looked at: the number cannot pass to another process in between. */
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return -errno;
	if (!is_named(pid, service->program))
		return -ESRCH;
	return syscall(SYS_pidfd_send_signal, fd, SIGHUP, NULL, 0) < 0 ? -errno : 0;
}
