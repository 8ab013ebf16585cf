/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/discover.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static void put_socket(const struct directory *directory, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char full[PATH_MAX], *slash;

	directory_path(directory, name, full);
	slash = strrchr(full, '/');
	*slash = '\0';
	assert_int_equal(make_directories(full, 0700), 0);
	*slash = '/';
	assert_true(copy_text(address.sun_path, sizeof(address.sun_path), full));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void put_link(const struct directory *directory, const char *name, const char *target)
{
	char full[PATH_MAX];

	directory_path(directory, name, full);
	assert_int_equal(symlink(target, full), 0);
}

static const struct runtime *find(const struct runtime *found, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (streq(found[i].name, name))
			return &found[i];
	return NULL;
}

DIRECTORY_TEST(finds_nothing)
{
	struct runtime found[RUNTIME_MAX];

	assert_int_equal(runtime_discover(directory->path, found), 0);
	/* Files that only look like it. */
	directory_put(directory, "/run/containerd/containerd.sock", "");
	directory_put(directory, "/etc/containerd/config.toml", "version = 2\n");
	assert_int_equal(runtime_discover(directory->path, found), 0);
}

DIRECTORY_TEST(finds_several)
{
	struct runtime found[RUNTIME_MAX];
	const struct runtime *runtime;
	size_t n;

	put_socket(directory, "/run/containerd/containerd.sock");
	put_socket(directory, "/run/docker.sock");
	put_socket(directory, "/run/crio/crio.sock");
	put_socket(directory, "/run/docker/containerd/containerd.sock");
	directory_put(directory, "/lib/systemd/system/containerd.service", "[Service]\n");
	n = runtime_discover(directory->path, found);
	assert_int_equal(n, 4);
	runtime = find(found, n, "containerd");
	assert_non_null(runtime);
	assert_int_equal(runtime->kind, RUNTIME_CONTAINERD);
	assert_int_equal(runtime->managed_by, RUNTIME_OF_NODE);
	assert_true(runtime->has_socket && runtime->has_unit);
	assert_string_equal(runtime->unit, "containerd.service");
	assert_string_equal(runtime->config, "/etc/containerd/config.toml");
	runtime = find(found, n, "docker");
	assert_non_null(runtime);
	assert_int_equal(runtime->kind, RUNTIME_DOCKER);
	assert_true(runtime->has_socket && !runtime->has_unit);
	assert_int_equal(find(found, n, "crio")->kind, RUNTIME_CRIO);
	runtime = find(found, n, "docker-containerd");
	assert_int_equal(runtime->kind, RUNTIME_CONTAINERD);
	assert_int_equal(runtime->managed_by, RUNTIME_OF_DOCKER);
}

DIRECTORY_TEST(finds_what_is_down)
{
	struct runtime found[RUNTIME_MAX];

	directory_put(directory, "/usr/lib/systemd/system/docker.service", "[Service]\n");
	assert_int_equal(runtime_discover(directory->path, found), 1);
	assert_string_equal(found[0].name, "docker");
	assert_false(found[0].has_socket);
	assert_true(found[0].has_unit);
	/* Masked, in both ways. */
	directory_put(directory, "/etc/systemd/system/other", "");
	put_link(directory, "/etc/systemd/system/docker.service", "/dev/null");
	assert_int_equal(runtime_discover(directory->path, found), 0);
	directory_delete(directory, "/etc/systemd/system/docker.service");
	directory_put(directory, "/etc/systemd/system/docker.service", "");
	assert_int_equal(runtime_discover(directory->path, found), 0);
	/* A link elsewhere is how systemctl link and alias units do it. */
	directory_delete(directory, "/etc/systemd/system/docker.service");
	put_link(directory, "/etc/systemd/system/docker.service", "/opt/docker/docker.service");
	assert_int_equal(runtime_discover(directory->path, found), 1);
}

DIRECTORY_TEST(tells_k3s_from_rke2)
{
	struct runtime found[RUNTIME_MAX];

	put_socket(directory, "/run/k3s/containerd/containerd.sock");
	directory_put(directory, "/etc/systemd/system/k3s-agent.service", "[Service]\n");
	assert_int_equal(runtime_discover(directory->path, found), 1);
	assert_string_equal(found[0].name, "k3s");
	assert_int_equal(found[0].managed_by, RUNTIME_OF_K8S);
	assert_string_equal(found[0].unit, "k3s-agent.service");
	directory_delete(directory, "/etc/systemd/system/k3s-agent.service");
	directory_put(directory, "/var/lib/rancher/rke2/agent/x", "");
	directory_put(
		directory, "/usr/local/lib/systemd/system/rke2-server.service", "[Service]\n");
	assert_int_equal(runtime_discover(directory->path, found), 1);
	assert_string_equal(found[0].name, "rke2");
	assert_string_equal(found[0].unit, "rke2-server.service");
}

/* The usual trick: containerd's usual place is a link to k3s's socket. */
DIRECTORY_TEST(takes_a_socket_once)
{
	struct runtime found[RUNTIME_MAX];

	put_socket(directory, "/run/k3s/containerd/containerd.sock");
	directory_put(directory, "/run/containerd/other", "");
	put_link(directory, "/run/containerd/containerd.sock", "../k3s/containerd/containerd.sock");
	directory_put(directory, "/var/other", "");
	put_link(directory, "/var/run", "/run");
	assert_int_equal(runtime_discover(directory->path, found), 1);
	assert_string_equal(found[0].name, "k3s");
}

/* A process with this command line: this program, which then only waits. */
static pid_t start(const char *const *words)
{
	int gone[2]; /* closed by execve(2) */
	pid_t pid;
	char none;

	assert_int_equal(pipe2(gone, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (chdir("/usr") == 0)
			execv("/proc/self/exe", (char *const *)words);
		_exit(1);
	}
	close(gone[1]);
	assert_int_equal(read(gone[0], &none, 1), 0);
	close(gone[0]);
	return pid;
}

TEST(command_line_and_directory_of_a_process_are_read)
{
	static const struct {
		enum runtime_kind kind;
		const char *words[5];
		const char *config;
	} cases[] = {
		{RUNTIME_CONTAINERD, {"containerd"}, ""},
		{RUNTIME_CONTAINERD, {"containerd", "--config", "/a/b.toml"}, "/a/b.toml"},
		{RUNTIME_CONTAINERD, {"containerd", "-c", "a.toml"}, "/usr/a.toml"},
		{RUNTIME_CONTAINERD, {"containerd", "-config=/x y"}, "/x y"},
		{RUNTIME_DOCKER, {"dockerd", "--config-file=/d.json"}, "/d.json"},
		{RUNTIME_DOCKER, {"dockerd", "-c", "/d.json"}, ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct runtime_process process;
		uint64_t now = realtime_us();
		pid_t pid = start(cases[i].words);

		assert_int_equal(runtime_process_read("", cases[i].kind, pid, &process), 0);
		assert_string_equal(process.config, cases[i].config);
		assert_string_equal(process.directory, "/usr");
		assert_string_equal(strrchr(process.program, '/'), "/test_discover");
		assert_true(process.started_us + 50 * USEC_PER_MSEC > now);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		assert_int_equal(runtime_process_read("", cases[i].kind, pid, &process), -ESRCH);
	}
}

/* Started again under the name of a runtime this program is one. */
static void __attribute__((constructor)) run_as_runtime(int argc, char **argv)
{
	if (argc > 0 && (streq(argv[0], "containerd") || streq(argv[0], "dockerd")))
		pause();
}
