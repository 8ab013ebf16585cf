/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker_process.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/util.h"
#include "runtime/docker_config.h"
#include "workload/process.h"

#include <errno.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define COMMAND_MAX 65536
#define DOWNLOADS   "max-concurrent-downloads"

static bool is_dockerd(const char *proc, pid_t pid)
{
	_cleanup_free_ char *comm = NULL;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%d/comm", proc, (int)pid);
	return read_file(path, 64, &comm, NULL) == 0 && streq(comm, "dockerd\n");
}

static int pid_of_file(const char *path, pid_t *pid)
{
	_cleanup_free_ char *text = NULL;
	uint64_t number;
	int r = read_file(path, 64, &text, NULL);

	if (r < 0)
		return r;
	text[strcspn(text, " \n")] = '\0';
	if (parse_count(text, &number) < 0 || number < 2 || number > INT_MAX)
		return -EINVAL;
	*pid = (pid_t)number;
	return 0;
}

/* Who called listen(2), seen from this PID namespace; 0 when it is not in it. */
static int pid_of_socket(const char *path, pid_t *pid)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (fd < 0)
		return -errno;
	if (!copy_text(address.sun_path, sizeof(address.sun_path), path))
		return -ENAMETOOLONG;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	*pid = peer.pid;
	return 0;
}

/*
 * The process that the pid file names, else the one that listens on the socket (one made by systemd
 * is systemd's). -ESRCH also when it is in another PID namespace.
 */
static int find_daemon(const char *pid_file, const char *socket_path, pid_t *pid)
{
	pid_t found = 0;

	/* Without one dockerd does not run, and a connection would make systemd start it. */
	if (access(pid_file, F_OK) < 0)
		return -ESRCH;
	/* A stale file may name any process that came later: its name is looked at, too. */
	if (pid_of_file(pid_file, &found) == 0 && is_dockerd("/proc", found)) {
		*pid = found;
		return 0;
	}
	if (pid_of_socket(socket_path, &found) == 0 && found > 1 && is_dockerd("/proc", found)) {
		*pid = found;
		return 0;
	}
	return -ESRCH;
}

/*
 * CLOCK_REALTIME of the process's start: the end of its clock tick, so that what was written right
 * before the start is not taken for later. 0 when it is not known.
 */
static uint64_t started_of(const char *proc, pid_t pid)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	uint64_t start_us;

	snprintf(path, sizeof(path), "%s/%d/stat", proc, (int)pid);
	if (read_file(path, 4096, &text, NULL) < 0 || process_parse_start(text, &start_us) < 0)
		return 0;
	return realtime_of_boottime(start_us + process_tick_us());
}

static uint64_t us_of(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * USEC_PER_SEC + (uint64_t)ts->tv_nsec / 1000;
}

/* "--NAME=VALUE", or "--NAME" with the value in the next argument; NULL when it is no such option.
 */
static const char *option_value(const char *argument, const char *next, const char *name)
{
	size_t len = strlen(name);

	if (!starts_with(argument, "--") || strncmp(argument + 2, name, len) != 0)
		return NULL;
	if (argument[2 + len] == '=')
		return argument + 2 + len + 1;
	return argument[2 + len] == '\0' ? next : NULL;
}

static void take_option(const char *argument, const char *next, struct docker_state *state)
{
	const char *value = option_value(argument, next, DOWNLOADS);
	uint64_t count;

	if (value) {
		state->max_downloads_on_command = true;
		if (state->source == DOCKER_SOURCE_NONE && parse_count(value, &count) == 0 &&
			count <= INT_MAX) {
			state->max_downloads = (unsigned int)count;
			state->source = DOCKER_SOURCE_COMMAND;
		}
	}
	if (option_value(argument, next, "registry-mirror"))
		state->mirrors_on_command = true;
	value = option_value(argument, next, "config-file");
	if (value && *value == '/')
		copy_text(state->config_path, sizeof(state->config_path), value);
	value = option_value(argument, next, "containerd");
	if (value && *state->containerd == '\0')
		copy_text(state->containerd, sizeof(state->containerd), value);
}

static void read_command(const char *proc, pid_t pid, struct docker_state *state)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	size_t len;

	snprintf(path, sizeof(path), "%s/%d/cmdline", proc, (int)pid);
	if (read_file(path, COMMAND_MAX, &text, &len) < 0)
		return;
	for (size_t at = 0; at < len;) {
		size_t next = at + strlen(text + at) + 1;

		take_option(text + at, next < len ? text + next : "", state);
		at = next;
	}
}

static void default_downloads(struct docker_state *state)
{
	state->max_downloads = DOCKER_MAX_DOWNLOADS_DEFAULT;
	state->source = DOCKER_SOURCE_DEFAULT;
}

/* Docker 20.10 takes 0 as "no limit", 23.0 and later as not set. */
static bool is_unset(const struct docker_state *state, unsigned int value)
{
	return value == 0 && !starts_with(state->version, "20.");
}

/*
 * A file that changed since the daemon started says nothing of what the daemon has read. That is
 * looked at after reading: what is put in its place meanwhile is younger.
 */
static void read_config(const char *path, struct docker_state *state)
{
	_cleanup_free_ char *text = NULL;
	unsigned int value;
	struct stat st;
	size_t len;
	int r = read_file(path, DOCKER_CONFIG_MAX, &text, &len);

	if (r < 0 || stat(path, &st) < 0 || us_of(&st.st_ctim) > state->started_us)
		return;
	r = docker_config_get_count(text, len, DOWNLOADS, &value, NULL);
	if (r == -ENOENT || (r == 0 && is_unset(state, value))) {
		default_downloads(state);
	} else if (r == 0) {
		state->max_downloads = value;
		state->source = DOCKER_SOURCE_FILE;
	}
}

/*
 * Whether nothing was added to or taken from the directory since the daemon started, but for the
 * key that Docker 20.10 puts there at its first start.
 */
static bool is_old_directory(char *path, size_t size, const struct docker_state *state)
{
	size_t len = strlen(path);
	struct stat directory, key;

	if (stat(path, &directory) < 0)
		return false;
	if (us_of(&directory.st_mtim) <= state->started_us)
		return true;
	snprintf(path + len, size - len, "/key.json");
	return stat(path, &key) == 0 && us_of(&directory.st_mtim) <= us_of(&key.st_ctim);
}

/* Where no file is, and none was when the daemon started, the default runs. */
static void look_at_config(const char *root, struct docker_state *state)
{
	char path[PATH_MAX], directory[DOCKER_PATH_MAX], *slash;
	int r = path_in_root(root, state->config_path, path);

	if (r == 0)
		read_config(path, state);
	if (r != -ENOENT)
		return;
	copy_text(directory, sizeof(directory), state->config_path);
	slash = strrchr(directory, '/');
	if (!slash)
		return;
	*slash = '\0';
	r = path_in_root(root, directory[0] ? directory : "/", path);
	if (r == -ENOENT || (r == 0 && is_old_directory(path, sizeof(path), state)))
		default_downloads(state);
}

void docker_process_look_at(
	const struct docker_paths *paths, const char *proc, pid_t pid, struct docker_state *state)
{
	struct stat st;

	state->pid = pid;
	state->started_us = pid > 0 ? started_of(proc, pid) : 0;
	state->max_downloads_on_command = state->mirrors_on_command = false;
	copy_text(state->config_path, sizeof(state->config_path), paths->config);
	/* In another PID namespace: dockerd writes the file right after its start. */
	if (state->started_us == 0 && stat(paths->pid_file, &st) == 0)
		state->started_us = us_of(&st.st_mtim);
	if (pid > 0)
		read_command(proc, pid, state);
	if (state->source == DOCKER_SOURCE_NONE && state->started_us > 0)
		look_at_config(paths->root, state);
}

void docker_process_look(const struct docker_paths *paths, struct docker_state *state)
{
	pid_t pid = 0;

	(void)find_daemon(paths->pid_file, paths->socket, &pid);
	docker_process_look_at(paths, "/proc", pid, state);
}

static bool is_the_daemon(const char *root, pid_t pid, void *userdata)
{
	(void)userdata;
	return process_is_named(root, pid, "dockerd") && process_is_of_host(root, pid);
}

void docker_process_read(const char *root, const char *pid_file, struct docker_process *process)
{
	_cleanup_(command_free) struct command command = {0};
	const char *config, *value;
	uint64_t start_us;
	char path[PATH_MAX];
	pid_t pid;

	*process = (struct docker_process){.config = DOCKER_CONFIG_FILE};
	if (process_of_pid_file(pid_file, &pid) < 0 || !process_is_named(root, pid, "dockerd"))
		pid = process_find(root, is_the_daemon, NULL);
	if (pid <= 0 || command_read(root, pid, &command) < 0)
		return;
	process->pid = pid;
	if (process_start(root, pid, &start_us) == 0)
		process->started_us = realtime_of_boottime(start_us + process_tick_us());
	config = command_option(&command, "config-file");
	if (config && config[0] != '/' && process_path(root, pid, config, path) == 0)
		config = path;
	if (config)
		copy_text(process->config, sizeof(process->config), config);
	value = command_option(&command, "max-concurrent-downloads");
	process->downloads_on_command = value != NULL;
	copy_text(process->downloads, sizeof(process->downloads), value ? value : "");
	process->mirrors_on_command = command_option(&command, "registry-mirror") != NULL;
	value = command_option(&command, "containerd");
	copy_text(process->containerd, sizeof(process->containerd), value ? value : "");
}
