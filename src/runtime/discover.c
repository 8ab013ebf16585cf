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

#define COMMAND_MAX ((size_t)128 * 1024)

struct place {
	struct runtime runtime;
	const char *other_socket; /* on hosts where /var/run is no link to /run */
	const char *other_unit;   /* servers and agents have different ones */
	const char *needs;        /* tells apart what shares a socket; NULL: nothing */
};

/* For one socket the first place that fits counts. */
static const struct place places[] = {
	{
		.runtime =
			{
				.name = "containerd",
				.kind = RUNTIME_CONTAINERD,
				.managed_by = RUNTIME_OF_NODE,
				.socket = "/run/containerd/containerd.sock",
				.config = "/etc/containerd/config.toml",
				.unit = "containerd.service",
			},
		.other_socket = "/var/run/containerd/containerd.sock",
	},
	{
		.runtime =
			{
				.name = "docker",
				.kind = RUNTIME_DOCKER,
				.managed_by = RUNTIME_OF_NODE,
				.socket = "/run/docker.sock",
				.config = "/etc/docker/daemon.json",
				.unit = "docker.service",
			},
		.other_socket = "/var/run/docker.sock",
	},
	{
		.runtime =
			{
				.name = "crio",
				.kind = RUNTIME_CRIO,
				.managed_by = RUNTIME_OF_NODE,
				.socket = "/run/crio/crio.sock",
				.config = "/etc/crio/crio.conf",
				.unit = "crio.service",
			},
		.other_socket = "/var/run/crio/crio.sock",
		.other_unit = "cri-o.service",
	},
	{
		.runtime =
			{
				.name = "rke2",
				.kind = RUNTIME_CONTAINERD,
				.managed_by = RUNTIME_OF_K8S,
				.socket = "/run/k3s/containerd/containerd.sock",
				.config = "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
				.template = "/var/lib/rancher/rke2/agent/etc/containerd/"
					    "config.toml.tmpl",
				.unit = "rke2-server.service",
			},
		.other_unit = "rke2-agent.service",
		.needs = "/var/lib/rancher/rke2",
	},
	{
		.runtime =
			{
				.name = "k3s",
				.kind = RUNTIME_CONTAINERD,
				.managed_by = RUNTIME_OF_K8S,
				.socket = "/run/k3s/containerd/containerd.sock",
				.config = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
				.template = "/var/lib/rancher/k3s/agent/etc/containerd/"
					    "config.toml.tmpl",
				.unit = "k3s.service",
			},
		.other_unit = "k3s-agent.service",
	},
	{
		.runtime =
			{
				.name = "k0s",
				.kind = RUNTIME_CONTAINERD,
				.managed_by = RUNTIME_OF_K8S,
				.socket = "/run/k0s/containerd.sock",
				.config = "/etc/k0s/containerd.toml",
				.unit = "k0scontroller.service",
			},
		.other_unit = "k0sworker.service",
	},
	{
		.runtime =
			{
				.name = "microk8s",
				.kind = RUNTIME_CONTAINERD,
				.managed_by = RUNTIME_OF_K8S,
				.socket = "/var/snap/microk8s/common/run/containerd.sock",
				.config = "/var/snap/microk8s/current/args/containerd.toml",
				.template = "/var/snap/microk8s/current/args/"
					    "containerd-template.toml",
				.unit = "snap.microk8s.daemon-containerd.service",
			},
	},
	{
		/* There only while dockerd runs it: no unit of its own tells that it is installed.
		 */
		.runtime =
			{
				.name = "docker-containerd",
				.kind = RUNTIME_CONTAINERD,
				.managed_by = RUNTIME_OF_DOCKER,
				.socket = "/run/docker/containerd/containerd.sock",
				.config = "/run/docker/containerd/containerd.toml",
				.unit = "docker.service",
			},
		.other_socket = "/var/run/docker/containerd/containerd.sock",
	},
};
_Static_assert(ARRAY_SIZE(places) <= RUNTIME_MAX, "all of them may be here at once");

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

struct socket_id {
	dev_t dev;
	ino_t ino;
};

/* Whether a socket is there which no place before has. Takes it. */
static bool claim(const char *host_root, const char *path, struct socket_id *claimed, size_t *n)
{
	struct stat st;

	if (!path || look_at(host_root, path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	for (size_t i = 0; i < *n; i++)
		if (claimed[i].dev == st.st_dev && claimed[i].ino == st.st_ino)
			return false;
	claimed[(*n)++] = (struct socket_id){st.st_dev, st.st_ino};
	return true;
}

/* A link to /run leads out of a host's root that is mounted elsewhere, and says nothing new. */
static bool var_run_counts(const char *host_root)
{
	struct stat st;

	return look_at(host_root, "/var/run", &st) == 0 && S_ISDIR(st.st_mode);
}

static bool look_for(const char *host_root, const struct place *place, struct socket_id *claimed,
	size_t *n_claimed, struct runtime *ret)
{
	struct runtime runtime = place->runtime;
	struct stat st;

	if (place->needs && look_at(host_root, place->needs, &st) < 0)
		return false;
	runtime.has_socket = claim(host_root, runtime.socket, claimed, n_claimed);
	if (!runtime.has_socket && var_run_counts(host_root) &&
		claim(host_root, place->other_socket, claimed, n_claimed)) {
		runtime.has_socket = true;
		runtime.socket = place->other_socket;
	}
	runtime.has_unit = unit_installed(host_root, runtime.unit);
	if (!runtime.has_unit && unit_installed(host_root, place->other_unit)) {
		runtime.has_unit = true;
		runtime.unit = place->other_unit;
	}
	if (!runtime.has_socket && (!runtime.has_unit || runtime.managed_by == RUNTIME_OF_DOCKER))
		return false;
	*ret = runtime;
	return true;
}

size_t runtime_discover(const char *host_root, struct runtime found[static RUNTIME_MAX])
{
	struct socket_id claimed[RUNTIME_MAX];
	size_t n = 0, n_claimed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (look_for(host_root, &places[i], claimed, &n_claimed, &found[n]))
			n++;
	return n;
}

/* "--config" and "-config" alike, as Go's programs take them. NULL when the word is another. */
static const char *after_option(const char *word, const char *name)
{
	if (word[0] != '-')
		return NULL;
	word += word[1] == '-' ? 2 : 1;
	return starts_with(word, name) ? word + strlen(name) : NULL;
}

int runtime_command_config(
	enum runtime_kind kind, const char *command, size_t len, char path[static PATH_MAX])
{
	const char *name = kind == RUNTIME_DOCKER ? "config-file" : "config";
	const char *end = command + len, *found = NULL;

	/* The last one counts; what is cut off at the end is no word. */
	for (const char *word = command; word < end;) {
		const char *next = memchr(word, '\0', (size_t)(end - word));
		const char *rest;

		if (!next)
			break;
		next++;
		rest = after_option(word, name);
		if (!rest && kind != RUNTIME_DOCKER)
			rest = after_option(word, "c");
		if (rest && *rest == '=')
			found = rest + 1;
		else if (rest && *rest == '\0' && next < end &&
			 memchr(next, '\0', (size_t)(end - next)))
			found = next;
		word = next;
	}
	if (!found)
		return -ENOENT;
	if (found[0] != '/')
		return -EINVAL;
	return copy_text(path, PATH_MAX, found) ? 0 : -ENAMETOOLONG;
}

static int read_process_file(pid_t pid, const char *name, char **text, size_t *len)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	r = pid > 0 ? read_file(path, COMMAND_MAX, text, len) : -ESRCH;
	return r == -ENOENT ? -ESRCH : r;
}

int runtime_process_config(enum runtime_kind kind, pid_t pid, char path[static PATH_MAX])
{
	_cleanup_free_ char *command = NULL;
	size_t len;
	int r = read_process_file(pid, "cmdline", &command, &len);

	return r < 0 ? r : runtime_command_config(kind, command, len, path);
}

/* systemd.exec(5), $PATH: where a unit's program is that is named without a directory. */
static int find_program(const char *host_root, const char *name, char path[static PATH_MAX])
{
	static const char *const directories[] = {
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"};

	for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
		char full[PATH_MAX];
		struct stat st;

		if (snprintf(path, PATH_MAX, "%s/%s", directories[i], name) >= PATH_MAX ||
			snprintf(full, sizeof(full), "%s%s", host_root, path) >= (int)sizeof(full))
			return -ENAMETOOLONG;
		if (stat(full, &st) == 0 && S_ISREG(st.st_mode))
			return 0;
	}
	return -ENOENT;
}

int runtime_command_program(
	const char *host_root, const char *command, size_t len, char path[static PATH_MAX])
{
	if (len == 0 || !memchr(command, '\0', len) || command[0] == '\0')
		return -ENOENT;
	if (command[0] == '/')
		return copy_text(path, PATH_MAX, command) ? 0 : -ENAMETOOLONG;
	return strchr(command, '/') ? -ENOENT : find_program(host_root, command, path);
}

int runtime_process_program(const char *host_root, pid_t pid, char path[static PATH_MAX])
{
	static const char gone[] = " (deleted)"; /* replaced: the next start takes the new one */
	_cleanup_free_ char *command = NULL;
	char link[64], program[PATH_MAX];
	size_t len;
	ssize_t n;
	int r;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = pid > 0 ? readlink(link, program, sizeof(program) - 1) : -1;
	program[MAX(n, (ssize_t)0)] = '\0';
	if (program[0] == '/' && !strstr(program, gone))
		return copy_text(path, PATH_MAX, program) ? 0 : -ENAMETOOLONG;
	/* Who has given up capabilities may not see that link of who has them. */
	r = read_process_file(pid, "cmdline", &command, &len);
	return r < 0 ? r : runtime_command_program(host_root, command, len, path);
}

int runtime_process_started(pid_t pid, uint64_t *started_us)
{
	_cleanup_free_ char *text = NULL;
	uint64_t since_boot_us;
	int r = read_process_file(pid, "stat", &text, NULL);

	if (r == 0)
		r = process_parse_start(text, &since_boot_us);
	if (r == 0)
		*started_us = realtime_of_boottime(since_boot_us);
	return r;
}

const char *runtime_kind_name(enum runtime_kind kind)
{
	static const char *const names[] = {
		[RUNTIME_CONTAINERD] = "containerd",
		[RUNTIME_DOCKER] = "docker",
		[RUNTIME_CRIO] = "crio",
	};

	return names[kind];
}
