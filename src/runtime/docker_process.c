/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker_process.h"

#include "base/util.h"
#include "workload/process.h"

#include <errno.h>

/* A dockerd that was started with another pid file. */
static bool has_own_pid_file(const char *root, pid_t pid, void *userdata)
{
	struct command command;
	bool found;

	(void)userdata;
	if (!process_is_named(root, pid, "dockerd") || !process_is_of_host(root, pid) ||
		command_read(root, pid, &command) < 0)
		return false;
	found = command_option(&command, "pidfile") || command_option(&command, "p");
	command_free(&command);
	return found;
}

/*
 * The process that the pid file names, else the one that listens on the socket, else one that
 * was started with another pid file. A stale pid file may name any
 * process that came later.
 */
static int find_daemon(const struct host *host, const char *socket, pid_t *pid)
{
	char path[PATH_MAX];
	pid_t found = 0;
	bool has_file = host_path(host, DOCKER_PID_FILE, path) && access(path, F_OK) == 0;

	*pid = 0;
	if (has_file && process_of_pid_file(path, &found) == 0 &&
		process_is_named("", found, "dockerd"))
		*pid = found;
	else if (has_file && process_of_socket(socket, &found) == 0 && found > 1 &&
		 process_is_named("", found, "dockerd"))
		*pid = found;
	else if (!has_file)
		*pid = process_find("", has_own_pid_file, NULL);
	return has_file || *pid > 0 ? 0 : -ESRCH;
}

int docker_process_read(const struct host *host, const char *socket, struct docker_process *ret)
{
	struct docker_process process = {0};
	struct command command;
	const char *value;
	int r = find_daemon(host, socket, &process.pid);

	if (r < 0)
		return r;
	/* Without its command line it counts as not seen. */
	if (process.pid > 0 && command_read("", process.pid, &command) < 0)
		process.pid = 0;
	if (process.pid > 0) {
		value = command_option(&command, "max-concurrent-downloads");
		process.downloads_on_command = value != NULL;
		copy_text(process.downloads, sizeof(process.downloads), value ? value : "");
		process.mirrors_on_command = command_option(&command, "registry-mirror") != NULL;
		command_free(&command);
	}
	*ret = process;
	return 0;
}
