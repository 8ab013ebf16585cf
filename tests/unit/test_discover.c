/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/text.h"
#include "runtime/driver.h"

#include <sys/prctl.h>
#include <sys/un.h>

static void put_socket(const struct directory *directory, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	directory_put(directory, name, "");
	directory_delete(directory, name);
	assert_true(copy_text(
		address.sun_path, sizeof(address.sun_path), directory_at(directory, name).text));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

/* What is found, as "NAME UNIT": ! is down, * is part of a distribution of Kubernetes. */
static void expect(const struct directory *directory, const char *expected)
{
	struct runtime found[RUNTIME_MAX];
	size_t n = runtime_discover(directory->path, found);
	char text[512] = "";

	for (size_t i = 0; i < n; i++)
		text_append(text, sizeof(text), "%s%s%s%s %s", i > 0 ? ", " : "", found[i].name,
			found[i].has_socket ? "" : "!",
			found[i].managed_by == RUNTIME_OF_K8S ? "*" : "", found[i].unit);
	assert_string_equal(text, expected);
}

static void put_unit(const struct directory *directory, const char *name)
{
	directory_put(directory, name, "[Service]\n");
}

DIRECTORY_TEST(files_that_only_look_like_a_runtime_are_none)
{
	directory_put(directory, "/run/containerd/containerd.sock", "");
	directory_put(directory, "/etc/containerd/config.toml", "version = 2\n");
	expect(directory, "");
}

DIRECTORY_TEST(finds_several)
{
	static const struct runtime_driver *const drivers[] = {
		&containerd_driver, &docker_driver, &crio_driver, &containerd_driver};
	struct runtime found[RUNTIME_MAX];

	put_socket(directory, "/run/containerd/containerd.sock");
	put_socket(directory, "/run/docker.sock");
	put_socket(directory, "/run/crio/crio.sock");
	put_socket(directory, "/run/docker/containerd/containerd.sock");
	put_unit(directory, "/lib/systemd/system/containerd.service");
	expect(directory, "containerd containerd.service, docker docker.service, "
			  "crio crio.service, docker-containerd docker.service");
	runtime_discover(directory->path, found);
	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		assert_ptr_equal(found[i].driver, drivers[i]);
		assert_int_equal(found[i].managed_by, i == 3 ? RUNTIME_NESTED : RUNTIME_OF_NODE);
	}
	assert_string_equal(found[0].config, "/etc/containerd/config.toml");
}

DIRECTORY_TEST(finds_what_is_down)
{
	put_unit(directory, "/usr/lib/systemd/system/docker.service");
	expect(directory, "docker! docker.service");
	/* Masked, in both ways. */
	directory_put(directory, "/etc/systemd/system/other", "");
	directory_link(directory, "/etc/systemd/system/docker.service", "/dev/null");
	expect(directory, "");
	directory_delete(directory, "/etc/systemd/system/docker.service");
	directory_put(directory, "/etc/systemd/system/docker.service", "");
	expect(directory, "");
	/* A link elsewhere is how systemctl link and alias units do it. */
	directory_delete(directory, "/etc/systemd/system/docker.service");
	directory_link(
		directory, "/etc/systemd/system/docker.service", "/opt/docker/docker.service");
	expect(directory, "docker! docker.service");
}

DIRECTORY_TEST(tells_k3s_from_rke2)
{
	put_socket(directory, "/run/k3s/containerd/containerd.sock");
	put_unit(directory, "/etc/systemd/system/k3s-agent.service");
	expect(directory, "k3s* k3s-agent.service");
	directory_delete(directory, "/etc/systemd/system/k3s-agent.service");
	directory_put(directory, "/var/lib/rancher/rke2/agent/x", "");
	put_unit(directory, "/usr/local/lib/systemd/system/rke2-server.service");
	expect(directory, "rke2* rke2-server.service");
}

/* The usual trick: containerd's usual path is a link to k3s's socket. */
DIRECTORY_TEST(takes_a_socket_once)
{
	put_socket(directory, "/run/k3s/containerd/containerd.sock");
	directory_put(directory, "/run/containerd/other", "");
	directory_link(
		directory, "/run/containerd/containerd.sock", "../k3s/containerd/containerd.sock");
	directory_put(directory, "/var/other", "");
	directory_link(directory, "/var/run", "/run");
	expect(directory, "k3s* k3s.service");
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
		const struct runtime_driver *driver;
		const char *words[5];
		const char *config;
	} cases[] = {
		{&containerd_driver, {"containerd"}, ""},
		{&containerd_driver, {"containerd", "--config", "/a/b.toml"}, "/a/b.toml"},
		{&containerd_driver, {"containerd", "-c", "a.toml"}, "/usr/a.toml"},
		{&containerd_driver, {"containerd", "-config=/x y"}, "/x y"},
		{&docker_driver, {"dockerd", "--config-file=/d.json"}, "/d.json"},
		{&docker_driver, {"dockerd", "-c", "/d.json"}, ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct runtime_process process;
		uint64_t now = realtime_us();
		pid_t pid = start(cases[i].words);

		assert_int_equal(runtime_process_read("", cases[i].driver, pid, &process), 0);
		assert_string_equal(process.config, cases[i].config);
		assert_string_equal(process.directory, "/usr");
		assert_string_equal(strrchr(process.program, '/'), "/test_discover");
		assert_true(process.started_us + 50 * USEC_PER_MSEC > now);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		assert_int_equal(runtime_process_read("", cases[i].driver, pid, &process), -ESRCH);
	}
}

/* Started again under the name of a runtime this program is one. */
static void __attribute__((constructor)) run_as_runtime(int argc, char **argv)
{
	if (argc > 0 && (streq(argv[0], "containerd") || streq(argv[0], "dockerd")))
		pause();
}
