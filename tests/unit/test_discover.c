/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/discover.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

static void finds_nothing(void **state)
{
	_cleanup_directory_ struct directory directory;
	struct runtime found[RUNTIME_MAX];

	(void)state;
	directory_make(&directory);
	assert_int_equal(runtime_discover(directory.path, found), 0);
	/* Files that only look like it. */
	directory_put(&directory, "/run/containerd/containerd.sock", "");
	directory_put(&directory, "/etc/containerd/config.toml", "version = 2\n");
	assert_int_equal(runtime_discover(directory.path, found), 0);
}

static void finds_several(void **state)
{
	_cleanup_directory_ struct directory directory;
	struct runtime found[RUNTIME_MAX];
	const struct runtime *runtime;
	size_t n;

	(void)state;
	directory_make(&directory);
	put_socket(&directory, "/run/containerd/containerd.sock");
	put_socket(&directory, "/run/docker.sock");
	put_socket(&directory, "/run/crio/crio.sock");
	put_socket(&directory, "/run/docker/containerd/containerd.sock");
	directory_put(&directory, "/lib/systemd/system/containerd.service", "[Service]\n");
	n = runtime_discover(directory.path, found);
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

static void finds_what_is_down(void **state)
{
	_cleanup_directory_ struct directory directory;
	struct runtime found[RUNTIME_MAX];

	(void)state;
	directory_make(&directory);
	directory_put(&directory, "/usr/lib/systemd/system/docker.service", "[Service]\n");
	assert_int_equal(runtime_discover(directory.path, found), 1);
	assert_string_equal(found[0].name, "docker");
	assert_false(found[0].has_socket);
	assert_true(found[0].has_unit);
	/* Masked, in both ways. */
	directory_put(&directory, "/etc/systemd/system/other", "");
	put_link(&directory, "/etc/systemd/system/docker.service", "/dev/null");
	assert_int_equal(runtime_discover(directory.path, found), 0);
	directory_delete(&directory, "/etc/systemd/system/docker.service");
	directory_put(&directory, "/etc/systemd/system/docker.service", "");
	assert_int_equal(runtime_discover(directory.path, found), 0);
	/* A link elsewhere is how systemctl link and alias units do it. */
	directory_delete(&directory, "/etc/systemd/system/docker.service");
	put_link(&directory, "/etc/systemd/system/docker.service", "/opt/docker/docker.service");
	assert_int_equal(runtime_discover(directory.path, found), 1);
}

static void tells_k3s_from_rke2(void **state)
{
	_cleanup_directory_ struct directory directory;
	struct runtime found[RUNTIME_MAX];

	(void)state;
	directory_make(&directory);
	put_socket(&directory, "/run/k3s/containerd/containerd.sock");
	directory_put(&directory, "/etc/systemd/system/k3s-agent.service", "[Service]\n");
	assert_int_equal(runtime_discover(directory.path, found), 1);
	assert_string_equal(found[0].name, "k3s");
	assert_int_equal(found[0].managed_by, RUNTIME_OF_K8S);
	assert_string_equal(found[0].unit, "k3s-agent.service");
	assert_non_null(found[0].template);
	directory_delete(&directory, "/etc/systemd/system/k3s-agent.service");
	directory_put(&directory, "/var/lib/rancher/rke2/agent/x", "");
	directory_put(
		&directory, "/usr/local/lib/systemd/system/rke2-server.service", "[Service]\n");
	assert_int_equal(runtime_discover(directory.path, found), 1);
	assert_string_equal(found[0].name, "rke2");
	assert_string_equal(found[0].unit, "rke2-server.service");
}

/* The usual trick: containerd's usual place is a link to k3s's socket. */
static void takes_a_socket_once(void **state)
{
	_cleanup_directory_ struct directory directory;
	struct runtime found[RUNTIME_MAX];

	(void)state;
	directory_make(&directory);
	put_socket(&directory, "/run/k3s/containerd/containerd.sock");
	directory_put(&directory, "/run/containerd/other", "");
	put_link(
		&directory, "/run/containerd/containerd.sock", "../k3s/containerd/containerd.sock");
	directory_put(&directory, "/var/other", "");
	put_link(&directory, "/var/run", "/run");
	assert_int_equal(runtime_discover(directory.path, found), 1);
	assert_string_equal(found[0].name, "k3s");
}

static void looks_into_var_run(void **state)
{
	_cleanup_directory_ struct directory directory;
	struct runtime found[RUNTIME_MAX];

	(void)state;
	directory_make(&directory);
	put_socket(&directory, "/var/run/docker.sock");
	assert_int_equal(runtime_discover(directory.path, found), 1);
	assert_string_equal(found[0].socket, "/var/run/docker.sock");
}

#define COMMAND(text) text, sizeof(text)

static void reads_command_lines(void **state)
{
	static const struct {
		enum runtime_kind kind;
		const char *command;
		size_t len;
		int result;
		const char *path;
	} cases[] = {
		{RUNTIME_CONTAINERD, COMMAND("/usr/bin/containerd"), -ENOENT, NULL},
		{RUNTIME_CONTAINERD, COMMAND("containerd\0-c\0/a/b.toml"), 0, "/a/b.toml"},
		{RUNTIME_CONTAINERD, COMMAND("containerd\0--config\0/a\0--log-level\0info"), 0,
			"/a"},
		{RUNTIME_CONTAINERD, COMMAND("containerd\0--config=/x y"), 0, "/x y"},
		{RUNTIME_CONTAINERD, COMMAND("containerd\0-config\0/a\0-c=/b"), 0, "/b"},
		{RUNTIME_CONTAINERD, COMMAND("containerd\0--config-path\0/a"), -ENOENT, NULL},
		{RUNTIME_CONTAINERD, COMMAND("containerd\0--config\0a.toml"), -EINVAL, NULL},
		{RUNTIME_CONTAINERD, COMMAND("containerd\0--config"), -ENOENT, NULL},
		{RUNTIME_CONTAINERD, "containerd\0-c\0/a", 15, -ENOENT, NULL}, /* cut off */
		{RUNTIME_CONTAINERD, "", 0, -ENOENT, NULL},
		{RUNTIME_DOCKER, COMMAND("dockerd\0--config-file=/d.json"), 0, "/d.json"},
		{RUNTIME_DOCKER, COMMAND("dockerd\0-c\0/d.json"), -ENOENT, NULL},
		{RUNTIME_CRIO, COMMAND("crio\0--config\0/etc/crio.conf"), 0, "/etc/crio.conf"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char path[PATH_MAX] = "untouched";
		int r = runtime_command_config(cases[i].kind, cases[i].command, cases[i].len, path);

		if (r != cases[i].result)
			fail_msg("case %zu: %d", i, r);
		assert_string_equal(path, cases[i].path ? cases[i].path : "untouched");
	}
}

static void finds_programs(void **state)
{
	_cleanup_directory_ struct directory directory;
	static const char whole[] = "/opt/bin/containerd\0--config\0/x";
	static const char name[] = "containerd\0-c\0x";
	static const char relative[] = "./containerd";
	char path[PATH_MAX] = "";

	(void)state;
	directory_make(&directory);
	assert_int_equal(runtime_command_program(directory.path, whole, sizeof(whole), path), 0);
	assert_string_equal(path, "/opt/bin/containerd");
	assert_int_equal(
		runtime_command_program(directory.path, name, sizeof(name), path), -ENOENT);
	directory_put(&directory, "/usr/bin/containerd", "");
	directory_put(&directory, "/bin/containerd", "");
	assert_int_equal(runtime_command_program(directory.path, name, sizeof(name), path), 0);
	assert_string_equal(path, "/usr/bin/containerd");
	assert_int_equal(
		runtime_command_program(directory.path, relative, sizeof(relative), path), -ENOENT);
	assert_int_equal(runtime_command_program(directory.path, "", 0, path), -ENOENT);
	assert_int_equal(runtime_process_program("", getpid(), path), 0);
	assert_string_equal(strrchr(path, '/'), "/test_discover");
}

static void looks_at_processes(void **state)
{
	char path[PATH_MAX];
	uint64_t started_us = 0, now = realtime_us();

	(void)state;
	assert_int_equal(runtime_process_config(RUNTIME_CONTAINERD, getpid(), path), -ENOENT);
	assert_int_equal(runtime_process_config(RUNTIME_CONTAINERD, 0, path), -ESRCH);
	assert_int_equal(runtime_process_started(-1, &started_us), -ESRCH);
	assert_int_equal(started_us, 0);
	assert_int_equal(runtime_process_started(getpid(), &started_us), 0);
	assert_true(started_us <= now + 20 * USEC_PER_MSEC);
	assert_true(started_us > now - 60 * USEC_PER_SEC);
}

static void names_kinds(void **state)
{
	(void)state;
	assert_string_equal(runtime_kind_name(RUNTIME_CONTAINERD), "containerd");
	assert_string_equal(runtime_kind_name(RUNTIME_DOCKER), "docker");
	assert_string_equal(runtime_kind_name(RUNTIME_CRIO), "crio");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_nothing),
		cmocka_unit_test(finds_several),
		cmocka_unit_test(finds_what_is_down),
		cmocka_unit_test(tells_k3s_from_rke2),
		cmocka_unit_test(takes_a_socket_once),
		cmocka_unit_test(looks_into_var_run),
		cmocka_unit_test(reads_command_lines),
		cmocka_unit_test(finds_programs),
		cmocka_unit_test(looks_at_processes),
		cmocka_unit_test(names_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
