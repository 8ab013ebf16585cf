/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/discover.h"

#include "base/file.h"
#include "workload/process.h"

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
		 "containerd.service", false}},
	{.runtime = {"docker", RUNTIME_DOCKER, RUNTIME_OF_NODE, "/run/docker.sock",
		 "/etc/docker/daemon.json", "docker.service", false}},
	{.runtime = {"crio", RUNTIME_CRIO, RUNTIME_OF_NODE, "/run/crio/crio.sock",
		 "/etc/crio/crio.conf", "crio.service", false},
		.other_unit = "cri-o.service"},
	{.runtime = {"rke2", RUNTIME_CONTAINERD, RUNTIME_OF_K8S,
		 "/run/k3s/containerd/containerd.sock", RANCHER("rke2"), "rke2-server.service",
		 false},
		.other_unit = "rke2-agent.service",
		.needs = "/var/lib/rancher/rke2"},
	{.runtime = {"k3s", RUNTIME_CONTAINERD, RUNTIME_OF_K8S,
		 "/run/k3s/containerd/containerd.sock", RANCHER("k3s"), "k3s.service", false},
		.other_unit = "k3s-agent.service"},
	{.runtime = {"k0s", RUNTIME_CONTAINERD, RUNTIME_OF_K8S, "/run/k0s/containerd.sock",
		 "/etc/k0s/containerd.toml", "k0scontroller.service", false},
		.other_unit = "k0sworker.service"},
	{.runtime = {"microk8s", RUNTIME_CONTAINERD, RUNTIME_OF_K8S,
		 SNAP "common/run/containerd.sock", SNAP "current/args/containerd.toml",
		 "snap.microk8s.daemon-containerd.service", false}},
	/* There only while dockerd runs it: no unit of its own says that it is installed. */
	{.runtime = {"docker-containerd", RUNTIME_CONTAINERD, RUNTIME_OF_DOCKER,
		 "/run/docker/containerd/containerd.sock", "/run/docker/containerd/containerd.toml",
		 "docker.service", false}},
};
_Static_assert(ARRAY_SIZE(candidates) <= RUNTIME_MAX, "all of them may be here at once");

/* systemd.unit(5), the order that decides. */
static const char *const unit_directories[] = {"/etc/systemd/system", "/run/systemd/system",
	"/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"};

/* False also for what is too long to be there. */
static bool look_at(
	const char *host_root, const char *path, char full[static PATH_MAX], struct stat *st)
{
	return snprintf(full, PATH_MAX, "%s%s", host_root, path) < PATH_MAX && lstat(full, st) == 0;
}

/*
 * A masked unit is a link to /dev/null, the only device that one can name, or an empty file. What
 * any other link names lies on the host.
 */
static bool unit_installed(const char *host_root, const char *unit)
{
	for (size_t i = 0; unit && i < ARRAY_SIZE(unit_directories); i++) {
		char path[PATH_MAX], full[PATH_MAX];
		struct stat st, target;

		snprintf(path, sizeof(path), "%s/%s", unit_directories[i], unit);
		if (!look_at(host_root, path, full, &st))
			continue;
		return S_ISLNK(st.st_mode) ? stat(full, &target) < 0 || !S_ISCHR(target.st_mode)
					   : st.st_size > 0;
	}
	return false;
}

size_t runtime_discover(const char *host_root, struct runtime found[static RUNTIME_MAX])
{
	struct stat claimed[RUNTIME_MAX], st;
	size_t n = 0, n_claimed = 0;
	char full[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(candidates); i++) {
		const struct candidate *candidate = &candidates[i];
		struct runtime runtime = candidate->runtime;
		bool installed;

		if (candidate->needs && !look_at(host_root, candidate->needs, full, &st))
			continue;
		/* A socket that a row before has is not counted again. */
		runtime.has_socket =
			look_at(host_root, runtime.socket, full, &st) && S_ISSOCK(st.st_mode);
		for (size_t k = 0; runtime.has_socket && k < n_claimed; k++)
			if (claimed[k].st_dev == st.st_dev && claimed[k].st_ino == st.st_ino)
				runtime.has_socket = false;
		if (runtime.has_socket)
			claimed[n_claimed++] = st;
		installed = unit_installed(host_root, runtime.unit);
		if (!installed && unit_installed(host_root, candidate->other_unit)) {
			installed = true;
			runtime.unit = candidate->other_unit;
		}
		if (runtime.has_socket || (installed && runtime.managed_by != RUNTIME_OF_DOCKER))
			found[n++] = runtime;
	}
	return n;
}

/*
 * What /proc/PID/exe says, or, where that may not be read (PTRACE_MODE_READ) or the file was
 * replaced since, the first word of its command line. Without a directory it is where a unit's
 * program is looked up: systemd.exec(5), $PATH.
 */
static void read_program(const char *host_root, pid_t pid, char program[static SETTING_PATH_MAX])
{
	static const char *const directories[] = {
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"};
	_cleanup_free_ char *first = NULL;
	char path[PATH_MAX], full[PATH_MAX];
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, full, sizeof(full) - 1);
	full[MAX(n, (ssize_t)0)] = '\0';
	if (full[0] == '/' && !strstr(full, " (deleted)")) {
		copy_text(program, SETTING_PATH_MAX, full);
		return;
	}
	if (process_read("", pid, "cmdline", &first, NULL) < 0 || !first[0])
		return;
	if (first[0] == '/')
		copy_text(program, SETTING_PATH_MAX, first);
	for (size_t i = 0; !strchr(first, '/') && i < ARRAY_SIZE(directories); i++) {
		snprintf(path, sizeof(path), "%s/%s", directories[i], first);
		if (!look_at(host_root, path, full, &st))
			continue;
		copy_text(program, SETTING_PATH_MAX, path);
		return;
	}
}

int runtime_process_read(
	const char *host_root, enum runtime_kind kind, pid_t pid, struct runtime_process *ret)
{
	static const char *const options[][2] = {
		[RUNTIME_CONTAINERD] = {"config", "c"},
		[RUNTIME_DOCKER] = {"config-file", NULL},
		[RUNTIME_CRIO] = {"config", "c"},
	};
	struct runtime_process process = {0};
	char path[PATH_MAX], value[PATH_MAX];
	int r = process_start("", pid, &process.start_us);

	if (r < 0)
		return r;
	process.started_us = realtime_of_boottime(process.start_us);
	if (process_path("", pid, ".", path) == 0) {
		path[strlen(path) - strlen("/.")] = '\0';
		copy_text(process.directory, SETTING_PATH_MAX, path[0] ? path : "/");
	}
	for (size_t i = 0; i < 2 && options[kind][i] && !process.config[0]; i++)
		if (process_option("", pid, options[kind][i], false, value, sizeof(value)) > 0 &&
			process_path("", pid, value, path) == 0)
			copy_text(process.config, SETTING_PATH_MAX, path);
	read_program(host_root, pid, process.program);
	*ret = process;
	return 0;
}

const char *const runtime_kind_names[] = {
	[RUNTIME_CONTAINERD] = "containerd",
	[RUNTIME_DOCKER] = "docker",
	[RUNTIME_CRIO] = "crio",
};
