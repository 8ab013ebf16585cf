/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/discover.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/util.h"
#include "workload/process.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct candidate {
	struct runtime runtime;
	const char *other_unit; /* servers and agents have different ones */
	const char *needs;      /* tells apart what shares a socket; NULL: nothing */
};

#define RANCHER(name) "/var/lib/rancher/" name "/agent/etc/containerd/config.toml"
#define SNAP          "/var/snap/microk8s/"

/* For one socket the first row that fits counts. */
static const struct candidate candidates[] = {
	{.runtime = {"containerd", RUNTIME_CONTAINERD, RUNTIME_OF_NODE,
		 "/run/containerd/containerd.sock", "/etc/containerd/config.toml",
		 "containerd.service", false, false}},
	{.runtime = {"docker", RUNTIME_DOCKER, RUNTIME_OF_NODE, "/run/docker.sock",
		 "/etc/docker/daemon.json", "docker.service", false, false}},
	{.runtime = {"crio", RUNTIME_CRIO, RUNTIME_OF_NODE, "/run/crio/crio.sock",
		 "/etc/crio/crio.conf", "crio.service", false, false},
		.other_unit = "cri-o.service"},
	{.runtime = {"rke2", RUNTIME_CONTAINERD, RUNTIME_OF_K8S,
		 "/run/k3s/containerd/containerd.sock", RANCHER("rke2"), "rke2-server.service",
		 false, false},
		.other_unit = "rke2-agent.service",
		.needs = "/var/lib/rancher/rke2"},
	{.runtime = {"k3s", RUNTIME_CONTAINERD, RUNTIME_OF_K8S,
		 "/run/k3s/containerd/containerd.sock", RANCHER("k3s"), "k3s.service", false,
		 false},
		.other_unit = "k3s-agent.service"},
	{.runtime = {"k0s", RUNTIME_CONTAINERD, RUNTIME_OF_K8S, "/run/k0s/containerd.sock",
		 "/etc/k0s/containerd.toml", "k0scontroller.service", false, false},
		.other_unit = "k0sworker.service"},
	{.runtime = {"microk8s", RUNTIME_CONTAINERD, RUNTIME_OF_K8S,
		 SNAP "common/run/containerd.sock", SNAP "current/args/containerd.toml",
		 "snap.microk8s.daemon-containerd.service", false, false}},
	/* There only while dockerd runs it: no unit of its own says that it is installed. */
	{.runtime = {"docker-containerd", RUNTIME_CONTAINERD, RUNTIME_OF_DOCKER,
		 "/run/docker/containerd/containerd.sock", "/run/docker/containerd/containerd.toml",
		 "docker.service", false, false}},
};
_Static_assert(ARRAY_SIZE(candidates) <= RUNTIME_MAX, "all of them may be here at once");

/* systemd.unit(5), the order that decides. */
static const char *const unit_directories[] = {
	"/etc/systemd/system",
	"/run/systemd/system",
	"/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system",
	"/lib/systemd/system",
};

static int look_at(const char *host_root, const char *path, struct stat *st)
{
	char full[PATH_MAX];

	if (snprintf(full, sizeof(full), "%s%s", host_root, path) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	return lstat(full, st) < 0 ? -errno : 0;
}

/* A masked unit is a link to /dev/null or an empty file. What a link names lies on the host. */
static bool is_masked(const char *host_root, const char *path, const struct stat *st)
{
	char full[PATH_MAX], target[PATH_MAX];
	ssize_t n;

	if (!S_ISLNK(st->st_mode))
		return st->st_size == 0;
	snprintf(full, sizeof(full), "%s%s", host_root, path);
	n = readlink(full, target, sizeof(target) - 1);
	target[MAX(n, (ssize_t)0)] = '\0';
	return streq(target, "/dev/null");
}

static bool unit_installed(const char *host_root, const char *unit)
{
	for (size_t i = 0; unit && i < ARRAY_SIZE(unit_directories); i++) {
		char path[PATH_MAX];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", unit_directories[i], unit);
		if (look_at(host_root, path, &st) == 0)
			return !is_masked(host_root, path, &st);
	}
	return false;
}

/* Whether a socket is there that no row before has. Takes it. */
static bool claim(const char *host_root, const char *path, struct stat *claimed, size_t *n)
{
	struct stat st;

	if (!path || look_at(host_root, path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	for (size_t i = 0; i < *n; i++)
		if (claimed[i].st_dev == st.st_dev && claimed[i].st_ino == st.st_ino)
			return false;
	claimed[(*n)++] = st;
	return true;
}

static bool look_for(const char *host_root, const struct candidate *candidate, struct stat *claimed,
	size_t *n_claimed, struct runtime *ret)
{
	struct runtime runtime = candidate->runtime;
	struct stat st;

	if (candidate->needs && look_at(host_root, candidate->needs, &st) < 0)
		return false;
	runtime.has_socket = claim(host_root, runtime.socket, claimed, n_claimed);
	runtime.has_unit = unit_installed(host_root, runtime.unit);
	if (!runtime.has_unit && unit_installed(host_root, candidate->other_unit)) {
		runtime.has_unit = true;
		runtime.unit = candidate->other_unit;
	}
	if (!runtime.has_socket && (!runtime.has_unit || runtime.managed_by == RUNTIME_OF_DOCKER))
		return false;
	*ret = runtime;
	return true;
}

size_t runtime_discover(const char *host_root, struct runtime found[static RUNTIME_MAX])
{
	struct stat claimed[RUNTIME_MAX];
	size_t n = 0, n_claimed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(candidates); i++)
		if (look_for(host_root, &candidates[i], claimed, &n_claimed, &found[n]))
			n++;
	return n;
}

/* systemd.exec(5), $PATH: where a unit's program is that is named without a directory. */
static int find_program(const char *host_root, const char *name, char path[static SETTING_PATH_MAX])
{
	static const char *const directories[] = {
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"};

	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		char full[PATH_MAX];
		struct stat st;

		if (snprintf(path, SETTING_PATH_MAX, "%s/%s", directories[i], name) >=
				SETTING_PATH_MAX ||
			snprintf(full, sizeof(full), "%s%s", host_root, path) >= (int)sizeof(full))
			return -ENAMETOOLONG;
		if (stat(full, &st) == 0 && S_ISREG(st.st_mode))
			return 0;
	}
	return -ENOENT;
}

/*
 * What /proc/PID/exe says, or, where that may not be read (PTRACE_MODE_READ) or the file was
 * replaced since, the first word of its command line.
 */
static void read_program(const char *host_root, pid_t pid, const struct command *command,
	char program[static SETTING_PATH_MAX])
{
	const char *first = command_next(command, NULL);
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = readlink(link, path, sizeof(path) - 1);
	path[MAX(n, (ssize_t)0)] = '\0';
	if (path[0] == '/' && !strstr(path, " (deleted)"))
		copy_text(program, SETTING_PATH_MAX, path);
	else if (first && first[0] == '/')
		copy_text(program, SETTING_PATH_MAX, first);
	else if (!first || !first[0] || strchr(first, '/') ||
		 find_program(host_root, first, program) < 0)
		program[0] = '\0';
}

int runtime_process_read(
	const char *host_root, enum runtime_kind kind, pid_t pid, struct runtime_process *ret)
{
	struct runtime_process process = {0};
	struct command command = {0};
	char path[PATH_MAX];
	const char *config;
	uint64_t since_boot_us;
	int r = pid > 0 ? process_start("", pid, &since_boot_us) : -ESRCH;

	if (r < 0)
		return r;
	process.started_us = realtime_of_boottime(since_boot_us);
	if (process_path("", pid, ".", path) == 0) {
		path[strlen(path) - strlen("/.")] = '\0';
		copy_text(process.directory, SETTING_PATH_MAX, path[0] ? path : "/");
	}
	if (command_read("", pid, &command) == 0) {
		config =
			command_option(&command, kind == RUNTIME_DOCKER ? "config-file" : "config");
		if (!config && kind != RUNTIME_DOCKER)
			config = command_option(&command, "c");
		if (config && process_path("", pid, config, path) == 0)
			copy_text(process.config, SETTING_PATH_MAX, path);
		read_program(host_root, pid, &command, process.program);
		command_free(&command);
	}
	*ret = process;
	return 0;
}

const char *const runtime_kind_names[] = {
	[RUNTIME_CONTAINERD] = "containerd",
	[RUNTIME_DOCKER] = "docker",
	[RUNTIME_CRIO] = "crio",
};
